"""Sensitivity of a plan to each input: one bar for each."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from roofline.report.figures import (
    axis,
    bars,
    colour,
    layout,
    linear_ticks,
    lines,
    name_axis,
    note,
    rule,
)
from roofline.table import Result, Table
from roofline.units import counted
from roofline.view.block import Figure, Key, Section
from roofline.view.tables import measured_by, sensitivity
from roofline.view.text import amount, label
from roofline.view.words import heading, unit_of

THICK: Final = 0.34
"""Thickness of a bar; the rows of two are 1 apart."""


class End(Struct, frozen=True):
    """One end of a bar: the input, what comes out, and whether another deployment is then best.

    ``value`` and ``gpus`` are None where nothing fits.
    """

    said: str
    value: float | None
    gpus: int | None
    shape: str
    changes: bool


class TornadoBar(Struct, frozen=True):
    """An input that may be otherwise, and how many GPUs are planned as it is. [1]"""

    what: str
    low: End
    high: End
    gpus: int

    @property
    def buys(self) -> bool:
        """True where another number of GPUs is bought."""
        return any(end.gpus != self.gpus for end in (self.low, self.high))

    @property
    def span(self) -> float:
        """Distance between the ends; where nothing fits, farther than all others."""
        values = [end.value for end in (self.low, self.high) if end.value is not None]
        return max(values) - min(values) if len(values) == 2 else float("inf")


class TornadoFacts(Struct, frozen=True):
    """Bars around what was planned: those that change what is bought, then the longest."""

    measure: str
    base: float
    bars: tuple[TornadoBar, ...]


def tornado_facts(table: Table | None) -> TornadoFacts | None:
    """Bars of a table of sensitivities; None where nothing is known of any."""
    measure = measured_by(table) if table is not None else ""
    if table is None or not measure:
        return None
    rows = list(table.rows())
    bars = [
        TornadoBar(
            str(row["what"]),
            _end(row, measure, "low"),
            _end(row, measure, "high"),
            row["gpus_base"],
        )
        for row in rows
    ]
    bars.sort(key=lambda bar: (not bar.buys, -bar.span))
    return TornadoFacts(measure, float(rows[0][f"{measure}_base"]), tuple(bars))


def _end(row: Mapping[str, Any], measure: str, end: str) -> End:
    value = row[f"{measure}_{end}"]
    return End(
        str(row[end]),
        None if value is None else float(value),
        None if row[f"gpus_{end}"] is None else int(row[f"gpus_{end}"]),
        str(row[f"shape_{end}"]),
        bool(row[f"changes_{end}"]),
    )


def draw_tornado(facts: TornadoFacts) -> Figure:
    """Bars below each other, to either side of what was planned."""
    unit = unit_of(facts.measure)
    values = [
        end.value for bar in facts.bars for end in (bar.low, bar.high) if end.value is not None
    ]
    low, high = min([*values, facts.base]), max([*values, facts.base])
    room = (high - low or facts.base or 1.0) * 0.12
    names = [bar.what for bar in facts.bars][::-1]
    data = []
    # Side by side: both may lie on the same side of what was planned.
    for side, tint, offset in (("low", "prefill", 0.0), ("high", "decode", -THICK)):
        ends = [getattr(bar, side) for bar in facts.bars][::-1]
        data.append(
            bars(
                (0.0 if end.value is None else end.value - facts.base for end in ends),
                range(len(ends)),
                [_hover(end, unit) for end in ends],
                width=THICK,
                offset=offset,
                base=facts.base,
                marker={
                    "color": colour(tint),
                    "pattern": {
                        "shape": ["/" if end.changes else "" for end in ends],
                        "fgcolor": colour("surface"),
                        "fillmode": "overlay",
                        "size": 6,
                    },
                },
                cliponaxis=False,
            )
        )
    figure: dict[str, Any] = layout(90 + 44 * len(facts.bars), barmode="overlay")
    figure["margin"] |= {"t": 24}
    figure["xaxis"] = axis(
        heading(facts.measure),
        range=[low - room, high + room],
        **linear_ticks(high + room, unit, most=6, low=low - room),
    )
    figure["yaxis"] = name_axis(names, -0.6, len(names) - 0.4, 30)
    figure["shapes"] = [rule(facts.base, "ink", "solid")]
    figure["annotations"] = [
        note(f"planned: {amount(facts.base, unit)}", facts.base, 1, yref="paper", yanchor="bottom"),
        *(
            note("nothing fits", facts.base, place + lane, xanchor=anchor, xshift=shift)
            for place, bar in enumerate(facts.bars[::-1])
            for end, lane, anchor, shift in (
                (bar.low, THICK / 2, "right", -6),
                (bar.high, -THICK / 2, "left", 6),
            )
            if end.value is None
        ),
    ]
    worst = facts.bars[0]
    return Figure(
        "tornado",
        f"{heading(facts.measure)} if one input were otherwise, planned again each time",
        f"The answer depends most on {worst.what}: {_told(worst, unit)}.",
        {"data": data, "layout": figure},
        (
            Key("input lower", "prefill"),
            Key("input higher", "decode"),
            Key("another deployment is then the best", "decode", "hatched"),
        ),
    )


def _told(bar: TornadoBar, unit: str) -> str:
    return ", ".join(
        f"{end.said} gives {'nothing that fits' if end.value is None else amount(end.value, unit)}"
        + (f" on {counted(end.gpus, 'GPU')}" if end.gpus not in (None, bar.gpus) else "")
        for end in (bar.low, bar.high)
    )


def _hover(end: End, unit: str) -> str:
    value = "nothing fits" if end.value is None else str(amount(end.value, unit))
    gpus = "" if end.gpus is None else f", {counted(end.gpus, 'GPU')}"
    return lines([f"{label(end.said, 48)}: {value}{gpus}", label(end.shape, 48)])


def build(result: Result) -> Section | None:
    """Section of the page."""
    facts, grid = tornado_facts(result.tables.get("sensitivity")), sensitivity(result)
    if facts is None or grid is None:
        return None
    figures = (draw_tornado(facts),)
    return Section(
        16, "sensitivity-section", "What it depends on", "figures.html", None, figures, (grid,)
    )
