"""Device memory of many points at once, as `roofline.serving.room` has it for one."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.cost.memory import held, memory_budget
from roofline.cost.work import Array, Number
from roofline.serving.phases import together
from roofline.serving.room import host_memory
from roofline.study.sweep.lane import Lane
from roofline.study.sweep.points import Points


@dataclass(frozen=True, slots=True)
class Room:
    """Memory of the fullest device.

    Attributes
    ----------
    taken, free
        In use, and left of what the engine takes; negative where it does not fit. [B]
    fits
        Whether it does, on the devices and, as far as is known, on their host.
    """

    taken: Array
    free: Array
    fits: NDArray[np.bool_]


def room(lane: Lane, points: Points) -> Room:
    """Memory of the points of a lane."""
    deployment = lane.deployment
    longest = points.prompt + points.output - 1.0
    parts = held(
        deployment,
        batch=points.batch,
        context=longest,
        step_tokens=np.maximum(_step_tokens(lane, points, longest), points.batch),
        step_rows=points.batch,
        cached=lane.kv_cache,
    )
    budget = memory_budget(deployment, parts, lane.utilization)
    # In the order of `Memory.pool`, so that what just fits there just fits here.
    fixed = (
        parts.weights + parts.activations + deployment.engine.runtime_bytes + deployment.graph_bytes
    )
    free = budget - (fixed + parts.buffer) - parts.kv
    wide = np.broadcast_to(np.asarray(free, np.float64), points.batch.shape)
    fits = wide >= 0.0
    most = host_memory(deployment)
    if most is not None:
        on_host = parts.host * min(lane.gpus, deployment.node.gpus)
        fits = fits & (np.asarray(on_host) <= most)
    return Room(budget - wide, wide, fits)


def _step_tokens(lane: Lane, points: Points, longest: Array) -> Number:
    """New tokens of the largest step but decode: as `roofline.serving.room.step_tokens`."""
    if not lane.kv_cache:
        return points.batch * longest
    deployment = lane.deployment
    new = lane.new(points.prompt)
    tokens = together(deployment, points.batch, new, lane.prefill_batch) * new
    if not deployment.step_tokens:
        return tokens
    return np.minimum(tokens, deployment.step_tokens * deployment.layout.dp)
