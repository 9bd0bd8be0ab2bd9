"""Calibrated time of converting activations of 16 bits to 8: scales found, and elements scaled.

A block finds the largest element of a row, or scales what it is given; the multiprocessors share
the rows. What one source calls finding a scale is the time of both in one kernel less that of
scaling alone: a difference of two roofs, which is small where memory bounds both.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from roofline.cost.kernels.form import Constant, Dims, Form, Machine, Regimes, Values
from roofline.cost.kernels.warm import RATES, through
from roofline.cost.work import Array

SCALED: Final = 3.0
"""Bytes per element: 16 bits read, 8 written. [B]"""
SEARCHED: Final = 2.0
"""Bytes per element: 16 bits read. [B]"""
LANES: Final = (32.0, 256.0)
"""Width of a row of one warp, and of a row whose block has several to agree. [1]"""
PASS: Final = 4096.0
"""Elements of a row that a block takes at a time: 256 threads with 16 each. [1]"""
RESIDENT: Final = {"hopper": 8.0, "ampere": 8.0}
"""Blocks of 256 threads on a multiprocessor, by generation; `FEWER` on others: Ada holds 1536
threads, and on Blackwell measured times step up with every 6 rows of a multiprocessor. [1]"""
FEWER: Final = 6.0
LEAST: Final = 0.1
"""Share of the launches that a difference is at least. [1]"""

_STARTED: Final = (
    Constant("start", 1e-7, 3e-5, 2e-6, "s", "launch and first access"),
    Constant("lane", 1e-14, 2e-9, 2e-11, "s", "each element that a block walks along its row"),
    Constant("row", 1e-10, 2e-6, 1e-8, "s", "each row that a multiprocessor takes"),
)


def _passed(dims: Dims, machine: Machine, constants: Values, traffic: float) -> tuple[Array, Array]:
    """Start with rows, and traffic of each row, each by itself. [s]"""
    m, width = dims["m"], dims["width"]
    start = constants["start"] + constants["lane"] * width
    moved = m * width * traffic
    rows = constants["row"] * m / machine.multiprocessors
    return start + rows, through(moved, moved, machine, constants)


def _pass(kind: str, traffic: float) -> Form:
    def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
        start, moving = _passed(dims, machine, constants, traffic)
        return start + moving

    def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
        """What takes longest: start or traffic."""
        start, moving = _passed(dims, machine, constants, traffic)
        return np.asarray((moving > start).astype(np.intp))

    equation = "(start + lane·width + row·m/SMs + bytes) · exp(residual)"
    return Form(kind, (*_STARTED, *RATES), seconds, ("m", "width"), regime, equation)


def _roofs(dims: Dims, machine: Machine, constants: Values) -> tuple[Array, Array]:
    """Start of a search, and how much longer rows take that are searched and scaled. [s]

    Rows of the first wave are searched at once, those of the next after them; narrow ones come and
    go one by one. Rows that do not stay on chip are read twice.
    """
    m, width, q = dims["m"], dims["width"], constants["sharpness"]
    resident = dims["resident"]
    start = constants["start"] + constants["lane"] * (np.ceil(width / PASS) - 1.0) * PASS
    narrow, wide = LANES
    full = m / machine.multiprocessors
    full = np.where(width < wide, full, resident * (np.ceil(full / resident) - 1.0))
    agreeing = np.clip(np.log2(width / narrow) / np.log2(wide / narrow), 0.0, 1.0)
    searched = (constants["row"] + constants["agree"] * agreeing) * full
    again = 1.0 / (1.0 + (constants["kept"] / width) ** 4)
    bytes_once = m * width * SCALED
    bytes_both = bytes_once + m * width * SEARCHED * again
    once = through(bytes_once, bytes_once, machine, constants)
    both = through(bytes_both, bytes_once, machine, constants)
    alone = ((constants["row"] * full) ** q + once**q) ** (1.0 / q)
    together = (searched**q + both**q) ** (1.0 / q)
    return start, together - alone


def difference_dims(m: Array, width: Array, generation: str) -> dict[str, Array]:
    """Columns of a difference: rows, their width, and blocks on a multiprocessor."""
    return {
        "m": m,
        "width": width,
        "resident": np.full_like(m, RESIDENT.get(generation, FEWER)),
    }


def _difference_seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    start, longer = _roofs(dims, machine, constants)
    return np.maximum(start + longer, LEAST * constants["start"])


def _difference_regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
    start, longer = _roofs(dims, machine, constants)
    return np.asarray((longer > start).astype(np.intp))


CONVERSION: Final[Mapping[str, Form]] = {
    "scale_matrix": _pass("quantize", SCALED),
    "computescale": _pass("quantize", SEARCHED),
    "difference": Form(
        "quantize",
        (
            *_STARTED,
            Constant("agree", 1e-10, 2e-6, 1e-7, "s", "warps of a row that agree on its largest"),
            Constant("kept", 1e3, 1e5, 1.5e4, "1", "elements of a row that stay on chip"),
            *RATES,
            Constant("sharpness", 1.0, 16.0, 2.0, "1", "exponent of the soft maximum"),
        ),
        _difference_seconds,
        ("m", "width"),
        _difference_regime,
        "(start + lane·width + roof of searching and scaling − roof of scaling) · exp(residual)",
    ),
}
"""By what a collector calls them; a difference of two kernels apart. Source: every operand crosses
memory once, as in `roofline.cost.linear.pointwise`."""
