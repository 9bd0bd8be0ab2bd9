"""How much room a workload leaves in device memory, and how far it could grow."""

from collections.abc import Callable
from dataclasses import replace

from roofline.cost.deployment import Deployment
from roofline.cost.memory import Memory, budget
from roofline.errors import RooflineError
from roofline.serving.workload import MOST_SEQUENCES, MOST_TOKENS, Workload


def memory_of(deployment: Deployment, workload: Workload, utilization: float | None) -> Memory:
    """Memory of one device at the longest context of the workload.

    The largest step is the prefill, as far as the engine does not cut it into chunks, or the decode
    step; without a cache it is the last step, which computes the whole context.

    Parameters
    ----------
    deployment
        Network, node, formats, layout, engine.
    workload
        Batch and lengths.
    utilization
        Share of device memory the engine takes; None for its default. [1]
    """
    tokens = float(workload.together * (workload.prompt - workload.cached))
    if deployment.engine.step_tokens:  # of each group that has sequences of its own
        tokens = min(tokens, deployment.engine.step_tokens * float(deployment.layout.dp))
    if not workload.kv_cache:
        tokens = float(workload.batch * workload.longest)
    return budget(
        deployment,
        batch=workload.batch,
        context=workload.longest,
        step_tokens=max(tokens, float(workload.batch)),
        step_rows=workload.batch,
        utilization=utilization,
        cached=workload.kv_cache,
    )


def largest_batch(deployment: Deployment, workload: Workload, utilization: float | None) -> int:
    """Most sequences that fit at these lengths; 0 where not even one does. [1]"""

    def fits(batch: int) -> bool:
        together = min(workload.prefill_batch, batch)
        changed = replace(workload, batch=batch, prefill_batch=together)
        return memory_of(deployment, changed, utilization).fits

    return _last(fits, MOST_SEQUENCES)


def largest_context(deployment: Deployment, workload: Workload, utilization: float | None) -> int:
    """Longest context that fits at this batch and length of answer. [token]

    The network's own limit holds; 0 where not even a prompt of one token fits.
    """
    network_limit = deployment.architecture.max_context or MOST_TOKENS
    answer = 0 if deployment.architecture.is_encoder else workload.output
    most = max(min(network_limit, MOST_TOKENS) - answer, 1)

    def fits(prompt: int) -> bool:
        return memory_of(deployment, replace(workload, prompt=prompt), utilization).fits

    prompt = _last(fits, most)
    return prompt + workload.output - 1 if prompt else 0


def fewest_devices(
    deployment: Deployment, workload: Workload, utilization: float | None
) -> int | None:
    """Fewest devices of the node, beyond those in use, on which the workload fits. [1]"""
    for tp in range(int(deployment.tp) + 1, deployment.node.gpus + 1):
        try:
            other = replace(deployment, layout=replace(deployment.layout, tp=tp))
        except RooflineError:
            continue
        if memory_of(other, workload, utilization).fits:
            return tp
    return None


def _last(fits: Callable[[int], bool], most: int) -> int:
    """Largest number up to a bound for which it fits; what does not fit never fits with more."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
