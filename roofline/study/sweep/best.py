"""The best rows of tables: what is kept of parts that were kept apart."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

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
    """

    keep: str
    objectives: tuple[Objective, ...]

    def __call__(self, table: "pa.Table") -> "pa.Table":
        """The rows that are kept, in their order."""
        table = table.filter(table["feasible"])
        columns = {each.column: table[each.column].to_numpy() for each in self.objectives}
        values = losses(columns, self.objectives)
        if self.keep == PARETO:
            return table.filter(unbeaten(values))
        best = np.lexsort(values.T[::-1])[: int(self.keep.removeprefix(TOP))]
        return table.take(np.sort(best))
