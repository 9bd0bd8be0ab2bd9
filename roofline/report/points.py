"""Operators and roofs on the roofline chart, before it is drawn."""

import math
from dataclasses import dataclass
from typing import Any, Final

from roofline.table import Result
from roofline.view.known import calibrated, ends

LABELLED: Final = 0.03
"""Smallest share of its phase's time that earns an operator a label. [1]"""
APART: Final = 0.3
"""Labels closer than this in intensity are joined. [decades]"""
HEIGHT: Final = 0.15
"""The same in rate, for points below the roof. [decades]"""


@dataclass(frozen=True, slots=True)
class Point:
    """An operator on the chart; amounts are of one step on one device."""

    phase: str
    op: str
    flops: float
    hbm_bytes: float
    intensity: float
    seconds: float
    serial_s: float
    share: float
    bound: str
    flops_per_s: float
    """Rate at the predicted time, else at the datasheet's."""
    roof_flops_per_s: float
    """The most that datasheet rates allow."""
    interval: tuple[float, float] | None = None
    """Central 80 % of the rate; None where nothing like it was measured. [FLOP/s]"""
    basis: str = ""
    """Basis of the time; empty where all are datasheet bounds."""


@dataclass(frozen=True, slots=True)
class Roof:
    """A ceiling: FLOP/s of an arithmetic type, or B/s of a memory level."""

    name: str
    rate: float


@dataclass(frozen=True, slots=True)
class Label:
    """Names of operators that stand close together, at the largest of them."""

    phase: str
    ops: tuple[str, ...]
    intensity: float
    flops_per_s: float


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Operators of a phase that have no place on a logarithmic chart: they count no FLOPs."""

    phase: str
    ops: tuple[str, ...]
    share: float


@dataclass(frozen=True, slots=True)
class RooflineFacts:
    """The chart before it is drawn."""

    points: tuple[Point, ...]
    arithmetic: tuple[Roof, ...]
    bandwidth: tuple[Roof, ...]
    ridge: float
    """Intensity at which the first arithmetic roof meets the first bandwidth roof. [FLOP/B]"""
    labels: tuple[Label, ...]
    left_out: tuple[LeftOut, ...]
    x: tuple[float, float]
    y: tuple[float, float]
    """Ranges of the axes: intensity [FLOP/B] and rate. [FLOP/s]"""
    calibrated: bool


def roofline_facts(result: Result) -> RooflineFacts:
    """Points, roofs and labels of the roofline chart."""
    rows = list(result.tables["ops"].rows())
    predicted = calibrated(result)
    points = tuple(_point(row, predicted) for row in rows if _drawn(row))
    roofs = list(result.tables["roofs"].rows())
    arithmetic, bandwidth = (
        tuple(Roof(str(row["name"]), float(row["rate"])) for row in roofs if row["kind"] == kind)
        for kind in ("arithmetic", "bandwidth")
    )
    ridge = arithmetic[0].rate / bandwidth[0].rate
    intensities = [ridge, *(point.intensity for point in points)]
    x = min(intensities) / 10, max(intensities) * 4
    lowest = min(
        [min(arithmetic[0].rate, bandwidth[0].rate * x[0])]
        + [point.flops_per_s for point in points]
    )
    y = lowest / 1.5, max(roof.rate for roof in arithmetic) * 3
    return RooflineFacts(
        points, arithmetic, bandwidth, ridge, _labels(points), _left_out(rows), x, y, predicted
    )


def _drawn(row: dict[str, Any]) -> bool:
    """True where an operator has a place on a logarithmic chart."""
    return bool(row["flops"] > 0 and row["intensity"] > 0 and row["seconds"] > 0)


def _point(row: dict[str, Any], predicted: bool) -> Point:
    flops, known = row["flops"], ends(row) if predicted else None
    return Point(
        phase=str(row["phase"]),
        op=str(row["op"]),
        flops=flops,
        hbm_bytes=row["hbm_bytes"],
        intensity=row["intensity"],
        seconds=row["seconds"],
        serial_s=row["serial_s"],
        share=row["share"],
        bound=str(row["bound"]),
        flops_per_s=flops / row["seconds"],
        roof_flops_per_s=flops / row["roof_s" if predicted else "seconds"],
        interval=(flops / known[1], flops / known[0]) if known else None,
        basis=str(row["basis"]) if predicted else "",
    )


def _labels(points: tuple[Point, ...]) -> tuple[Label, ...]:
    """Labels of the operators that take time, neighbours joined."""
    out: list[Label] = []
    for phase in dict.fromkeys(point.phase for point in points):
        groups: list[list[Point]] = []
        worth = [point for point in points if point.phase == phase and point.share >= LABELLED]
        for point in sorted(worth, key=lambda point: point.intensity):
            near = next((group for group in groups if _near(point, group[-1])), None)
            if near is None:
                groups.append([point])
            else:
                near.append(point)
        for group in groups:
            ordered = sorted(group, key=lambda point: -point.share)
            first = ordered[0]
            names = tuple(point.op for point in ordered)
            out.append(Label(phase, names, first.intensity, first.flops_per_s))
    return tuple(out)


def _near(one: Point, other: Point) -> bool:
    """True where two points share a label: points on a roof, or at one height below it."""
    if math.log10(one.intensity / other.intensity) >= APART:
        return False
    on_roof = one.interval is None and other.interval is None
    return on_roof or abs(math.log10(one.flops_per_s / other.flops_per_s)) < HEIGHT


def _left_out(rows: list[dict[str, Any]]) -> tuple[LeftOut, ...]:
    out = []
    for phase in dict.fromkeys(str(row["phase"]) for row in rows):
        silent = [row for row in rows if row["phase"] == phase and not _drawn(row)]
        if silent:
            names = tuple(str(row["op"]) for row in silent)
            out.append(LeftOut(phase, names, sum(row["share"] for row in silent)))
    return tuple(out)
