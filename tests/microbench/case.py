"""One launch with its arrays and the result that it must have."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from roofline.bench.gpu.launch import Launch
from tests.microbench.elements import Array, widen

Build: TypeAlias = Callable[[dict[str, Any]], tuple[Launch, ...]]


@dataclass
class Case:
    """Arrays by name; `launches` builds calls on them, wherever they were placed."""

    arrays: dict[str, Array]
    launches: Build
    result: str
    expected: Array
    tolerance: float

    def error(self, found: Array) -> float:
        """Distance to the reference as a share of its length; infinite where a value is missing."""
        values = found.astype(np.float64) if found.dtype == np.float32 else widen(found)
        off = float(np.linalg.norm(values - self.expected) / np.linalg.norm(self.expected))
        return off if np.isfinite(off) else np.inf
