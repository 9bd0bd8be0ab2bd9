"""Device memory of a workload, and the largest batch, context and offload that fit."""

from collections.abc import Callable

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.cost.memory import MemoryBudget, budget
from roofline.cost.sampling import own_tokens
from roofline.cost.work import Number
from roofline.errors import LayoutError, RooflineError
from roofline.records import replace
from roofline.serving.workload import MOST_SEQUENCES, MOST_TOKENS, Workload, branches
from roofline.table import Table, table
from roofline.units import show_binary


def memory_of(
    deployment: Deployment, workload: Workload, utilization: float | None
) -> MemoryBudget:
    """Memory of one device at the longest context of the workload.

    The largest step is the prefill, as far as the engine does not cut it into chunks, or the decode
    step; without a cache it is the last step, which computes the whole context. The engine takes
    a share of the memory [1], None for its default.
    """
    each = branches(deployment, workload)
    tokens, rows = float(step_tokens(deployment, workload)), workload.batch * each
    return budget(
        deployment,
        batch=workload.batch,
        context=workload.longest,
        step_tokens=max(tokens, float(rows)),
        step_rows=rows,
        utilization=utilization,
        cached=workload.kv_cache,
        further=each - 1,
        own=float(own(deployment, workload)),
    )


def own(deployment: Deployment, workload: Workload) -> Number:
    """Tokens that each further answer or beam of a prompt keeps beside those of the first. [token]

    See `roofline.cost.sampling.own_tokens`; the answer is as long as the last step leaves it.
    """
    return own_tokens(
        workload.samples,
        deployment.options.sampling.beams,
        workload.prompt,
        workload.output - 1,
        page=max(int(deployment.engine.block_tokens), 1),
    )


def step_tokens(
    deployment: Deployment, workload: Workload, together: Number | None = None
) -> Number:
    """New tokens of the largest step but decode, of all devices. [token]

    Prompts of a step are as many as the workload says, if no other number is given. [1]
    """
    if not workload.kv_cache:
        return float(workload.batch * workload.longest)
    prompts = float(workload.together) if together is None else together
    tokens = prompts * (workload.prompt - workload.cached)
    limit = deployment.step_tokens
    return np.minimum(tokens, limit) if np.any(limit) else tokens


def prompts_in_a_step(deployment: Deployment, new: Number) -> Number:
    """Whole prompts of new tokens [token] that a step has room for; at least one. [1]"""
    limit = deployment.step_tokens
    return np.maximum(np.floor(limit / new), 1.0) if np.any(limit) else float(MOST_SEQUENCES)


def enough(deployment: Deployment, workload: Workload, utilization: float | None) -> Deployment:
    """The deployment with the least share of its weights on the host that makes it fit.

    LayoutError where it does not fit even with every layer on the host.
    """

    def keeping(share: float) -> Deployment:
        offload = replace(deployment.offload, weights=share, least=True)
        return replace(deployment, offload=offload)

    if memory_of(keeping(0.0), workload, utilization).fits:
        return keeping(0.0)
    held = memory_of(keeping(1.0), workload, utilization)
    if not held.fits:
        raise LayoutError(
            f"{deployment.architecture.name} does not fit with every layer on the host: "
            f"{show_binary(-held.free)} too much on a device",
            hint="give a smaller `batch` or `prompt`, a smaller `kv` format, or `offload_kv`",
        )
    parts = 1000
    most = most_that_fits(
        lambda kept: memory_of(keeping(1 - kept / parts), workload, utilization).free, parts
    )
    return keeping(1 - most / parts)


def largest_batch(deployment: Deployment, workload: Workload, utilization: float | None) -> int:
    """Most sequences that fit at these lengths; 0 where not even one does. [1]"""

    def free(batch: int) -> float:
        together = min(workload.prefill_batch, batch)
        changed = replace(workload, batch=batch, prefill_batch=together)
        return memory_of(deployment, changed, utilization).free

    return most_that_fits(free, MOST_SEQUENCES)


def largest_context(deployment: Deployment, workload: Workload, utilization: float | None) -> int:
    """Longest context that fits at this batch and length of answer. [token]

    The network's own limit holds; 0 where not even a prompt of one token fits.
    """
    network_limit = deployment.architecture.max_context or MOST_TOKENS
    answer = 0 if deployment.architecture.is_encoder else workload.output
    most = max(min(network_limit, MOST_TOKENS) - answer, 1)

    def free(prompt: int) -> float:
        return memory_of(deployment, replace(workload, prompt=prompt), utilization).free

    prompt = most_that_fits(free, most)
    return prompt + workload.output - 1 if prompt else 0


def most_adapters(deployment: Deployment, memory: MemoryBudget) -> int:
    """Most LoRA adapters that fit on a device beside all else; 0 where not even one does. [1]"""
    kept = deployment.options.lora.kept
    return max(int(kept + memory.free // (memory.adapters / kept)), 0)


def host_memory(deployment: Deployment) -> float | None:
    """Memory of the host of a node; None where no file says, or storage is used. [B]"""
    host = deployment.node.host
    return host.memory_bytes if host is not None and deployment.offload.to == "cpu" else None


def on_a_host(deployment: Deployment, memory: MemoryBudget, replicas: int) -> float:
    """Memory that devices of a node take on its host, with as many replicas as fit. [B]"""
    return memory.host * min(deployment.devices * replicas, deployment.node.gpus)


def fits(deployment: Deployment, memory: MemoryBudget, replicas: int = 1) -> bool:
    """Whether replicas of a batch fit on their devices and, as far as is known, on their host."""
    room = host_memory(deployment)
    return memory.fits and (room is None or on_a_host(deployment, memory, replicas) <= room)


def fewest_devices(
    deployment: Deployment, workload: Workload, utilization: float | None
) -> Layout | None:
    """Layout with the least tensor parallelism, beyond that in use, that fits on one node."""
    layout = deployment.layout
    for tp in range(int(layout.tp) + 1, deployment.node.gpus + 1):
        wider = replace(layout, tp=tp)
        if wider.devices > deployment.node.gpus:
            return None
        try:
            other = replace(deployment, layout=wider)
        except RooflineError:
            continue
        if memory_of(other, workload, utilization).fits:
            return wider
    return None


def most_that_fits(free: Callable[[int], float], most: int) -> int:
    """Largest number up to a bound for which it fits, 0 where not even one does.

    A sequence or a token takes about as much however many there are: lines between two numbers meet
    the last that fits in a few looks, whose number is bounded by every third being in the middle.

    Args:
        free: Memory that a number leaves, negative where it does not fit; never more with more. [B]
        most: The bound. [1]

    Examples:
        >>> most_that_fits(lambda number: 10.0 - 3.0 * number, 100)
        3
    """
    if most < 1 or (above := free(1)) < 0:
        return 0
    if (below := free(most)) >= 0:
        return most
    low, high, look = 1, most, 0
    while high - low > 1:
        look += 1
        share = above / (above - below) if look % 3 else 0.5
        number = min(max(low + int(share * (high - low)), low + 1), high - 1)
        if (left := free(number)) >= 0:
            low, above = number, left
        else:
            high, below = number, left
    return low


def memory_table(memory: MemoryBudget, drafting: tuple[float, float] | None = None) -> Table:
    """Memory of one device by part; with weights and cache of what drafts, where given. [B]"""
    weights, kv = drafting or (0.0, 0.0)
    parts = {
        "weights": memory.weights - memory.adapters,
        **({"LoRA adapters": memory.adapters} if memory.adapters else {}),
        **({} if drafting is None else {"weights of the draft": weights}),
        "KV cache": memory.kv,
        **({} if drafting is None else {"KV cache of the draft": kv}),
        "activations": memory.activations,
        "runtime": memory.runtime,
        "CUDA graphs": memory.graphs,
        **({"layers being loaded": memory.buffer} if drafting is None else {}),
        "free": memory.free - weights - kv,
        "not used by the engine": memory.capacity - memory.budget,
    }
    known = {"runtime": "assumed", "CUDA graphs": "assumed", "not used by the engine": "setting"}
    rows = [
        {
            "part": part,
            "bytes": value,
            "share": value / memory.capacity,
            "known": known.get(part, "derived"),
        }
        for part, value in parts.items()
    ]
    return table(rows, {"bytes": "B"})
