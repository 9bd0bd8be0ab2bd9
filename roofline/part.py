"""Numbers or arrays, and parts of a sum with the formula that makes each."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Number: TypeAlias = Array | float


class Part(Struct, frozen=True):
    """A part of a sum with the formula that makes it."""

    name: str
    value: Number
    formula: str = ""
    """Formula in symbols; a term in brackets is left out where it changes nothing."""
    symbols: Mapping[str, Number] = {}
    """Values of the symbols, by symbol."""
    source: str = ""
    """Source: what the part is, or is stored in."""
