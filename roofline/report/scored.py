"""Figures that were measured and predicted, by metric, before they are drawn."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from msgspec import Struct

from roofline.table import Result
from roofline.view.text import is_number

METRICS: Final = ("ttft_s", "tpot_s", "latency_s", "throughput_tok_s")
"""Metrics of a scoreboard in the order of the page; others follow as they come."""
RATE: Final = "throughput_tok_s"
NAMED: Final = {"scores": "row", "published_results": "title", "figures": "run"}
"""Tables of figures, and the column that names each."""
NEEDED: Final = frozenset({"metric", "unit", "measured", "predicted", "low", "high"})


class ScoredFigure(Struct, frozen=True):
    """A measured figure with its prediction, on a scoreboard a throughput for each GPU."""

    name: str
    """Run, row or published result."""
    unit: str
    measured: float
    predicted: float
    low: float
    high: float
    inside: bool | None
    """True inside the central 80 %; None where it has none."""
    published: bool
    """True for a published result, false for a row of a file."""


def has_scores(result: Result) -> bool:
    """True for the result of a scoreboard."""
    return {"scores", "published_results", "groups"} <= result.tables.keys()


def scored_figures(result: Result) -> dict[str, tuple[ScoredFigure, ...]]:
    """Predicted figures of each metric: rows of a file first, then published results."""
    found: dict[str, list[ScoredFigure]] = {metric: [] for metric in METRICS}
    for name, key in NAMED.items():
        table = result.tables.get(name)
        if table is not None and set(table.columns) >= NEEDED | {key}:
            for row in table.rows():
                numbers = row["measured"], row["predicted"]
                if all(is_number(value) and value > 0 for value in numbers):
                    found.setdefault(str(row["metric"]), []).append(_figure(row, name))
    return {metric: tuple(figures) for metric, figures in found.items() if figures}


def _figure(row: Mapping[str, Any], name: str) -> ScoredFigure:
    devices = {"scores": "gpus", "published_results": "per"}.get(name, "")
    count = row.get(devices) if row["metric"] == RATE else 1.0
    share = 1.0 / count if is_number(count) and count > 0 else 1.0
    low, high = row["low"], row["high"]
    known = is_number(low) and is_number(high) and 0 < low < high
    ends = (low, high) if known else (row["predicted"],) * 2
    measured, predicted, low, high = (
        float(value) * share for value in (row["measured"], row["predicted"], *ends)
    )
    inside = low <= measured <= high if known else None
    said, published = str(row[NAMED[name]]), name == "published_results"
    return ScoredFigure(said, str(row["unit"]), measured, predicted, low, high, inside, published)


def median_error(figures: Sequence[ScoredFigure]) -> float:
    """Median of the absolute errors. [1]

    >>> median_error((ScoredFigure("a", "s", 2.0, 1.0, 1.0, 1.0, True, False),))
    0.5
    """
    return float(median(abs(each.predicted / each.measured - 1.0) for each in figures))


def share_inside(figures: Sequence[ScoredFigure]) -> float | None:
    """Share of the figures with an interval that are in it; None where none has one. [1]"""
    judged = [each.inside for each in figures if each.inside is not None]
    return sum(judged) / len(judged) if judged else None
