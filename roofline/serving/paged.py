"""Allocation schemes for KV caches, reserved, in pages or in shared pages: slots and sequences.

Free room between contiguous caches that no waiting request fits into is external fragmentation.
"""

from math import floor
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.layout import pipeline
from roofline.cost.memory import MemoryBudget, kept, kv_bytes_per_sequence
from roofline.cost.sampling import (
    Sampling,
    beam_copies,
    beam_page_copies,
    beams_held,
    expected_parents,
    own_tokens,
)
from roofline.cost.work import Array, Number
from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.room import memory_of
from roofline.serving.static import check_context, static_batch
from roofline.serving.workload import MOST_SEQUENCES, Workload

ENTRY_BYTES: Final = 4.0
"""Bytes of an entry of a block table, an int32. Source: ``vllm/v1/worker/block_table.py``. [B]"""


class PagingScheme(Struct, frozen=True):
    """A way to give the answers to a prompt room."""

    name: str
    title: str
    """``"paged"``, and what it does."""
    slots: float
    """Slots of all answers to a prompt, when they are at their longest. [token]"""
    mean_slots: float
    """Mean while they grow. [token]"""
    waiting: float
    """Part of the mean that is reserved for tokens to come. [token]"""
    held: float
    mean_held: float
    """Cache of all answers to a prompt on a device: at their longest, mean while they grow. [B]"""
    requests: int = 0
    """Prompts whose answers fit at their longest. [1]"""
    steady: int = 0
    """Prompts whose answers fit on average, where they are anywhere in their growth. [1]"""
    tok_s: float = 0.0
    log_sd: float = 0.0
    """Output tokens of as many as fit on average, while they decode [token/s]; standard deviation
    of its logarithm, 0 at datasheet rates. [1]"""


class PagingSchemes(Struct, frozen=True):
    """Schemes side by side."""

    deployment: Deployment
    workload: Workload
    samples: int
    beams: int
    page: int
    reserved: int
    """Answers to each prompt, beams of its one answer, tokens of a page and of a reservation. [1]
    [token]"""
    memory: MemoryBudget
    """Budget of one device."""
    token_bytes: float
    state_bytes: float
    """Bytes of one cached token, and of a sequence whatever its length, on a device. [B]"""
    mean_tokens: float
    """Different tokens that the answers to a prompt have cached, mean while they grow. [token]"""
    copied: float
    """Pages copied on write for each prompt where its answers go apart. [1]"""
    moved_apart: float
    moved_shared: float
    """Bytes that a step reads and writes to reorder the beams of a prompt, whose caches lie one
    after the other, or in shared pages; on a device, mean while they grow. [B]"""
    table_bytes: float
    tables_read: float
    """Block table of a sequence at its longest; what a step reads of tables in all layers of a
    device, of as many sequences as fit on average. [B]"""
    spread: float
    external: float
    """Share that lengths vary by to either side; that of the room which is lost between contiguous
    caches of such lengths. [1]"""
    schemes: tuple[PagingScheme, ...]
    """Largest room first."""

    @property
    def branches(self) -> int:
        """Answers or beams of each prompt. [1]"""
        return max(self.samples, self.beams)

    def states(self, scheme: PagingScheme) -> float:
        """Part of the mean room that holds tokens; what is shared counts once. [1]"""
        tokens = self.mean_tokens if scheme.name == "shared" else self.answers_tokens
        return tokens / scheme.mean_slots

    @property
    def answers_tokens(self) -> float:
        """Tokens of all answers to a prompt with a prompt of their own each, mean. [token]"""
        return self.branches * (self.workload.prompt + _grown(self.workload))


def paged(
    deployment: Deployment,
    workload: Workload,
    *,
    samples: int = 1,
    beams: int = 1,
    page: int = 0,
    reserved: int = 0,
    spread: float = 0.0,
    utilization: float | None = None,
) -> PagingSchemes:
    """Price schemes for the caches of answers of one length.

    Answers grow from P + 1 to P + O − 1 cached tokens, and all have the same length; what is left
    between contiguous caches of different lengths is told apart. Layers with a window keep what is
    inside it, as everywhere. Source: Kwon et al. 2023 (arXiv 2309.06180), section 3.1 and figure 2.

    Args:
        deployment: Network, node, formats, layout, engine.
        workload: Lengths; its batch is the sequences that a step keeps activations for.
        samples: Answers to each prompt. [1]
        beams: Beams of the one answer to each prompt. [1]
        page: Tokens of a page; 0 for the engine's. [token]
        reserved: Longest sequence that room is reserved for; 0 for the network's. [token]
        spread: Share that lengths vary by to either side, of what is lost between them. [1]
        utilization: Share of device memory the engine takes; None for its default. [1]

    Raises:
        InputError: Numbers without a meaning, or a cache that does not grow by tokens.
    """
    size = page or max(int(deployment.engine.block_tokens), 1)
    most = reserved or deployment.architecture.max_context or workload.longest
    check_context(deployment, workload)
    _check(deployment, workload, samples, beams, size, most)
    each = max(samples, beams)
    memory = memory_of(deployment, workload, utilization)
    stages = pipeline(deployment.architecture, deployment.layout, deployment.node)

    def cache(slots: Number) -> Number:
        """Cache of a sequence on a device of the fullest stage. [B]"""
        return kv_bytes_per_sequence(deployment, slots, stage=stages[memory.stage])

    state = float(cache(0.0))
    token = float(cache(1.0)) - state
    longest, grown = workload.longest, _grown(workload)

    def whole(name: str, title: str, slots: float) -> PagingScheme:
        """Scheme that reserves one piece from the start."""
        waiting, held = longest - workload.prompt - grown, each * float(cache(slots))
        return PagingScheme(name, title, each * slots, each * slots, each * waiting, held, held)

    prompt = float(workload.prompt)
    answers, weights = _lengths(workload, size, beams)
    slots: Array = np.asarray(paged_slots(prompt + answers, size))
    one = np.broadcast_to(cache(slots), slots.shape)
    # What an answer keeps beyond the shared pages is as much as a sequence of its own would keep.
    own = own_tokens(samples, beams, workload.prompt, answers, page=size) + 0.0 * slots
    more = np.broadcast_to((each - 1) * cache(own), slots.shape)
    together: Array = np.asarray(slots + (each - 1) * own)
    schemes: tuple[PagingScheme, ...] = (
        whole("reserved", f"{most:,} tokens reserved", float(most)),
        whole(
            "power-of-two", "a power of two reserved", prompt + float(power_of_two(workload.output))
        ),
        whole("exact", "the exact length reserved", float(longest)),
        PagingScheme(
            "paged",
            f"pages of {size}",
            each * float(slots[-1]),
            each * float(np.average(slots, weights=weights)),
            0.0,
            each * float(one[-1]),
            each * float(np.average(one, weights=weights)),
        ),
        PagingScheme(
            "shared",
            f"pages of {size}, {'beams' if beams > 1 else 'prompt'} shared",
            float(together[-1]),
            float(np.average(together, weights=weights)),
            0.0,
            float((one + more)[-1]),
            float(np.average(one + more, weights=weights)),
        ),
    )
    if each == 1:  # nobody to share with
        schemes = schemes[:-1]
    groups = int(deployment.layout.dp)

    def fitting(held: float) -> int:
        return max(floor(memory.pool / held), 0) * groups if held else MOST_SEQUENCES

    copied = beam_page_copies(
        1.0, float(beams), expected_parents(beams), page=size, token_bytes=token, state_bytes=state
    )
    whole_copies = beam_copies(1.0, float(beams), 1.0, token_bytes=float(cache(prompt + grown)))
    moved_apart, moved_shared = (float(each.kv_bytes) for each in (whole_copies, copied))
    moved_apart *= beams > 1

    def filled(scheme: PagingScheme) -> PagingScheme:
        steady = fitting(scheme.mean_held)
        decoded, spread = _decoded(deployment, workload, steady * samples, beams)
        if (
            decoded and beams > 1 and scheme.name != "shared"
        ):  # beams are copied whole, not page by page
            copies = -(-steady // groups) * (moved_apart - moved_shared)
            decoded = steady / (steady / decoded + copies / deployment.node.gpu.hbm_bytes_per_s)
        return replace(
            scheme, requests=fitting(scheme.held), steady=steady, tok_s=decoded, log_sd=spread
        )

    filled_schemes = tuple(map(filled, schemes))
    in_pages = filled_schemes[3]
    layers = sum(
        number
        for block, number in stages[memory.stage].layers
        if kept(deployment, block, 2.0).value > kept(deployment, block, 1.0).value
    )
    entries = in_pages.mean_slots / size * -(-in_pages.steady // groups)
    room = max(memory.pool, 0.0) / token if token else 0.0
    return PagingSchemes(
        table_bytes=ENTRY_BYTES * np.ceil(longest / size),
        tables_read=ENTRY_BYTES * entries * layers,
        spread=spread,
        external=external_share(room, float(longest), spread),
        deployment=deployment,
        workload=workload,
        samples=samples,
        beams=beams,
        page=size,
        reserved=most,
        memory=memory,
        token_bytes=token,
        state_bytes=state,
        mean_tokens=_different(workload, samples, beams, size),
        copied=float(copied_pages(each, prompt, size)),
        moved_apart=moved_apart,
        moved_shared=moved_shared,
        schemes=filled_schemes,
    )


def _grown(workload: Workload) -> float:
    """Tokens of an answer that are cached, mean over its decode steps. [token]"""
    return workload.output / 2 if workload.output > 1 else 0.0


def _different(workload: Workload, samples: int, beams: int, page: int) -> float:
    """Different tokens that the answers to a prompt have cached, mean over its steps. [token]"""
    prompt, grown = float(workload.prompt), _grown(workload)
    if beams > 1:
        held = beams_held(beams, workload.prompt, _answers(workload))
        return float(np.mean(held))
    # Tokens of a page that is not whole are copied, and are the answer's own from then on.
    return prompt + samples * grown + (samples - 1) * (prompt % page)


def _answers(workload: Workload) -> Array:
    """Cached tokens of an answer in each of its decode steps. [token]"""
    return np.arange(min(1, workload.output - 1), workload.output, dtype=float)


def _lengths(workload: Workload, page: int, beams: int) -> tuple[Array, Array]:
    """Cached tokens of an answer while it grows, and how many of its decode steps have as many.

    Those that take the same pages are one entry, but for beams, which share more with every step.

    Returns:
        Tokens, ascending [token]; steps of each. [1]
    """
    if beams > 1:
        every = _answers(workload)
        return every, np.ones_like(every)
    first, last = min(workload.prompt + 1, workload.longest), workload.longest
    ends = page * np.arange(-(-first // page), -(-last // page) + 1, dtype=float)
    until = np.minimum(ends, last)
    return until - workload.prompt, until - np.maximum(ends - page, first - 1)


def _decoded(
    deployment: Deployment, workload: Workload, answers: int, beams: int
) -> tuple[float, float]:
    """Output tokens of so many answers while they decode, 0 for none; its spread. [token/s]"""
    if not answers or workload.output == 1:
        return 0.0, 0.0
    sampling = Sampling(beams=beams)
    searched = replace(deployment, options=replace(deployment.options, sampling=sampling))
    batch = replace(workload, batch=min(answers, MOST_SEQUENCES), prefill_batch=1)
    decoded = static_batch(searched, batch)
    return decoded.decode_tok_s, decoded.tpot_log_sd


def _check(
    deployment: Deployment, workload: Workload, samples: int, beams: int, page: int, reserved: int
) -> None:
    """Refuse what has no meaning, or no pages of tokens."""
    network = deployment.architecture
    for name, value, most in (("samples", samples, 2**16), ("page", page, 2**20)):
        if not 1 <= value <= most:
            raise InputError(f"{name} is {value}", hint=f"give a number from 1 to {most:,}")
    if samples > 1 < beams:
        raise InputError(
            f"{samples} samples of {beams} beams",
            hint="beams are one answer: give samples or beams",
        )
    if reserved < workload.longest:
        raise InputError(
            f"{reserved} tokens reserved, a sequence grows to {workload.longest}",
            hint=f"reserve {workload.longest} or more",
        )
    mixed = any(each.mixer and not each.mixer.keeps_positions for each in network.kinds)
    if mixed or network.is_encoder:
        raise InputError(
            f"{network.name} does not keep a token of each position",
            hint="pages are priced for caches that grow by tokens",
        )


def power_of_two(tokens: Number) -> Number:
    """The next power of two, which a buddy allocator reserves. [token]

    Source: Kwon et al. 2023 (arXiv 2309.06180), section 6.1, Orca (Pow2): 25 tokens reserve 32.

    Args:
        tokens: At least 1. [token]

    Examples:
        >>> float(power_of_two(25)), float(power_of_two(32))
        (32.0, 32.0)
    """
    return 2.0 ** np.ceil(np.log2(tokens))


def paged_slots(tokens: Number, page: Number) -> Number:
    """Slots of the pages that hold so many tokens: ⌈S/g⌉·g. [token]

    Source: Kwon et al. 2023 (arXiv 2309.06180), section 4.3.

    Args:
        tokens: Of a sequence, S. [token]
        page: Tokens of a page. [token]

    Examples:
        >>> float(paged_slots(33, page=16))
        48.0
    """
    return np.ceil(tokens / page) * page


def copied_pages(samples: Number, prompt: Number, page: Number) -> Number:
    """Pages that are copied on write: n − 1 where the prompt ends inside a page. [1]

    The answer that writes last has the page to itself. Source: Kwon et al. 2023 (arXiv 2309.06180),
    section 4.4.

    Args:
        samples: Answers n, at least 1. [1]
        prompt: Tokens P. [token]
        page: Tokens of a page. [token]

    Examples:
        >>> float(copied_pages(4, prompt=40, page=16)), float(copied_pages(4, prompt=32, page=16))
        (3.0, 0.0)
    """
    return np.where(prompt % page > 0, samples - 1.0, 0.0)[()]


TURNS = 4000
MOST_REGIONS = 256
"""Departures that are counted, and regions of a mean length that a pool is cut to. [1]"""


def lengths_around(mean: float, spread: float, number: int, seed: int) -> Array:
    """Lengths of requests, uniform within a share of their mean. [token]

    Args:
        mean: Of the lengths. [token]
        spread: Share to either side, below 1. [1]
        number, seed: How many; of the random numbers. [1]
    """
    if not 0 <= spread < 1:
        raise InputError(f"a spread of {spread:g}", hint="give a share from 0 to below 1")
    low, high = round(mean * (1 - spread)), round(mean * (1 + spread))
    drawn = np.random.default_rng(seed).integers(max(low, 1), high + 1, number)
    return drawn.astype(float)


def external_share(pool: float, mean: float, spread: float, *, seed: int = 0) -> float:
    """Room that is free, and enough for the next request, in pieces that are each too short. [1]

    Requests wait for the first hole that is long enough, in their order; where the first of them
    finds none, any of those that have room leaves. Mean over departures, of the share of the pool
    that is free while a request waits that a pool without holes would have room for. Source:
    first fit, Knuth 1997, The Art of Computer Programming 1, section 2.5; external fragmentation
    of caches, Kwon et al. 2023 (arXiv 2309.06180), section 3.1.

    Args:
        pool: Room for caches. [token]
        mean, spread: As of `lengths_around`. [token] [1]
        seed: Of the random numbers. [1]

    Examples:
        >>> external_share(10_000, 1000, 0.0)
        0.0
    """
    pool = float(int(min(pool, MOST_REGIONS * mean)))
    if pool < mean * (1 + spread):
        return 0.0
    leaving = np.random.default_rng(seed + 1)
    lengths = iter(lengths_around(mean, spread, 2 * (TURNS + MOST_REGIONS) + MOST_REGIONS, seed))
    regions: list[tuple[float, float]] = []  # start and end, in order
    asked, wasted, turns = next(lengths), 0.0, 0
    while turns < TURNS:
        place = _hole(regions, asked, pool)
        if place is not None:
            index, start = place
            regions.insert(index, (start, start + asked))
            asked = next(lengths)
            continue
        free = pool - sum(end - start for start, end in regions)
        wasted += free if free >= asked else 0.0
        turns += 1
        del regions[leaving.integers(len(regions))]
    return wasted / (pool * TURNS)


def _hole(
    regions: list[tuple[float, float]], asked: float, pool: float
) -> tuple[int, float] | None:
    """Place in the list, and start, of the first hole that is long enough."""
    before = 0.0
    for index, (start, end) in enumerate(regions):
        if start - before >= asked:
            return index, before
        before = end
    return (len(regions), before) if pool - before >= asked else None
