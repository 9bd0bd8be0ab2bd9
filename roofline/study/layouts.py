"""Layouts of a network on a number of GPUs: all that can be, priced together, and the best one."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.cost.memory import Held, held, memory_budget
from roofline.cost.pipeline import period
from roofline.cost.work import Array, Number
from roofline.errors import LayoutError
from roofline.serving.phases import first_tokens, together, turns
from roofline.serving.quadrature import nodes
from roofline.serving.room import step_tokens
from roofline.serving.stages import Priced, log_sd_of_slowest, through
from roofline.serving.static import check_context
from roofline.serving.workload import MOST_SEQUENCES, Workload
from roofline.study.enumeration import candidates

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
    ttft_log_sd, tpot_log_sd
        Standard deviation of their logarithms; 0 at datasheet rates. [1]
    wires
        Share of the time of a decode step, or of the only step, that collectives take. [1]
    largest
        Most sequences of a replica that fit; nan where nobody asked. [1]
    filled_tok_s
        Output tokens of all replicas, each with as many; nan where nobody asked. [token/s]
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
    ttft_log_sd: Array
    tpot_log_sd: Array
    wires: Array
    largest: Array
    filled_tok_s: Array

    def __len__(self) -> int:
        """Layouts."""
        return len(self.tp)

    @property
    def latency_log_sd(self) -> Array:
        """That of the latency; errors of both phases are taken to go together. [1]"""
        rest = self.latency_s - self.ttft_s
        spread = self.ttft_s * self.ttft_log_sd + rest * self.tpot_log_sd
        return np.asarray(spread / self.latency_s)

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
    deployment, batch = replace(base, layout=layout), float(work.batch)
    like, prompts = np.asarray(layout.tp, float), together(deployment, work, batch)
    first = first_tokens(deployment, work, batch, prompts)
    ttft = np.broadcast_to(first.seconds, like.shape)
    tpot, wires, tpot_sd = _decode(base, layout, work, batch, contexts)
    if work.output == 1:
        wires = _wired(through(deployment, work.prefill(prompts)), like)
    latency = ttft + tpot * (work.output - 1)
    devices = np.asarray(layout.devices, float)
    replicas = np.floor(gpus / devices)
    each = work.batch * work.output / latency
    parts = _held(deployment, work, batch, prompts)
    taken = parts.taken + base.engine.runtime_bytes + base.graph_bytes

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
        free=column(memory_budget(base, parts, utilization) - taken),
        ttft_s=ttft,
        tpot_s=tpot,
        latency_s=latency,
        throughput_tok_s=each * replicas,
        ttft_log_sd=column(first.log_sd),
        tpot_log_sd=tpot_sd,
        wires=wires,
        largest=np.full_like(like, np.nan),
        filled_tok_s=np.full_like(like, np.nan),
    )


def _held(deployment: Deployment, work: Workload, batch: Number, prompts: Number) -> Held:
    """What a batch takes of the fullest device of each layout."""
    return held(
        deployment,
        batch=batch,
        context=work.longest,
        step_tokens=np.maximum(step_tokens(deployment, work, prompts), batch),
        step_rows=batch,
        cached=work.kv_cache,
    )


def _decode(
    base: Deployment, layout: Layout, work: Workload, batch: Number, contexts: int
) -> tuple[Array, Array, Array]:
    """Mean time between tokens, collectives' share of it, and its log standard deviation.

    [s], [1], [1]
    """
    like = np.asarray(layout.tp, float)
    if work.output == 1:
        return np.zeros_like(like), np.zeros_like(like), np.zeros_like(like)
    points, weights = nodes(work.prompt + 1, work.longest, contexts)
    many = len(points)
    axis = replace(
        layout,
        tp=np.repeat(layout.tp, many),
        cp=np.repeat(layout.cp, many),
        dp=np.repeat(layout.dp, many),
        ep=np.repeat(layout.ep, many),
    )
    number, size = (
        np.repeat(np.broadcast_to(value, like.shape), many) for value in turns(batch, layout)
    )
    group = work.decode(np.tile(points, len(like)), size)
    stages = through(replace(base, layout=axis), group)
    times = np.broadcast_to(period([stage.seconds() for stage in stages], number), size.shape)
    spread = np.broadcast_to(log_sd_of_slowest(stages), size.shape)
    columns = (times, _wired(stages, size), spread)
    kernels, share, log_sd = (column.reshape(-1, many) @ weights for column in columns)
    costs = base.engine_costs
    tpot = np.asarray(costs.decode_step(kernels, batch))
    part = costs.decode_gain * kernels / tpot
    return tpot, share * part, np.asarray(costs.log_sd(log_sd, part))


def _wired(stages: Sequence[Priced], like: Array) -> Array:
    """Share of the time of all stages that collectives take. [1]"""
    wired = _total([stage.parts.wire for stage in stages])
    whole = _total([stage.seconds() for stage in stages])
    return np.broadcast_to(wired / whole, like.shape)


def _total(values: Sequence[Number]) -> Number:
    total: Number = 0.0
    for value in values:
        total = total + value
    return total


def filled(
    base: Deployment, priced: Layouts, work: Workload, utilization: float | None = None
) -> Layouts:
    """The layouts with their largest batch, and the throughput of all replicas at it.

    Parameters
    ----------
    base, work, utilization
        As for `price`; the lengths count, not the batch.
    priced
        The layouts.
    """
    batches, rates = np.zeros(len(priced)), np.zeros(len(priced))
    kinds = np.stack([priced.pp, priced.sequence_parallel])
    for pp, parallel in np.unique(kinds, axis=1).T:
        here = np.flatnonzero((priced.pp == pp) & (priced.sequence_parallel == parallel))
        layout = Layout(
            priced.tp[here],
            priced.cp[here],
            priced.dp[here],
            priced.ep[here],
            pp=int(pp),
            sequence_parallel=bool(parallel),
        )
        found = _most(replace(base, layout=layout), work, utilization)
        batches[here] = found
        batch = np.maximum(found, 1.0)
        deployment = replace(base, layout=layout)
        prompts = together(deployment, work, batch)
        ttft = first_tokens(deployment, work, batch, prompts).seconds
        tpot, _, _ = _decode(base, layout, work, batch, CONTEXTS_OF_MANY)
        latency = ttft + tpot * (work.output - 1)
        rates[here] = priced.replicas[here] * found * work.output / latency
    return replace(priced, largest=batches, filled_tok_s=rates)


def _most(deployment: Deployment, work: Workload, utilization: float | None) -> Array:
    """Largest batch that fits, by halving the range for all layouts at once. [1]"""
    reserved = deployment.engine.runtime_bytes + deployment.graph_bytes
    like = np.asarray(deployment.layout.tp, float)
    low, high = np.zeros_like(like), np.full_like(like, float(MOST_SEQUENCES))
    while np.any(low < high):
        middle = np.ceil((low + high) / 2)
        prompts = together(deployment, work, middle)
        parts = _held(deployment, work, middle, prompts)
        fits = parts.taken + reserved <= memory_budget(deployment, parts, utilization)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return low
