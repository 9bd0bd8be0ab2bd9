"""Layouts of a network on a number of GPUs: all that can be, priced together."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment, Options
from roofline.cost.layout import DEGREES, Layout, check_layer, check_shared_context, runs
from roofline.cost.memory import MemoryUse, held, memory_budget
from roofline.cost.work import Array, Number, distinct
from roofline.errors import LayoutError
from roofline.hardware.machine import Node
from roofline.hardware.serving_engine import Engine
from roofline.model.architecture import Architecture
from roofline.model.feedforward import FeedForward
from roofline.records import replace
from roofline.serving.phases import prompts_per_step
from roofline.serving.room import step_tokens
from roofline.serving.stages import ask_together
from roofline.serving.static import check_context
from roofline.serving.static_batches import StaticBatches, static_batches
from roofline.serving.workload import MOST_SEQUENCES, Workload

Degrees: TypeAlias = NDArray[np.int64]
_T = TypeVar("_T")

MANY: Final = 2000
"""Layouts of which a table shows some."""


def degrees(gpus: int) -> list[int]:
    """Degrees that are tried: those that divide the GPUs, and powers of two.

    >>> degrees(12)
    [1, 2, 3, 4, 6, 8, 12]
    """
    powers = {2**n for n in range(gpus.bit_length()) if 2**n <= gpus}
    low = range(1, int(gpus**0.5) + 1)
    divisors = {n for d in low if gpus % d == 0 for n in (d, gpus // d)}
    return sorted(powers | divisors)


def candidates(
    architecture: Architecture, node: Node, gpus: int, options: Options, engine: Engine
) -> Iterator[Layout]:
    """Layouts of up to a number of GPUs, together where they have their stages in common.

    A replica must not leave more devices idle than another replica would take, and spread evenly
    over its nodes.

    Args:
        architecture, node: What is laid out, on which nodes.
        gpus: Devices in all. [1]
        options: How the network is run; scores in memory rule context parallelism out.
        engine: Software that runs it; layouts that it does not have are left out.
    """
    tried = degrees(gpus)
    if node.network is None:
        tried = [n for n in tried if n <= node.gpus]
    mixtures = architecture.mixtures
    tp = [n for n in tried if _possible(check_layer, architecture, n)]
    cp = [1]
    if options.attention == "flash":
        cp = [n for n in tried if _possible(check_shared_context, architecture, Layout(cp=n))]
    most = min((part.experts for part in mixtures), default=1)
    dp = tried if mixtures else [1]
    ep = [n for n in tried if n <= most]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(tp, cp, dp, ep, indexing="ij")])
    grid = grid[:, _sound(grid, mixtures)]
    for pp in tried:
        if pp > max(len(architecture.layers), 1):
            continue
        here = grid[:, _placed(grid[0] * grid[1] * grid[2] * pp, node, gpus)]
        for parallel in (False, True):
            chosen = here[:, here[0] > 1] if parallel else here
            chosen = chosen[:, runs(engine, _laid_out(chosen, pp, parallel))]
            for part in _by_place(chosen, node, pp):
                yield _laid_out(part, pp, parallel)


def one_by_one(group: Layout) -> list[Layout]:
    """Layouts of a group, each with whole degrees of its own."""
    degrees = np.broadcast_arrays(np.atleast_1d(group.tp), group.cp, group.dp, group.ep)
    return [
        replace(group, tp=int(tp), cp=int(cp), dp=int(dp), ep=int(ep))
        for tp, cp, dp, ep in zip(*degrees, strict=True)
    ]


def _laid_out(grid: Degrees, pp: int, parallel: bool) -> Layout:
    tp, cp, dp, ep = grid.astype(float)
    return Layout(tp, cp, dp, ep, pp=pp, sequence_parallel=parallel)


def _possible(
    check: Callable[[Architecture, _T], None], architecture: Architecture, degree: _T
) -> bool:
    try:
        check(architecture, degree)
    except LayoutError:
        return False
    return True


def _sound(grid: Degrees, mixtures: Sequence[FeedForward]) -> NDArray[np.bool_]:
    """Mask of degrees over which the experts can be spread."""
    tp, cp, dp, ep = grid
    wide = tp * cp * dp
    sound = np.asarray(wide % ep == 0)
    sharing = {
        "layer": tp,
        "expert": np.maximum(wide // ep, 1),
        "shared": np.where(cp * dp > 1, 1, tp),
    }
    for part in mixtures:
        for each in part.shared_widths:
            sound &= each.width % sharing[each.group] == 0
    return sound


def _placed(devices: Degrees, node: Node, gpus: int) -> NDArray[np.bool_]:
    """Mask of replicas no larger than all GPUs, in whole and equal shares of nodes."""
    on = -(-devices // node.gpus)
    inside = (devices <= gpus) & (devices % on == 0)
    return np.asarray(inside & ((on == 1) | (node.network is not None)))


def _by_place(grid: Degrees, node: Node, pp: int) -> Iterator[Degrees]:
    """Parts of the grid whose stages lie on nodes in the same way."""
    if not grid.shape[1]:
        return
    if pp == 1:
        yield grid
        return
    wide = grid[0] * grid[1] * grid[2]
    kinds = np.where(wide * pp <= node.gpus, 0, np.minimum(wide, node.gpus))
    for kind in distinct(kinds):
        yield grid[:, kinds == kind]


class LayoutFigures(Struct, frozen=True):
    """Figures of layouts, one entry of every array for each."""

    tp: Array
    cp: Array
    dp: Array
    ep: Array
    pp: Array
    sequence_parallel: Array
    """Degrees of parallelism. [1]"""
    devices: Array
    replicas: Array
    """Devices of a replica; replicas that the GPUs are enough for. [1]"""
    weights: Array
    kv: Array
    taken: Array
    free: Array
    """On the fullest device: weights, cache, all that is in use, what the engine has left. [B]"""
    ttft_s: Array
    tpot_s: Array
    latency_s: Array
    """Times of a replica's batch. [s]"""
    throughput_tok_s: Array
    """Output tokens of all replicas. [token/s]"""
    ttft_log_sd: Array
    tpot_log_sd: Array
    """Standard deviation of their logarithms; 0 at datasheet rates. [1]"""
    wires: Array
    """Share of the time of a decode step, or of the only step, that collectives take. [1]"""
    ttft_idle_s: Array
    tpot_steady_s: Array
    """TTFT of one prompt on an idle server; time between tokens with the batch kept full. [s]"""
    steady_tok_s: Array
    """Output tokens of all replicas, their batches kept full. [token/s]"""
    largest: Array
    """Most sequences of a replica that fit; nan where nobody asked. [1]"""
    filled_tok_s: Array
    """Output tokens of all replicas, each with as many; nan where nobody asked. [token/s]"""

    def __len__(self) -> int:
        return len(self.tp)

    @property
    def latency_log_sd(self) -> Array:
        """Log standard deviation of the latency; errors of both phases are fully correlated. [1]"""
        rest = self.latency_s - self.ttft_s
        spread = self.ttft_s * self.ttft_log_sd + rest * self.tpot_log_sd
        return np.asarray(spread / self.latency_s)

    @property
    def fits(self) -> NDArray[np.bool_]:
        """True where the batch fits."""
        return np.asarray(self.free >= 0)

    def layout(self, number: int) -> Layout:
        """One of them."""
        tp, cp, dp, ep, pp = (int(getattr(self, name)[number]) for name in DEGREES)
        parallel = bool(self.sequence_parallel[number])
        return Layout(tp=tp, cp=cp, dp=dp, ep=ep, pp=pp, sequence_parallel=parallel)

    def spelled(self, numbers: NDArray[np.intp]) -> list[str]:
        """Names of some of them, each that of its `layout`, for thousands at once."""
        parts: list[list[str]] = []
        for name in DEGREES:
            degrees = getattr(self, name)[numbers]
            part = {n: "" if n == 1 else f"-{name}{n:.0f}" for n in distinct(degrees).tolist()}
            parts.append([part[n] for n in degrees.tolist()])
        parts.append(["-sp" if parallel else "" for parallel in self.sequence_parallel[numbers]])
        return ["".join(row)[1:] or "tp1" for row in zip(*parts, strict=True)]


def price(
    base: Deployment, workload: Workload, gpus: int, utilization: float | None = None
) -> LayoutFigures:
    """Price every layout of a network on up to a number of GPUs; LayoutError where there is none.

    Args:
        base: What runs on which node; its own layout is not used.
        workload: Batch of one replica, and lengths.
        gpus: Devices in all. [1]
        utilization: Share of device memory the engine takes; None for its default. [1]
    """
    check_context(base, workload)
    groups = list(candidates(base.architecture, base.node, gpus, base.options, base.engine))
    if not groups:
        raise LayoutError(
            f"{base.architecture.name} cannot be laid out on {gpus} × {base.node.gpu.name}",
            hint="give another number of GPUs, or degrees of a layout to see what is in the way",
        )
    times = [
        static_batches(
            replace(base, layout=each), workload, np.full_like(each.tp, workload.batch, float)
        )
        for each in groups
    ]
    ask_together([step for each in times for step in each.steps])
    priced = [
        _figures(base, layout, workload, each, gpus, utilization)
        for layout, each in zip(groups, times, strict=True)
    ]
    return LayoutFigures(
        *(
            np.concatenate([getattr(part, name) for part in priced])
            for name in LayoutFigures.__struct_fields__
        )
    )


def _figures(
    base: Deployment,
    layout: Layout,
    work: Workload,
    times: StaticBatches,
    gpus: int,
    utilization: float | None,
) -> LayoutFigures:
    """Figures of layouts that have their stages in common."""
    like, batch, steady = np.asarray(layout.tp, float), times.batch, times.steady
    devices = np.asarray(layout.devices, float)
    replicas = np.floor(gpus / devices)
    parts = _held(replace(base, layout=layout), work, batch)
    taken = parts.taken + base.engine.runtime_bytes + base.graph_bytes

    def column(value: Number) -> Array:
        return np.broadcast_to(np.asarray(value, float), like.shape)

    return LayoutFigures(
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
        ttft_s=times.ttft_s,
        tpot_s=times.tpot_s,
        latency_s=times.latency_s,
        throughput_tok_s=batch * work.output / times.latency_s * replicas,
        ttft_log_sd=times.ttft_log_sd,
        tpot_log_sd=times.tpot_log_sd,
        wires=times.wires,
        ttft_idle_s=column(steady.ttft_idle_s),
        tpot_steady_s=column(steady.tpot_s),
        steady_tok_s=column(steady.output_tok_s) * replicas,
        largest=np.full_like(like, np.nan),
        filled_tok_s=np.full_like(like, np.nan),
    )


def _held(deployment: Deployment, work: Workload, batch: Array) -> MemoryUse:
    """Memory that a batch takes of the fullest device of each layout."""
    prompts = prompts_per_step(
        deployment, batch, float(work.prompt - work.cached), work.prefill_batch
    )
    return held(
        deployment,
        batch=batch,
        context=work.longest,
        step_tokens=np.maximum(step_tokens(deployment, work, prompts), batch),
        step_rows=batch,
        cached=work.kv_cache,
    )


def filled(
    base: Deployment, priced: LayoutFigures, work: Workload, utilization: float | None = None
) -> LayoutFigures:
    """The layouts with their largest batch at these lengths, and the throughput of all replicas."""
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
        laid = replace(base, layout=layout)
        batches[here] = found = _most(laid, work, utilization)
        times = static_batches(laid, work, np.maximum(found, 1.0))
        rates[here] = priced.replicas[here] * found * work.output / times.latency_s
    return replace(priced, largest=batches, filled_tok_s=rates)


def _most(deployment: Deployment, work: Workload, utilization: float | None) -> Array:
    """Largest batch that fits, by halving the range for all layouts at once. [1]"""
    reserved = deployment.engine.runtime_bytes + deployment.graph_bytes
    like = np.asarray(deployment.layout.tp, float)
    low, high = np.zeros_like(like), np.full_like(like, float(MOST_SEQUENCES))
    while np.any(low < high):
        middle = np.ceil((low + high) / 2)
        parts = _held(deployment, work, middle)
        fits = parts.taken + reserved <= memory_budget(deployment, parts, utilization)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return low
