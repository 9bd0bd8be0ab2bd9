"""Calibrated time of launching kernels that do nothing, one after the other: t = start + each·n."""

from typing import Final

from roofline.cost.kernels.form import Constant, Dims, Form, Machine, Values, one_regime
from roofline.cost.work import Array


def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
    """A start, and as much for each kernel. [s]"""
    time: Array = constants["start"] + constants["each"] * dims["calls"]
    return time


FORM: Final = Form(
    "pointwise",
    (
        Constant("start", 1e-8, 1e-3, 3e-6, "s", "What does not depend on the number."),
        Constant("each", 1e-8, 1e-3, 2e-6, "s", "Each kernel more."),
    ),
    seconds,
    ("calls",),
    one_regime,
)
"""A line. Source: definition of a cost per launch."""
