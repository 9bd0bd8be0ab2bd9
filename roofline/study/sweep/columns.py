"""Figures of the points of a lane, each computed when it is asked for.

Most points of a sweep are looked at once, in two or three figures, and dropped: nothing else is
computed of them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array
from roofline.serving.static import CENTRAL
from roofline.study.sweep.decode import Decode
from roofline.study.sweep.points import Points
from roofline.study.sweep.prices import Prices
from roofline.study.sweep.room import room
from roofline.units import MILLION, SECONDS_PER_HOUR


@dataclass(slots=True, eq=False)
class Columns(Mapping[str, Any]):
    """Figures of some points of a lane, by name: see `FIGURES`.

    Attributes
    ----------
    prices
        Of the lane.
    index
        Number of each configuration.
    points
        Batches and lengths.
    """

    prices: Prices
    index: NDArray[np.int64]
    points: Points = field(repr=False)
    _known: dict[str, Any] = field(default_factory=dict, repr=False)

    def __getitem__(self, name: str) -> Any:
        """Values of one column."""
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
        """What tells the lane from other lanes, by column."""
        return self.prices.lane.names

    def taken(self, rows: NDArray[np.intp]) -> "Columns":
        """Some of the points; what is known of them stays known."""
        known = {name: values[rows] for name, values in self._known.items()}
        return Columns(self.prices, self.index[rows], self.points.taken(rows), known)

    def of_memory(self, name: str) -> Any:
        """A column of memory; all of them are known together."""
        found = room(self.prices.lane, self.points)
        self._known |= {
            "memory_bytes": found.taken,
            "free_bytes": found.free,
            "fits": found.fits,
        }
        return self._known[name]


def _decoded(ask: Callable[[Decode, Points], Array], without: float) -> Callable[[Columns], Array]:
    def figure(c: Columns) -> Array:
        if c.prices.decode is None:
            return np.full(c.rows, without)
        return np.where(c.points.output > 1.0, ask(c.prices.decode, c.points), without)

    return figure


def _decodes(c: Columns) -> NDArray[np.bool_]:
    """Whether there is a time between tokens: an answer of one has none."""
    return (c.points.output > 1.0) & (c.prices.decode is not None)


def _latency(c: Columns) -> Array:
    return np.asarray(c["ttft_s"] + c["gap_s"] * (c.points.output - 1.0))


def _latency_log_sd(c: Columns) -> Array:
    """Errors of both phases are taken to go together."""
    rest = c["gap_s"] * (c.points.output - 1.0) * c["tpot_log_sd"]
    return np.asarray((c["ttft_s"] * c["ttft_log_sd"] + rest) / c["latency_s"])


def _each_tok_s(c: Columns) -> Array:
    return np.asarray(c.points.batch * c.points.output / c["latency_s"])


def _tpot(c: Columns) -> Array:
    return np.where(c["decodes"], c["gap_s"], np.nan)


def _usd_per_mtok(c: Columns) -> Array:
    deployment = c.prices.lane.deployment
    if not deployment.node.gpu.usd_per_hour:
        return np.full(c.rows, np.nan)
    per_second = deployment.node.gpu.usd_per_hour * deployment.devices / SECONDS_PER_HOUR
    return np.asarray(per_second / c["each_tok_s"] * MILLION)


def _joule_per_mtok(c: Columns) -> Array:
    deployment = c.prices.lane.deployment
    watts = deployment.node.gpu.tdp_w * deployment.devices
    return np.asarray(watts / c["each_tok_s"] * MILLION)


def _gpus(c: Columns) -> Array:
    return np.full(c.rows, float(c.prices.lane.gpus))


def _basis(c: Columns) -> Array:
    first = c.points.nearest_on(c.prices.prefill.basis())
    rest = c.prices.decode
    return np.maximum(first, rest.basis(c.points)) if rest is not None else first


def _end(name: str, log_sd: str, side: float) -> Callable[[Columns], Array]:
    """Lower or upper end of the central 80 %; nan where nothing was measured."""

    def figure(c: Columns) -> Array:
        wide = np.exp(CENTRAL * c[log_sd])
        ends = c[name] * wide if side > 0 else c[name] / wide
        return np.where(c[log_sd] > 0.0, ends, np.nan)

    return figure


SPREADS: Final[Mapping[str, str]] = {
    "ttft_s": "ttft_log_sd",
    "tpot_s": "tpot_log_sd",
    "latency_s": "latency_log_sd",
    "throughput_tok_s": "latency_log_sd",
    "user_tok_s": "tpot_log_sd",
    "usd_per_mtok": "latency_log_sd",
}
"""Figures that have an interval, and whose spread it is."""

FIGURES: Final[dict[str, Callable[[Columns], Any]]] = {
    "index": lambda c: c.index,
    "batch": lambda c: c.points.batch,
    "prompt": lambda c: c.points.prompt,
    "output": lambda c: c.points.output,
    "gpus": _gpus,
    "ttft_s": lambda c: c.points.on(c.prices.prefill.seconds),
    "decodes": _decodes,
    "gap_s": _decoded(lambda decode, points: decode.seconds(points), 0.0),
    "tpot_s": _tpot,
    "latency_s": _latency,
    "each_tok_s": _each_tok_s,
    "throughput_tok_s": lambda c: c["each_tok_s"] * c.prices.lane.replicas,
    "throughput_per_gpu_tok_s": lambda c: c["each_tok_s"] / c.prices.lane.deployment.devices,
    "user_tok_s": lambda c: 1.0 / c["tpot_s"],
    "usd_per_mtok": _usd_per_mtok,
    "joule_per_mtok": _joule_per_mtok,
    "ttft_log_sd": lambda c: c.points.on(c.prices.prefill.log_sd()),
    "tpot_log_sd": _decoded(lambda decode, points: decode.log_sd(points), 0.0),
    "latency_log_sd": _latency_log_sd,
    **{
        f"{name}_{end}": _end(name, log_sd, side)
        for name, log_sd in SPREADS.items()
        for end, side in (("low", -1.0), ("high", 1.0))
    },
    "memory_bytes": lambda c: c.of_memory("memory_bytes"),
    "free_bytes": lambda c: c.of_memory("free_bytes"),
    "fits": lambda c: c.of_memory("fits"),
    "prefill_bound": lambda c: c.points.nearest_on(c.prices.prefill.bound()),
    "decode_bound": _decoded(lambda decode, points: decode.bound(points), -1.0),
    "basis": _basis,
}
"""Every figure of a point. Bounds are indices into `roofline.cost.roof.BOUNDS` (−1 where there is
no decode), the basis one into `roofline.table.BASES`; ``each_tok_s`` is of one replica;
``gap_s`` is ``tpot_s`` with 0 where there is none."""
