"""Measured kernel that an operator asks for: its kind, its formats and its shape."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roofline.cost.kernels.form import Dims, Form
from roofline.cost.work import Array, Number, Op


class KernelQuery(NamedTuple):
    """A kernel as fits know it."""

    kind: str
    variants: tuple[str, ...]
    """Kind and variants of the kernel; formats in the order in which they would do."""
    dims: Dims
    """Columns of the form, one row per scenario."""
    arithmetic: str = "bf16"
    """Arithmetic whose rate the form is given."""
    form: Form | None = None
    """Form for widths that were not measured, with the constants of the fitted one."""
    assumed: str = ""
    """Reason why no such kernel was measured anywhere, in words; empty where one was."""
    part: str = ""
    """Part of a fused kernel that the operator is; empty for the whole."""
    instead: "KernelQuery | None" = None
    """Another kernel that would do: whichever takes less time does it."""
    otherwise: "KernelQuery | None" = None
    """Kernel that is asked for where none like this one was measured."""
    own: bool = False
    """True where only a kernel of this engine, measured on this device, would do."""
    beside: "KernelQuery | None" = None
    """Kernel that a fused one also does: it takes at least as long."""
    then: "KernelQuery | None" = None
    """Another kernel that runs after it: their times add up."""
    cold: bool = False
    """True where it was measured on a state that may have stayed in the last-level cache, which is
    in memory in a step."""
    rows: NDArray[np.bool_] | None = None
    """Rows that ``assumed`` and ``instead`` are about; None for all."""
    special: tuple[tuple[str, NDArray[np.bool_], Dims], ...] = ()
    """Shapes that some engines have a kernel of its own for, the first that fits: the end of its
    variant, which rows are so, and the columns it takes."""


SIXTEEN: Final = ("bf16", "fp16")


def columns(**numbers: Number) -> dict[str, Array]:
    """Numbers and arrays as columns of one length."""
    found = {name: np.asarray(value, dtype=np.float64) for name, value in numbers.items()}
    rows = max(column.size for column in found.values())
    return {
        name: column if column.shape == (rows,) else np.full(rows, column)
        for name, column in found.items()
    }


def unmeasured(stored: str) -> str:
    """Words for weights that no product was measured with."""
    return f"no product with {stored} weights was measured: the nearest one, at these widths"


def alike(op: Op) -> str:
    """Kernel that operators of one kind share; the name of one that shares none."""
    if op.kernel and op.kind != "moe":
        return op.kernel
    return op.kind if op.kind == "gemm" else op.name
