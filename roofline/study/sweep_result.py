"""Results of a sweep: counts of all configurations, and the rows that were kept, best first."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.work import Array
from roofline.study.grounds import COLUMNS, bounds, notes
from roofline.study.points import counted, result_of
from roofline.study.rows import columns, numbers, values
from roofline.study.scenario.scenario import Scenario
from roofline.study.store.parts import KEY, ROWS
from roofline.study.store.parts import read as read_rows
from roofline.study.sweep.keep import FEASIBLE, SweepObjective, best_of, losses
from roofline.table import Result

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects
    import pyarrow as pa

SHOWN: Final = 10_000
"""Rows that a page or a notebook draws: the best. [1]"""


def order(
    rows: "pa.Table | None",
    path: Path | None,
    wanted: Sequence[SweepObjective],
    most: int | None = None,
) -> NDArray[np.intp]:
    """Places of rows by the objectives, the first one first; bounds after forecasts, misses last.

    Rows are of the table, or of the file, of which only the columns wanted are read; where only the
    first so many are asked for, some rows at a time. [1]
    """
    names = [FEASIBLE, *(each.column for each in wanted), *COLUMNS]
    if rows is not None or most is None:
        return np.lexsort(_losses(read(rows, path, names), wanted))[:most]
    import pyarrow as pa
    import pyarrow.parquet as pq

    found, at, start = np.empty((len(wanted) + 2, 0)), np.empty(0, np.intp), 0
    with pq.ParquetFile(path) as file:
        there = [name for name in names if name in file.schema_arrow.names]
        for batch in file.iter_batches(ROWS, columns=list(dict.fromkeys(there))):
            found = np.append(found, _losses(pa.Table.from_batches([batch]), wanted), axis=1)
            at = np.append(at, np.arange(start, start + len(batch)))
            first = np.lexsort(found)[:most]
            found, at, start = found[:, first], at[first], start + len(batch)
    return at


def _losses(rows: "pa.Table", wanted: Sequence[SweepObjective]) -> Array:
    """Keys by which rows are sorted, the first one last: of shape (keys, rows)."""
    figures = {each.column: values(rows[each.column]) for each in wanted}
    by = [*losses(figures, wanted).T[::-1]] if wanted else []
    return np.array([*by, bounds(rows), ~values(rows[FEASIBLE])], np.float64)


def read(rows: "pa.Table | None", path: Path | None, names: Iterable[str]) -> "pa.Table":
    """Columns of a table, or of the file that has it, as far as they are there."""
    if rows is not None:
        return rows.select([name for name in dict.fromkeys(names) if name in rows.column_names])
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        there = file.schema_arrow.names
        return file.read([name for name in dict.fromkeys(names) if name in there])


def taken(rows: "pa.Table | None", path: Path | None, places: NDArray[np.intp]) -> "pa.Table":
    """Rows at some places, in their order; of a file one group of rows after the other."""
    if rows is not None:
        return rows.take(numbers(places))
    import pyarrow as pa
    import pyarrow.parquet as pq

    ordered, parts, start = np.sort(places), [], 0
    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            stop = start + file.metadata.row_group(number).num_rows
            here = ordered[(ordered >= start) & (ordered < stop)]
            for batch in file.iter_batches(ROWS, [number]) if len(here) else ():
                some = here[(here >= start) & (here < start + len(batch))]
                parts.append(pa.Table.from_batches([batch]).take(some - start))
                start += len(batch)
            start = stop
        table = pa.concat_tables(parts or [file.schema_arrow.empty_table()])
    return table.unify_dictionaries().take(np.argsort(np.argsort(places)))


class BestRows(Struct, frozen=True):
    """Keeps rows as `roofline.study.sweep.keep.KeptPoints` keeps points."""

    keep: str
    """``"pareto"`` or ``"top-K"``."""
    objectives: tuple[SweepObjective, ...]
    """Objectives in their order."""
    each: tuple[str, ...] = ()
    """Columns of names: of each combination of them the best are kept, and of bounds among them
    the best bounds: what was not measured beats no forecast."""

    def __call__(self, table: "pa.Table") -> "pa.Table":
        """The rows that are kept, in their order."""
        table = table.filter(table["feasible"])
        columns = {each.column: table[each.column].to_numpy() for each in self.objectives}
        values = losses(columns, self.objectives)
        apart = _apart(table, self.each)
        best = [rows[best_of(values[rows], self.keep)] for rows in apart if len(rows)]
        return table.take(np.sort(np.concatenate(best))) if best else table


def _apart(table: "pa.Table", each: tuple[str, ...]) -> list[NDArray[np.intp]]:
    """Rows of each combination of names, bounds apart from forecasts."""
    code = bounds(table).astype(np.int64)
    for name in each:
        places = np.unique(table[name].to_numpy().astype(str), return_inverse=True)[1]
        code = np.unique(code * (int(places.max(initial=0)) + 1) + places, return_inverse=True)[1]
    return [np.flatnonzero(code == one) for one in np.unique(code)]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Result of a sweep.

    Attributes:
        scenario: What was asked.
        configurations, rows: Priced, and kept. [1]
        counts: Of the priced ones, by the first thing that each misses; those that miss nothing as
            ``"feasible"``.
        reasons: Why some lanes cannot be, a sentence each.
        path: Of the result, where one was asked for.
    """

    scenario: Scenario
    configurations: int
    rows: int
    counts: Mapping[str, int]
    reasons: tuple[str, ...] = ()
    path: Path | None = None
    _kept: "pa.Table | None" = field(default=None, repr=False, compare=False)

    @property
    def feasible(self) -> int:
        """Configurations that miss nothing. [1]"""
        return self.counts.get(FEASIBLE, 0)

    @property
    def table(self) -> "pa.Table":
        """Rows that were kept, in the order of the grid."""
        if self._kept is not None:
            return self._kept
        assert self.path is not None
        return read_rows(self.path)

    def to_pandas(self) -> "pandas.DataFrame":
        """Rows as a data frame; units are in ``DataFrame.attrs``."""
        return self._frame(self.table)

    def best(self, most: int = 0) -> "pandas.DataFrame":
        """Rows by the objectives, the first one first.

        Bounds at published rates come after what was measured; what misses something comes last.
        Only the most rows that are asked for are read in full; 0 for all. [1]
        """
        return self._frame(self._best(most or None))

    def ranked(self, most: int = 0) -> list[dict[str, Any]]:
        """Rows of `best` as plain values, None for figures that are not there."""
        found: list[dict[str, Any]] = self._best(most or None).to_pylist()
        return found

    @property
    def counted(self) -> tuple[str, ...]:
        """Sentences on the number of configurations, and on what infeasible ones miss."""
        limits = {each.column: str(each) for each in self.scenario.limits}
        return counted(self.counts, limits, columns(self.scenario))

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes that a reader must know to read the rows right, a sentence each."""
        rows = read(self._kept, self.path, COLUMNS)
        return notes(rows, json.loads((rows.schema.metadata or {}).get(KEY, b"{}")))

    def result(self) -> Result:
        """Rows as a table of a result, which a page is made of."""
        return result_of(self.table)

    def plot(self, name: str = "") -> "plotly.graph_objects.Figure":
        """A figure of the report by name: ``"pareto"``; the first one for an empty name.

        Of very many rows the best are drawn. InputError where rows are too few,
        or no figure has that name.
        """
        return self.shown().plot(name)

    def _repr_html_(self) -> str:
        """Sweep as a notebook shows it: what was asked, its rows, its figures by name."""
        return self.shown()._repr_html_()

    def shown(self) -> Result:
        """Rows that a page or a notebook shows: all, or the best of them where there are many."""
        if self.rows <= SHOWN:
            return self.result()
        return result_of(self._best(SHOWN), rows=self.rows)

    def _best(self, most: int | None) -> "pa.Table":
        places = order(self._kept, self.path, self.scenario.objectives, most)
        return taken(self._kept, self.path, places)

    def _frame(self, table: "pa.Table") -> "pandas.DataFrame":
        frame: pandas.DataFrame = table.to_pandas()
        frame.attrs["units"] = columns(self.scenario)
        return frame
