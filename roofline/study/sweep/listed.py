"""Points of a lane whose figures are there already: priced one by one, or not at all."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """Columns of points, as `roofline.study.sweep.columns.Columns` has them.

    Attributes
    ----------
    names
        What tells the lane from other lanes, by column.
    columns
        Figures, ``index`` and ``fits`` among them.
    """

    names: Mapping[str, str | int]
    columns: Mapping[str, NDArray[Any]]

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Values of one column; of one that is not there, none."""
        if name in self.columns:
            return self.columns[name]
        return np.full(self.rows, self.names.get(name, np.nan))

    @property
    def rows(self) -> int:
        """Points."""
        return len(self.columns["index"])

    def taken(self, rows: NDArray[np.intp]) -> "Listed":
        """Some of the points."""
        return Listed(self.names, {name: values[rows] for name, values in self.columns.items()})
