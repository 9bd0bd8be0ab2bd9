"""A form fitted to the measurements of a probe."""

from dataclasses import dataclass

from roofline.bench.held_out import Errors
from roofline.cost.kernels.calibrated import Calibrated


@dataclass(frozen=True, slots=True)
class Fitted:
    """One probe's form, fitted.

    Attributes
    ----------
    probe, version, kind, arithmetic
        As of the probe.
    form
        Name of the form in a calibration file.
    model
        What predicts.
    errors, datasheet
        On families left out; of the roofline at published rates on the same rows, where known.
    inside
        Share of rows left out that are in their central 80 % interval. [1]
    """

    probe: str
    version: int
    kind: str
    arithmetic: str
    form: str
    model: Calibrated
    errors: Errors
    datasheet: Errors | None
    inside: float
