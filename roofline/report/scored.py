"""Figures of a scoreboard before they are drawn: measured beside predicted, by metric."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from roofline.table import Result, Table
from roofline.view.text import is_number

METRICS: Final[Mapping[str, str]] = {
    "ttft_s": "s",
    "tpot_s": "s",
    "latency_s": "s",
    "throughput_tok_s": "token/s",
}
"""Metrics in the order of the page, with their units."""
RATE: Final = "throughput_tok_s"


@dataclass(frozen=True, slots=True)
class ScoredFigure:
    """A measured figure with its prediction, a throughput for each GPU."""

    name: str
    """Row or published result."""
    measured: float
    predicted: float
    low: float
    high: float
    inside: bool
    """Whether it is in the central 80 %."""
    published: bool
    """Whether it is a published result, not a row of the file."""


def has_scores(result: Result) -> bool:
    """Whether a result is a scoreboard."""
    return {"scores", "published_results", "groups"} <= result.tables.keys()


def scored_figures(result: Result) -> dict[str, tuple[ScoredFigure, ...]]:
    """Predicted figures of each metric: rows of the file first, then published results."""
    found: dict[str, list[ScoredFigure]] = {metric: [] for metric in METRICS}
    if has_scores(result):
        for metric, figure in _figures(result.tables["scores"], "row", published=False):
            found[metric].append(figure)
        for metric, figure in _figures(result.tables["published_results"], "title", published=True):
            found[metric].append(figure)
    return {metric: tuple(figures) for metric, figures in found.items() if figures}


def _figures(table: Table, name: str, *, published: bool) -> Iterator[tuple[str, ScoredFigure]]:
    for row in table.rows():
        values = [row[key] for key in ("measured", "predicted", "low", "high")]
        metric = str(row["metric"])
        if metric in METRICS and all(is_number(value) and value > 0 for value in values):
            share = 1.0 / _devices(row, published=published) if metric == RATE else 1.0
            measured, predicted, low, high = (float(value) * share for value in values)
            inside = bool(row["inside"])
            yield (
                metric,
                ScoredFigure(str(row[name]), measured, predicted, low, high, inside, published),
            )


def _devices(row: Mapping[str, Any], *, published: bool) -> float:
    """Devices that a throughput is of. [1]"""
    count = row["per"] if published else row["gpus"]
    return float(count) if is_number(count) and count > 0 else 1.0


def median_error(figures: Sequence[Any]) -> float:
    """Median of the absolute errors. [1]

    >>> median_error((ScoredFigure("a", 2.0, 1.0, 1.0, 1.0, True, False),))
    0.5
    """
    return float(median(abs(each.predicted / each.measured - 1.0) for each in figures))


def share_inside(figures: tuple[ScoredFigure, ...]) -> float:
    """Share of the figures that are in their interval. [1]"""
    return sum(each.inside for each in figures) / len(figures)
