"""Every operator under the roofs of the machine: the facts of the chart, then its drawing."""

import math
from typing import Any, Final

from msgspec import Struct

from roofline.report.figures import SYMBOLS, colour, layout, lines, log_axis, note, scatter, short
from roofline.table import Result
from roofline.view.block import Figure, Key, Section
from roofline.view.known import BOUND, calibrated, ends
from roofline.view.text import amount, between, label, percent, shorten

LABELLED: Final = 0.03
"""Smallest share of its phase's time that earns an operator a label. [1]"""
APART: Final = 0.3
"""Labels closer than this in intensity are joined. [decades]"""
HEIGHT: Final = 0.15
"""The same in rate, for points below the roof. [decades]"""


class ChartPoint(Struct, frozen=True):
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


class Roof(Struct, frozen=True):
    """A ceiling: FLOP/s of an arithmetic type, or B/s of a memory level."""

    name: str
    rate: float


class ChartLabel(Struct, frozen=True):
    """Names of operators that stand close together, at the largest of them."""

    phase: str
    ops: tuple[str, ...]
    intensity: float
    flops_per_s: float


class UnchartedOperators(Struct, frozen=True):
    """Operators of a phase that have no place on a logarithmic chart: they count no FLOPs."""

    phase: str
    ops: tuple[str, ...]
    share: float


class RooflineFacts(Struct, frozen=True):
    """The chart before it is drawn."""

    points: tuple[ChartPoint, ...]
    arithmetic: tuple[Roof, ...]
    bandwidth: tuple[Roof, ...]
    ridge: float
    """Intensity at which the first arithmetic roof meets the first bandwidth roof. [FLOP/B]"""
    labels: tuple[ChartLabel, ...]
    left_out: tuple[UnchartedOperators, ...]
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


def _point(row: dict[str, Any], predicted: bool) -> ChartPoint:
    flops, known = row["flops"], ends(row) if predicted else None
    return ChartPoint(
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


def _labels(points: tuple[ChartPoint, ...]) -> tuple[ChartLabel, ...]:
    """Labels of the operators that take time, neighbours joined."""
    out: list[ChartLabel] = []
    for phase in dict.fromkeys(point.phase for point in points):
        groups: list[list[ChartPoint]] = []
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
            out.append(ChartLabel(phase, names, first.intensity, first.flops_per_s))
    return tuple(out)


def _near(one: ChartPoint, other: ChartPoint) -> bool:
    """True where two points share a label: points on a roof, or at one height below it."""
    if math.log10(one.intensity / other.intensity) >= APART:
        return False
    on_roof = one.interval is None and other.interval is None
    return on_roof or abs(math.log10(one.flops_per_s / other.flops_per_s)) < HEIGHT


def _left_out(rows: list[dict[str, Any]]) -> tuple[UnchartedOperators, ...]:
    out = []
    for phase in dict.fromkeys(str(row["phase"]) for row in rows):
        silent = [row for row in rows if row["phase"] == phase and not _drawn(row)]
        if silent:
            names = tuple(str(row["op"]) for row in silent)
            out.append(UnchartedOperators(phase, names, sum(row["share"] for row in silent)))
    return tuple(out)


NAMED: Final = 3
LARGEST_POINT: Final = 46
"""Diameter of an operator that takes the whole phase. [px]"""


def draw_roofline(facts: RooflineFacts) -> Figure:
    """Chart of intensity against rate, both logarithmic; the area of a point is its time."""
    data = [
        _line(roof.name, *_slope(facts, roof), i == 0) for i, roof in enumerate(facts.bandwidth)
    ]
    data += [
        _line(roof.name, *_flat(facts, roof), i == 0) for i, roof in enumerate(facts.arithmetic)
    ]
    ridge = _line("ridge", [facts.ridge] * 2, [facts.y[0], facts.arithmetic[0].rate], main=False)
    data.append({**ridge, "line": {"color": colour("muted"), "width": 1, "dash": "dot"}})
    phases = list(dict.fromkeys(point.phase for point in facts.points))
    if facts.calibrated:
        data += [_gaps(facts, phase) for phase in phases]
    data += [_cloud(facts, phase) for phase in phases]
    spec = {
        "data": data,
        "layout": layout(
            490,
            xaxis=log_axis("Arithmetic intensity [FLOP per byte of HBM]", *facts.x),
            yaxis=log_axis("Performance", *facts.y, "FLOP/s"),
            annotations=[*_roof_names(facts), *_point_names(facts)],
        ),
    }
    legend = tuple(
        Key(phase, phase if phase in SYMBOLS else "rest", SYMBOLS.get(phase, "square"), soft=True)
        for phase in phases
    )
    if facts.calibrated:
        legend += (Key("gap to the roof", "faint", "stem"),)
        if any(point.basis == BOUND for point in facts.points):
            legend += (Key("not measured: on the roof", "ink", "open"),)
    return Figure("roofline-chart", "Roofline of one device", _summary(facts), spec, legend)


def _slope(facts: RooflineFacts, roof: Roof) -> tuple[list[float], list[float]]:
    """A bandwidth roof, from the left edge or the bottom to the highest arithmetic roof."""
    top = max(entry.rate for entry in facts.arithmetic)
    if roof is facts.bandwidth[0]:
        top = facts.arithmetic[0].rate
    first, last = max(facts.x[0], facts.y[0] / roof.rate), top / roof.rate
    return [first, last], [first * roof.rate, top]


def _flat(facts: RooflineFacts, roof: Roof) -> tuple[list[float], list[float]]:
    """An arithmetic roof, from where device memory can feed it."""
    return [max(facts.x[0], roof.rate / facts.bandwidth[0].rate), facts.x[1]], [roof.rate] * 2


def _line(name: str, x: list[float], y: list[float], main: bool) -> dict[str, Any]:
    line = {"color": colour("ink" if main else "muted"), "width": 2.5 if main else 1.2}
    line |= {"dash": "solid" if main else "dash"}
    return scatter(x, y, mode="lines", name=label(name), line=line)


def _roof_names(facts: RooflineFacts) -> list[dict[str, Any]]:
    out = []
    for roof in facts.bandwidth:
        x, y = _slope(facts, roof)
        out.append(
            note(
                f"{label(roof.name)} {short(amount(roof.rate, 'B/s', 4))}",
                math.log10(x[0]),
                math.log10(y[0]),
                xanchor="left",
                yanchor="bottom",
                name="slope",
            )
        )
    for place, roof in enumerate(facts.arithmetic):
        # The first stands free above the ridge; below it the others would cross the slope there.
        first, last = _flat(facts, roof)[0]
        out.append(
            note(
                f"{label(roof.name)} {short(amount(roof.rate, 'FLOP/s', 4))}",
                math.log10(last if place else first),
                math.log10(roof.rate),
                xanchor="right" if place else "left",
                yanchor="bottom",
                yshift=0 if place else 12,
                name="roof",
            )
        )
    ridge = f"ridge {amount(facts.ridge, 'FLOP/B')}"
    out.append(
        note(
            ridge,
            math.log10(facts.ridge),
            math.log10(facts.y[0]),
            xanchor="right",
            yanchor="bottom",
            xshift=-4,
        )
    )
    return out


def _point_names(facts: RooflineFacts) -> list[dict[str, Any]]:
    """Labels below the roofs.

    Under the flat ones, text runs to the left and each further point has its text one line lower,
    so that no line to a point crosses a text.
    """
    out = []
    flat = 0
    for entry in sorted(facts.labels, key=lambda entry: entry.intensity):
        below = entry.intensity < facts.ridge
        shift = (26, 22) if below else (-12, 40 + 22 * flat)
        flat += not below
        out.append(
            note(
                _names(entry.ops),
                math.log10(entry.intensity),
                math.log10(entry.flops_per_s),
                showarrow=True,
                arrowhead=0,
                arrowwidth=1,
                arrowcolor=colour("faint"),
                ax=shift[0],
                ay=shift[1],
                xanchor="left" if below else "right",
                yanchor="top" if below else "middle",
                standoff=3,
                bgcolor=colour("surface", 0.8),
                borderpad=0,
                font={
                    "size": 12,
                    "color": colour(entry.phase if entry.phase in SYMBOLS else "ink"),
                },
            )
        )
    return out


def _names(ops: tuple[str, ...]) -> str:
    more = f" +{len(ops) - NAMED}" if len(ops) > NAMED else ""
    return label(", ".join(shorten(op, 14) for op in ops[:NAMED]), 48) + more


def _gaps(facts: RooflineFacts, phase: str) -> dict[str, Any]:
    """Lines from the points of a phase to the roof above each."""
    points = [point for point in facts.points if point.phase == phase]
    return scatter(
        (x for point in points for x in (point.intensity, point.intensity, None)),
        (y for p in points for y in (p.flops_per_s, p.roof_flops_per_s, None)),
        mode="lines",
        line={"color": colour(phase if phase in SYMBOLS else "rest", 0.55), "width": 1.5},
    )


def _cloud(facts: RooflineFacts, phase: str) -> dict[str, Any]:
    """Points of a phase, the largest first so that small ones stay visible."""
    points = sorted(
        (point for point in facts.points if point.phase == phase), key=lambda point: -point.share
    )
    tint = phase if phase in SYMBOLS else "rest"
    return scatter(
        (point.intensity for point in points),
        (point.flops_per_s for point in points),
        [_hover(point) for point in points],
        name=label(phase),
        marker={
            "symbol": SYMBOLS.get(phase, "square"),
            "color": _fills(points, tint),
            "line": {"color": colour(tint), "width": 1.5},
            "opacity": 1,
            "size": [max(point.share, 0.0) for point in points],
            "sizemode": "area",
            "sizeref": 2 / LARGEST_POINT**2,
            "sizemin": 3.5,
        },
        cliponaxis=False,
    )


def _fills(points: list[ChartPoint], tint: str) -> Any:
    """Points that were not measured are hollow."""
    if all(point.basis != BOUND for point in points):
        return colour(tint, 0.3)
    return [colour("surface") if p.basis == BOUND else colour(tint, 0.3) for p in points]


def _hover(point: ChartPoint) -> str:
    told = [
        f"{label(point.op)} · {label(point.phase)}",
        f"{amount(point.flops, 'FLOP')}, {amount(point.hbm_bytes, 'B')} of HBM",
        f"intensity {amount(point.intensity, 'FLOP/B')}",
        f"{amount(point.seconds, 's')}, {percent(point.share)} of the step",
    ]
    rate = amount(point.flops_per_s, "FLOP/s")
    if point.interval:
        told += [
            f"predicted {rate}, {label(point.basis)}",
            f"80 % in {between(*point.interval, 'FLOP/s')}",
            f"roof {amount(point.roof_flops_per_s, 'FLOP/s')}: "
            f"{percent(point.flops_per_s / point.roof_flops_per_s)} of it",
        ]
    elif point.basis:
        told.append(f"not measured: on the roof, {rate}")
    else:
        told.append(f"{amount(point.serial_s, 's')} without overlap")
    return lines([*told, f"bound by {label(point.bound)}"])


def _summary(facts: RooflineFacts) -> str:
    parts = []
    for phase in dict.fromkeys(point.phase for point in facts.points):
        points = [point for point in facts.points if point.phase == phase]
        left = sum(point.intensity < facts.ridge for point in points)
        parts.append(
            f"in {phase}, {left} of {len(points)} operators lie left of the ridge, where memory "
            "binds"
        )
    text = "; ".join(parts)
    if facts.calibrated:
        text += _reached(facts)
    return f"The ridge is at {amount(facts.ridge, 'FLOP/B')}. {text[:1].upper()}{text[1:]}."


def _reached(facts: RooflineFacts) -> str:
    """Share of its roof that the longest operator of each phase reaches."""
    out = []
    for phase in dict.fromkeys(point.phase for point in facts.points):
        known = [point for point in facts.points if point.phase == phase and point.interval]
        if known:
            first = max(known, key=lambda point: point.share)
            reached = percent(first.flops_per_s / first.roof_flops_per_s)
            out.append(f"{reached} in {phase} ({first.op})")
    return f". Of its roof, the longest operator reaches {' and '.join(out)}" if out else ""


def build(result: Result) -> Section | None:
    """Section of the page."""
    tables = result.tables
    if "ops" not in tables or "roofs" not in tables or not len(tables["ops"]):
        return None
    if {"arithmetic", "bandwidth"} - {row["kind"] for row in tables["roofs"].rows()}:
        return None
    facts = roofline_facts(result)
    figures = (draw_roofline(facts),)
    left_out: dict[tuple[str, ...], list[str]] = {}
    for entry in facts.left_out:
        said = f"{percent(entry.share)} of {entry.phase}"
        left_out.setdefault(entry.ops, []).append(said)
    given = {"left_out": left_out, "calibrated": facts.calibrated}
    return Section(30, "roofline", "Roofline", "roofline.html", given, figures)
