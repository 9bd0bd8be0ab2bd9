"""Basis of a figure: predicted from measured kernels, or a bound at datasheet rates."""

from collections.abc import Mapping
from typing import Any, Final

from roofline.table import USUAL_KERNELS, Result
from roofline.view.text import is_number

BOUND: Final = "datasheet"
"""Basis of what nothing was measured for: it has a bound and no interval."""
PARTLY: Final = "part datasheet"
"""A predicted figure that has such operators among its parts."""
MEASURED: Final = frozenset({"measured", "interpolated", "extrapolated", "transferred"})
"""Bases that rest on measurements."""
MEANINGS: Final[Mapping[str, str]] = {
    "measured": "this kernel was measured at this shape",
    "interpolated": "a fit to kernels measured on this device, within the shapes measured",
    "extrapolated": "such a fit beyond the shapes measured, or of the same chip with other memory; "
    "a wider interval",
    "transferred": "a fit of another device or engine stands in, with a wider interval",
    BOUND: "nothing like it was measured: a floor at datasheet rates, without an interval",
    "assumed": "kernels of other number formats, or the shares of published rates that kernels "
    "usually reach, stand in, with a wider interval",
}
"""Meaning of each basis of an operator's time, from best to worst."""


def calibrated(result: Result) -> bool:
    """True where figures are predicted from measured kernels, so that they have intervals."""
    for name, low, high in (("headline", "low", "high"), ("ops", "low_s", "high_s")):
        table = result.tables.get(name)
        if table is not None:
            there = low in table.columns
            return there and any(a < b for a, b in zip(table[low], table[high], strict=True))
    return False


def predicted_from(calibration: str | None) -> str:
    """Grounds of predictions by the name of their calibration, None where there are several.

    >>> predicted_from("h100-sxm"), predicted_from(None)
    ('measured kernels (h100-sxm)', 'measured kernels')
    >>> predicted_from("usual kernels")
    'usual shares of published rates'
    """
    if calibration == USUAL_KERNELS:
        return "usual shares of published rates"
    return "measured kernels" + (f" ({calibration})" if calibration else "")


def ends(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """Ends of the central 80 % of an operator's time; None where nothing like it was measured.

    >>> ends({"basis": "measured", "seconds": 2.0, "low_s": 1.0, "high_s": 4.0})
    (1.0, 4.0)
    >>> ends({"basis": "datasheet", "seconds": 2.0, "low_s": 2.0, "high_s": 4.0})
    """
    if row["basis"] == BOUND or not row["seconds"]:
        return None
    return float(row["low_s"]), float(row["high_s"])


def is_bound(row: Mapping[str, Any]) -> bool:
    """True where nothing of a row was measured: one with measured parts has an interval."""
    return row.get("basis") == BOUND and not is_number(row.get("ttft_s_low"))


def inside(row: Mapping[str, Any]) -> bool:
    """True where an operator is fused into the kernel of another; only wires and loads can hide.

    >>> inside({"seconds": 0.0, "roof_s": 1.0, "wire_s": 0.0})
    True
    """
    hides = row.get("wire_s", 0.0) or row.get("host_s", 0.0)
    return not row["seconds"] and row["roof_s"] > 0 and not hides


def at_roof(row: Mapping[str, Any]) -> float | None:
    """Share of a predicted time that published rates ask for; None where part of it is hidden.

    More than 1 where a kernel is faster, as when a cache has what was counted as memory's. [1]

    >>> at_roof({"seconds": 4.0, "roof_s": 3.0})
    0.75
    """
    hides = row.get("wire_s", 0.0) or row.get("host_s", 0.0)
    if not row["seconds"] or (hides and row["roof_s"] > row["seconds"]):
        return None
    return float(row["roof_s"] / row["seconds"])
