"""Predicted against measured, where measurements were given: one panel for each metric."""

import math
from dataclasses import dataclass
from typing import Any, Final

from roofline.report.figures import axis, colour, diagonal, layout, lines, log_ticks, whiskers
from roofline.report.scored import median_error
from roofline.table import Result, Table
from roofline.view.block import Block, Figure, Key
from roofline.view.questions import grids_of
from roofline.view.text import amount, is_number, label, percent
from roofline.view.words import heading

ORDER: Final = 12
NEEDED: Final = frozenset({"run", "metric", "unit", "measured", "predicted", "low", "high"})


@dataclass(frozen=True, slots=True)
class Pair:
    """A figure that was measured and predicted, with the central 80 % where it has one."""

    run: str
    measured: float
    predicted: float
    low: float
    high: float
    inside: bool | None


@dataclass(frozen=True, slots=True)
class Panel:
    """Figures of one metric."""

    metric: str
    unit: str
    pairs: tuple[Pair, ...]
    error: float
    """Median of the absolute errors. [1]"""
    inside: float | None
    """Share of those with an interval that are in it; None where none has one. [1]"""


def panels(table: Table) -> tuple[Panel, ...]:
    """Panels of a table of figures, those with most of them first."""
    found: dict[tuple[str, str], list[Pair]] = {}
    for row in table.rows():
        measured, predicted = row["measured"], row["predicted"]
        if not (is_number(measured) and is_number(predicted) and min(measured, predicted) > 0):
            continue
        low, high = row["low"], row["high"]
        known = is_number(low) and is_number(high) and 0 < low < high
        pair = Pair(
            str(row["run"]),
            float(measured),
            float(predicted),
            float(low) if known else float(predicted),
            float(high) if known else float(predicted),
            low <= measured <= high if known else None,
        )
        found.setdefault((str(row["metric"]), str(row["unit"])), []).append(pair)
    made = [_panel(metric, unit, tuple(pairs)) for (metric, unit), pairs in found.items()]
    return tuple(sorted(made, key=lambda panel: -len(panel.pairs)))


def _panel(metric: str, unit: str, pairs: tuple[Pair, ...]) -> Panel:
    judged = [pair.inside for pair in pairs if pair.inside is not None]
    share = sum(judged) / len(judged) if judged else None
    return Panel(metric, unit, pairs, median_error(pairs), share)


def draw(panel: Panel, place: int) -> Figure:
    """Predictions with their intervals over measurements; equality is the diagonal."""
    values = [v for pair in panel.pairs for v in (pair.measured, pair.low, pair.high)]
    low, high = min(values) / 1.25, max(values) * 1.25
    edges = [math.log10(low), math.log10(high)]
    data = [diagonal(low, high)]
    for outside, tint, symbol in ((False, "prefill", "circle"), (True, "bad", "diamond")):
        pairs = [pair for pair in panel.pairs if (pair.inside is False) == outside]
        predicted, ends = (
            [pair.predicted for pair in pairs],
            [(pair.low, pair.high) for pair in pairs],
        )
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [pair.measured for pair in pairs],
                "y": predicted,
                "error_y": whiskers(predicted, ends, color=colour(tint, 0.5), thickness=1, width=2),
                "marker": {"color": colour(tint), "symbol": symbol, "size": 8, "opacity": 1},
                "hovertext": [_hover(pair, panel.unit) for pair in pairs],
                "hoverinfo": "text",
            }
        )
    figure: dict[str, Any] = layout(340)
    ticks = log_ticks(low, high, panel.unit)
    figure["xaxis"] = axis("Measured", type="log", range=edges, **ticks)
    figure["yaxis"] = axis("Predicted", type="log", range=edges, **ticks)
    share = "" if panel.inside is None else f"; {percent(panel.inside)} are in the interval"
    return Figure(
        f"parity-{place}",
        f"{heading(panel.metric)}: predicted against measured",
        f"{len(panel.pairs)} figures, median error {percent(panel.error)}{share}.",
        {"data": data, "layout": figure},
        (
            Key("in the central 80 %, or without one", "prefill", "circle"),
            Key("outside", "bad", "diamond"),
            Key("equal", "faint", "stem"),
        ),
    )


def _hover(pair: Pair, unit: str) -> str:
    return lines(
        [
            f"run {label(pair.run)}",
            f"measured {amount(pair.measured, unit)}",
            f"predicted {amount(pair.predicted, unit)}",
        ]
    )


def compared(result: Result) -> tuple[Panel, ...]:
    """Predictions beside measurements, by metric; none where nothing was measured."""
    table = result.tables.get("figures")
    if table is None or not set(table.columns) >= NEEDED:
        return ()
    return panels(table)


def build(result: Result) -> Block | None:
    """Section of the page."""
    found = compared(result)
    if not found:
        return None
    figures = tuple(draw(panel, place) for place, panel in enumerate(found))
    shown = grids_of(result, "figures")
    return Block(
        "parity", "Predicted against measured", "figures.html", figures=figures, grids=shown
    )
