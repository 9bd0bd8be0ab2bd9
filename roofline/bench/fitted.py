"""A form fitted to the measurements of a probe."""

from dataclasses import dataclass

from roofline.bench.held_out import Errors
from roofline.cost.kernels.calibrated import Calibrated


@dataclass(frozen=True, slots=True)
class Fitted:
    """One probe's form, fitted."""

    probe: str
    version: int
    kind: str
    arithmetic: str
    """As of the probe."""
    form: str
    """Name of the form in a calibration file."""
    model: Calibrated
    """What predicts."""
    errors: Errors
    datasheet: Errors | None
    """On families left out; of the roofline at published rates on the same rows, where known."""
    inside: float
    """Share of rows left out that are in their central 80 % interval. [1]"""
