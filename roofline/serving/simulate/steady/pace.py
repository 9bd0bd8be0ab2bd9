"""Share of steps that carry prompts, time of steps, waits, and the most that a server serves.

With x prompts for each step and room for κ of them in one, a step carries prompts with probability
φ, and then x·p/φ of their tokens. A prompt that is alone takes c steps. Where prompts have steps of
their own, x and φ are for each step that decodes.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline import special
from roofline.cost.work import Array
from roofline.serving.simulate.steady.share import RequestMeans

LEAST: Final = 2.0**-60


class Pace(Struct, frozen=True):
    """Steps of a batch while prompts come; all of one shape."""

    loaded: Array
    """φ. [1]"""
    plain_s: Array
    loaded_s: Array
    """A step that only decodes, and one with prompts. [s]"""
    mean_s: Array
    """Mean time of a step that may decode, prefill included. [s]"""
    rest_s: Array
    rest_square: Array
    """Rest of the step that a request finds when it comes at any time, and its mean square.
    [s] [s²]"""
    variance: Array
    """Variance of ``mean_s``. [s²]"""
    fixed_s: Array
    each_s: Array
    """Fixed time of a step with prompts, and the time that each prompt adds. [s]"""


def pace(share: RequestMeans, batch: Array, beside: Array, x: Array, loaded: Array) -> Pace:
    """Steps at a load.

    The variance of tokens in a step is that of a Poisson number of prompts, and no more than where
    steps are full or empty. Kernels as long are no shorter than their launches L: on average
    E[max(T, L)] = L + (μ − L)·Φ(z) + σ·φ(z), z = (μ − L)/σ, as of a normal distribution. What
    is left of a step is E[S²] / 2·E[S], its square E[S³] / 3·E[S].

    Args:
        share: Work of requests.
        batch, beside: Sequences that decode in a step without prompts, and in one with them. [1]
        x, loaded: Prompts for each step, and φ. [1]
    """
    tokens, prompts = x * share.prompt / loaded, x / loaded
    each = share.chunks(beside)
    plain = share.at(share.decode_s, batch)
    kernels = share.kernels(beside, tokens, prompts, prompts * each)
    more = tokens + share.prompt, prompts + 1.0, (prompts + 1.0) * each
    slope = share.kernels(beside, *more) - kernels
    slope = np.maximum(slope / share.prompt, 0.0)
    spread = prompts * (share.square + x * share.prompt**2) - tokens**2
    room = share.at(share.full, beside) * share.prompt
    spread = np.clip(spread, 0.0, np.maximum(tokens * (room - tokens), 0.0))
    kernels, longer = launched(kernels, slope * np.sqrt(spread), share.launch_s)
    full, slope = kernels + share.software(beside), slope * longer
    vague = slope**2 * spread
    alone = 1.0 - loaded if share.decode_first else np.ones_like(loaded)
    whole = alone * plain + loaded * full
    squares = alone * plain**2 + loaded * (full**2 + vague)
    cubes = alone * plain**3 + loaded * full * (full**2 + 3.0 * vague)
    each, fixed = slope * share.prompt, np.maximum(full - slope * tokens, 0.0)
    if share.decode_first:
        variance = squares - whole**2
    else:
        variance = x * slope**2 * share.square + np.maximum(loaded * (1.0 - loaded), 0.0) * fixed**2
    return Pace(
        loaded=loaded,
        plain_s=plain,
        loaded_s=full,
        mean_s=whole,
        rest_s=squares / np.maximum(2.0 * whole, LEAST),
        rest_square=cubes / np.maximum(3.0 * whole, LEAST),
        variance=np.maximum(variance, 0.0),
        fixed_s=fixed,
        each_s=each,
    )


def launched(kernels: Array, sd: Array, launch_s: float) -> tuple[Array, Array]:
    """Mean time of kernels no shorter than their launches, and how many are longer. [s] [1]

    Args:
        kernels, sd: Mean and standard deviation of their time without that. [s]
        launch_s: Time of all launches. [s]
    """
    if not launch_s:
        return kernels, np.ones_like(kernels)
    above, sd = kernels - launch_s, np.maximum(sd, LEAST)
    z = above / sd
    longer = special.ndtr(z)
    mean = launch_s + above * longer + sd * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    return mean, longer


def coming(share: RequestMeans, batch: Array, x: Array) -> Array:
    """φ where prompts come by themselves (Poisson). [1]

    1 − (1 − x/κ)·exp(−x·(c − 1/κ)): prompts that come in one step go together, and chunks of one
    prompt follow each other. In steps of their own y prompts come in each, x = y·exp(y).
    """
    full, beyond = _cut(share, batch)
    if share.shares[0] < 1.0:
        return _in_groups(share, batch, x)
    if share.decode_first:
        return np.clip(1.0 - (1.0 - x / full) * np.exp(-x * beyond), LEAST, 1.0)
    each: Array = special.lambertw(np.maximum(x, LEAST))
    found: Array = np.maximum(x / full + (x / each - 1.0) * beyond, LEAST)
    return found


def turning(share: RequestMeans, batch: Array, x: Array, running: Array) -> Array:
    """φ where the next prompt comes when a request ends. [1]

    As `coming`, of a binomial number: each of those that run ends with the same probability. Where
    all are equally long, those that began together end together.
    """
    full, beyond = _cut(share, batch)
    running = np.maximum(running, 1.0)
    if share.uniform:
        together = np.maximum(np.floor(np.minimum(full, running)), 1.0)
        often = np.maximum(x * share.chunks(batch) / together, x / full)
    elif share.decode_first:
        stays = np.clip(1.0 - 1.0 / (share.steps + share.chunks(batch)), 0.0, 1.0)
        often = 1.0 - (1.0 - x / full) * stays ** (running * beyond)
    else:
        stay = max(1.0 - 1.0 / share.steps, 0.0)
        begun = 1.0 - stay**running
        if share.shares[0] < 1.0:
            often = np.maximum(_side_by_side(share, batch, x, begun), x / full)
        else:
            often = x / full + begun * beyond
        often = np.maximum(often, x / running)
    return np.clip(often, LEAST, 1.0 if share.decode_first else None)


def _side_by_side(share: RequestMeans, batch: Array, x: Array, begun: Array) -> Array:
    """φ of `turning` where prompts have steps of their own, and are in groups side by side.

    While they are prefilled nobody ends, and those that ended before are with the front end for W
    decode steps: they join. So prompts begin every W + 1 / P steps, with P the chance that some end
    in a step, and take c steps and as many as the last of them comes later.
    """
    chunks, plain = share.chunks(batch), share.at(share.decode_s, batch)
    away = share.request_s / np.maximum(plain, LEAST)
    cycle = away + 1.0 / np.maximum(begun, LEAST)
    side = np.clip(x * cycle, 1.0, 1.0 / share.shares[0])
    step = share.prefill(batch, side * share.prompt / chunks, side / chunks, side)
    joined = x * away
    late = joined / (1.0 + joined) * share.request_s / np.maximum(step, LEAST) + 0.5
    late = -np.expm1(-joined) * np.maximum(late, 1.0)
    found: Array = (chunks + late) / cycle
    return found


def _in_groups(share: RequestMeans, batch: Array, x: Array) -> Array:
    """φ of `coming` where prompts are in groups side by side. [1]

    r = (1 − e^−λD)·(e^(λTc) − 1) / (1 − e^−λT)

    steps with prompts for each without, with D a step without and T one with them: the steps of a
    busy period of a queue in which nobody waits, begun by what comes in a step without. Where
    prompts have steps of their own φ = r and λ = x / (D + φT), at most c steps for each prompt;
    else φ = r / (1 + r) and λ = x / ((1 − φ)D + φT). Steps have room for κ prompts: φ ≥ x/κ.
    Source: Takács 1962, Introduction to the Theory of Queues, M/G/∞.
    """
    full, chunks = share.at(share.full, batch), share.chunks(batch)
    plain = share.at(share.decode_s, batch)
    most = 1.0 - NEARLY if share.decode_first else np.inf
    low = np.minimum(x / full, most)
    high = np.clip(x * chunks, low, most)
    for _ in range(BISECTIONS):
        often = (low + high) / 2.0
        each = x / np.maximum(often, LEAST)
        step = share.prefill(batch, each * share.prompt, each, each * chunks)
        without = 1.0 - often if share.decode_first else np.ones_like(often)
        rate = x / (without * plain + often * step)
        begun, met = -np.expm1(-rate * plain), np.maximum(-np.expm1(-rate * step), LEAST)
        busy = begun * np.expm1(np.minimum(rate * step * chunks, 300.0)) / met
        more = busy * without > often
        low, high = np.where(more, often, low), np.where(more, high, often)
    found: Array = np.maximum((low + high) / 2.0, LEAST)
    return found


def _cut(share: RequestMeans, batch: Array) -> tuple[Array, Array]:
    """κ, and what a prompt that is alone takes of steps beyond its tokens. [1]"""
    full = share.at(share.full, batch)
    return full, np.maximum(share.chunks(batch) - 1.0 / full, 0.0)


BISECTIONS: Final = 24
NEARLY: Final = 2.0**-30
"""Share of steps without prompts that is always left. [1]"""
HALVINGS: Final = 64
SECTIONS: Final = 64
"""Parts that a range is cut into at once, in place of six halvings. [1]"""
ROUNDS: Final = 9


class SaturatedServer(Struct, frozen=True):
    """A server that never waits for requests."""

    x: float
    """Prompts for each step. [1]"""
    by_steps: bool
    """Whether steps are full before all sequences run: it is bound by prefill."""
    requests_per_s: float
    """Requests that it serves. [1/s]"""


def most(share: RequestMeans) -> SaturatedServer:
    """Most that a server serves, when it never waits.

    Of x prompts in each step, m·x sequences decode and (m + c)·x run. Steps are full at x = κ(m·x),
    sequences at (m + c)·x = those that run at once; the smaller x holds. Where prompts have steps
    of their own, only sequences limit it. Source: Little's law, in steps.
    """
    slots = _last(lambda x: share.most - x * share.stay(x * share.steps), share)
    full = np.inf
    if share.decode_first:
        full = _last(lambda x: share.at(share.full, x * share.steps) - x, share)
    x = min(slots, full)

    def rate(x: Array) -> Array:
        return np.asarray(x / turn(share, x).steps.mean_s)

    # The front end lets one request after the other in, and one token after the other out.
    passes = max(share.serial_s, share.token_s * share.output)
    if passes and rate(np.array(x)) * passes > 1.0:
        x = float(last(lambda x: 1.0 / passes - rate(x), np.zeros(1), np.full(1, x))[0])
        return SaturatedServer(x, full < slots, 1.0 / passes)
    return SaturatedServer(x, full < slots, float(rate(np.array(x))))


def _last(left: Callable[[Array], Array], share: RequestMeans) -> float:
    """Most prompts for each step of which something is left. [1]"""
    high = 2.0 * share.most / max(min(share.steps, 1.0), 2.0**-20)
    return float(last(left, np.zeros(1), np.full(1, high))[0])


def last(left: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Numbers up to which something is left, of a shape like theirs.

    Args:
        left: What is left at numbers of shape (sections, *that shape).
        low, high: Between which they are looked for.
    """
    for _ in range(ROUNDS):
        ends = np.linspace(low, high, SECTIONS + 1)
        # The first part at whose end nothing is left.
        part = np.argmax(np.concatenate([left(ends[1:-1]) <= 0, np.ones((1, *low.shape))]), axis=0)
        low, high = (np.take_along_axis(ends, part[None] + end, axis=0)[0] for end in (0, 1))
    return low


def halved(below: Callable[[Array], NDArray[np.bool_]], low: Array, high: Array) -> Array:
    """Numbers at which a condition that holds below them ends, by `HALVINGS` of a range.

    Middles of several halvings are looked at in one call, which takes about as long for as many as
    `SECTIONS` as for one.

    Args:
        below: Whether it holds at numbers of shape (any, loads).
        low, high: Between which they are, of shape (loads,).

    Examples:
        >>> halved(lambda x: x < 0.3, np.zeros(1), np.ones(1)).round(9).tolist()
        [0.3]
    """
    loads, left = np.arange(len(low)), HALVINGS
    deep = max(int(np.log2(1 + SECTIONS / max(len(low), 1))), 1)
    while left:
        levels = min(deep, left)
        grid = np.stack([low, high])
        for _ in range(levels):
            finer = np.empty((2 * len(grid) - 1, len(low)))
            finer[::2], finer[1::2] = grid, (grid[:-1] + grid[1:]) / 2.0
            grid = finer
        holds, first = below(grid[1:-1]), np.zeros(len(low), np.intp)
        for level in reversed(range(levels)):
            middle = first + 2**level
            first = np.where(holds[middle - 1, loads], middle, first)
        low, high, left = grid[first, loads], grid[first + 1, loads], left - levels
    return (low + high) / 2.0


class TurnTaking(Struct, frozen=True):
    """Steps while so many sequences take turns."""

    x: Array
    running: Array
    beside: Array
    """Prompts for each step; sequences that run, and those that decode beside prompts. [1]"""
    steps: Pace
    """Times of the steps."""


def turn(share: RequestMeans, x: Array) -> TurnTaking:
    """Steps with so many prompts each [1], where the next request follows one that ends.

    Where fewer than one sequence would run, they are those of one.
    """
    x = np.maximum(x, 1.0 / np.maximum(share.stay(x * share.steps), LEAST))
    batch = x * share.steps
    running = x * share.stay(batch)
    loaded = turning(share, batch, x, running)
    beside = running
    if share.decode_first:
        beside = np.maximum(running - x * share.chunks(batch) / loaded, 0.0)
    return TurnTaking(x, running, beside, pace(share, running, beside, x, loaded))


def backlog(used: Array, variance: Array, room: Array) -> Array:
    """Steps that a prompt waits for those before it, beside decode. [1]

    V / 2(T − E) tokens of a queue that is served regularly, times exp(−2(1 − ρ) / 3ρ·c²) with
    c² = V / E². Source: Krämer and Langenbach-Belz 1976, 8th International Teletraffic Congress.

    Args:
        used: Tokens that come in a full step, over its room. [1]
        variance: Of the tokens that come. [token²]
        room: Tokens of prompts in a step. [token]
    """
    mean = np.maximum(used * room, LEAST)
    spread = np.maximum(variance, LEAST)
    rare = np.exp(-2.0 * (1.0 - used) * mean**2 / (3.0 * np.maximum(used, LEAST) * spread))
    waits: Array = rare * spread / (2.0 * np.maximum(room - mean, LEAST * room) * room)
    return waits


def ahead(share: RequestMeans, rate: Array, steps: Pace, full: Array) -> tuple[Array, Array]:
    """Wait for work before a prompt, and for those that end with it, in steps of their own. [s]

    A queue whose server is away for a decode step, or for what a step takes whatever is in it:
    W = λ·E[P²] / 2(1 − ρ) + E[V²] / 2·E[V]. What is in one step ends together: behind a prompt
    come those of the step that it found running, ρ·W / (1 + ρ). Source: Fuhrmann and Cooper 1985,
    Operations Research 33(5), for the server that is away.

    Args:
        share, steps: Work of requests, and steps while they come.
        rate: Prompts that come. [1/s]
        full: κ. [1]
    """
    used = np.minimum(rate * steps.each_s, 1.0 - 2.0**-10)
    away = steps.plain_s + steps.loaded * steps.fixed_s
    squares = steps.plain_s**2 + steps.loaded * steps.fixed_s**2
    spread = share.square / share.prompt**2
    work = used * steps.each_s * spread / (2.0 * (1.0 - used))
    work = work + squares / np.maximum(2.0 * away, LEAST)
    behind = np.minimum(
        work * used / (1.0 + used), np.maximum(full - 1.0, 0.0) / 2.0 * steps.each_s
    )
    return work, behind


def first_s(share: RequestMeans, batch: Array, fellows: Array) -> Array:
    """Time from the first step to the first token, by length of the prompt. [s]

    Args:
        share: Work of requests.
        batch: Sequences that decode, of shape (loads,). [1]
        fellows: Other prompts in its last step, of the same shape. [1]
    """
    length = share.lengths[:, None]
    chunk, full = share.at(share.chunk, batch), share.at(share.full, batch)
    cut, room = np.ceil(length / chunk), full * share.prompt
    last = length - (cut - 1.0) * chunk
    beside = fellows * share.prompt
    tokens = last + np.minimum(beside, np.maximum(room - last, 0.0))
    whole = (cut - 1.0) * share.prefill(batch, chunk, np.ones_like(batch))
    whole = whole + share.prefill(batch, tokens, 1.0 + fellows)
    if not share.decode_first:
        # Steps with prompts follow each other: half of them before its own.
        rows = np.maximum((last + beside) / room - 1.0, 0.0) / 2.0
        whole = whole + rows * share.prefill(batch, room, full)
    found: Array = whole
    return found


def out_s(share: RequestMeans, batch: Array, fellows: Array) -> Array:
    """Time from the first step to the first token out of the last stage, by length. [s]

    As `first_s`, and as late as the longest chunk of the prompt leaves a pipeline.

    Args:
        share, batch, fellows: As of `first_s`.
    """
    found = first_s(share, batch, fellows)
    if share.stages > 1:
        chunk = np.minimum(share.lengths[:, None], share.at(share.chunk, batch))
        found = found + share.late(batch, chunk, fellows)
    return found


class Means(Struct, frozen=True):
    """Means of a load, of shape (loads,) where nothing else is said."""

    rate: Array
    """Requests served. [1/s]"""
    utilisation: Array
    """Share of the time in which it works. [1]"""
    sequences: Array
    """Sequences that decode. [1]"""
    queue: Array
    """Between the front end and the first step. [s]"""
    own: Array
    """Time from the first step to the first token of a prompt alone, by its length, of shape
    (requests, loads). [s]"""
    waits: Array
    varying: Array
    """Time to the first token beyond that and the front end, and its variance. [s] [s²]"""
    decode: Array
    plain: Array
    """Time from the first token to the last; of a step without prompts, as decode meets it. [s]"""
    within: Array
    between: Array
    """Variance of a step, from one to the next, and of its mean from time to time. [s²]"""
