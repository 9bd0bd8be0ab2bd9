"""Server of the simulator from a deployment: policy of the engine, room for the KV cache."""

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from roofline.cost.deployment import Deployment, Offload
from roofline.cost.memory import budget
from roofline.cost.sampling import beams_held
from roofline.cost.step import outside_bytes_per_s
from roofline.errors import InfeasibleError, InputError
from roofline.hardware.links import host_link
from roofline.hardware.serving_engine import Engine
from roofline.serving.adapters import load_s
from roofline.serving.requests import Requests
from roofline.serving.simulate.server import BATCHED, Admission, Policy, Server
from roofline.serving.workload import MOST_TOKENS
from roofline.units import counted, show_binary

SHARED_PAGE: Final = 16
"""Least tokens of a page whose content is looked up by its hash."""


@dataclass(frozen=True, slots=True)
class Asked:
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
    deployment: Deployment, asked: Asked, requests: Requests, utilization: float | None
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
    limit = server.token_budget or deployment.step_tokens
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
        token_budget=max(limit, server.max_sequences) if limit and joined else limit,
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
