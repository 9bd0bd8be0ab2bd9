"""The server that a deployment makes: room for its cache, and how long a token's takes to move."""

from dataclasses import replace

from roofline.cost.deployment import Deployment
from roofline.cost.layers.loading import outside_bytes_per_s
from roofline.cost.memory import budget
from roofline.errors import InfeasibleError, InputError
from roofline.hardware.links import host_link
from roofline.serving.simulate.server import BATCHED, Server
from roofline.serving.workload import MOST_TOKENS
from roofline.units import show_binary


def server_of(
    deployment: Deployment,
    server: Server,
    *,
    context: int,
    utilization: float | None = None,
    tier_bytes: float = 0.0,
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

    Raises:
        InputError: There is no link to the host whose rate is known.
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
    return replace(
        server,
        kv_tokens=int(room),
        token_budget=max(limit, server.max_sequences) if limit and joined else limit,
        swap_s_per_token=moved / outside_bytes_per_s(deployment) if wired else 0.0,
        tier_tokens=int(tier_bytes / (moved * deployment.devices)) if tier_bytes else 0,
    )
