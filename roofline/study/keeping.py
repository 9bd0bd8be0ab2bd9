"""Rows that are kept of a sweep: all, those without a fault, the best ones, the frontier."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from roofline.cost.work import Array
from roofline.study.scenario.limits import Objective

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Keep:
    """Keeps rows; of rows that it kept of parts it keeps what it keeps of the whole.

    Attributes
    ----------
    keep
        ``"all"``, ``"feasible"``, ``"pareto"`` or ``"top-K"``.
    objectives
        Of the last two.
    """

    keep: str
    objectives: tuple[Objective, ...]

    def __call__(self, table: "pa.Table") -> "pa.Table":
        """The rows that are kept, in their order."""
        if self.keep == "all":
            return table
        table = table.filter(table["feasible"])
        if self.keep == "feasible":
            return table
        values = costs(table, self.objectives)
        if self.keep == "pareto":
            return table.filter(np.asarray(frontier(values)))
        best = ranked(values)[: int(self.keep.removeprefix("top-"))]
        return table.take(np.sort(best))


def costs(table: "pa.Table", objectives: Sequence[Objective]) -> Array:
    """Objectives as columns that are wanted small; a figure that is not there is the worst."""
    columns: list[Any] = [
        table[each.column].to_numpy().astype(np.float64) * (-1.0 if each.largest else 1.0)
        for each in objectives
    ]
    values = np.stack(columns, axis=1)
    return np.where(np.isnan(values), np.inf, values)


def ranked(values: Array) -> NDArray[np.intp]:
    """Rows by the first objective, then by the second…, then as they come."""
    return np.lexsort(values.T[::-1])


def frontier(values: Array) -> NDArray[np.bool_]:
    """Rows that no other is better than in one objective and as good in all others.

    Parameters
    ----------
    values
        Rows × objectives, all wanted small.

    Examples
    --------
    >>> frontier(np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 3.0]])).tolist()
    [True, True, False]
    """
    out = np.zeros(len(values), bool)
    front = np.empty((0, values.shape[1]))
    # After its betters: none that comes later in this order dominates an earlier one.
    for row in ranked(values):
        value = values[row]
        as_good = (front <= value).all(axis=1)
        if not (as_good & (front < value).any(axis=1)).any():
            out[row] = True
            front = np.vstack([front, value])
    return out
