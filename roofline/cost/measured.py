"""Measured time of an operator, and the protocol of calibrations that tell it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from roofline.cost.engine_costs import EngineProfile
from roofline.cost.work import Number, Op
from roofline.hardware.machine import Gpu
from roofline.table import BASES

if TYPE_CHECKING:
    from roofline.cost.calibration.kernel import KernelFit

AUTO: Final = "auto"
USUAL: Final = "usual"
NONE: Final = "none"
"""Names of calibrations: see `roofline.bench.calibrations.calibration_of`."""
DATASHEET: Final = float(BASES.index("datasheet"))
UNMEASURED: Final = 0.3
"""Log standard deviation of an operator that is priced at datasheet rates beside others that were
measured; assumed. [1]"""

GROUNDS: Final[Mapping[str, str]] = {
    "interpolated": "fits to measured kernels",
    "assumed": "what kernels usually reach of published rates",
    "datasheet": "published rates",
}
"""Grounds of the prices of operators as sentences name them, by the basis of a deployment."""


class MeasuredTime(Struct, frozen=True):
    """Time of one execution of an operator as measurements tell it."""

    seconds: Number
    """Median. [s]"""
    log_sd: Number
    """Standard deviation of its logarithm. [1]"""
    basis: Number
    """Index into `roofline.table.BASES`: the worst of what it rests on."""
    found: "KernelFit | None" = None
    """The fit that tells it; None where the time is part of another operator's."""
    assumed: str = ""
    """Why the fit may not be of this kernel, in words; empty where it is."""
    start_s: Number = 0.0
    """Part of the time that the kernel takes to start. [s]"""
    kind: str = ""
    """Kind of the fused kernel that the operator is a part of; empty where it is its own."""


class Calibration(Protocol):
    """Measured rates of one device."""

    @property
    def name(self) -> str:
        """Name of the profile."""

    @property
    def profile(self) -> EngineProfile:
        """Constants of the engine that runs them."""

    @property
    def basis(self) -> str:
        """Basis of figures that rest on it, of `BASES`."""

    def price(self, op: Op, gpu: Gpu) -> MeasuredTime | None:
        """Time of an operator; None where nothing like it was measured."""
