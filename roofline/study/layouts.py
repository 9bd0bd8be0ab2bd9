"""Layouts of a network on a number of GPUs: all that can be, priced together, and the best one."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.cost.memory import held
from roofline.cost.pipeline import finish, finish_with, period
from roofline.cost.work import Array, Number
from roofline.errors import LayoutError
from roofline.serving.quadrature import nodes
from roofline.serving.room import prompts_in_a_step, step_tokens
from roofline.serving.stages import through
from roofline.serving.static import check_context
from roofline.serving.workload import Workload
from roofline.study.enumeration import candidates
from roofline.units import MILLION, SECONDS_PER_HOUR

DEGREES: Final = ("tp", "cp", "dp", "ep", "pp")

CONTEXTS: Final = 9
"""Contexts of an answer that are priced; time is taken as linear between them."""
CONTEXTS_OF_MANY: Final = 3
MANY: Final = 2000
"""Layouts beyond which fewer contexts have to do."""


@dataclass(frozen=True, slots=True)
class Layouts:
    """Figures of layouts, one entry of every array for each.

    Attributes
    ----------
    tp, cp, dp, ep, pp, sequence_parallel
        Degrees of parallelism. [1]
    devices, replicas
        Devices of a replica; replicas that the GPUs are enough for. [1]
    weights, kv, taken, free
        On the fullest device: weights, cache, all that is in use, what the engine has left. [B]
    ttft_s, tpot_s, latency_s
        Of a replica's batch. [s]
    throughput_tok_s
        Output tokens of all replicas. [token/s]
    usd_per_mtok
        Price of a million output tokens on the devices in use; 0 where none is assumed. [$]
    wires
        Share of the time of a decode step that collectives take. [1]
    """

    tp: Array
    cp: Array
    dp: Array
    ep: Array
    pp: Array
    sequence_parallel: Array
    devices: Array
    replicas: Array
    weights: Array
    kv: Array
    taken: Array
    free: Array
    ttft_s: Array
    tpot_s: Array
    latency_s: Array
    throughput_tok_s: Array
    usd_per_mtok: Array
    wires: Array

    def __len__(self) -> int:
        """Layouts."""
        return len(self.tp)

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Whether the batch fits."""
        return np.asarray(self.free >= 0)

    def layout(self, number: int) -> Layout:
        """One of them."""
        tp, cp, dp, ep, pp = (int(getattr(self, name)[number]) for name in DEGREES)
        parallel = bool(self.sequence_parallel[number])
        return Layout(tp=tp, cp=cp, dp=dp, ep=ep, pp=pp, sequence_parallel=parallel)


def price(
    base: Deployment, workload: Workload, gpus: int, utilization: float | None = None
) -> Layouts:
    """Price every layout of a network on up to a number of GPUs.

    Parameters
    ----------
    base
        What runs on which node; its own layout is not used.
    workload
        Batch of one replica, and lengths.
    gpus
        Devices in all. [1]
    utilization
        Share of device memory the engine takes; None for its default. [1]

    Raises
    ------
    LayoutError
        No layout is possible.
    """
    check_context(base, workload)
    groups = list(candidates(base.architecture, base.node, gpus, base.options))
    if not groups:
        raise LayoutError(
            f"{base.architecture.name} cannot be laid out on {gpus} × {base.node.gpu.name}",
            hint="give another number of GPUs, or degrees of a layout to see what is in the way",
        )
    number = sum(np.size(layout.tp) for layout in groups)
    contexts = CONTEXTS if number <= MANY else CONTEXTS_OF_MANY
    priced = [_price(base, layout, workload, gpus, utilization, contexts) for layout in groups]
    return Layouts(
        *(
            np.concatenate([getattr(part, field.name) for part in priced])
            for field in fields(Layouts)
        )
    )


def _price(
    base: Deployment,
    layout: Layout,
    work: Workload,
    gpus: int,
    utilization: float | None,
    contexts: int,
) -> Layouts:
    """Figures of layouts that have their stages in common."""
    deployment = replace(base, layout=layout)
    like, together = np.asarray(layout.tp, float), _together(deployment, work)
    ttft = np.broadcast_to(_first(deployment, work, together), like.shape)
    tpot, wires = _decode(base, layout, work, contexts)
    latency = ttft + tpot * (work.output - 1)
    devices = np.asarray(layout.devices, float)
    replicas = np.floor(gpus / devices)
    each = work.batch * work.output / latency
    per_second = base.node.gpu.usd_per_hour / SECONDS_PER_HOUR * devices
    engine = base.engine
    share = engine.memory_utilization if utilization is None else utilization
    parts = held(
        deployment,
        batch=float(work.batch),
        context=work.longest,
        step_tokens=np.maximum(step_tokens(deployment, work, together), float(work.batch)),
        step_rows=float(work.batch),
        cached=work.kv_cache,
    )
    taken = parts.taken + engine.runtime_bytes + engine.graph_bytes

    def column(value: Number) -> Array:
        return np.broadcast_to(np.asarray(value, float), like.shape)

    return Layouts(
        tp=like,
        cp=column(layout.cp),
        dp=column(layout.dp),
        ep=column(layout.ep),
        pp=column(float(layout.pp)),
        sequence_parallel=column(float(layout.sequence_parallel)),
        devices=devices,
        replicas=replicas,
        weights=column(parts.weights),
        kv=column(parts.kv),
        taken=column(taken),
        free=column(base.node.gpu.memory_bytes * share - taken),
        ttft_s=ttft,
        tpot_s=tpot,
        latency_s=latency,
        throughput_tok_s=each * replicas,
        usd_per_mtok=per_second / each * MILLION,
        wires=wires,
    )


def _together(deployment: Deployment, work: Workload) -> Number:
    """Prompts of one step: as `roofline.serving.static.micro` has them, for every layout. [1]"""
    layout = deployment.layout
    if layout.pp == 1 or work.prefill_batch:
        return float(work.together)
    return np.minimum(float(work.turns(layout)[1]), prompts_in_a_step(deployment, work))


def _first(deployment: Deployment, work: Workload, together: Number) -> Number:
    """Time to the first token of the last prompt. [s]"""
    full = np.floor(work.batch / together)
    left = work.batch - full * together
    stages = [stage.seconds() for stage in through(deployment, work.prefill(together))]
    if not np.any(left):
        return finish(stages, full)
    tails = through(deployment, work.prefill(np.where(left > 0, left, 1.0)[()]))
    ends = finish_with(stages, full, [stage.seconds() for stage in tails])
    return np.where(left > 0, ends, finish(stages, full))


def _decode(base: Deployment, layout: Layout, work: Workload, contexts: int) -> tuple[Array, Array]:
    """Mean time between tokens, and the share of it that collectives take. [s], [1]"""
    like = np.asarray(layout.tp, float)
    if work.output == 1:
        return np.zeros_like(like), np.zeros_like(like)
    points, weights = nodes(work.prompt + 1, work.longest, contexts)
    many = len(points)
    axis = replace(
        layout,
        tp=np.repeat(layout.tp, many),
        cp=np.repeat(layout.cp, many),
        dp=np.repeat(layout.dp, many),
        ep=np.repeat(layout.ep, many),
    )
    number, size = work.turns(layout)
    group = work.decode(np.tile(points, len(like)), float(size))
    stages = through(replace(base, layout=axis), group)
    times = np.broadcast_to(
        period([stage.seconds() for stage in stages], number), (len(like) * many,)
    )
    wired = _total([stage.parts.wire for stage in stages])
    whole = _total([stage.seconds() for stage in stages])
    share = np.broadcast_to(wired / whole, times.shape)
    return times.reshape(-1, many) @ weights, share.reshape(-1, many) @ weights


def _total(values: Sequence[Number]) -> Number:
    total: Number = 0.0
    for value in values:
        total = total + value
    return total
