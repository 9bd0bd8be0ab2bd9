"""Kind of a measured row, and predictions of rows that no plain server served."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from roofline.bench.end_to_end import profiles
from roofline.bench.end_to_end.cases import UnreadRow, said
from roofline.bench.end_to_end.kinds import drafted_rows, mlperf_rows, pooled_rows
from roofline.bench.end_to_end.kinds.prediction import ApartRow, Prediction
from roofline.bench.end_to_end.metrics import shared_out
from roofline.errors import RooflineError, described
from roofline.study.executors import cores

if TYPE_CHECKING:
    import pandas

PLAIN: Final = "ok"
"""Kind of rows whose file has no ``quality``."""
READERS: Final[Mapping[str, Callable[[int, Mapping[str, Any]], ApartRow]]] = {
    pooled_rows.MODE: pooled_rows.pooled_row,
    drafted_rows.KIND: drafted_rows.drafted_row,
    **dict.fromkeys(mlperf_rows.MODES, mlperf_rows.mlperf_row),
}
"""Readers of rows, by kind that is predicted apart."""
MANY: Final = 50
"""Rows from which on more than one process predicts them. [1]"""

Predicted = Prediction | UnreadRow


def kind_of(record: Mapping[str, Any]) -> str:
    """Kind of a row: one of `READERS`, else what its ``quality`` says.

    Examples:
        >>> kind_of({"mode": "disagg"}), kind_of({"mode": "offline_max", "quality": "wip"})
        ('disagg', 'wip')
        >>> closed = {"mode": "steady_concurrency"}
        >>> kind_of(closed), kind_of({**closed, "speculation": "mtp"})
        ('ok', 'speculative')
    """
    mode = said(record, "mode")
    if mode in READERS:
        return mode
    return drafted_rows.KIND if said(record, "speculation") else said(record, "quality") or PLAIN


def kinds(frame: "pandas.DataFrame") -> tuple[str, ...]:
    """Kind of each row of a table of measurements."""
    columns = [name for name in ("mode", "speculation", "quality") if name in frame]
    records = frame[columns].to_dict("records")
    return tuple(kind_of({str(key): value for key, value in each.items()}) for each in records)


def predicted_apart(
    frame: "pandas.DataFrame", kind: Sequence[str]
) -> tuple[list[Prediction], list[UnreadRow]]:
    """Rows of a table that are predicted apart, and those of them that cannot be.

    Constants are the shipped ones, which are fitted to none of these rows.
    """
    places = [place for place, name in enumerate(kind) if name in READERS]
    rows: list[ApartRow] = []
    refused: list[UnreadRow] = []
    for place, record in zip(places, frame.iloc[places].to_dict("records"), strict=True):
        told = {str(key): value for key, value in record.items()}
        try:
            rows.append(READERS[kind[place]](place, told))
        except (RooflineError, LookupError, ValueError) as error:
            refused.append(UnreadRow(place, described(error)))
    found = _predicted(rows)
    refused += [each for each in found if isinstance(each, UnreadRow)]
    return [each for each in found if isinstance(each, Prediction)], refused


def _predicted(rows: Sequence[ApartRow]) -> list[Predicted]:
    """Predictions of rows; those of a deployment one after the other, in one process."""
    shares: dict[Any, list[ApartRow]] = {}
    for row in sorted(rows, key=lambda row: repr(row.group)):
        shares.setdefault(row.group, []).append(row)
    together = max(-(-len(shares) // cores()), 1)
    logs, spreads = profiles.load()

    def predicted(row: ApartRow) -> Predicted:
        try:
            return row.predict(logs, spreads)
        except RooflineError as error:
            return UnreadRow(row.place, described(error))

    def every(share: Sequence[ApartRow]) -> list[Predicted]:
        return [predicted(row) for row in share]

    found = shared_out(every, [*shares.values()], rows=len(rows), many=MANY, chunk=together)
    return [each for share in found for each in share]
