"""Result of a validation: rows with their predictions, errors by group, and rows left out."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from roofline.bench.end_to_end.kinds.row_kinds import PLAIN
from roofline.bench.end_to_end.published_results import UNITS
from roofline.bench.end_to_end.result import EndToEnd
from roofline.bench.validation import Validation
from roofline.cost.work import Array
from roofline.table import Column, Result, Table, table
from roofline.version import __version__

if TYPE_CHECKING:
    import pandas

GROUPED: Final = ("rows", "of", "median", "mean", "p90", "inside", "datasheet")
"""Figures of a group: rows predicted, rows, errors as shares, share in the interval, and the median
error of the datasheet roofline."""
Group = tuple[str, Mapping[str, str], Mapping[str, Any]]
"""Metric, values of the columns that its rows agree in, and figures in percent."""


def validated_kernels(
    found: Validation, groups: Iterable[tuple[Mapping[str, str], Mapping[str, Any]]], file: Path
) -> Result:
    """Result of measured kernels, for `roofline.report`.

    Args:
        found: Rows and predictions.
        groups: Figures of rows that agree in some columns.
        file: Measurements, which are named with their digest.
    """
    low, high = found.interval()
    whole = found.figures()
    summary = [f"{whole['n']:,} of {whole['n_total']:,} rows are predicted."]
    if whole["n"]:
        plain = whole["datasheet"]["median"]
        summary.append(f"The datasheet roofline is {plain:.0f} % off at the median of these rows.")
    return _result(
        file,
        summary,
        _scores(found.known, "time_s", "s", found.measured, (found.predicted, low, high)),
        [("time_s", key, figures) for key, figures in groups],
        [(each.rows, each.where, each.why) for each in found.refused],
    )


def validated_serving(
    found: EndToEnd, frame: "pandas.DataFrame", groups: Sequence[Group], file: Path
) -> Result:
    """Result of measured rows of serving, for `roofline.report`.

    Args:
        found: Rows and predictions.
        frame: Rows as they are in the file.
        groups: Figures of a metric, of rows that agree in some columns.
        file: Measurements, which are named with their digest.
    """
    parts, plain = [], found.of_kind(PLAIN)
    shown = plain if (plain & found.predicted).any() else found.predicted
    for name, metric in found.metrics.items():
        known = np.isfinite(metric.measured) & np.isfinite(metric.predicted) & shown
        ends = metric.predicted, metric.low, metric.high
        scores = _scores(known, name, UNITS[name], metric.measured, ends)
        parts.append(scores | {"gpus": _devices(frame)[known].tolist()})
    scores = {name: [value for part in parts for value in part[name]] for name in parts[0]}
    every, reasons = found.figures(), dict[str, int]()
    for each in found.refused:
        reasons[each.why] = reasons.get(each.why, 0) + 1
    summary = [f"{every['n']:,} of {every['n_total']:,} rows are predicted."]
    if apart := int((found.predicted & ~shown).sum()):
        summary.append(
            f"{apart:,} of them are of other kinds and quality: they are in tables alone."
        )
    refused = [(rows, "", why) for why, rows in reasons.items()]
    return _result(file, summary, scores, groups, refused)


def _devices(frame: "pandas.DataFrame") -> Array:
    """Devices that the throughput of each row is of. [1]"""
    import pandas as pd

    counts = frame["n_gpus"] if "n_gpus" in frame else frame.get("tp", pd.Series(1, frame.index))
    devices = pd.to_numeric(counts, errors="coerce").fillna(1.0).clip(lower=1.0)
    if "thr_scope" in frame:
        devices = devices.mask(frame["thr_scope"].astype(str) == "per_gpu", 1.0)
    return devices.to_numpy(np.float64)


def _scores(
    known: NDArray[np.bool_],
    metric: str,
    unit: str,
    measured: Array,
    predicted: tuple[Array, Array, Array],
) -> dict[str, list[Any]]:
    """Columns of the rows that are predicted, which are counted as in the file. [1]"""
    rows = np.flatnonzero(known)
    value, low, high = (each[rows] for each in predicted)
    columns = {"measured": measured[rows], "predicted": value, "low": low, "high": high}
    named = {"row": [f"row {row + 1:,}" for row in rows]}
    named |= {"metric": [metric] * len(rows), "unit": [unit] * len(rows)}
    return named | {name: column.tolist() for name, column in columns.items()}


def _result(
    file: Path,
    summary: Sequence[str],
    scores: Mapping[str, Sequence[Any]],
    groups: Sequence[Group],
    refused: Sequence[tuple[int, str, str]],
) -> Result:
    every = sorted(refused, key=lambda each: -each[0])
    left = [{"rows": rows, "where": where, "why": why} for rows, where, why in every]
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return Result(
        "validate",
        {
            "scores": Table({name: Column(tuple(values)) for name, values in scores.items()}),
            "validated": table(list(_grouped(groups)), {}),
            "refused": table(left, dict.fromkeys(("rows", "where", "why"), "")),
        },
        metadata={
            "version": __version__,
            "file": file.name,
            "digest": f"sha256:{digest}",
            "summary": tuple(summary),
        },
    )


def _grouped(groups: Sequence[Group]) -> Iterator[dict[str, Any]]:
    for metric, key, figures in groups:
        plain = (figures.get("datasheet") or {}).get("median")
        errors = (*(figures[name] for name in ("median", "mean", "p90")), plain)
        shares = [None if error is None else error / 100.0 for error in errors]
        inside = figures["interval_coverage"]
        values = (figures["n"], figures["n_total"], *shares[:3], inside, shares[3])
        yield {**key, "metric": metric, **dict(zip(GROUPED, values, strict=True)), **key}
