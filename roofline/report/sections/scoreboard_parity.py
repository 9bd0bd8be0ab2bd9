"""Every figure of a scoreboard, predicted against measured: one panel for each metric."""

import math
from typing import Any, Final

from roofline.report.figures import axis, colour, diagonal, layout, lines, log_ticks, whiskers
from roofline.report.scored import METRICS, RATE, ScoredFigure, median_error, scored_figures
from roofline.report.scored import share_inside as inside
from roofline.table import Result
from roofline.view.block import Block, Figure, Key
from roofline.view.text import amount, label, percent
from roofline.view.words import heading

ORDER: Final = 11
FEWEST: Final = 3
"""Figures that a panel needs. [1]"""
NEAR: Final = 1.25
"""Factor at which lines beside equality are drawn. [1]"""
CELLS: Final = 200.0
"""Places of a decade: two points that share one cannot be told apart. [1]"""


def draw(metric: str, figures: tuple[ScoredFigure, ...]) -> Figure:
    """Predictions over measurements; equality is the diagonal, published results are stars."""
    values = [value for each in figures for value in (each.measured, each.predicted)]
    values += [value for each in figures if each.published for value in (each.low, each.high)]
    low, high = min(values) / 1.3, max(values) * 1.3
    data = [
        diagonal(low, high, factor, dash="solid" if factor == 1.0 else "dot")
        for factor in (1.0, NEAR, 1.0 / NEAR)
    ]
    rows = [each for each in figures if not each.published]
    published = [each for each in figures if each.published]
    data.append(_points([each for each in rows if each.inside], metric, "prefill", "circle"))
    data.append(_points([each for each in rows if not each.inside], metric, "bad", "diamond"))
    data.append(_stars(published, metric))
    figure: dict[str, Any] = layout(380)
    edges = [math.log10(low), math.log10(high)]
    # A rate is long with its unit, and ticks of both axes are close on a phone.
    unit, of = ("", " [token/s for each GPU]") if metric == RATE else (METRICS[metric], "")
    ticks = log_ticks(low, high, unit)
    figure["xaxis"] = axis(f"Measured{of}", type="log", range=edges, **ticks)
    figure["yaxis"] = axis(f"Predicted{of}", type="log", range=edges, **ticks)
    legend = [
        Key("in the central 80 %", "prefill", "circle"),
        Key("outside", "bad", "diamond"),
        Key("published result with its 80 %", "decode", "star"),
        Key("equal, and 25 % off", "faint", "stem"),
    ]
    kept = [bool(rows), bool(rows), bool(published), True]
    return Figure(
        f"scored-{metric.partition('_')[0]}",
        f"{heading(metric)}: predicted against measured",
        f"{len(figures):,} figures, median error {percent(median_error(figures))}; "
        f"{percent(inside(figures))} are in their interval.",
        {"data": [entry for entry in data if entry["x"]], "layout": figure},
        tuple(key for key, keep in zip(legend, kept, strict=True) if keep),
    )


def _points(figures: list[ScoredFigure], metric: str, tint: str, symbol: str) -> dict[str, Any]:
    """Points of rows, one where several fall on the same place."""
    kept = {
        (round(CELLS * math.log10(each.measured)), round(CELLS * math.log10(each.predicted))): each
        for each in figures
    }
    shown = list(kept.values())
    outside = [each for each in shown if not each.inside]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [_rounded(each.measured) for each in shown],
        "y": [_rounded(each.predicted) for each in shown],
        "marker": {"color": colour(tint), "symbol": symbol, "size": 4, "opacity": 0.5},
        # Thousands of names are most of a page; those that are asked for are the ones outside.
        **({"hovertext": [_hover(each, metric) for each in outside]} if outside else {}),
        "hoverinfo": "text" if outside else "skip",
    }


def _rounded(value: float) -> float:
    """A value as exact as a point is drawn."""
    return float(f"{value:.3g}")


def _stars(figures: list[ScoredFigure], metric: str) -> dict[str, Any]:
    """Published results, each with its interval."""
    predicted, ends = (
        [each.predicted for each in figures],
        [(each.low, each.high) for each in figures],
    )
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [each.measured for each in figures],
        "y": predicted,
        "error_y": whiskers(predicted, ends, color=colour("decode", 0.6), thickness=1, width=3),
        "marker": {"color": colour("decode"), "symbol": "star", "size": 11, "opacity": 1},
        "hovertext": [_hover(each, metric) for each in figures],
        "hoverinfo": "text",
    }


def _hover(each: ScoredFigure, metric: str) -> str:
    unit = METRICS[metric]
    measured, predicted = amount(each.measured, unit), amount(each.predicted, unit)
    return lines([label(each.name, 48), f"measured {measured}", f"predicted {predicted}"])


def build(result: Result) -> Block | None:
    """Section of the page."""
    figures = tuple(
        draw(metric, found)
        for metric, found in scored_figures(result).items()
        if len(found) >= FEWEST
    )
    if not figures:
        return None
    return Block("parity", "Predicted against measured", "figures.html", figures=figures)
