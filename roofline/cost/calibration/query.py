"""Measured kernel that an operator asks for: its kind, its formats and its shape."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.kernels.form import Dims, Form
from roofline.cost.work import Array, Number, Op


@dataclass(frozen=True, slots=True)
class KernelQuery:
    """A kernel as fits know it.

    Attributes
    ----------
    kind, variants
        Of kernel; formats in the order in which they would do.
    dims
        Columns of the form, one row per scenario.
    arithmetic
        Whose rate the device's form is given.
    form
        In place of the fitted one, with the same constants: for widths that were not measured.
    assumed
        Why no such kernel was measured anywhere, in words; empty where one was.
    part
        Which part of a fused kernel the operator is; empty for the whole.
    instead
        Another kernel that would do: whichever takes less time does it.
    otherwise
        Kernel that is asked for where none like this one was measured.
    own
        Whether only a kernel of this engine, measured on this device, would do.
    beside
        What a fused kernel does besides: it takes at least as long.
    then
        Another kernel that runs after it: their times add up.
    cold
        Whether it was measured on a state that may have stayed in the last-level cache, which is
        in memory in a step.
    rows
        Rows that ``assumed`` and ``instead`` are about; None for all.
    special
        Shapes that some engines have a kernel of its own for, the first that fits: the end of its
        variant, which rows are so, and the columns it takes.
    """

    kind: str
    variants: tuple[str, ...]
    dims: Dims
    arithmetic: str = "bf16"
    form: Form | None = None
    assumed: str = ""
    part: str = ""
    instead: "KernelQuery | None" = None
    otherwise: "KernelQuery | None" = None
    own: bool = False
    beside: "KernelQuery | None" = None
    then: "KernelQuery | None" = None
    cold: bool = False
    rows: NDArray[np.bool_] | None = None
    special: tuple[tuple[str, NDArray[np.bool_], Dims], ...] = ()


SIXTEEN: Final = ("bf16", "fp16")


def columns(**numbers: Number) -> dict[str, Array]:
    """Numbers and arrays as columns of one length."""
    wide = np.broadcast_arrays(*(np.atleast_1d(value) for value in numbers.values()))
    return {
        name: np.asarray(column, dtype=np.float64)
        for name, column in zip(numbers, wide, strict=True)
    }


def base_name(op: Op) -> str:
    """Name of an operator without the number that tells it from others of that name."""
    return op.name.rsplit("-", 1)[0] if op.name[-1:].isdigit() else op.name


def unmeasured(stored: str) -> str:
    """Words for weights that no product was measured with."""
    return f"no product with {stored} weights was measured: the nearest one, at these widths"
