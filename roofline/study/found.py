"""What a sweep found: counts of all configurations, and the rows that were kept of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from roofline.study.best_rows import order, taken
from roofline.study.grounds import COLUMNS, notes
from roofline.study.points import result_of
from roofline.study.pricing import FEASIBLE
from roofline.study.rows import columns
from roofline.study.scenario.scenario import Scenario
from roofline.study.store import merging
from roofline.study.store.merging import KEY
from roofline.study.wording import counted
from roofline.table import Result

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects
    import pyarrow as pa

SHOWN: Final = 10_000
"""Rows that a page or a notebook draws: the best. [1]"""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep found.

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
        return merging.read(self.path) if self._kept is None else self._kept

    def to_pandas(self) -> "pandas.DataFrame":
        """Rows as a data frame; units are in ``DataFrame.attrs``."""
        return self._frame(self.table)

    def best(self, most: int = 0) -> "pandas.DataFrame":
        """Rows by the objectives, the first one first.

        Bounds at published rates come after what was measured; what misses something comes last.

        Args:
            most: How many of them, of which alone all columns are read; 0 for all. [1]
        """
        return self._frame(self._best(most or None))

    @property
    def counted(self) -> tuple[str, ...]:
        """How many configurations there are, and what those that are not feasible miss."""
        limits = {each.column: str(each) for each in self.scenario.limits}
        return counted(self.counts, limits, columns(self.scenario))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know to read the rows right, a sentence each."""
        import pyarrow.parquet as pq

        if self._kept is not None:
            rows = self._kept
        else:
            there = pq.read_schema(self.path).names
            rows = merging.read(self.path, [name for name in COLUMNS if name in there])
        return notes(rows, json.loads((rows.schema.metadata or {}).get(KEY, b"{}")))

    def result(self) -> Result:
        """Rows as a table of a result, which a page is made of."""
        return result_of(self.table)

    def plot(self, name: str = "") -> "plotly.graph_objects.Figure":
        """A figure of the report, to look at in a notebook or to change.

        Where very many rows were kept, the best of them are drawn.

        Args:
            name: Which: ``"pareto"``; empty for the first.

        Raises:
            InputError: No figure is drawn of so few rows, or none has that name.
        """
        return self.shown().plot(name)

    def _repr_html_(self) -> str:
        """Sweep as a notebook shows it: what was asked, its rows, its figures by name."""
        return self.shown()._repr_html_()

    def shown(self) -> Result:
        """What a page or a notebook shows: all rows, or the best of them where there are many."""
        if self.rows <= SHOWN:
            return self.result()
        return result_of(self._best(SHOWN), rows=self.rows)

    def _best(self, most: int | None) -> "pa.Table":
        places = order(self._kept, self.path, self.scenario.objectives)
        return taken(self._kept, self.path, places[:most])

    def _frame(self, table: "pa.Table") -> "pandas.DataFrame":
        frame: pandas.DataFrame = table.to_pandas()
        frame.attrs["units"] = columns(self.scenario)
        return frame
