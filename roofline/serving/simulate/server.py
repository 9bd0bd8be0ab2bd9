"""Scheduling policy of a server, and the room for its cache.

`Server` is what the simulator is given; `server_of` makes one from the policy of an engine and the
room that a deployment leaves.
"""

import math
from typing import Final, Literal, get_args

import numpy as np
from msgspec import Struct

from roofline.cost.adapters import NO_ADAPTERS, Lora
from roofline.cost.deployment import Deployment, Offload
from roofline.cost.memory import budget
from roofline.cost.sampling import beams_held
from roofline.cost.step import outside_bytes_per_s
from roofline.errors import InfeasibleError, InputError, not_one_of
from roofline.hardware.links import host_link
from roofline.hardware.serving_engine import Engine
from roofline.records import replace
from roofline.serving.adapters import load_s
from roofline.serving.requests import Requests
from roofline.serving.workload import MOST_TOKENS
from roofline.units import counted, show_binary

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


class Server(Struct, frozen=True):
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
                raise not_one_of(name, value, get_args(kind))
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


SHARED_PAGE: Final = 16
"""Least tokens of a page whose content is looked up by its hash."""


class ServerOptions(Struct, frozen=True):
    r"""Settings of the server; None for what its engine does.

    Attributes:
        policy, first, admission, max_sequences, token_budget, timeout_s, preemption, \
        recv_interval, stream_interval, cold: As in `Server`.
        dp_timeout_iters: Steps that prompts wait at most until every copy of attention has one; 0
            where they do not. [1]
        contiguous: Whether each sequence has one region as long as the longest request, as before
            paging.
        sharing: Whether equal prefixes are kept once.
        tier_bytes: Memory of the host for prefixes that leave the devices of a replica. [B]
        disk_bytes: Room on its drives for those that leave that memory. [B]
        pool_bytes: Room on the network for those of all replicas. [B]
    """

    policy: Policy | None = None
    first: Literal["decode", "prefill"] | None = None
    admission: Admission = "whole"
    max_sequences: int | None = None
    token_budget: int | None = None
    timeout_s: float = 0.0
    preemption: Literal["recompute", "swap"] = "recompute"
    contiguous: bool = False
    sharing: bool | None = None
    tier_bytes: float = 0.0
    disk_bytes: float = 0.0
    pool_bytes: float = 0.0
    recv_interval: int = 1
    stream_interval: int = 1
    cold: bool = False
    dp_timeout_iters: int = 0


def server_of(
    deployment: Deployment, asked: ServerOptions, requests: Requests, utilization: float | None
) -> Server:
    """Server of a replica.

    Args:
        deployment: Network, devices, formats, engine.
        asked: Settings that differ from the engine's defaults.
        requests: What will come, of which the lengths say how much a cached token takes.
        utilization: Share of device memory the engine takes; None for its default. [1]

    Raises:
        InfeasibleError: The network leaves no room for a cache.
    """
    engine = deployment.engine
    policy = asked.policy or engine.policy
    # Groups with sequences of their own have schedulers of their own.
    groups = int(deployment.layout.dp)
    alone = policy in BATCHED
    tokens = asked.token_budget
    if tokens is None:
        tokens = int(deployment.step_tokens)
    sequences = asked.max_sequences
    if sequences is None:
        sequences = deployment.sequences * groups
        if asked.token_budget and not alone:
            # As vLLM does by itself: a step has a token of each sequence that decodes.
            sequences = min(sequences, asked.token_budget)
    if asked.sharing and (alone or asked.contiguous):
        raise InputError(
            f"prefixes are not shared in {'contiguous memory' if asked.contiguous else 'batches'}",
            hint="leave out `prefix_caching`",
        )
    sharing = not alone and not asked.contiguous and asked.sharing is not False
    if asked.tier_bytes and not sharing:
        raise InputError(
            "room on the host for prefixes that nobody shares",
            hint="leave out `host_cache`, or share prefixes",
        )
    if asked.pool_bytes and not sharing:
        raise InputError(
            "a pool of prefixes that nobody shares",
            hint="leave out `cache_pool`, or share prefixes",
        )
    server = Server(
        policy=policy,
        first=asked.first or engine.first,
        admission=asked.admission,
        # Without a word on the budget an engine is taken to be started with one that is enough.
        oversized="waits" if engine.fits and asked.token_budget and not asked.policy else "joins",
        max_sequences=sequences,
        token_budget=0 if alone else tokens,
        timeout_s=asked.timeout_s,
        kv="contiguous" if asked.contiguous else "pages",
        page=page_of(engine, sharing=sharing),
        longest=int((requests.prompt + requests.output).max()),
        reservation=engine.reservation,
        preemption=asked.preemption,
        recv_interval=asked.recv_interval,
        hold_steps=asked.dp_timeout_iters,
        hold_prompts=until_all_have_one(groups),
        stream_interval=asked.stream_interval,
        cold=asked.cold,
        sharing=sharing,
    )
    placed = with_cache(
        deployment,
        server,
        context=typical(requests),
        utilization=utilization,
        tier_bytes=asked.tier_bytes,
        disk_bytes=asked.disk_bytes,
        pool_bytes=asked.pool_bytes,
    )
    return beaming(replace(placed, token_budget=server.token_budget), deployment, requests)


def beaming(server: Server, deployment: Deployment, requests: Requests) -> Server:
    """Server whose sequences are all beams of a prompt; as it is where there is one beam.

    A search takes as many sequences, and tokens of a step, as it has beams. Pages that beams have
    in common are held once: the cache is cut by what a search of mean length holds, over all its
    steps, beyond what it is counted for. Source: `roofline.cost.sampling.beams_held`.

    Raises:
        InfeasibleError: It does not run as many sequences as a search has beams.
    """
    beams = deployment.options.sampling.beams
    if beams == 1:
        return server
    limit = min(server.max_sequences, server.token_budget or server.max_sequences)
    if limit < beams:
        raise InfeasibleError(
            f"{counted(limit, 'sequence')} at once, and {beams} beams of each prompt",
            hint="raise `max_sequences` or `token_budget`, or search with fewer beams",
        )
    wide = replace(server, drafted=beams - 1, max_sequences=limit // beams)
    prompt = round(float(requests.prompt.mean()))
    made = np.arange(1.0, max(round(float(requests.output.mean())), 2))
    held = beams_held(beams, prompt, made, page=server.page)
    known = np.ceil((prompt + made + wide.drafted) / server.page) * server.page
    room = server.kv_tokens * float(np.sum(known)) / float(np.sum(held))
    return replace(wide, kv_tokens=int(room))


def until_all_have_one(groups: int) -> int:
    """Prompts until each copy of attention has one, if each goes to any of them: n·Σ 1/k. [1]

    Examples:
        >>> [until_all_have_one(groups) for groups in (1, 2, 8)]
        [1, 3, 22]
    """
    return math.ceil(groups * sum(1.0 / k for k in range(1, groups + 1)))


def page_of(engine: Engine, *, sharing: bool) -> int:
    """Tokens of a page of an engine's cache; of one that is looked up, at least 16. [token]"""
    page = max(int(engine.block_tokens), 1)
    return max(page, SHARED_PAGE) if sharing else page


def typical(requests: Requests) -> int:
    """Context that a cached token is of, on average: long sequences have more of them. [token]"""
    whole = (requests.prompt + requests.output).astype(np.float64)
    return max(round(float((whole * whole).sum() / whole.sum())), 1)


def with_cache(
    deployment: Deployment,
    server: Server,
    *,
    context: int,
    utilization: float | None = None,
    tier_bytes: float = 0.0,
    disk_bytes: float = 0.0,
    pool_bytes: float = 0.0,
) -> Server:
    """A server with the cache that is left on a deployment's devices.

    Every device holds its share of each sequence, or of some sequences where there are groups with
    their own; the stage with least room counts. A cache that moves to the host does so on all
    devices at once. Source: `roofline.cost.memory.budget`.

    Args:
        deployment: Network, node, formats, layout, engine.
        server: Its policy; the token budget is the engine's where it has none.
        context: Length of a sequence at which its cache is counted: what a window no longer sees is
            not kept, so that longer sequences take less for each token. [token]
        utilization: Share of device memory the engine takes; None for its default. [1]
        tier_bytes: Of the host, for prefixes that leave the devices. [B]
        disk_bytes: Of its drives, for those that leave its memory; every device has one drive. [B]
        pool_bytes: On the network, for those of all replicas, in place of drives; every device
            reads its part at its own rate of the network. [B]

    Raises:
        InputError: There is no link to the host, or no network, whose rate is known.
        InfeasibleError: Nothing is left, or less than a page.
    """
    limit = server.token_budget or int(deployment.step_tokens)
    tokens = max(limit or context, server.max_sequences)
    memory = budget(
        deployment,
        batch=float(deployment.layout.dp),
        context=float(context),
        step_tokens=float(tokens),
        step_rows=float(server.max_sequences),
        utilization=utilization,
    )
    groups = float(deployment.layout.dp)
    room = memory.pool / memory.kv * context * groups if memory.kv else float(MOST_TOKENS)
    if memory.pool <= 0 or room < server.page:
        raise InfeasibleError(
            f"{deployment.architecture.name} leaves no room for a cache: "
            f"{show_binary(max(-memory.pool, 0.0))} too much on a device",
            hint="give more devices, a narrower format, or a smaller token budget",
        )
    wired = host_link(deployment.node.gpu) is not None
    moved = memory.kv / context / groups
    joined = server.policy not in BATCHED
    if tier_bytes and not (wired and moved):
        raise InputError(
            f"a cache on the host of {deployment.node.gpu.name}",
            hint="give a device whose link to the host is known, and a network with a cache",
        )
    if pool_bytes:
        if disk_bytes:
            raise InputError(
                "a pool of prefixes beside drives", hint="leave out `nvme_cache` or `cache_pool`"
            )
        if (network := deployment.node.network) is None or not moved:
            raise InputError(
                f"a pool of prefixes for {deployment.node.name}",
                hint="give a node whose file states its network, and a network with a cache",
            )
        pool = int(pool_bytes / (moved * deployment.devices))
        each = moved / network.rate_between_nodes
        server = replace(server, disk_tokens=pool, disk_s_per_token=each, pooled=True)
    lora = deployment.options.lora
    drives = replace(deployment, offload=Offload(to="nvme"))
    server = replace(
        server,
        lora=lora,
        adapter_load_s=load_s(deployment) if lora.moves else 0.0,
        kv_tokens=int(room),
        token_budget=int(max(limit, server.max_sequences) if limit and joined else limit),
        swap_s_per_token=moved / outside_bytes_per_s(deployment) if wired else 0.0,
        tier_tokens=int(tier_bytes / (moved * deployment.devices)) if tier_bytes else 0,
    )
    if pool_bytes:
        return server
    return replace(
        server,
        disk_tokens=int(disk_bytes / (moved * deployment.devices)) if disk_bytes else 0,
        disk_s_per_token=moved / outside_bytes_per_s(drives) if wired else 0.0,
    )
