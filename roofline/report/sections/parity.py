"""Predicted against measured, where measurements were given: verdict, a panel for each metric."""

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, Final

from roofline.report.figures import colour, diagonal, layout, lines, log_axis, scatter, whiskers
from roofline.report.scored import (
    RATE,
    ScoredFigure,
    has_scores,
    median_error,
    scored_figures,
    share_inside,
)
from roofline.table import Result
from roofline.units import counted
from roofline.view.block import Card, Figure, Key, Section, Verdict
from roofline.view.questions import grids_of
from roofline.view.text import Amount, amount, clean, label, percent
from roofline.view.words import heading

ENOUGH: Final = 0.77
"""Share of the figures from which on intervals that are made to hold 80 % do so. [1]"""
FEWEST: Final = 3
"""Figures that a panel of a scoreboard needs. [1]"""
MANY: Final = 200
"""Figures from which on only those outside are named, and none has its interval drawn. [1]"""
BINS: Final = 2.0
"""Bins of a decade in which the median interval of very many figures is drawn. [1]"""
NEAR: Final = 1.25
"""Factor at which lines beside equality are drawn. [1]"""
CELLS: Final = 200.0
"""Places of a decade: two points that share one cannot be told apart. [1]"""


def draw(metric: str, figures: Sequence[ScoredFigure]) -> Figure:
    """Predictions over measurements; equality is the diagonal, published results are stars."""
    rows = [each for each in figures if not each.published]
    published = [each for each in figures if each.published]
    ended = published if len(rows) >= MANY else figures
    values = [value for each in figures for value in (each.measured, each.predicted)]
    values += [value for each in ended for value in (each.low, each.high)]
    low, high = min(values) / 1.3, max(values) * 1.3
    data = [
        diagonal(low, high, factor, dash="solid" if factor == 1.0 else "dot")
        for factor in (1.0, NEAR, 1.0 / NEAR)
    ]
    many = len(rows) >= MANY
    if many:
        data.append(_band(rows))
    points = _thinned if many else _points
    data.append(points([each for each in rows if each.inside is not False], "prefill", "circle"))
    data.append(points([each for each in rows if each.inside is False], "bad", "diamond"))
    data.append(_points(published, "decode", "star"))
    figure: dict[str, Any] = layout(380)
    # A rate is long with its unit, and ticks of both axes are close on a phone.
    unit = figures[0].unit
    rate = "token/s for each GPU" if metric == RATE else unit if unit.endswith("/s") else ""
    of = f" [{rate}]" if rate else ""
    for place, name in (("xaxis", "Measured"), ("yaxis", "Predicted")):
        figure[place] = log_axis(f"{name}{of}", low, high, "" if rate else unit)
    legend = [
        Key("median interval of predictions like it", "prefill", "band"),
        Key("in the central 80 %, or without one", "prefill", "circle"),
        Key("outside", "bad", "diamond"),
        Key("published result with its 80 %", "decode", "star"),
        Key("equal, and 25 % off", "faint", "line"),
    ]
    kept = [many and bool(data[3]["x"]), bool(rows), bool(rows), bool(published), True]
    share = share_inside(figures)
    inside = "" if share is None else f"; {percent(share)} are in their interval"
    return Figure(
        f"scored-{metric.partition('_')[0]}",
        f"{heading(metric)}: predicted against measured",
        f"{counted(len(figures), 'figure')}, median error {percent(median_error(figures))}"
        f"{inside}.",
        {"data": [entry for entry in data if entry["x"]], "layout": figure},
        tuple(key for key, keep in zip(legend, kept, strict=True) if keep),
    )


def _band(figures: Sequence[ScoredFigure]) -> dict[str, Any]:
    """Ends of the median interval by size: a measured figure between them is inside one."""
    bins: dict[int, list[ScoredFigure]] = {}
    for each in figures:
        if each.inside is not None:
            bins.setdefault(math.floor(BINS * math.log10(each.predicted)), []).append(each)
    lows, highs = list[tuple[float, float]](), list[tuple[float, float]]()
    for _, mine in sorted(bins.items()):
        if len(mine) >= FEWEST:
            middle = median(each.predicted for each in mine)
            lows.append((middle * median(each.low / each.predicted for each in mine), middle))
            highs.append((middle * median(each.high / each.predicted for each in mine), middle))
    edge = [*lows, *reversed(highs)]
    line = {"color": colour("prefill", 0.35), "width": 1}
    return scatter(
        (x for x, _ in edge),
        (y for _, y in edge),
        mode="lines",
        line=line,
        fill="toself",
        fillcolor=colour("prefill", 0.18),
    )


def _points(figures: Sequence[ScoredFigure], tint: str, symbol: str) -> dict[str, Any]:
    """Points, each with its interval and its name."""
    predicted = [each.predicted for each in figures]
    ends = [(each.low, each.high) for each in figures]
    size = 11 if symbol == "star" else 8
    return scatter(
        (each.measured for each in figures),
        predicted,
        [_hover(each) for each in figures],
        error_y=whiskers(predicted, ends, color=colour(tint, 0.6), thickness=1, width=3),
        marker={"color": colour(tint), "symbol": symbol, "size": size, "opacity": 1},
    )


def _thinned(figures: Sequence[ScoredFigure], tint: str, symbol: str) -> dict[str, Any]:
    """Points of very many, one where several fall on the same place."""
    kept = {
        (round(CELLS * math.log10(each.measured)), round(CELLS * math.log10(each.predicted))): each
        for each in figures
    }
    shown = list(kept.values())
    return scatter(
        (float(f"{each.measured:.3g}") for each in shown),
        (float(f"{each.predicted:.3g}") for each in shown),
        # Thousands of names are most of a page; those that are asked for are the ones outside.
        [_hover(each) for each in shown if each.inside is False],
        marker={"color": colour(tint), "symbol": symbol, "size": 4, "opacity": 0.5},
    )


def _hover(each: ScoredFigure) -> str:
    measured, predicted = amount(each.measured, each.unit), amount(each.predicted, each.unit)
    return lines([label(each.name, 48), f"measured {measured}", f"predicted {predicted}"])


def measured_verdict(result: Result) -> Verdict | None:
    """Verdict of measured figures: how many are in their interval; None where none is predicted."""
    found = scored_figures(result)
    every = tuple(figure for figures in found.values() for figure in figures)
    rows = tuple(figure for figure in every if not figure.published)
    published = tuple(figure for figure in every if figure.published)
    judged = rows or published
    if not judged:
        return None
    share, what = share_inside(judged), "measured" if rows else "published"
    said = "" if share is None else f"{percent(share)} of {len(judged):,} {what} figures are in"
    groups = [
        (heading(metric), tuple(each for each in figures if each.published != bool(rows)))
        for metric, figures in found.items()
    ]
    if rows:
        groups.append(("Published results", published))
    return Verdict(
        _kept(f"{said} their 80 % interval") if said else "",
        (share or 0.0) >= ENOUGH,
        tuple(_kept(clean(sentence)) for sentence in result.metadata.get("summary", ())),
        tuple(_card(name, figures) for name, figures in groups if figures),
    )


def _kept(sentence: str) -> str:
    """A sentence whose numbers stay on the line of their per cent."""
    return sentence.replace(" %", "\N{NO-BREAK SPACE}%")


def _card(name: str, figures: tuple[ScoredFigure, ...]) -> Card:
    share = share_inside(figures)
    inside = "" if share is None else f"; {percent(share)} in their interval"
    said = f"{counted(len(figures), 'figure')}{inside}"
    error = Amount(percent(median_error(figures)))
    return Card(f"{clean(name)}, median error", error, None, (said,))


def build(result: Result) -> Iterator[Section]:
    """Sections of the page."""
    if verdict := measured_verdict(result):
        yield Section(10, "verdict", "Verdict", "answer.html", verdict)
    fewest = FEWEST if has_scores(result) else 1
    found = scored_figures(result).items()
    figures = tuple(draw(metric, mine) for metric, mine in found if len(mine) >= fewest)
    if figures:
        grids, title = grids_of(result, "figures"), "Predicted against measured"
        yield Section(11, "parity", title, "figures.html", None, figures, grids)
