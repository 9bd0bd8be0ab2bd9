"""The best rows of tables: what is kept of parts that were kept apart."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array
from roofline.study.grounds import bounds
from roofline.study.sweep.keep import PARETO, TOP, Objective, losses
from roofline.study.sweep.pareto import unbeaten

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Best:
    """Keeps rows as `roofline.study.sweep.keep.Kept` keeps points.

    Attributes
    ----------
    keep
        ``"pareto"`` or ``"top-K"``.
    objectives
        In their order.
    each
        Columns of names: of each combination of them the best are kept, and of bounds among them
        the best bounds: what was not measured beats no forecast.
    """

    keep: str
    objectives: tuple[Objective, ...]
    each: tuple[str, ...] = ()

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
