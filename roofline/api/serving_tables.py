"""What a server is told, as tables and as commands of roofline."""

import shlex
from collections.abc import Sequence
from typing import Any

from roofline.cost.deployment import Deployment
from roofline.interop.commands import targets
from roofline.interop.commands.served import Served
from roofline.table import Table, table


def about(served: Served, deployment: Deployment) -> dict[str, Any]:
    """What is served, on what, as plain values."""
    gpu = deployment.node.gpu
    return {
        "engine": served.engine,
        "model": deployment.architecture.name,
        "checkpoint": served.model,
        "gpu": gpu.name,
        "gpu_title": gpu.title,
        "gpus": served.replicas * deployment.devices,
        "replicas": served.replicas,
        "layout": deployment.layout.spelled,
        "weights": deployment.precision.weights.name,
        "kv": deployment.precision.kv.name,
    }


def settings(served: Served, deployment: Deployment, share: float | None) -> Table:
    """What the server is told, in words."""
    draft = served.speculation
    drafts = "none" if draft is None else f"{draft.tokens} by {draft.method} {draft.model}".strip()
    outside = deployment.offload.weights
    rows = {
        "engine": served.engine,
        "checkpoint": served.model,
        "layout": str(deployment.layout),
        "replicas": str(served.replicas),
        "weights": deployment.precision.weights.name + ("" if served.weights else ", as stored"),
        "KV cache": deployment.precision.kv.name,
        "memory": "the engine's own share" if share is None else f"{share:.4g} of each device",
        "sequences at once": _or_own(served.max_sequences),
        "new tokens of a step": _or_own(served.token_budget),
        "steps between looks at new requests": f"{served.recv_interval:,}",
        "tokens sent together": f"{served.stream_interval:,}",
        "steps that prompts wait for others": f"{served.dp_timeout_iters:,}",
        "longest sequence": _or_own(served.max_context),
        "chunked prefill": "yes" if served.chunked_prefill else "no",
        "prefix caching": "yes" if served.prefix_caching else "no",
        "CUDA graphs": "yes" if served.cuda_graphs else "no",
        "weights on the host": f"{outside:.4g} of the layers" if outside else "none",
        "drafted tokens": drafts,
    }
    return table([{"setting": name, "value": value} for name, value in rows.items()], {})


def _or_own(value: int | None) -> str:
    return "the engine's own" if value is None else f"{value:,}"


def asking(
    served: Served, deployment: Deployment, share: float | None, node: list[str]
) -> tuple[str, str]:
    """Commands of roofline about the same deployment."""
    layout, outside = deployment.layout, deployment.offload.weights
    replicas = served.replicas * deployment.devices if served.replicas > 1 else None
    same = [
        ("--gpu", deployment.node.gpu.name),
        ("--node", *node),
        ("--layout", layout.spelled if deployment.devices > 1 else ""),
        ("--gpus", replicas),
        ("--weights", served.weights),
        ("--kv", "" if served.kv == "auto" else served.kv),
        ("--engine", targets.PRICED_AS[served.engine]),
        ("--memory-utilization", None if served.memory is None else f"{share:.4g}"),
    ]
    stages = ",".join(map(str, layout.stages))
    analyze = [("--stages", stages), ("--offload-weights", f"{outside:.4g}" if outside else "")]
    simulate = [
        ("--max-sequences", served.max_sequences),
        ("--token-budget", served.token_budget),
        ("--recv-interval", served.recv_interval if served.recv_interval > 1 else None),
        ("--stream-interval", served.stream_interval if served.stream_interval > 1 else None),
        ("--dp-timeout-iters", served.dp_timeout_iters or None),
    ]
    eager = "" if served.cuda_graphs else " --no-cuda-graphs"
    return (
        _asked("analyze", deployment, [*same, *analyze]) + eager,
        _asked("simulate", deployment, [*same, *simulate])
        + eager
        + ("" if served.prefix_caching else " --no-prefix-caching"),
    )


def _asked(question: str, deployment: Deployment, given: Sequence[tuple[Any, ...]]) -> str:
    """A command of roofline; options without a value are left out."""
    words = [str(word) for option in given if option[1:] and option[1] for word in option]
    return shlex.join(["roofline", question, deployment.architecture.name, *words])
