"""From a table of measured rows to predictions of each metric."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from roofline.bench.end_to_end import held_out, profiles
from roofline.bench.end_to_end.cases import METRICS, Row, UnreadRow, contradicted, read
from roofline.bench.end_to_end.metrics import predictions, workers_of
from roofline.bench.end_to_end.replay import PreparedRow, known
from roofline.bench.end_to_end.result import EndToEnd, Metric
from roofline.errors import InputError, RooflineError, described
from roofline.hardware.serving_engine import UNKNOWN
from roofline.records import replace

if TYPE_CHECKING:
    import pandas

    from roofline.bench.end_to_end.kinds.prediction import Prediction

OK: Final = "ok"
FITTED: Final = (OK, "median_only")
"""Qualities of the rows that constants are fitted to."""
FEWEST: Final = 5
"""Networks under an engine that a cross-validation needs."""


def end_to_end(frame: "pandas.DataFrame", *, cross_validate: bool) -> EndToEnd:
    """Predict every metric of every row.

    Args:
        frame: Columns of the shared measurements: ``engine``, ``gpu``, ``model``, ``mode`` and at
            least one metric; others take defaults, see `roofline.bench.end_to_end.cases`.
        cross_validate: Whether the constants of each row come from rows of other (engine, network),
            where ``quality`` is ok if the file has that column; else from the shipped profiles.

    Raises:
        InputError: A needed column is missing, or there are too few groups to leave one out.
    """
    # The constants of each row that is predicted apart are those that are shipped.
    from roofline.bench.end_to_end.kinds.row_kinds import READERS, kinds, predicted_apart

    rows = predict_rows(frame, cross_validate=cross_validate)
    kind = kinds(frame)
    apart, unread = predicted_apart(frame, kind)
    plain = [each for each in rows.refused if kind[each.place] not in READERS]
    return _result(len(frame), replace(rows, refused=[*plain, *unread]), apart, kind)


class PredictedRows(Struct, frozen=True):
    """Rows as they are served, with their predictions."""

    known: Sequence[PreparedRow]
    """Rows that are predicted."""
    metrics: Sequence[Mapping[str, float]]
    """Predicted metrics of each of them, in SI units."""
    log_sd: Sequence[Mapping[str, float]]
    """Log standard deviation of each of these. [1]"""
    refused: Sequence[UnreadRow]
    """Rows that are not predicted."""


def predict_rows(frame: "pandas.DataFrame", *, cross_validate: bool) -> PredictedRows:
    """Rows of a table, which are served again, with predictions as those of `end_to_end`."""
    rows, unread = read(frame)
    found, unpriced = prepared(rows)
    refused = [*unread, *unpriced]
    if cross_validate:
        groups = {each.group[1:] for each in found}
        if len(groups) < FEWEST:
            raise InputError(
                f"{len(groups)} groups of engine and model are too few to leave one out",
                hint="leave `cross_validate` out to predict with the shipped profiles",
            )
        quality = list(frame["quality"].astype(str)) if "quality" in frame else [OK] * len(frame)
        fits = np.array([quality[each.row.place] in FITTED for each in found])
        with workers_of(found):
            result = held_out.cross_validate(found, fits)
        return PredictedRows(found, result.metrics, result.log_sd, refused)
    logs, fitted = profiles.load()
    spreads = [
        {name: held_out.of(fitted, each, name) for name in each.row.measured} for each in found
    ]
    return PredictedRows(found, predictions(found, logs), spreads, refused)


def prepared(rows: Sequence[Row]) -> tuple[list[PreparedRow], list[UnreadRow]]:
    """Rows with what serves them; those that cannot be served, with the reason."""
    found: list[PreparedRow] = []
    refused: list[UnreadRow] = []
    for row in rows:
        try:
            found.append(known(row))
        except RooflineError as error:
            refused.append(UnreadRow(row.place, described(error)))
    return found, refused


def _result(
    number: int, rows: PredictedRows, apart: Sequence["Prediction"], row_kind: tuple[str, ...]
) -> EndToEnd:
    columns = {name: np.full((3, number), np.nan) for name in METRICS}
    done = np.zeros(number, dtype=np.bool_)
    profile, kind, basis = [""] * number, [""] * number, [""] * number
    said = list(rows.refused)
    plain = (
        (each.row, each.engine.profile, each.kind, metric, spread, _basis(each))
        for each, metric, spread in zip(rows.known, rows.metrics, rows.log_sd, strict=True)
    )
    others = (
        (each.row, each.profile, each.network, each.predicted, each.log_sd, each.basis)
        for each in apart
    )
    plainly = {each.row.place: contradicted(each.row) for each in rows.known}
    for row, fitted, network, metric, spread, how in chain(plain, others):
        place, wrong = row.place, plainly.get(row.place, "")
        done[place] = True
        profile[place], kind[place], basis[place] = fitted, network, how
        for name, value in row.measured.items():
            columns[name][0, place] = value
            if name == wrong:
                said.append(UnreadRow(place, "latency_s contradicts ttft_s + (osl - 1) · tpot_s"))
                continue
            columns[name][1, place], columns[name][2, place] = metric[name], spread[name]
    for each_refused in rows.refused:
        basis[each_refused.place] = each_refused.why
    return EndToEnd(
        number,
        {name: Metric(*column) for name, column in columns.items()},
        done,
        tuple(profile),
        tuple(kind),
        tuple(basis),
        tuple(said),
        row_kind,
    )


def _basis(each: PreparedRow) -> str:
    if each.engine.profile == UNKNOWN:
        return f"no row was measured of {each.row.engine}: constants of a modern engine, assumed"
    return f"kernels as priced for {each.row.case.gpu}, constants fitted for {each.engine.profile}"
