"""Time of a step by operator, with its confidence and what binds each."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from roofline.report.figures import (
    HATCH,
    bars,
    colour,
    layout,
    linear_axis,
    lines,
    name_axis,
    scatter,
    whiskers,
)
from roofline.table import Result
from roofline.view.block import Figure, Key, Section
from roofline.view.known import BOUND, at_roof, calibrated, ends, inside
from roofline.view.text import amount, between, label, percent

MOST_BARS: Final = 15


class OperatorBar(Struct, frozen=True):
    """Time of an operator, all its executions in a step together."""

    op: str
    seconds: float
    serial_s: float
    """Time as predicted, else with perfect overlap at datasheet rates; there, with none. [s]"""
    share: float
    bound: str
    """``"compute"``, ``"memory"``, ``"wire"``, ``"host"``, ``"engine"``; empty for
    several together."""
    interval: tuple[float, float] | None
    """Ends of the central 80 %; None where nothing like it was measured. [s]"""
    within_s: float
    """Part of the time that datasheet rates ask for. [s]"""
    roof: float | None
    """The least at datasheet rates over the time; None where part of it is hidden. [1]"""
    basis: str
    """Basis of the time; empty for several together, and where all are datasheet bounds."""


class PhaseTimes(Struct, frozen=True):
    """A step of one phase, longest operator first."""

    phase: str
    bars: tuple[OperatorBar, ...]
    seconds: float
    serial_s: float
    within_s: float
    by_bound: Mapping[str, float]
    inside: tuple[str, ...]
    """Operators whose time is in the kernel of another."""
    calibrated: bool
    """True where times are predicted from measured kernels."""


def time_facts(result: Result) -> tuple[PhaseTimes, ...]:
    """Time of each operator by phase, and share of each bound."""
    rows = list(result.tables["ops"].rows())
    phases = dict.fromkeys(str(row["phase"]) for row in rows)
    predicted = calibrated(result)
    return tuple(
        _phase(phase, [r for r in rows if r["phase"] == phase], predicted) for phase in phases
    )


def _phase(phase: str, rows: list[dict[str, Any]], predicted: bool) -> PhaseTimes:
    fused = [str(row["op"]) for row in rows if predicted and inside(row)]
    ordered = sorted(
        (_bar(row, predicted) for row in rows if not (predicted and inside(row))),
        key=lambda bar: -bar.seconds,
    )
    shown = len(ordered) if len(ordered) <= MOST_BARS + 1 else MOST_BARS
    rest = ordered[shown:]
    bars = ordered[:shown] + ([_together(rest)] if rest else [])
    by_bound: dict[str, float] = {}
    for bar in ordered:
        by_bound[bar.bound] = by_bound.get(bar.bound, 0.0) + bar.share
    whole = _together(ordered)
    return PhaseTimes(
        phase,
        tuple(bars),
        whole.seconds,
        whole.serial_s,
        whole.within_s,
        by_bound,
        tuple(fused),
        predicted,
    )


def _bar(row: dict[str, Any], predicted: bool) -> OperatorBar:
    seconds, serial = row["seconds"], row["serial_s"]
    known = (str(row["op"]), seconds, serial, row["share"], str(row["bound"]))
    if not predicted:
        return OperatorBar(*known, None, seconds, 1.0, "")
    within = min(row["roof_s"], seconds)
    return OperatorBar(*known, ends(row), within, at_roof(row), str(row["basis"]))


def _together(bars: list[OperatorBar]) -> OperatorBar:
    """Sum of bars; how far their errors go together is not known here, so it has no interval."""
    seconds, serial, share, within = (
        sum(getattr(bar, name) for bar in bars)
        for name in ("seconds", "serial_s", "share", "within_s")
    )
    return OperatorBar(f"{len(bars)} smaller", seconds, serial, share, "", None, within, None, "")


BAR_HEIGHT: Final = 26
"""Height of a bar with its gap. [px]"""
BAR_WIDTH: Final = 0.72
"""Share of a bar without its gap. [1]"""
BOUNDS: Final[Mapping[str, str]] = {
    "compute": "bound by arithmetic",
    "memory": "bound by memory",
    "wire": "bound by the interconnect",
    "host": "bound by the host: loads or launches",
    "engine": "the engine's own work",
    "": "smaller operators",
}
BADGES: Final = 82
"""Room for how each operator is known, right of the bars. [px]"""
SHAPES: Final[Mapping[str, str]] = {
    "memory": "hatched",
    "wire": "crossed",
    "host": "dotted",
    "engine": "crossed",
}


def draw_times(facts: PhaseTimes, key: str) -> Figure:
    """Bars of one phase.

    Predicted, the full part is what datasheet rates ask for, the pale one what kernels take beyond
    it, the line the central 80 %. At datasheet rates the pale end is what no overlap would add.
    """
    full = [_bars(facts, bound) for bound in BOUNDS if any(b.bound == bound for b in facts.bars)]
    gaps = [max(bar.serial_s - bar.seconds, 0.0) for bar in facts.bars]
    starts = [bar.seconds for bar in facts.bars]
    data = [*full, _pale(gaps, base=starts), _shares(facts)]
    longest, beside = max(_end(facts, bar) for bar in facts.bars), 1.18
    more: dict[str, Any] = {}
    if facts.calibrated:
        whole = _pale(starts, [_hover(facts, bar) for bar in facts.bars])
        data = [whole, *full, _intervals(facts), _shares(facts)]
        beside = 1.35  # the badges leave less room
        more["meta"] = {"sparse": True}
        more["margin"] = {"l": 8, "r": BADGES, "t": 8, "b": 8, "pad": 2}
        more["annotations"] = [
            {"text": label(bar.basis, 12), "y": place}
            for place, bar in enumerate(facts.bars)
            if bar.basis
        ]
        more["template"] = {"layout": {"annotationdefaults": _badge()}}
    spec = {
        "data": data,
        "layout": layout(
            64 + BAR_HEIGHT * len(facts.bars),
            barmode="overlay",
            xaxis=linear_axis("Time in the step", "s", longest * beside, longest * 1.1),
            yaxis=name_axis(
                [bar.op for bar in facts.bars], len(facts.bars) - 0.4, -0.6, 20, showgrid=False
            ),
            **more,
        ),
    }
    title = f"{facts.phase.capitalize()} step: {amount(facts.seconds, 's')}"
    title += " predicted" * facts.calibrated
    return Figure(key, title, _summary(facts), spec, _legend(facts))


def _legend(facts: PhaseTimes) -> tuple[Key, ...]:
    bounds = dict.fromkeys(bar.bound for bar in facts.bars if bar.seconds)
    legend = [Key(BOUNDS.get(b, b), b or "rest", SHAPES.get(b, "square")) for b in bounds]
    if not facts.calibrated:
        return (*legend, Key("more without overlap", "faint"))
    return (
        *legend,
        Key("beyond the datasheet floor", "faint"),
        Key("central 80 %", "ink", "whisker"),
    )


def _bars(facts: PhaseTimes, bound: str) -> dict[str, Any]:
    chosen = [(place, bar) for place, bar in enumerate(facts.bars) if bar.bound == bound]
    tint = bound or "rest"
    return bars(
        # No datasheet has a floor for software: all of its bar is drawn.
        (bar.seconds if bound == "engine" else bar.within_s for _, bar in chosen),
        (place for place, _ in chosen),
        # The bar behind tells what is calibrated.
        () if facts.calibrated else [_hover(facts, bar) for _, bar in chosen],
        name=BOUNDS[bound],
        width=BAR_WIDTH,
        marker={
            "color": colour(tint),
            "pattern": {
                "shape": HATCH.get(bound, ""),
                "fillmode": "overlay",
                "fgcolor": colour("surface"),
                "fgopacity": 0.35,
                "size": 6,
                "solidity": 0.25,
            },
        },
    )


def _pale(lengths: list[float], told: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """Bars behind the others: predicted times, or the time that no overlap would add."""
    look = {"color": colour("faint", 0.45)}
    return bars(lengths, range(len(lengths)), told, width=BAR_WIDTH, marker=look, **more)


def _intervals(facts: PhaseTimes) -> dict[str, Any]:
    """Lines from end to end of the central 80 %."""
    chosen = [(place, bar, bar.interval) for place, bar in enumerate(facts.bars) if bar.interval]
    values, ends = [bar.seconds for _, bar, _ in chosen], [ends for _, _, ends in chosen]
    return scatter(
        values,
        (place for place, _, _ in chosen),
        name="central 80 %",
        marker={"size": 3, "color": colour("ink")},
        error_x=whiskers(values, ends, color=colour("ink"), thickness=1.2, width=4),
    )


def _shares(facts: PhaseTimes) -> dict[str, Any]:
    """Share of each bar, or that all of it is behind others."""
    shown = (percent(bar.share) if bar.seconds else "hidden" for bar in facts.bars)
    return scatter(
        (_end(facts, bar) for bar in facts.bars),
        range(len(facts.bars)),
        mode="text",
        text=[f"\N{NO-BREAK SPACE}{label(text)}" for text in shown],
        textposition="middle right",
        textfont={"size": 11, "color": colour("muted")},
        cliponaxis=False,
    )


def _end(facts: PhaseTimes, bar: OperatorBar) -> float:
    """End of what is drawn of a bar. [s]"""
    if not facts.calibrated:
        return max(bar.serial_s, bar.seconds)
    return max(bar.seconds, bar.interval[1]) if bar.interval else bar.seconds


def _badge() -> dict[str, Any]:
    """Annotation right of a bar with the basis of its time, framed like a badge of the tables."""
    return {
        "x": 1,
        "xref": "paper",
        "xanchor": "left",
        "xshift": 6,
        "yanchor": "middle",
        "showarrow": False,
        "font": {"size": 10, "color": colour("muted")},
        "bordercolor": colour("faint", 0.7),
        "borderpad": 2,
        "borderwidth": 1,
    }


def _hover(facts: PhaseTimes, bar: OperatorBar) -> str:
    if not facts.calibrated:
        return lines(
            [
                label(bar.op),
                f"{amount(bar.seconds, 's')}, {percent(bar.share)} of the step",
                f"{amount(bar.serial_s, 's')} without overlap",
                BOUNDS.get(bar.bound, ""),
            ]
        )
    told = [label(bar.op), f"{amount(bar.seconds, 's')}, {percent(bar.share)} of the step"]
    if bar.interval:
        told.append(f"80 % in {between(*bar.interval, 's')}, {label(bar.basis)}")
    elif bar.basis == BOUND:
        told.append("a datasheet floor: nothing like it was measured")
    if bar.interval and bar.roof is not None:
        told.append(f"datasheet floor {percent(bar.roof)} of it")
    return lines([*told, BOUNDS.get(bar.bound, "")])


def _summary(facts: PhaseTimes) -> str:
    first = facts.bars[0]
    shares = sorted(facts.by_bound.items(), key=lambda item: -item[1])
    bound = ", ".join(
        f"{percent(share)} {BOUNDS.get(name, name)}" for name, share in shares if share
    )
    told = f"{bound}. The longest operator is {first.op} with {percent(first.share)}. "
    if not facts.calibrated:
        return f"{told}Without overlap the step takes {amount(facts.serial_s, 's')}."
    beyond = amount(facts.seconds - facts.within_s, "s")
    whole = amount(facts.seconds, "s")
    return f"{told}Of the {whole}, {beyond} are beyond the datasheet floors of the operators."


def _fused(times: tuple[PhaseTimes, ...]) -> tuple[tuple[str, str], ...]:
    """Operators whose time is in the kernel of another, and in which phases."""
    phases: dict[tuple[str, ...], list[str]] = {}
    for facts in times:
        if facts.inside:
            phases.setdefault(facts.inside, []).append(facts.phase)
    return tuple((", ".join(ops), " and ".join(names)) for ops, names in phases.items())


def build(result: Result) -> Section | None:
    """Section of the page."""
    if "ops" not in result.tables or not len(result.tables["ops"]):
        return None
    times = time_facts(result)
    given = {"calibrated": calibrated(result), "fused": _fused(times)}
    figures = tuple(
        draw_times(facts, f"time-{place}") for place, facts in enumerate(times) if facts.bars
    )
    return Section(40, "time", "Time", "time.html", given, figures)
