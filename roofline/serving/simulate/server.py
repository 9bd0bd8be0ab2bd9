"""Scheduling policy of a server, and how it gives out the memory of its cache."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from roofline.cost.adapters import NO_ADAPTERS, Lora
from roofline.errors import InputError

Policy = Literal["static", "packed", "dynamic", "continuous", "chunked"]
First = Literal["decode", "prefill"]
Admission = Literal["whole", "chunk"]
Memory = Literal["pages", "contiguous"]
Region = Literal["longest", "power", "exact"]
Preemption = Literal["recompute", "swap"]
POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)
BATCHED: Final = ("static", "packed", "dynamic")
"""Policies in which nobody joins a batch that runs."""
MOST_SEQUENCES: Final = 2**16
UNLIMITED: Final = 2**50
"""Tokens of a cache that holds everything; sums of them lose no unit."""


@dataclass(frozen=True, slots=True)
class Server:
    """Policy of a server.

    Source: Yu et al. 2022 (Orca, OSDI) for batches that sequences join and leave; Kwon et al. 2023
    (arXiv 2309.06180) for pages, preemption and the regions of contiguous memory; Agrawal et al.
    2024 (arXiv 2403.02310) for chunked prefill; Gao et al. 2024 (CachedAttention, arXiv 2403.19708)
    for caches that are kept on the host. Looks and what is handed over together: SGLang's server
    arguments ``--scheduler-recv-interval`` and ``--stream-interval`` (docs.sglang.ai, advanced
    features); TensorRT-LLM's ``stream_interval``.
    """

    policy: Policy = "chunked"
    """``"static"``: a batch is gathered, padded to its longest prompt and answer, and runs to its
    end; answers are returned together. ``"packed"``: the same without padding, each answer is
    returned at its own end. ``"dynamic"``: padded, but a batch does not wait for others longer
    than ``timeout_s``. ``"continuous"``: sequences join and leave at every step, prompts are
    prefilled whole. ``"chunked"``: the same, and prompts are cut to fill ``token_budget``."""
    first: First = "decode"
    """Priority in the last two: ``"decode"``: every sequence decodes in every step, and prompts
    fill what is left of it. ``"prefill"``: as long as there are prompts, steps only prefill."""
    max_sequences: int = 256
    """Sequences that run at once, or of a batch. [1]"""
    token_budget: int = 0
    """New tokens of a step; 0 for no limit. A prompt that is not cut is the first of its step, or
    has room in what is left. A batch that nobody joins is prefilled in one step. [token]"""
    admission: Admission = "whole"
    """Room in pages for which a prompt that is cut is admitted: ``"whole"``: that of all of it;
    ``"chunk"``: that of what its step computes. It takes more with every chunk, and where there is
    none it loses its place and begins again. Source: vLLM, ``SchedulerConfig``:
    ``scheduler_reserve_full_isl``, and ``Scheduler.schedule`` at 00024d31, which has none."""
    oversized: Literal["joins", "waits"] = "joins"
    """Prompt that is not cut and does not fit beside those that decode: ``"joins"`` them as the
    first of its step, or ``"waits"`` until it fits. Source: TensorRT-LLM,
    ``PyMicroBatchScheduler.schedule`` at 034fffb0, for those that wait."""
    drafted: int = 0
    """Tokens that each sequence drafts for a decode step, which verifies them: it takes as many
    more of the budget, and of the cache from its admission on. Source: vLLM v0.11,
    ``vllm/v1/core/sched/scheduler.py``, ``schedule``: ``num_tokens_with_spec`` less what is
    computed is taken of the budget, and ``allocate_slots`` gives room for all of them. [token]"""
    timeout_s: float = 0.0
    """Longest wait of the first request of a dynamic batch. [s]"""
    kv_tokens: int = UNLIMITED
    """Room for keys and values. [token]"""
    kv: Memory = "pages"
    """``"pages"``: given out a page at a time. ``"contiguous"``: one region for each sequence,
    taken when it is admitted, the first that is large enough."""
    page: int = 16
    """Tokens of a page. [token]"""
    region: Region = "longest"
    """Size in contiguous memory: ``"longest"``: ``longest`` tokens for each; ``"power"``: the power
    of two that holds the request; ``"exact"``: what it will need, known by an oracle."""
    longest: int = 0
    """Context that the longest region holds. [token]"""
    reservation: float = 0.0
    """Share of each answer for which there must be room, beside that of all that run, before a
    sequence is admitted to pages; 1 so that none is preempted. [1]"""
    preemption: Preemption = "recompute"
    """Fate of the last sequence where pages run out: ``"recompute"``: its cache is dropped and
    computed again; ``"swap"``: it goes to the host and comes back."""
    host_tokens: int = UNLIMITED
    """Room on the host; a sequence for which there is none is computed again. [token]"""
    swap_s_per_token: float = 0.0
    """Time to move a token's cache between device and host, during which nothing runs. [s]"""
    recv_interval: int = 1
    """Decode steps from one look at new requests to the next; a step with prompts is followed by a
    look at once, and so is one after which nothing runs. Without meaning for `BATCHED`. [1]"""
    hold_steps: int = 0
    hold_prompts: int = 1
    """Steps from one start of prompts to the next while something decodes, unless so many wait:
    engines whose copies of attention go on in step let prompts wait until each copy has one.
    0 steps for no such wait. [1]"""
    stream_interval: int = 1
    """Tokens of an answer that the front end hands over together. [token]"""
    cold: bool = False
    """Whether it has just started: the first step with prompts takes longer."""
    sharing: bool = False
    """Whether pages of equal prefixes are kept once, and kept on as long as there is room."""
    tier_tokens: int = 0
    """Room on the host for such pages that had to leave the device; those used last are kept.
    They come back as fast as a cache that is swapped does, before the step that needs them
    and while nothing else runs; leaving goes on beside the steps. 0 for none. [token]"""
    disk_tokens: int = 0
    """Room on the host's drives for what has to leave its memory, those used last; a page goes back
    to that memory when it is asked for. 0 for none. [token]"""
    disk_s_per_token: float = 0.0
    """Time to bring a token's cache from there to the device, likewise. [s]"""
    pooled: bool = False
    """Whether that room is no drive but a pool on the network, which replicas share: every whole
    page of a prompt is there as soon as it is computed, beside the steps, and stays until those
    used longest ago have to go. Source: Mooncake, Qin et al. 2024 (arXiv 2407.00079), section 4;
    LMCache, Liu et al. 2025 (arXiv 2510.09665), for pages that are stored as they are made."""
    lora: Lora = NO_ADAPTERS
    """Adapters that requests ask for."""
    adapter_load_s: float = 0.0
    """Time to load one that is not on the device; 0 where all are. [s]"""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        kinds = {"policy": Policy, "first": First, "kv": Memory, "admission": Admission}
        for name, kind in {**kinds, "region": Region, "preemption": Preemption}.items():
            if (value := getattr(self, name)) not in get_args(kind):
                raise InputError(
                    f"{name} is {value!r:.40}", hint=f"it is one of {', '.join(get_args(kind))}"
                )
        for name, least in LEAST.items():
            if not (value := getattr(self, name)) >= least:
                raise InputError(
                    f"{name.replace('_', ' ')} is {value}", hint=f"give {least} or more"
                )
        each = 1 + self.drafted
        batched, contiguous = self.policy in BATCHED, self.kv == "contiguous"
        for wrong, message, hint in (
            (
                self.max_sequences > MOST_SEQUENCES,
                f"{self.max_sequences} sequences at once",
                f"give up to {MOST_SEQUENCES:,}",
            ),
            (
                not 0 <= self.reservation <= 1,
                f"reservation is {self.reservation:g}",
                "give a share from 0 to 1",
            ),
            (
                0 < self.token_budget < self.max_sequences * each
                and self.first == "decode"
                and not batched,
                f"a step of {self.token_budget} tokens does not hold {each if each > 1 else 'one'} "
                f"of each of {self.max_sequences} sequences",
                "raise the token budget, or run fewer sequences at once",
            ),
            (
                self.policy == "chunked" and self.token_budget == 0 and self.first == "prefill",
                "chunks of a prefill have no size",
                "give a token budget, or policy continuous",
            ),
            (
                contiguous and (self.sharing or batched),
                f"contiguous memory with {'sharing' if self.sharing else self.policy + ' batches'}",
                "prefixes are shared in pages; batches take theirs at once: use pages",
            ),
            (
                contiguous and self.region == "longest" and not self.longest,
                "the longest context is not given",
                "every sequence takes so much: say how long a context may become",
            ),
            (
                self.tier_tokens and not self.sharing,
                "room on the host for prefixes that nobody shares",
                "share prefixes",
            ),
            (
                self.disk_tokens and not self.tier_tokens and not self.pooled,
                "room on drives for prefixes, but none in the host's memory before them",
                "give room on the host, too",
            ),
            (
                self.admission == "chunk"
                and (self.policy != "chunked" or self.first == "prefill" or contiguous),
                "memory that grows with chunks, of prompts that are not cut beside decoding",
                "leave out `admission`, or use policy chunked with pages and first decode",
            ),
            (
                self.pooled and not (self.sharing and self.disk_tokens >= self.page),
                "a pool of prefixes that has no room for a page, or prefixes that nobody shares",
                "give it room, and share prefixes",
            ),
            (
                self.sharing and batched,
                f"prefixes are not shared in {self.policy} batches",
                "use policy continuous or chunked",
            ),
        ):
            if wrong:
                raise InputError(message, hint=hint)

    @property
    def pages(self) -> int:
        """Whole pages of the cache. [1]"""
        return self.kv_tokens // self.page

    @property
    def tier_pages(self) -> int:
        """Whole pages that the host keeps. [1]"""
        return self.tier_tokens // self.page

    @property
    def outside(self) -> int:
        """Room for prefixes outside the device. [token]"""
        return self.tier_tokens + self.disk_tokens

    def most_tokens(self, prompt: int, output: int) -> int:
        """Most cache that a request takes, its last page or its region included. [token]

        The last token of an answer is never cached; drafted ones are. Source: `Server`.

        Args:
            prompt, output: Tokens of the prompt and of the answer. [token]
        """
        whole = prompt + output - 1 + self.drafted
        if self.kv == "pages":
            return -(-whole // self.page) * self.page
        if self.region == "power":
            return 1 << (whole - 1).bit_length()
        return whole if self.region == "exact" else max(self.longest, whole)


_FROM_1: Final = (
    *("max_sequences", "kv_tokens", "page", "recv_interval", "stream_interval", "hold_prompts"),
)
_FROM_0: Final = (
    *("token_budget", "timeout_s", "hold_steps", "longest", "host_tokens", "swap_s_per_token"),
    *("tier_tokens", "drafted", "disk_tokens", "disk_s_per_token"),
)
LEAST: Final = {**dict.fromkeys(_FROM_1, 1), **dict.fromkeys(_FROM_0, 0)}
"""Least value of each setting."""
