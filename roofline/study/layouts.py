"""Layouts of a network on a number of GPUs: all that can be, priced together, and the best one."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.cost.memory import held
from roofline.cost.pipeline import finish, finish_with, period
from roofline.cost.work import Array, Number
from roofline.errors import LayoutError
from roofline.serving.asking import one_of
from roofline.serving.quadrature import nodes
from roofline.serving.room import step_tokens
from roofline.serving.stages import through
from roofline.serving.static import check_context, micro
from roofline.serving.workload import Workload
from roofline.study.enumeration import candidates
from roofline.units import MILLION, SECONDS_PER_HOUR, show, show_binary

Objective = Literal["latency", "throughput", "cost"]
OBJECTIVES: Final[tuple[Objective, ...]] = ("latency", "throughput", "cost")
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


@dataclass(frozen=True, slots=True)
class Choice:
    """A layout and why it was taken."""

    layout: Layout
    replicas: int
    reason: str


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
    workload: Workload,
    gpus: int,
    utilization: float | None,
    contexts: int,
) -> Layouts:
    """Figures of layouts that have their stages in common."""
    deployment = replace(base, layout=layout)
    work = micro(deployment, workload)
    like = np.asarray(layout.tp, float)
    ttft = np.broadcast_to(_first(deployment, work), like.shape)
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
        step_tokens=np.maximum(step_tokens(deployment, work), float(work.batch)),
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


def _first(deployment: Deployment, work: Workload) -> Number:
    """Time to the first token of the last prompt. [s]"""
    stages = [stage.seconds() for stage in through(deployment, work.prefill(float(work.together)))]
    if not work.left_over:
        return finish(stages, work.full_steps)
    tails = through(deployment, work.prefill(float(work.left_over)))
    return finish_with(stages, work.full_steps, [stage.seconds() for stage in tails])


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


def ranked(priced: Layouts, objective: Objective) -> NDArray[np.intp]:
    """Layouts that fit, best first; among equals the simplest.

    Parameters
    ----------
    priced
        Figures.
    objective
        ``"latency"``: arrival to last token. ``"throughput"``: of all GPUs. ``"cost"``: of the
        devices in use.
    """
    one_of("objective", objective, OBJECTIVES)
    value = {
        "latency": priced.latency_s,
        "throughput": -priced.throughput_tok_s,
        # Without a price the devices themselves are the cost.
        "cost": priced.devices * priced.replicas / priced.throughput_tok_s,
    }[objective]
    kinds = sum(
        (getattr(priced, name) > 1).astype(float) for name in (*DEGREES, "sequence_parallel")
    )
    order = np.lexsort((kinds, priced.devices * priced.replicas, _rounded(value)))
    return np.asarray(order[priced.fits[order]])


def _rounded(value: Array) -> Array:
    """To nine digits: layouts that differ in nothing but rounding are equal."""
    scale = 10.0 ** (np.floor(np.log10(np.abs(value))) - 8)
    return np.asarray(np.rint(value / scale) * scale)


def choose(
    base: Deployment,
    workload: Workload,
    gpus: int,
    objective: Objective = "latency",
    utilization: float | None = None,
) -> Choice:
    """The best layout of a network on up to a number of GPUs.

    Parameters
    ----------
    base, workload, gpus, utilization
        As for `price`.
    objective
        As for `ranked`.

    Raises
    ------
    LayoutError
        No layout is possible, or none fits.
    """
    one_of("objective", objective, OBJECTIVES)
    priced = price(base, workload, gpus, utilization)
    order = ranked(priced, objective)
    if not len(order):
        short = float(np.max(priced.free))
        raise LayoutError(
            f"none of {len(priced):,} layouts of {base.architecture.name} on {gpus} × "
            f"{base.node.gpu.name} fits: the best lacks {show_binary(-short)} on a device",
            hint="give more --gpus, a smaller --batch, or a smaller format (--weights, --kv)",
        )
    best = int(order[0])
    return Choice(priced.layout(best), int(priced.replicas[best]), reason(priced, order, objective))


def reason(priced: Layouts, order: NDArray[np.intp], objective: Objective) -> str:
    """Why the first of some layouts is the best one, one sentence."""
    best = int(order[0])
    layout, replicas = priced.layout(best), int(priced.replicas[best])
    what = {
        "latency": "the least latency",
        "throughput": "the highest throughput",
        "cost": "the lowest cost of a token",
    }[objective]
    named = str(layout) + (f" in {replicas} replicas" if replicas > 1 else "")
    out = (
        f"{named} has {what} of {len(order):,} layouts that fit: {_shown(priced, best, objective)}"
    )
    other = next((int(n) for n in order[1:] if _differs(priced, best, int(n))), None)
    if other is not None:
        out += f"; {priced.layout(other)} has {_shown(priced, other, objective)}"
    idle = int(np.max(priced.devices * priced.replicas) - priced.devices[best] * replicas)
    if idle > 0:
        out += f"; {idle} GPUs stay idle"
    return f"{out}. Wires take {priced.wires[best]:.0%} of its decode step."


def _differs(priced: Layouts, one: int, other: int) -> bool:
    """Whether two layouts differ in more than the split of norms."""
    return any(getattr(priced, name)[one] != getattr(priced, name)[other] for name in DEGREES)


def _shown(priced: Layouts, number: int, objective: Objective) -> str:
    if objective == "latency":
        return show(float(priced.latency_s[number]), "s")
    if objective == "throughput" or not priced.usd_per_mtok[number]:
        used = float(priced.devices[number] * priced.replicas[number])
        rate = float(priced.throughput_tok_s[number])
        return (
            f"{rate:,.0f} tok/s" if objective == "throughput" else f"{rate / used:,.0f} tok/s/GPU"
        )
    return f"{priced.usd_per_mtok[number]:.3f} $/Mtok"
