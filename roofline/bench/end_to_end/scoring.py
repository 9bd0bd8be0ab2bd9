"""Figures of many measured rows beside their predictions, with reasons for those outside."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from roofline.bench.end_to_end import profiles
from roofline.bench.end_to_end.cases import Row, UnreadRow, contradicted
from roofline.bench.end_to_end.comparing import ComparedFigure, RunComparison, alone
from roofline.bench.end_to_end.evidence import alike
from roofline.bench.end_to_end.predicting import PredictedRows, predict_rows
from roofline.bench.end_to_end.replay import OPEN
from roofline.bench.end_to_end.rules import Reason, reason
from roofline.cost.work import Array

if TYPE_CHECKING:
    import pandas

RATE: Final = "throughput_tok_s"
COUNTED: Final[Mapping[str, str]] = {
    "output": "output_tok_s",
    "input": "input_tok_s",
    "input+output": "total_tok_s",
}
"""Name of a throughput by the tokens that it counts."""


class ScoredRows(Struct, frozen=True):
    """Rows beside their predictions."""

    runs: tuple[RunComparison, ...]
    """Rows that are predicted, with their figures; throughputs are those of all devices."""
    refused: tuple[UnreadRow, ...]
    """Rows that are not predicted, and why."""

    def reasons(self) -> Iterator[tuple[RunComparison, ComparedFigure, Reason | None]]:
        """Every figure, with the likeliest reason where it is outside its interval."""
        together: dict[tuple[object, ...], list[RunComparison]] = {}
        for run in self.runs:
            together.setdefault(alike(run), []).append(run)
        for run in self.runs:
            near = together[alike(run)]
            for figure in run.figures:
                yield run, figure, reason(figure, run, near)


def score(frame: "pandas.DataFrame", *, cross_validate: bool = False) -> ScoredRows:
    """Figures of all rows with their predictions, as `roofline validate --kind e2e` makes them."""
    found = predict_rows(frame, cross_validate=cross_validate)
    logs, _ = profiles.load()
    return ScoredRows(tuple(_runs(found, logs)), tuple(found.refused))


def _runs(found: PredictedRows, logs: Array) -> Iterator[RunComparison]:
    for each, metrics, log_sd in zip(found.known, found.metrics, found.log_sd, strict=True):
        figures = tuple(_figures(each.row, metrics, log_sd))
        asked = each.row.mode == OPEN or any(figure.inside is False for figure in figures)
        yield RunComparison(each, figures, alone(each, logs) if asked else 0.0)


def _figures(
    row: Row, metrics: Mapping[str, float], log_sd: Mapping[str, float]
) -> Iterator[ComparedFigure]:
    wrong = contradicted(row)
    for name, measured in row.measured.items():
        if name == wrong:
            continue
        rate = name == RATE
        devices = row.devices if rate and row.scope == "per_gpu" else 1.0
        metric = COUNTED[row.counts] if rate else name
        yield ComparedFigure(
            metric, "mean", measured * devices, metrics[name] * devices, log_sd[name]
        )


def refusals(refused: Sequence[UnreadRow]) -> list[tuple[str, int]]:
    """Reasons why rows are not predicted, the most frequent first."""
    counts: dict[str, int] = {}
    for each in refused:
        counts[each.why] = counts.get(each.why, 0) + 1
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
