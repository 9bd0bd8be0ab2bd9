"""Predicted end-to-end rows: each metric with its interval, and how far off it is."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.bench.end_to_end.cases import METRICS, UnreadRow
from roofline.bench.end_to_end.held_out import DEVIATIONS
from roofline.cost.work import Array

Mask = NDArray[np.bool_]


class Metric(Struct, frozen=True):
    """One metric of every row of a file; NaN where it was not measured or not predicted."""

    measured: Array
    predicted: Array
    """In SI units."""
    log_sd: Array
    """Standard deviation of the prediction's logarithm. [1]"""

    @property
    def low(self) -> Array:
        """Below it one row of ten."""
        below: Array = self.predicted * np.exp(-DEVIATIONS * self.log_sd)
        return below

    @property
    def high(self) -> Array:
        """Above it one row of ten."""
        above: Array = self.predicted * np.exp(DEVIATIONS * self.log_sd)
        return above

    def figures(self, rows: Mask) -> dict[str, Any]:
        """Errors in percent, shares from 0 to 1, of the rows that have the metric."""
        total = int((np.isfinite(self.measured) & rows).sum())
        good = np.isfinite(self.measured) & np.isfinite(self.predicted) & rows
        number = int(good.sum())
        out: dict[str, Any] = {
            "n": number,
            "n_total": total,
            "coverage": number / total if total else 0.0,
            **dict.fromkeys(("median", "mean", "p90", "interval_coverage")),
        }
        if number:
            off = 100 * np.abs(self.predicted[good] / self.measured[good] - 1)
            held = (self.low[good] <= self.measured[good]) & (
                self.measured[good] <= self.high[good]
            )
            out["median"], out["p90"] = (float(each) for each in np.quantile(off, (0.5, 0.9)))
            out["mean"], out["interval_coverage"] = float(off.mean()), float(held.mean())
        return out


class EndToEnd(Struct, frozen=True):
    """Predictions for a file of end-to-end measurements."""

    rows: int
    """In the file. [1]"""
    metrics: Mapping[str, Metric]
    """By name: `roofline.bench.end_to_end.cases.METRICS`."""
    predicted: Mask
    """Whether a row was predicted."""
    profile: tuple[str, ...]
    """Engine profile of each row; empty where it was not predicted."""
    kind: tuple[str, ...]
    """``"dense"``, ``"mixture"`` or ``"latent"``, of each row."""
    basis: tuple[str, ...]
    """Basis of each row's prediction, one sentence; for the others the reason there is none."""
    refused: tuple[UnreadRow, ...]
    """Rows that were not predicted, and single metrics of others, with the reason."""
    row_kind: tuple[str, ...]
    """Kind of each row: ``"disagg"``, ``"speculative"``, ``"mlperf_offline"``, … where no plain
    server served it, else its quality."""

    def of_kind(self, *names: str) -> Mask:
        """Rows of some kinds."""
        return np.array([each in names for each in self.row_kind], dtype=np.bool_)

    def figures(self, rows: Mask | None = None) -> dict[str, Any]:
        """Rows, those predicted, and each metric's errors in percent.

        Args:
            rows: Which of the file's; None for all.
        """
        chosen = np.ones(self.rows, dtype=np.bool_) if rows is None else rows
        total, number = int(chosen.sum()), int((self.predicted & chosen).sum())
        return {
            "n": number,
            "n_total": total,
            "coverage": number / total if total else 0.0,
            "metrics": {name: self.metrics[name].figures(chosen) for name in METRICS},
        }

    def groups(
        self, columns: Mapping[str, Sequence[str]], within: Mask | None = None
    ) -> list[tuple[dict[str, str], dict[str, Any]]]:
        """Figures of rows that agree in some columns, in order of their names.

        Columns are the file's, as text, ``kind`` and ``profile``; rows are all, or those `within`.
        """
        if not columns:
            return []
        keys = list(zip(*columns.values(), strict=True))
        asked = np.ones(self.rows, dtype=np.bool_) if within is None else within
        out = []
        for key in sorted({key for key, some in zip(keys, asked, strict=True) if some}):
            rows = np.array([each == key for each in keys]) & asked
            out.append((dict(zip(columns, key, strict=True)), self.figures(rows)))
        return out
