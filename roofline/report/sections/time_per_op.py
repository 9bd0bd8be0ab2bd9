"""Where the time of a step goes, and what binds each operator."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from roofline.report.block import Block, Figure, Key
from roofline.report.figures import HATCH, axis, colour, layout, linear_ticks, lines
from roofline.report.text import amount, label, percent
from roofline.table import Result

ORDER: Final = 40

MOST_BARS: Final = 14
BAR_HEIGHT: Final = 26
"""Of a bar with its gap. [px]"""
BAR_WIDTH: Final = 0.72
"""Of a bar without its gap. [1]"""
BOUNDS: Final[Mapping[str, str]] = {
    "compute": "bound by arithmetic",
    "memory": "bound by memory",
    "wire": "bound by the wires",
    "host": "bound by loading from the host",
    "": "smaller operators",
}
SHAPES: Final[Mapping[str, str]] = {
    "memory": "hatched",
    "wire": "crossed",
    "host": "dotted",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """Time of an operator, all its executions in a step together.

    Attributes
    ----------
    seconds, serial_s
        With perfect overlap, and with none. [s]
    bound
        ``"compute"``, ``"memory"``, ``"wire"``, ``"host"``; empty for several together.
    """

    op: str
    seconds: float
    serial_s: float
    share: float
    bound: str


@dataclass(frozen=True, slots=True)
class PhaseTimes:
    """A step of one phase, longest operator first."""

    phase: str
    bars: tuple[Bar, ...]
    seconds: float
    serial_s: float
    by_bound: Mapping[str, float]


def time_facts(result: Result) -> tuple[PhaseTimes, ...]:
    """Time of each operator by phase, and share of each bound."""
    rows = list(result.tables["ops"].rows())
    phases = dict.fromkeys(str(row["phase"]) for row in rows)
    return tuple(_phase(phase, [r for r in rows if r["phase"] == phase]) for phase in phases)


def _phase(phase: str, rows: list[dict[str, Any]]) -> PhaseTimes:
    ordered = sorted(rows, key=lambda row: -row["seconds"])
    shown = len(ordered) if len(ordered) <= MOST_BARS + 1 else MOST_BARS
    bars = [
        Bar(str(row["op"]), row["seconds"], row["serial_s"], row["share"], str(row["bound"]))
        for row in ordered[:shown]
    ]
    if rest := ordered[shown:]:
        sums = {key: sum(row[key] for row in rest) for key in ("seconds", "serial_s", "share")}
        bars.append(Bar(f"{len(rest)} smaller", bound="", **sums))
    by_bound: dict[str, float] = {}
    for row in ordered:
        by_bound[str(row["bound"])] = by_bound.get(str(row["bound"]), 0.0) + row["share"]
    seconds = sum(row["seconds"] for row in ordered)
    serial = sum(row["serial_s"] for row in ordered)
    return PhaseTimes(phase, tuple(bars), seconds, serial, by_bound)


def draw_times(facts: PhaseTimes, key: str) -> Figure:
    """Bars of one phase; the pale end is what no overlap would add."""
    data = [_bars(facts, bound) for bound in BOUNDS if any(b.bound == bound for b in facts.bars)]
    places = list(range(len(facts.bars)))
    data.append(
        {
            "type": "bar",
            "orientation": "h",
            "y": places,
            "base": [bar.seconds for bar in facts.bars],
            "width": BAR_WIDTH,
            "x": [max(bar.serial_s - bar.seconds, 0.0) for bar in facts.bars],
            "marker": {"color": colour("faint", 0.45)},
            "hoverinfo": "skip",
        }
    )
    data.append(
        {
            "type": "scatter",
            "mode": "text",
            "y": places,
            "x": [max(bar.serial_s, bar.seconds) for bar in facts.bars],
            "text": [f"\N{NO-BREAK SPACE}{label(_shown(bar))}" for bar in facts.bars],
            "textposition": "middle right",
            "textfont": {"size": 11, "color": colour("muted")},
            "hoverinfo": "skip",
            "cliponaxis": False,
        }
    )
    longest = max(max(bar.serial_s, bar.seconds) for bar in facts.bars)
    spec = {
        "data": data,
        "layout": layout(
            64 + BAR_HEIGHT * len(places),
            barmode="overlay",
            xaxis=axis(
                "Time in the step", range=[0, longest * 1.18], **linear_ticks(longest * 1.1, "s")
            ),
            yaxis=axis(
                "",
                tickvals=places,
                ticktext=[label(bar.op, 20) for bar in facts.bars],
                range=[len(places) - 0.4, -0.6],
                showgrid=False,
            ),
        ),
    }
    title = f"{facts.phase.capitalize()} step: {amount(facts.seconds, 's')}"
    bounds = dict.fromkeys(bar.bound for bar in facts.bars if bar.seconds)
    legend = [Key(BOUNDS.get(b, b), b or "rest", SHAPES.get(b, "square")) for b in bounds]
    legend.append(Key("more without overlap", "faint"))
    return Figure(key, title, _summary(facts), spec, tuple(legend))


def _bars(facts: PhaseTimes, bound: str) -> dict[str, Any]:
    chosen = [(place, bar) for place, bar in enumerate(facts.bars) if bar.bound == bound]
    tint = bound or "rest"
    return {
        "type": "bar",
        "orientation": "h",
        "name": BOUNDS[bound],
        "y": [place for place, _ in chosen],
        "x": [bar.seconds for _, bar in chosen],
        "width": BAR_WIDTH,
        "marker": {
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
        "hovertext": [
            lines(
                [
                    label(bar.op),
                    f"{amount(bar.seconds, 's')}, {percent(bar.share)} of the step",
                    f"{amount(bar.serial_s, 's')} without overlap",
                    BOUNDS[bound],
                ]
            )
            for _, bar in chosen
        ],
        "hoverinfo": "text",
    }


def _shown(bar: Bar) -> str:
    """Share of a bar, or that all of it is behind others."""
    return percent(bar.share) if bar.seconds else "hidden"


def _summary(facts: PhaseTimes) -> str:
    first = facts.bars[0]
    shares = sorted(facts.by_bound.items(), key=lambda item: -item[1])
    bound = ", ".join(
        f"{percent(share)} {BOUNDS.get(name, name)}" for name, share in shares if share
    )
    return (
        f"{bound}. The longest operator is {first.op} with {percent(first.share)}. "
        f"Without overlap the step takes {amount(facts.serial_s, 's')}."
    )


def build(result: Result) -> Block | None:
    """Section of the page."""
    if "ops" not in result.tables or not len(result.tables["ops"]):
        return None
    figures = tuple(
        draw_times(facts, f"time-{place}") for place, facts in enumerate(time_facts(result))
    )
    return Block("time", "Time", "time.html", figures=figures)
