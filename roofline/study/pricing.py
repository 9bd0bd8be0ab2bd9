"""The work of a chunk: its lanes priced, its points judged, the best of them kept."""

import json
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.work import Array
from roofline.errors import RooflineError
from roofline.study.grid import Name, Series, SteppedNumbers, SweepGrid
from roofline.study.rows import rows
from roofline.study.scenario.scenario import Scenario, SliceDeployment
from roofline.study.store.chunk import Chunk
from roofline.study.store.parts import TALLY
from roofline.study.sweep import points as tabular
from roofline.study.sweep.columns import FigureColumns, price
from roofline.study.sweep.keep import ALL, FEASIBLE, MEMORY, KeptPoints, PointRows
from roofline.study.sweep.prices import SlicePrices, ahead, priced, within

if TYPE_CHECKING:
    import pyarrow as pa


class PointColumns(Struct, frozen=True, eq=False):
    """Columns of points, as `roofline.study.sweep.columns.FigureColumns` has them."""

    names: Mapping[str, str | int]
    """Names of the lane, by column."""
    columns: Mapping[str, NDArray[Any]]
    """Figures, ``index`` and ``fits`` among them."""

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Values of one column; of one that is not there, none."""
        if name in self.columns:
            return self.columns[name]
        return np.full(self.rows, self.names.get(name, np.nan))

    @property
    def rows(self) -> int:
        """Points."""
        return len(self.columns["index"])

    def taken(self, rows: NDArray[np.intp]) -> "PointColumns":
        """Some of the points."""
        return PointColumns(
            self.names, {name: values[rows] for name, values in self.columns.items()}
        )


ONE_BY_ONE: Final = 256
"""Configurations of a chunk where each is priced by itself."""
TOGETHER: Final = 2**18
"""Configurations of a chunk where those of a lane are priced together."""
MOST_TOGETHER: Final = 2**21
"""The same where the best alone are kept: what is the best of few is seldom that of all."""
CHUNKS: Final = 32
"""Chunks at least, of a sweep so large that there are so many."""
LANES: Final = 64
"""Lanes of a chunk at most: each takes a while to set up."""
AHEAD: Final = 32
"""Lanes whose kernels are looked up at once."""
POINTS_AHEAD: Final = 2**19
"""Their configurations at most."""
OF_TRAFFIC: Final = 4
"""The same of traffic, where each takes a second or two."""


def chunk_size(scenario: Scenario, grid: SweepGrid) -> int:
    """Configurations of a chunk: some seconds of work."""
    if scenario.kind == "traffic":
        return OF_TRAFFIC * grid.points
    techniques = [*scenario.techniques, *(patch.technique for patch in scenario.patches)]
    if not all(technique is None or technique.simple for technique in techniques):
        return ONE_BY_ONE
    together = TOGETHER
    if scenario.keep not in (ALL, FEASIBLE):
        together = min(max(TOGETHER, len(grid) // CHUNKS), MOST_TOGETHER)
    return min(max(together // grid.points, 1), LANES) * min(grid.points, together)


@dataclass(frozen=True, slots=True)
class Pricing:
    """Prices the configurations of a chunk; can be sent to another process."""

    scenario: Scenario
    grid: SweepGrid
    """Scenario, and the configurations that it spans."""
    lanes: Callable[[Mapping[str, Name]], SliceDeployment]
    """Lane of its names."""
    _last: dict[int, tuple[SliceDeployment, SlicePrices | None]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _axes: list[tabular.Axes] = field(default_factory=list, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the prices that are known here."""
        return Pricing, (self.scenario, self.grid, self.lanes)

    def __call__(self, chunk: Chunk) -> "pa.Table":
        """Rows of a chunk that are kept; its metadata counts all of them by what they miss."""
        import pyarrow as pa

        scenario, tally, out = self.scenario, Counter[str](), []
        kept: dict[tuple[Name | bool, ...], KeptPoints] = {}
        for bounded, limit, points in self._priced(chunk):
            if not limit:
                # What was not measured is a bound: it beats no forecast.
                key = (bounded, *(points.names[name] for name in scenario.each))
                if key not in kept:
                    kept[key] = KeptPoints(scenario.keep, scenario.limits, scenario.objectives)
                kept[key].add(points)
                continue
            tally[limit] += points.rows
            if scenario.keep == ALL:
                out.append(rows(scenario, points, limit))
        for some in kept.values():
            tally.update({name or FEASIBLE: count for name, count in some.missed.items() if count})
            out += [rows(scenario, points) for points in some.parts()]
        table = pa.concat_tables(out or [self._empty()])
        table = table.unify_dictionaries().sort_by("index")
        return table.replace_schema_metadata({TALLY: json.dumps(dict(sorted(tally.items())))})

    def _priced(self, chunk: Chunk) -> Iterator[tuple[bool, str, PointRows]]:
        """Points of a chunk, lane by lane, by what rules them out; and whether they are bounds."""
        waiting: deque[_Part] = deque()
        for number, start, stop in self.grid.spans(chunk.start, chunk.stop):
            lane, prices = self._lane(number)
            first = number * self.grid.points + start
            index = np.arange(first, first + stop - start)
            numbers: dict[str, Any] = {"index": index, **self.grid.numbers(start, stop)}
            if prices is not None:
                waiting.append(_part(prices, numbers, self.scenario.keep == ALL))
                if len(waiting) == AHEAD or len(waiting) * len(index) >= POINTS_AHEAD:
                    yield from _looked_up(waiting)
                continue
            yield from _looked_up(waiting)
            if lane.deployment is None:
                nothing = PointColumns(lane.labels, {**numbers, "fits": _all(numbers, False)})
                yield lane.bounded, lane.limit, nothing
                continue
            points = self._by_itself(lane, numbers)
            limits = points["limit"]
            # That points do not fit is told with the limits.
            for limit in np.unique(np.where(limits == MEMORY, "", limits)):
                told = ["", MEMORY] if limit == "" else [limit]
                some = points.taken(np.flatnonzero(np.isin(limits, told)))
                yield lane.bounded, str(limit), some
        yield from _looked_up(waiting)

    def _empty(self) -> "pa.Table":
        """No rows, with the columns of the lane that was looked at last."""
        (lane, _), *_ = self._last.values()
        nothing = {"index": np.zeros(0, np.int64), "fits": np.zeros(0, bool)}
        return rows(self.scenario, PointColumns(lane.labels, nothing))

    def _lane(self, number: int) -> tuple[SliceDeployment, SlicePrices | None]:
        """A lane, and its prices where all points have them in common."""
        if number not in self._last:
            lane = self.lanes(self.grid.lane(number))
            prices = None
            if (
                self.scenario.kind == "batch"
                and lane.deployment is not None
                and lane.technique.simple
            ):
                prices = priced(self._tabular(lane))
            self._last.clear()  # chunks ask for one lane after the other
            self._last[number] = lane, prices
        return self._last[number]

    def _tabular(self, lane: SliceDeployment) -> tabular.SweepSlice:
        assert lane.deployment is not None
        technique, numbers = lane.technique, self.scenario.numbers
        if not self._axes:
            batch, prompt, output = (_axis(numbers[name]) for name in tabular.AXES)
            self._axes.append(tabular.Axes(batch, prompt, output, self.grid.points))
        return tabular.SweepSlice(
            lane.deployment,
            self._axes[0],
            names=lane.labels,
            prefill_batch=technique.prefill_batch,
            prefix_hit=technique.prefix_hit,
            kv_cache=technique.kv_cache,
            utilization=technique.memory_utilization,
        )

    def _by_itself(self, lane: SliceDeployment, numbers: Mapping[str, Array]) -> PointColumns:
        from roofline.study import long_run, pointwise  # few sweeps need them, with all they bring

        asked = {name: numbers[name] for name in self.scenario.numbers}
        if self.scenario.kind == "traffic":
            found = long_run.points(lane, asked, self.scenario.seed)
        else:
            found = pointwise.points(lane, asked)
        return PointColumns(lane.labels, {**numbers, **found})


def _axis(series: Series) -> tabular.Axis:
    if isinstance(series, SteppedNumbers) and len(series) > tabular.LISTED:
        last = series.first + series.step * (len(series) - 1)
        return tabular.Axis.between(int(series.first), int(last))
    return tabular.Axis.of(series.at(np.arange(len(series))).tolist())


class _Part(Struct, frozen=True):
    """Points of a lane: those it can be asked about, and those beyond its network's context."""

    prices: SlicePrices
    columns: FigureColumns | None
    beyond: PointColumns | None
    every: bool
    """True if times are wanted also of points that do not fit."""

    @property
    def timed(self) -> bool:
        """True if times are wanted of any of the points."""
        return self.columns is not None and (self.every or bool(self.columns["fits"].any()))


def _part(prices: SlicePrices, numbers: Mapping[str, Array], every: bool) -> _Part:
    inside = within(prices.lane.deployment.architecture, numbers["prompt"], numbers["output"])
    beyond = columns = None
    if not inside.all():
        rest = {name: values[~inside] for name, values in numbers.items()}
        beyond = PointColumns(prices.lane.names, {**rest, "fits": _all(rest, True)})
        numbers = {name: values[inside] for name, values in numbers.items()}
    if inside.any():
        columns = price(prices, numbers, np.asarray(numbers["index"], np.int64))
    return _Part(prices, columns, beyond, every)


def _looked_up(waiting: deque[_Part]) -> Iterator[tuple[bool, str, PointRows]]:
    """Points of lanes with tables, none of which waits then; what has no time is told apart."""
    if len(waiting) > 1:
        ahead([part.prices for part in waiting if part.timed])
    while waiting:
        part = waiting.popleft()
        bounded = part.prices.lane.deployment.calibration is None
        if part.beyond is not None:
            yield bounded, "context", part.beyond
        if part.columns is None:
            continue
        try:
            if part.timed:
                # Known from now on, unless the device lacks the arithmetic.
                part.prices.table("seconds")
        except RooflineError:
            names = ("index", "batch", "prompt", "output", "fits")
            columns = {name: part.columns[name] for name in names}
            yield bounded, "format", PointColumns(part.prices.lane.names, columns)
            continue
        yield bounded, "", part.columns


def _all(numbers: Mapping[str, Array], value: bool) -> Any:
    return np.full(len(numbers["index"]), value)
