"""Figures of the points of a lane, each computed when it is asked for.

Most points of a sweep are looked at once, in two or three figures, and dropped: nothing else is
computed of them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment
from roofline.cost.work import Array, root_sum_square
from roofline.serving.phases import DecodeSteps
from roofline.serving.price import usd_per_mtok
from roofline.serving.static import CENTRAL
from roofline.serving.static_batches import APPROXIMATE, PromptTimes, steady_tpot
from roofline.study.sweep.points import Points, room
from roofline.study.sweep.prices import SlicePrices
from roofline.table import BASES
from roofline.units import MILLION

Rows: TypeAlias = NDArray[np.intp] | slice
"""Rows of points."""


@dataclass(slots=True, eq=False)
class FigureColumns(Mapping[str, Any]):
    """Figures of some points of a lane, by name: see `FIGURES`."""

    prices: SlicePrices
    """Prices of the lane."""
    index: NDArray[np.int64]
    """Number of each configuration."""
    points: Points = field(repr=False)
    """Batches and lengths."""
    _known: dict[str, Any] = field(default_factory=dict, repr=False)
    """Figures on the axes of the points that they depend on."""

    def __getitem__(self, name: str) -> Any:
        """Values of one column."""
        return self.points.each(self.of(name))

    def of(self, name: str) -> Any:
        """Values of one column, on the axes of the points that it depends on."""
        if name not in self._known:
            self._known[name] = FIGURES[name](self)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        """Names of the columns."""
        return iter(FIGURES)

    def __len__(self) -> int:
        """Columns."""
        return len(FIGURES)

    @property
    def rows(self) -> int:
        """Points."""
        return len(self.index)

    @property
    def names(self) -> Mapping[str, str | int]:
        """Names of the lane, by column."""
        return self.prices.lane.names

    def taken(self, rows: NDArray[np.intp]) -> "FigureColumns":
        """Some of the points; what is known of them stays known."""
        known = {name: self.points.each(values)[rows] for name, values in self._known.items()}
        return FigureColumns(self.prices, self.index[rows], self.points.taken(rows), known)

    def at(self, **figures: Array) -> "FigureColumns":
        """The points with some figures stated, from which the others follow."""
        known = {name: self.of(name) for name in ("ttft_log_sd", "decodes")}
        return FigureColumns(self.prices, self.index, self.points, known | figures)

    def decoded(
        self, figure: Callable[[Points, DecodeSteps, Rows], Array], without: Array | float
    ) -> Array:
        """A figure of decode steps for every point, or what it is without any.

        The figure is of some points and their steps, and of which of all points they are; it may be
        on their axes.
        """
        steps = self.prices.decode
        if len(steps) == 1:
            return figure(self.points, steps[0][1], slice(None))
        out, begin = self.points.each(np.asarray(without, np.float64)).copy(), -np.inf
        until = self.points.prompt + self.points.output - 1.0
        for end, each in steps:
            rows = np.flatnonzero((until > begin) & (until <= end))
            if len(rows):
                out[rows] = figure(self.points.taken(rows), each, rows)
            begin = end
        return out.reshape(self.points.shape)

    def decoding(self, figure: Array, without: Array | float) -> Array:
        """A figure of points that decode, and what the others have instead."""
        decodes = self.of("decodes")
        return figure if decodes.all() else np.where(decodes, figure, without)

    def factor(self, log_sd: str) -> Array:
        """Upper end of the central 80 % over the figure of that spread; nan where it has none."""
        key = f"{log_sd} factor"
        if key not in self._known:
            spread = self.of(log_sd)
            self._known[key] = np.exp(CENTRAL * np.where(spread > 0.0, spread, np.nan))
        return np.asarray(self._known[key])

    def of_memory(self, name: str) -> Any:
        """A column of memory; all of them are known together."""
        self._known |= room(self.prices.lane, self.points)
        return self._known[name]


def price(
    prices: SlicePrices, numbers: Mapping[str, Array], index: NDArray[np.int64] | None = None
) -> FigureColumns:
    """Figures of some points of a lane.

    Args:
        prices: Prices of the lane.
        numbers: ``"batch"`` [1], ``"prompt"`` and ``"output"`` [token], of equal length; inside
            the network's context, as `roofline.study.sweep.prices.within` says.
        index: Numbers of the configurations; None to count them. [1]
    """
    batch, prompt, output = (
        np.asarray(numbers[name], np.float64) for name in ("batch", "prompt", "output")
    )
    if prices.lane.deployment.architecture.is_encoder:
        output = np.ones_like(output)
    where = np.arange(len(batch), dtype=np.int64) if index is None else index
    return FigureColumns(prices, where, Points.of(prices.lane.axes, batch, prompt, output))


def _between(name: str) -> Callable[[FigureColumns], Array]:
    """Mean over the steps of each answer, of kernels alone; 0 where there is none."""

    def mean(points: Points, steps: DecodeSteps, _: Rows) -> Array:
        answers = points.answers(steps.contexts)
        return points.batches.at(lambda rows: np.asarray(steps.mean(name, answers, rows)))

    return lambda c: c.decoded(mean, 0.0)


def _gap(c: FigureColumns) -> Array:
    """Time between tokens; 0 where there is none."""
    batch, _, _ = c.points.axes
    return c.decoding(np.asarray(c.prices.costs.decode_step(c.of("kernels_s"), batch)), 0.0)


def _tpot_steady(c: FigureColumns) -> Array:
    """Time between tokens of a server that is kept full; none where nothing is cached."""
    if not c.prices.lane.kv_cache:
        return np.full((1,), np.nan)
    at_nodes = c.prices.prompts
    times = (at_nodes.first_s, at_nodes.second_s, at_nodes.further_s, at_nodes.chunks)
    prompts = PromptTimes(*map(c.points.on, times))
    batch, _, output = c.points.axes
    groups = c.prices.lane.deployment.layout.dp
    each = steady_tpot(
        decode_s=c.of("gap_s"), prompts=prompts, batch=batch, output=output, groups=groups
    )
    return c.decoding(each, np.nan)


def _tpot_steady_log_sd(c: FigureColumns) -> Array:
    """Log standard deviation with the approximation's; errors of both phases go together."""
    there = c.of("tpot_steady_s") > 0.0
    share = c.of("gap_s") / np.where(there, c.of("tpot_steady_s"), 1.0)
    prices = (1.0 - share) * c.of("ttft_log_sd") + share * c.of("tpot_log_sd")
    known = np.maximum(prices, c.prices.costs.tpot_log_sd)
    return np.where(there & (known > 0.0), root_sum_square(known, APPROXIMATE), 0.0)


def _idle(name: str) -> Callable[[FigureColumns], Array]:
    """A figure of `FirstTokens` of one prompt on an idle server."""

    def figure(c: FigureColumns) -> Array:
        found = c.prices.few(name)[0]
        return c.points.prompts.at(lambda columns: found[columns])

    return figure


def _tpot_log_sd(c: FigureColumns) -> Array:
    costs = c.prices.costs
    share = costs.decode_gain * c.of("kernels_s") / c.decoding(c.of("gap_s"), 1.0)
    return c.decoding(np.asarray(costs.log_sd(_between("log_sd")(c), share)), 0.0)


def _decode_bound(c: FigureColumns) -> Array:
    def bound(points: Points, steps: DecodeSteps, rows: Rows) -> Array:
        software = c["gap_s"][rows] - c.prices.costs.decode_gain * c["kernels_s"][rows]
        answers, nearest = points.answers(steps.contexts), points.batches.nearest()
        return steps.bound(answers, nearest, software.reshape(points.shape))

    return c.decoding(c.decoded(bound, -1.0), -1.0)


def _latency_log_sd(c: FigureColumns) -> Array:
    """Errors of both phases are taken to go together."""
    _, _, output = c.points.axes
    rest = c.of("gap_s") * (output - 1.0) * c.of("tpot_log_sd")
    return np.asarray((c.of("ttft_s") * c.of("ttft_log_sd") + rest) / c.of("latency_s"))


def token_price(deployment: Deployment, rate: Array) -> Array:
    """Price of a million output tokens at a rate of them; nan where no price is known. [$]"""
    each = usd_per_mtok(deployment.node.gpu.usd_per_hour * deployment.devices, 1.0, rate)
    return np.where(each > 0, each, np.nan)


def _joule_per_mtok(c: FigureColumns) -> Array:
    deployment = c.prices.lane.deployment
    watts = deployment.node.gpu.tdp_w * deployment.devices
    return np.asarray(watts / c.of("each_tok_s") * MILLION)


def _basis(c: FigureColumns) -> Array:
    worst = c.points.nearest_on(c.prices.table("basis"))
    if c.prices.costs.step_s:
        worst = np.maximum(worst, BASES.index("interpolated"))

    def basis(points: Points, steps: DecodeSteps, _: Rows) -> Array:
        return steps.basis(points.answers(steps.contexts), points.batches.nearest())

    return np.maximum(worst, c.decoding(c.decoded(basis, worst), worst))


def _end(name: str, log_sd: str, side: float) -> Callable[[FigureColumns], Array]:
    """Lower or upper end of the central 80 %; nan where nothing was measured."""

    def figure(c: FigureColumns) -> Array:
        wide = c.factor(log_sd)
        return np.asarray(c.of(name) * wide if side > 0 else c.of(name) / wide)

    return figure


SPREADS: Final[Mapping[str, str]] = {
    "ttft_s": "ttft_log_sd",
    "ttft_idle_s": "ttft_idle_log_sd",
    "tpot_s": "tpot_log_sd",
    "tpot_steady_s": "tpot_steady_log_sd",
    "latency_s": "latency_log_sd",
    "throughput_tok_s": "latency_log_sd",
    "user_tok_s": "tpot_log_sd",
    "usd_per_mtok": "latency_log_sd",
}
"""Figures that have an interval, and whose spread it is."""

FIGURES: Final[dict[str, Callable[[FigureColumns], Any]]] = {
    "index": lambda c: c.index.reshape(c.points.shape),
    "batch": lambda c: c.points.axes[0],
    "prompt": lambda c: c.points.axes[1],
    "output": lambda c: c.points.axes[2],
    "gpus": lambda c: np.full((1,), float(c.prices.lane.gpus)),
    "ttft_s": lambda c: c.points.on(c.prices.table("seconds")),
    "ttft_idle_s": _idle("seconds"),
    # An answer of one token has no time between tokens.
    "decodes": lambda c: (c.points.axes[2] > 1.0) & bool(c.prices.decode),
    "kernels_s": _between("seconds"),
    "gap_s": _gap,
    "tpot_s": lambda c: c.decoding(c.of("gap_s"), np.nan),
    "tpot_steady_s": _tpot_steady,
    "latency_s": lambda c: c.of("ttft_s") + c.of("gap_s") * (c.points.axes[2] - 1.0),
    "each_tok_s": lambda c: c.points.axes[0] * c.points.axes[2] / c.of("latency_s"),
    "throughput_tok_s": lambda c: c.of("each_tok_s") * c.prices.lane.replicas,
    "throughput_per_gpu_tok_s": lambda c: c.of("each_tok_s") / c.prices.lane.deployment.devices,
    "user_tok_s": lambda c: 1.0 / c.of("tpot_s"),
    "usd_per_mtok": lambda c: token_price(c.prices.lane.deployment, c.of("each_tok_s")),
    "joule_per_mtok": _joule_per_mtok,
    "ttft_log_sd": lambda c: c.points.on(c.prices.table("log_sd")),
    "tpot_log_sd": _tpot_log_sd,
    "latency_log_sd": _latency_log_sd,
    "ttft_idle_log_sd": _idle("log_sd"),
    "tpot_steady_log_sd": _tpot_steady_log_sd,
    **{
        f"{name}_{end}": _end(name, log_sd, side)
        for name, log_sd in SPREADS.items()
        for end, side in (("low", -1.0), ("high", 1.0))
    },
    "memory_bytes": lambda c: c.of_memory("memory_bytes"),
    "free_bytes": lambda c: c.of_memory("free_bytes"),
    "fits": lambda c: c.of_memory("fits"),
    "prefill_bound": lambda c: c.points.nearest_on(c.prices.table("bound")),
    "decode_bound": _decode_bound,
    "basis": _basis,
}
"""Every figure of a point. Bounds are places in `roofline.serving.phases.LIMITS` (−1 where there
is no decode), the basis one in `roofline.table.BASES`; ``each_tok_s`` is of one replica;
``kernels_s`` is the time of kernels between two tokens, ``gap_s`` is ``tpot_s`` with 0 where there
is none."""
