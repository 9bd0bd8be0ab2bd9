"""Allocation schemes for KV caches, reserved, in pages or in shared pages: slots and sequences."""

from dataclasses import dataclass, replace
from math import floor

import numpy as np

from roofline.cost.branching import samples_held
from roofline.cost.deployment import Deployment
from roofline.cost.layout import pipeline
from roofline.cost.memory import Memory, kv_bytes_per_sequence
from roofline.cost.work import Array, Number
from roofline.errors import InputError
from roofline.model.architecture import CompressedAttention
from roofline.serving.room import memory_of
from roofline.serving.static import check_context, static_batch
from roofline.serving.workload import MOST_SEQUENCES, Workload


@dataclass(frozen=True, slots=True)
class Scheme:
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


@dataclass(frozen=True, slots=True)
class Paged:
    """Schemes side by side."""

    deployment: Deployment
    workload: Workload
    samples: int
    page: int
    reserved: int
    """Answers to each prompt, tokens of a page and of a reservation. [1] [token]"""
    memory: Memory
    """Budget of one device."""
    token_bytes: float
    state_bytes: float
    """Bytes of one cached token, and of a sequence whatever its length, on a device. [B]"""
    mean_tokens: float
    """Different tokens that the answers to a prompt have cached, mean while they grow. [token]"""
    copied: float
    """Pages copied on write for each prompt. [1]"""
    schemes: tuple[Scheme, ...]
    """Largest room first."""

    def states(self, scheme: Scheme) -> float:
        """Part of the mean room that holds tokens; what is shared counts once. [1]"""
        tokens = self.mean_tokens if scheme.name == "shared" else self.answers_tokens
        return tokens / scheme.mean_slots

    @property
    def answers_tokens(self) -> float:
        """Tokens of all answers to a prompt with a prompt of their own each, mean. [token]"""
        return self.samples * (self.workload.prompt + _grown(self.workload))


def paged(
    deployment: Deployment,
    workload: Workload,
    *,
    samples: int = 1,
    page: int = 0,
    reserved: int = 0,
    utilization: float | None = None,
) -> Paged:
    """Price schemes for the caches of answers of one length.

    Answers grow from P + 1 to P + O − 1 cached tokens, and all have the same length: what is left
    between reservations of different sizes is not in it. Layers with a window keep what is inside
    it, as everywhere. Source: Kwon et al. 2023 (arXiv 2309.06180), section 3.1 and figure 2.

    Args:
        deployment: Network, node, formats, layout, engine.
        workload: Lengths; its batch is the sequences that a step keeps activations for.
        samples: Answers to each prompt. [1]
        page: Tokens of a page; 0 for the engine's. [token]
        reserved: Longest sequence that room is reserved for; 0 for the network's. [token]
        utilization: Share of device memory the engine takes; None for its default. [1]

    Raises:
        InputError: Numbers without a meaning, or a cache that does not grow by tokens.
    """
    size = page or max(int(deployment.engine.block_tokens), 1)
    most = reserved or deployment.architecture.max_context or workload.longest
    check_context(deployment, workload)
    _check(deployment, workload, samples, size, most)
    memory = memory_of(deployment, workload, utilization)
    stages = pipeline(deployment.architecture, deployment.layout, deployment.node)

    def cache(slots: Number) -> Number:
        """Cache of a sequence on a device of the fullest stage. [B]"""
        return kv_bytes_per_sequence(deployment, slots, stage=stages[memory.stage])

    state = float(cache(0.0))
    token = float(cache(1.0)) - state
    longest, grown = workload.longest, _grown(workload)

    def whole(name: str, title: str, slots: float) -> Scheme:
        """Scheme that reserves one piece from the start."""
        waiting, held = longest - workload.prompt - grown, samples * float(cache(slots))
        each = samples * slots
        return Scheme(name, title, each, each, samples * waiting, held, held)

    prompt, answer = float(workload.prompt), float(longest - workload.prompt)
    shared = prompt // size * size
    mean = _mean_paged(workload, size, 0.0)
    rest = _mean_paged(workload, size, shared)
    slots, weights = _paged_lengths(workload, size)
    one = cache(slots)
    # What an answer keeps beyond the shared pages is as much as a sequence of its own would keep.
    more = (samples - 1) * cache(slots - shared)
    schemes: tuple[Scheme, ...] = (
        whole("reserved", f"{most:,} tokens reserved", float(most)),
        whole(
            "power-of-two",
            "a power of two reserved",
            prompt + float(power_of_two(workload.output)),
        ),
        whole("exact", "the exact length reserved", float(longest)),
        Scheme(
            "paged",
            f"pages of {size}",
            samples * float(paged_slots(float(longest), size)),
            samples * mean,
            0.0,
            samples * float(np.broadcast_to(one, slots.shape)[-1]),
            samples * float(np.average(np.broadcast_to(one, slots.shape), weights=weights)),
        ),
        Scheme(
            "shared",
            f"pages of {size}, prompt shared",
            float(shared_slots(samples, prompt, answer, size)),
            shared + samples * rest,
            0.0,
            float(np.broadcast_to(one + more, slots.shape)[-1]),
            float(np.average(np.broadcast_to(one + more, slots.shape), weights=weights)),
        ),
    )
    if samples == 1:  # nobody to share with
        schemes = schemes[:-1]
    groups = int(deployment.layout.dp)

    def fitting(held: float) -> int:
        return max(floor(memory.pool / held), 0) * groups if held else MOST_SEQUENCES

    def filled(scheme: Scheme) -> Scheme:
        steady = fitting(scheme.mean_held)
        decoded, spread = _decoded(deployment, workload, steady * samples)
        return replace(
            scheme,
            requests=fitting(scheme.held),
            steady=steady,
            tok_s=decoded,
            log_sd=spread,
        )

    return Paged(
        deployment=deployment,
        workload=workload,
        samples=samples,
        page=size,
        reserved=most,
        memory=memory,
        token_bytes=token,
        state_bytes=state,
        mean_tokens=prompt + samples * grown + (samples - 1) * (prompt - shared),
        copied=float(copied_pages(samples, prompt, size)),
        schemes=tuple(map(filled, schemes)),
    )


def _grown(workload: Workload) -> float:
    """Tokens of an answer that are cached, mean over its decode steps. [token]"""
    return workload.output / 2 if workload.output > 1 else 0.0


def _mean_paged(workload: Workload, page: int, shared: float) -> float:
    """Slots of an answer beside what it shares, mean over its decode steps. [token]"""
    if workload.output == 1:
        return float(paged_slots(workload.prompt - shared, page))
    first, last = workload.prompt + 1 - shared, workload.longest - shared
    return float(mean_paged_slots(first, last, float(page)))


def _paged_lengths(workload: Workload, page: int) -> tuple[Array, Array]:
    """Slots of an answer while it grows, and how many of its decode steps have as many.

    Returns:
        Multiples of a page, ascending [token]; steps of each. [1]
    """
    first, last = min(workload.prompt + 1, workload.longest), workload.longest
    ends = page * np.arange(-(-first // page), -(-last // page) + 1, dtype=float)
    within = np.minimum(ends, last) - np.maximum(ends - page, first - 1)
    return ends, within


def _decoded(deployment: Deployment, workload: Workload, sequences: int) -> tuple[float, float]:
    """Output tokens of so many sequences while they decode, 0 for none; its spread. [token/s]"""
    if not sequences or workload.output == 1:
        return 0.0, 0.0
    batch = replace(workload, batch=min(sequences, MOST_SEQUENCES), prefill_batch=1)
    decoded = static_batch(deployment, batch)
    return decoded.decode_tok_s, decoded.tpot_log_sd


def _check(
    deployment: Deployment, workload: Workload, samples: int, page: int, reserved: int
) -> None:
    """Refuse what has no meaning, or no pages of tokens."""
    network = deployment.architecture
    for name, value, most in (("samples", samples, 2**16), ("page", page, 2**20)):
        if not 1 <= value <= most:
            raise InputError(f"{name} is {value}", hint=f"give a number from 1 to {most:,}")
    if reserved < workload.longest:
        raise InputError(
            f"{reserved} tokens reserved, a sequence grows to {workload.longest}",
            hint=f"reserve {workload.longest} or more",
        )
    mixed = any(isinstance(block.mixer, CompressedAttention) for block in network.kinds)
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


def shared_slots(samples: Number, prompt: Number, answer: Number, page: Number) -> Number:
    """Slots of some answers to a prompt whose whole pages they share. [token]

    ⌊P/g⌋·g once; then each its own, the rest of the prompt included: that page is shared until an
    answer writes to it, and copied then.

    Source: Kwon et al. 2023 (arXiv 2309.06180), section 4.4, parallel sampling.

    Args:
        samples: Answers n, at least 1. [1]
        prompt, answer: Tokens P of the prompt and t of each answer. [token]
        page: Tokens of a page. [token]

    Examples:
        >>> float(shared_slots(2, prompt=40, answer=10, page=16))  # 2 pages, and 2 each
        96.0
    """
    return samples_held(samples, prompt, answer, page=page)


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


def mean_paged_slots(first: Number, last: Number, page: Number) -> Number:
    """Mean of ⌈S/g⌉·g over the lengths S from first to last. [token]

    Of the lengths 1 … S, each full page q = ⌊S/g⌋ holds g, and S mod g more are in one further:
    g·q(q + 1)/2 + (S mod g)(q + 1) pages in all. Where every remainder of a length is as likely,
    (g − 1)/2 slots are empty. Source: counting.

    Args:
        first, last: Whole numbers, both included. [token]
        page: Tokens of a page. [token]

    Examples:
        >>> float(mean_paged_slots(1, 16, page=16)), float(mean_paged_slots(16, 17, page=16))
        (16.0, 24.0)
    """

    def up_to(tokens: Number) -> Number:
        full = np.floor(tokens / page)
        return page * full * (full + 1.0) / 2.0 + (tokens - full * page) * (full + 1.0)

    return page * (up_to(last) - up_to(first - 1.0)) / (last - first + 1.0)
