"""Time of any step of a deployment as a table, so that millions of steps can be priced.

A step has B sequences that decode and chunks of prompts. What is no attention depends on how many
tokens and rows of logits there are; attention of decode on B and the mean context, of a chunk on
its tokens and on those before it. So the time of a step is a sum of small tables:

    decode(B, mean context) + window(B, mean of what a window sees)
    − alone(B) + others(B + p) + head(B + k) + Σ attention(chunk)

for k chunks of p tokens in all, where alone(B) is what a step that only decodes does beside its
attention, and layers with a window have their own part of decode: a long context does not make up
for a short one there. Between their points the tables are straight lines. That is the
definition of a step's price here; it follows `roofline.cost.roof` within half a percent.

Where groups of devices have sequences of their own (attention data parallelism) a chunk is in one
of them. The busiest group sets the pace of attention and of dense layers, while all tokens pass
the experts: others(B + p) depends on the share of the tokens that the busiest group has, too, and
the sum over chunks is that of the group whose sum is largest.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import ALONE, IDEAL, NO_ENGINE, EngineCosts, KernelGains
from roofline.cost.work import Array, Number, distinct, union
from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.quadrature import MOST, ROUNDS, TOLERANCE, halved, refined, spaced
from roofline.serving.simulate.kernels import (
    StepKernels,
    alone_part,
    alone_times,
    attended_part,
    attention_times,
    chunk_part,
    chunk_times,
    decode_times,
    head_part,
    head_times,
    others_part,
    others_times,
    passing_times,
    window_of,
)
from roofline.serving.simulate.server import Server
from roofline.serving.workload import check_decodes

EVERY_BATCH: Final = 256
EVERY_FEW: Final = 32
"""The same for attention, whose kernels take rows and no tiles of them."""
EVERY_ROW: Final = 128
"""The same for rows of logits, which are little of a step."""
EVERY_TOKEN: Final = 512
MOST_STEP_TOKENS: Final = 65_536
"""Beyond, a step's time goes on as the straight line that it long is."""
JUMPS: Final = 2.0**-8
"""As `TOLERANCE`, where kernels were measured: 0.4 %."""
MOST_JUMPS: Final = 192
FEW_ROUNDS: Final = 2
FEWEST: Final = 1024
SHORTEST: Final = 16_384
"""Sequences and context that every table reaches. [1] [token]"""
MOST_TABLES: Final = 512
"""Tables that a process keeps, of some hundred kilobytes each."""
AHEAD: Final = 3
"""Halvings for which tokens are looked up at once, whichever of them refining asks about."""
MOST_KERNELS: Final = 8
"""Deployments whose kernels it keeps as well, of some megabytes each; see `keep_kernels`."""
LONGEST: Final = 131_072
"""Longest context of networks that state none. [token]"""
UNSTAGED: Final = np.empty(0)
"""Times of a pipeline where there is none."""


class StepPrices(Struct, frozen=True):
    """Tables of a step's time. All values in seconds.

    Of sequences of several lengths the mean counts, of the context and of what a window sees of
    it. That is exact where attention takes what it reads; too much for layers that see chunks, or
    a window of another size, which only some sequences fill.
    """

    batches: Array
    contexts: Array
    """Points of ``decode_s``: sequences [1], and keys that each of them sees, on average.
    [token]"""
    decode_s: Array
    """A step that only decodes, of shape (batches, contexts), without what is in ``window_s``; of
    beam search one of all beams. [s]"""
    window: int
    """Tokens that most of the layers with a window see, or choose; 0 where there are none.
    [token]"""
    windows: Array
    window_s: Array
    """Attention of those layers in decode, by what they see of each sequence on average. [token]
    [s]"""
    alone_s: Array
    """Time of such a step without attention. [s]"""
    shares: Array
    tokens: Array
    others_s: Array
    """Share of the new tokens of a step with prompts that its busiest group has, from 1 / groups
    to 1; its new tokens; and its time but attention for one row of logits, of shape (shares,
    tokens). [1] [token] [s]"""
    rows: Array
    head_s: Array
    """Rows of logits, and what those beyond the first add. [1] [s]"""
    chunks: Array
    cached: Array
    """Points of ``attention_s``: tokens of a chunk, and of its prompt before it. [token]"""
    attention_s: Array
    """Attention of a chunk for each of its tokens, of shape (chunks, cached). [s]"""
    engine: EngineCosts = IDEAL
    """Time that the engine's software adds."""
    stages: int = 1
    """Stages of a pipeline that a prompt's chunk passes as one micro-batch; 1 where there is none,
    and where the engine cuts chunks into micro-batches. [1]"""
    passing_s: Array = UNSTAGED
    """Micro-batch of so many tokens through all of them, but attention, for one row of logits, at
    ``tokens``; empty where there is one. [s]"""

    @property
    def groups(self) -> int:
        """Groups of devices that have sequences of their own. [1]"""
        return round(1.0 / float(self.shares[0]))

    def prompt_s(self, new: float, tokens: float = 0.0) -> float:
        """Kernels of a prompt of new tokens in an idle server's step of its own. [s]

        Where a number of tokens is given: its part of steps of so many in all, of which every group
        has as many; without groups no fewer than the prompt's. The engine's gain is not in it.
        """
        alone = not tokens
        whole = tokens if tokens and self.groups > 1 else max(tokens, new)
        through = alone and self.stages > 1
        column = self.passing_s if through else self.others_s[-1 if alone else 0]
        others = float(np.interp(whole, self.tokens, column))
        others *= max(whole / float(self.tokens[-1]), 1.0)
        each = float(np.interp(new, self.chunks, self.attention_s[:, 0]))
        each *= self.stages if through else 1.0 if alone else 1.0 / self.groups
        return new * (others / whole + each)


def step_prices(
    deployment: Deployment,
    *,
    sequences: int = 256,
    longest: int | None = None,
    engine: EngineCosts | None = None,
    gains: KernelGains | None = None,
) -> StepPrices:
    """Tabulate the steps of a deployment.

    Groups with sequences of their own (attention data parallelism) decode evenly many. In a
    pipeline a step is a round of its micro-batches, over which new tokens are spread evenly.

    Args:
        deployment: Network, node, formats, layout, calibration.
        sequences: Most sequences of a step, at least; tables reach to a power of two. [1]
        longest: Longest context, likewise; None for that of the network. [token]
        engine: Overheads of the engine; None for those of the deployment.
        gains: Factors on measured kernels where the engine runs them; likewise. [1]

    Raises:
        InputError: The network does not decode, or something is loaded ahead from the host: what
            hides that depends on the whole step.
    """
    _check(deployment, sequences)
    network = deployment.architecture
    most = _upwards(longest or network.max_context or LONGEST, SHORTEST)
    many = _upwards(sequences, FEWEST)
    gained = deployment.kernel_gains if gains is None else gains
    costs = deployment.engine_costs if engine is None else engine
    return replace(_known(deployment).prices(many, most, gained), engine=costs)


@dataclass(slots=True, eq=False)
class _Tables:
    """Tables of a deployment, whatever the constants of its engine."""

    asked: Deployment
    """The deployment, as somebody asked about it."""
    kernels: StepKernels
    """Its kernels."""
    made: dict[tuple[int, int, KernelGains], StepPrices] = field(default_factory=dict)
    """By sequences, context and gains, as far as these are felt."""
    turn: int = 0
    """When somebody asked for one of them last: tables used last are forgotten last. [1]"""

    def prices(self, sequences: int, most: int, gains: KernelGains) -> StepPrices:
        """One of them; it is the same one where gains differ on kernels that do not run."""
        self.turn = next(_TURNS)
        found = self.made.get((sequences, most, self.kernels.as_felt(gains)))
        if found is None:
            found = _tabulated(replace(self.kernels, gains=gains), sequences, most)
            # By now it is known which kernels there are.
            self.made[sequences, most, self.kernels.as_felt(gains)] = found
            self._make_room()
        return found

    def _make_room(self) -> None:
        """Forget tables, and kernels of deployments that none was made of for long."""
        _RECENT[id(self.kernels)] = self.kernels
        _RECENT.move_to_end(id(self.kernels))
        while len(_RECENT) > _MOST[0]:
            _RECENT.popitem(last=False)[1].known.clear()
        known = sorted(_KNOWN.items(), key=lambda each: each[1].turn)
        many = sum(len(each.made) for _, each in known)
        for key, each in known:
            if many > MOST_TABLES:
                many -= len(each.made)
                each.made.clear()
            if not each.made and not each.kernels.known:
                _KNOWN.pop(key, None)


_TURNS: Final = count()
_KNOWN: Final[dict[Hashable, _Tables]] = {}
"""By what a deployment is but for its engine's constants. No `OrderedDict`: to go through one takes
the hash of every key, and a calibration has a thousand labels."""
_RECENT: Final[OrderedDict[int, StepKernels]] = OrderedDict()
_MOST: Final = [MOST_KERNELS]


def keep_kernels(deployments: int) -> None:
    """Keep the kernels of so many deployments in this process from now on.

    For a fit that asks about the same ones over and over: of a table, looking kernels up takes ten
    times as long as all else.
    """
    _MOST[0] = deployments


def _known(deployment: Deployment) -> _Tables:
    """Tables of a deployment: those there are, and room for others."""
    # In one call: other threads make room for tables of their own meanwhile.
    for each in list(_KNOWN.values()):
        if each.asked is deployment:
            return each
    # Records with a profile, whichever prices them.
    calibrations: list[Any] = [pool.calibration for pool in deployment.pools]
    bare = tuple(each and replace(each, profile=NO_ENGINE) for each in calibrations)
    key = bare, _pickled(deployment)
    found = _KNOWN.get(key)
    if found is None:
        found = _KNOWN[key] = _Tables(deployment, StepKernels(deployment, ALONE))
    found.asked = deployment
    return found


def _upwards(number: int, least: int) -> int:
    """The next power of two, so that questions of about the same reach have the same table."""
    return int(2 ** np.ceil(np.log2(max(number, least))))


def _pickled(deployment: Deployment) -> bytes:
    """Everything of a deployment but its calibrations."""
    import pickle

    pool = deployment.ffn
    if pool is not None:
        pool = replace(pool, deployment=replace(pool.deployment, calibration=None))
    return pickle.dumps(replace(deployment, calibration=None, ffn=pool))


def _tabulated(kernels: StepKernels, sequences: int, most: int) -> StepPrices:
    """Tables of the kernels of a deployment, without what the engine's software adds."""
    deployment = kernels.deployment
    batches = _batches(deployment, sequences, 32)
    rows, few = _batches(deployment, sequences, 16, EVERY_ROW), spaced(1, sequences, 4)
    window = min(window_of(deployment), most)
    lengths = _with_windows(deployment, spaced(1, most, 2))
    seen, dense = spaced(1, max(window, 1), 2), spaced(1, MOST_STEP_TOKENS, 8, EVERY_TOKEN)
    beams = float(deployment.options.sampling.beams)
    decoding = beams * batches
    loaded = loaded_groups(deployment.layout.dp)
    # All that is asked about before anything is refined, in one look-up.
    parts = [
        alone_part(deployment, union(batches, decoding)),
        attended_part(deployment, few, lengths).part,
        *(
            others_part(deployment, union(halved(dense, dense, AHEAD), rows), groups)
            for groups in loaded
        ),
        head_part(deployment, rows),
        chunk_part(deployment, lengths, np.append(0.0, _starts(deployment, most))),
    ]
    if window:
        parts.append(attended_part(deployment, few, seen, window).part)
    kernels.look_up(parts)
    refine = _refining(deployment)
    # Tables are as fine as the time of a whole step needs.
    alone = alone_times(kernels, batches)
    beside = alone[np.searchsorted(batches, few), None]
    # All beams of a prompt are one sequence here, whose steps are those of as many.
    busy = alone_times(kernels, decoding) if beams > 1 else alone
    contexts = refine(lambda x: (attention_times(kernels, few, x) + beside).T, lengths)
    windows = refine(lambda x: (attention_times(kernels, few, x, window) + beside).T, seen)
    every = [others_times(kernels, groups, AHEAD) for groups in loaded]
    # Points up to where every integer is one are not what refining adds.
    more = len(dense) + refine.keywords["most"]
    tokens = refine(every[0], dense, most=more, rounds=ROUNDS)
    others_s = np.stack([others(tokens) for others in every])
    chunks, cached, attention = _attention(kernels, most, tokens, others_s[-1])

    def at_batches(points: Array, window: int | None = None) -> Array:
        """Attention at every batch; between fewer of them it is a straight line."""
        if deployment.to_and_fro:
            return decode_times(kernels, decoding, points) - busy[:, None]
        some = batches if _rounded(deployment) > 1 else spaced(1, sequences, 8, EVERY_FEW)
        found = attention_times(kernels, beams * some, points, window)
        return np.stack([np.interp(batches, some, column) for column in found.T], axis=1)

    return StepPrices(
        batches=batches,
        contexts=contexts,
        decode_s=at_batches(contexts) + busy[:, None],
        window=window,
        windows=windows,
        window_s=at_batches(windows, window) if window else np.zeros((len(batches), len(windows))),
        alone_s=alone,
        shares=1.0 / loaded,
        tokens=tokens,
        others_s=others_s,
        rows=rows,
        head_s=head_times(kernels, rows, every[0]),
        chunks=chunks,
        cached=cached,
        attention_s=attention,
        **_staged(kernels, tokens),
    )


def _staged(kernels: StepKernels, tokens: Array) -> dict[str, Any]:
    """Fields of `StepPrices` on the stages of a pipeline."""
    deployment = kernels.deployment
    if deployment.layout.pp == 1 or deployment.engine.micro_batch_tokens:
        return {}
    return {"stages": int(deployment.layout.pp), "passing_s": passing_times(kernels, tokens)}


def loaded_groups(groups: Number) -> Array:
    """Groups over which a table spreads the tokens of a step: from all to one, two an octave. [1]

    >>> loaded_groups(4.0).round(3).tolist(), loaded_groups(1.0).tolist()
    ([4.0, 2.828, 2.0, 1.414, 1.0], [1.0])
    """
    number = 1 + int(np.ceil(2.0 * np.log2(groups)))
    return np.geomspace(groups, 1.0, number)


def _rounded(deployment: Deployment) -> int:
    """Sequences by which parts of a step are rounded up: groups, micro-batches. [1]"""
    return int(deployment.layout.dp * deployment.turns)


def _batches(
    deployment: Deployment, sequences: int, per_octave: int, every: int = EVERY_BATCH
) -> Array:
    """Batches at which a step is priced; of those that are rounded up to the same, both ends."""
    number, stages = _rounded(deployment), deployment.turns
    points = spaced(1, sequences, per_octave, max(every, stages * stages))
    full = np.arange(number, min(sequences, number * every + 1), number, dtype=float)
    return distinct(np.concatenate([points, full, full + 1.0]))


def _check(deployment: Deployment, sequences: int) -> None:
    """Refuse deployments whose steps have no price by parts."""
    check_decodes(deployment.architecture, denoised=True)
    if sequences < 1:
        raise InputError(f"steps of {sequences} sequences", hint="give 1 or more")
    if deployment.to_and_fro and window_of(deployment):
        raise InputError(
            f"{deployment.architecture.name} has layers that see a window: where micro-batches "
            "hide each other's transfers they have no price by parts",
            hint="leave `ffn` or `two_batch` out, or price static batches",
        )
    if deployment.offload.ahead:
        raise InputError(
            "loads from the host that are hidden behind the rest of a step have no price by parts",
            hint="give `prefetch=False`, or keep weights and cache on the device",
        )


def prices_of_lengths(
    deployment: Deployment,
    server: Server,
    *,
    prompt: int,
    output: int,
    cached: int = 0,
    spread: float = 0.0,
) -> StepPrices:
    """Steps of requests that are about alike, at the few points that they need.

    As `step_prices`, which has tables for any lengths, at a tenth of the time: for the closed form
    of one load. The mean context of an answer stands for all of its contexts.

    Args:
        deployment: Network, node, formats, layout, calibration.
        server: Sequences and tokens of a step.
        prompt, output: Tokens of every prompt and answer. [token]
        cached: Of the prompt, those that are cached already. [token]
        spread: Share of a prompt by which prompts are shorter or longer. [1]

    Raises:
        InputError: As `step_prices`.
    """
    _check(deployment, server.max_sequences)
    kernels = StepKernels(deployment, deployment.kernel_gains)
    batches = _batches(deployment, server.max_sequences + 1, 16)
    mean = prompt + output / 2.0
    window = min(window_of(deployment), prompt + output)
    left = float(np.clip(mean, 1.0, max(window, 1)))
    new, loaded = prompt - cached, loaded_groups(deployment.layout.dp)
    budget = server.token_budget or new * server.max_sequences
    largest = max(budget, new) + server.max_sequences
    prompts = np.arange(1.0, min(max(budget // new, 1), EVERY_BATCH) + 1.0)
    whole = np.minimum(new * prompts, MOST_STEP_TOKENS)
    tokens = distinct(np.append(spaced(1, min(largest, MOST_STEP_TOKENS), 8, 16), whole))
    longest = float(np.ceil(new * (1.0 + spread)))
    chunk = min(longest, max(budget // int(deployment.layout.dp), 1))
    ends = new * np.array([1.0 - spread, 1.0, 1.0 + spread])
    chunks = distinct(np.clip(np.append(spaced(1, int(chunk), 1), ends), 1.0, chunk))
    before = distinct(np.append(np.arange(0.0, longest, chunk), longest))
    contexts, windows = np.array([mean]), np.array([left])
    # What all the tables below are made of, in one look-up.
    parts = [
        alone_part(deployment, batches),
        attended_part(deployment, batches, contexts).part,
        *(others_part(deployment, union(tokens, batches), groups) for groups in loaded),
        head_part(deployment, batches),
        chunk_part(deployment, chunks, before + cached),
    ]
    if window:
        parts.append(attended_part(deployment, batches, windows, window).part)
    kernels.look_up(parts)
    alone = alone_times(kernels, batches)
    every = [others_times(kernels, groups, AHEAD) for groups in loaded]
    return StepPrices(
        batches=batches,
        contexts=contexts,
        decode_s=decode_times(kernels, batches, contexts),
        window=window,
        windows=windows,
        window_s=attention_times(kernels, batches, windows, window),
        alone_s=alone,
        shares=1.0 / loaded,
        tokens=tokens,
        others_s=np.stack([others(tokens) for others in every]),
        rows=batches,
        head_s=head_times(kernels, batches, every[0]),
        chunks=chunks,
        cached=before,
        attention_s=chunk_times(kernels, chunks, before + cached),
        engine=deployment.engine_costs,
        **_staged(kernels, tokens),
    )


def _refining(deployment: Deployment) -> "partial[Array]":
    """Refinement of points: coarser where tiles of measured kernels make jumps without an end."""
    if deployment.calibration is None:
        return partial(refined, tolerance=TOLERANCE, most=MOST, rounds=ROUNDS)
    return partial(refined, tolerance=JUMPS, most=MOST_JUMPS, rounds=FEW_ROUNDS)


def _attention(
    kernels: StepKernels, longest: int, tokens: Array, others: Array
) -> tuple[Array, Array, Array]:
    """Attention of chunks for each of their tokens, with where it is tabulated. [s]"""
    price, deployment = partial(chunk_times, kernels), kernels.deployment
    refine, few = _refining(deployment), _starts(deployment, longest)
    start = np.append(0.0, few)

    def beside(new: Array) -> Array:
        """Time without attention, for each token of a chunk. [s]"""
        return (np.interp(new, tokens, others) / new)[:, None]

    chunks = refine(
        lambda new: price(new, start) + beside(new),
        _with_windows(deployment, spaced(1, longest, 2)),
    )
    cached = refine(lambda before: (price(few, before) + beside(few)).T, start)
    return chunks, cached, price(chunks, cached)


def _starts(deployment: Deployment, longest: int) -> Array:
    """Tokens before a chunk, and of one, at which its attention is priced first. [token]"""
    return _with_windows(deployment, spaced(1, longest, 1))


def _with_windows(deployment: Deployment, points: Array) -> Array:
    """Points, and lengths from which layers no longer see everything, or nothing is encoded."""
    bends = {
        float(getattr(block.mixer, name))
        for block in deployment.architecture.kinds
        for name in ("window", "chunk")
        if getattr(block.mixer, name, None)
    }
    network, media = deployment.architecture, deployment.options.media
    if network.towers_of(media):
        tokens = max(network.media_tokens(media), 1)
        bends |= {float(media.after), float(tokens), float(media.after + tokens)}
    inside = [bend for bend in sorted(bends) if points[0] < bend < points[-1]]
    return distinct(np.append(points, inside))
