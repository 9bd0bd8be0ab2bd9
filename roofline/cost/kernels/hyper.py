"""Calibrated time of hyper-connections: residual streams that are mixed around a layer's parts.

Before a part, coefficients are computed from all streams, made doubly stochastic by Sinkhorn's
iterations, and the streams are joined to the part's input; after it, the streams are mixed and the
part's output is added to each.
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from roofline.cost.kernels.form import (
    RATES,
    Dims,
    Form,
    FormConstant,
    Machine,
    Regimes,
    Values,
    cached_traffic_time,
    soft_maximum,
)
from roofline.cost.work import Array

WIDTH: Final = 2.0
"""Bytes of an element of a stream. [B]"""


def hyper_dims(tokens: Array, hidden: Array, streams: Array, sites: Array) -> dict[str, Array]:
    """Columns of the forms.

    Args:
        tokens, hidden, streams: Tokens, model width and residual streams. [1]
        sites: Parts of a layer that the time is of: two for a layer. [1]
    """
    return {"tokens": tokens, "hidden": hidden, "streams": streams, "sites": sites}


def flops(dims: Dims) -> Array:
    """Arithmetic of the coefficients, (2 + n)·n of them from n streams. [FLOP]"""
    streams = dims["streams"]
    return 2.0 * dims["tokens"] * (2.0 + streams) * streams * streams * dims["hidden"]


def _moving(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Traffic of one site. [s]

    Before a part the streams are read for the coefficients and again for the input, which is
    written; after it the streams and the part's output are read and the streams are written.
    """
    each = 2.0 * dims["streams"] + 1.0
    moved = WIDTH * dims["tokens"] * dims["hidden"] * each
    return cached_traffic_time(moved, moved, machine, constants)


def _before(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Launches and the larger of arithmetic and traffic, of one site. [s]"""
    compute = flops(dims) / (constants["compute"] * machine.flops_per_s)
    moving = _moving(dims, machine, constants)
    return constants["launch"] + soft_maximum(constants["sharpness"], compute, moving)


def _after(dims: Dims, machine: Machine, constants: Values) -> Array:
    """Launches and traffic of one site. [s]"""
    return constants["launch"] + _moving(dims, machine, constants)


def _form(
    kind: str,
    site: Callable[[Dims, Machine, Values], Array],
    own: tuple[FormConstant, ...],
    equation: str,
) -> Form:
    def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
        return dims["sites"] * site(dims, machine, constants)

    def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
        """Launches or work."""
        work = site(dims, machine, constants) - constants["launch"]
        return np.asarray((work > constants["launch"]).astype(np.intp))

    launch = FormConstant("launch", 5e-7, 5e-5, 5e-6, "s", "launches, and the first token")
    return Form(
        kind, (launch, *own, *RATES), seconds, ("tokens", "hidden", "streams"), regime, equation
    )


HYPER: Final[Mapping[str, Form]] = {
    "pre": _form(
        "hyper-before",
        _before,
        (
            FormConstant("compute", 0.005, 1.0, 0.1, "1", "share of the tensor rate"),
            FormConstant("sharpness", 1.0, 16.0, 2.0, "1", "exponent of the soft maximum"),
        ),
        "sites·(launch + [(F/(compute·P))^q + bytes^q]^(1/q)) · exp(residual)",
    ),
    "post": _form("hyper-after", _after, (), "sites·(launch + bytes) · exp(residual)"),
}
"""Forms by the names of collectors. Source: Zhu et al. 2024 (arXiv 2409.19606), section 3; Xie et
al. 2025 (arXiv 2512.24880), sections 4.2 and 4.3, for the kernels and what they move."""
