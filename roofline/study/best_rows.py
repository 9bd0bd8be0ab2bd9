"""The best rows of a sweep: of a table, or of a file without all of it in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array
from roofline.study.grounds import COLUMNS, bounds
from roofline.study.store import merging
from roofline.study.sweep.keep import PARETO, TOP, Objective, losses
from roofline.study.sweep.pareto import unbeaten

if TYPE_CHECKING:
    import pyarrow as pa

FEASIBLE = "feasible"


def order(
    rows: "pa.Table | None", path: Path | None, wanted: Sequence[Objective]
) -> NDArray[np.intp]:
    """Places of rows by the objectives, the first one first; bounds come after forecasts.

    Those that miss something are last.

    Args:
        rows, path: The table, or the file that has it: of which only the columns wanted are read.
        wanted: Objectives in their order.
    """
    import pyarrow.parquet as pq

    there = (pq.read_schema(path) if rows is None else rows.schema).names
    about = [name for name in COLUMNS if name in there]
    names = list(dict.fromkeys([FEASIBLE, *(each.column for each in wanted), *about]))
    keys = rows.select(names) if rows is not None else merging.read(path, names)
    by = [bounds(keys), ~keys[FEASIBLE].to_numpy()]
    if wanted:
        figures = {each.column: keys[each.column].to_numpy() for each in wanted}
        by = [*losses(figures, wanted).T[::-1], *by]
    return np.lexsort(by)


def taken(rows: "pa.Table | None", path: Path | None, places: NDArray[np.intp]) -> "pa.Table":
    """Rows at some places, in their order; of a file one group of rows after the other."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if rows is not None:
        return rows.take(places)
    ordered, parts, start = np.sort(places), [], 0
    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            stop = start + file.metadata.row_group(number).num_rows
            here = ordered[(ordered >= start) & (ordered < stop)]
            if len(here):
                parts.append(file.read_row_group(number).take(here - start))
            start = stop
        table = pa.concat_tables(parts or [file.schema_arrow.empty_table()])
    return table.unify_dictionaries().take(np.argsort(np.argsort(places)))


@dataclass(frozen=True, slots=True)
class Best:
    """Keeps rows as `roofline.study.sweep.keep.Kept` keeps points."""

    keep: str
    """``"pareto"`` or ``"top-K"``."""
    objectives: tuple[Objective, ...]
    """In their order."""
    each: tuple[str, ...] = ()
    """Columns of names: of each combination of them the best are kept, and of bounds among them
    the best bounds: what was not measured beats no forecast."""

    def __call__(self, table: "pa.Table") -> "pa.Table":
        """The rows that are kept, in their order."""
        table = table.filter(table["feasible"])
        columns = {each.column: table[each.column].to_numpy() for each in self.objectives}
        values = losses(columns, self.objectives)
        apart = _apart(table, self.each)
        best = [rows[self._best(values[rows])] for rows in apart if len(rows)]
        return table.take(np.sort(np.concatenate(best))) if best else table

    def _best(self, values: Array) -> NDArray[np.intp]:
        """Places of the best."""
        if self.keep == PARETO:
            return np.flatnonzero(unbeaten(values))
        return np.lexsort(values.T[::-1])[: int(self.keep.removeprefix(TOP))]


def _apart(table: "pa.Table", each: tuple[str, ...]) -> list[NDArray[np.intp]]:
    """Rows of each combination of names, bounds apart from forecasts."""
    code = bounds(table).astype(np.int64)
    for name in each:
        places = np.unique(table[name].to_numpy().astype(str), return_inverse=True)[1]
        code = np.unique(code * (int(places.max(initial=0)) + 1) + places, return_inverse=True)[1]
    return [np.flatnonzero(code == one) for one in np.unique(code)]
