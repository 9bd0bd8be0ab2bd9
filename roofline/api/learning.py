"""Constants of an engine learnt from what other tools measured of it."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from roofline.api.measured import read
from roofline.api.measured_rows import row
from roofline.bench.end_to_end import cases, profiles
from roofline.bench.end_to_end.learning import Learnt, learn
from roofline.bench.end_to_end.predicting import prepared
from roofline.bench.end_to_end.profiles import Told
from roofline.content import home
from roofline.errors import InputError
from roofline.interop.results import Given
from roofline.table import Result, Table, table

if TYPE_CHECKING:
    from roofline.bench.end_to_end.replay import Known

FOLDER: Final = "engines"
"""Place of learnt profiles, in the folder for what the user has measured."""


def learn_engine(
    files: str | Path | Sequence[str | Path],
    *,
    format_: str = "",
    given: Given | None = None,
    out: str | Path | None = None,
) -> Result:
    """Refit an engine's constants to your own runs, with the error on runs left out.

    Args:
        files, format_: As for `roofline.api.compare_measured`.
        given: What the files do not say.
        out: File of the new profile; else one in the folder for your own. It is written only where
            runs that were left out are predicted better by it than by the shipped one.

    Returns:
        Result: Tables ``constants`` and ``errors``; the file is in the metadata, empty if none was
            written.

    Raises:
        RooflineError: A file cannot be read, or there are too few runs, or of several engines.
    """
    listed = [files] if isinstance(files, str | Path) else list(files)
    runs = read(listed, format_, given or Given())
    able = [run for run in runs if not run.scenario.beyond]
    rows, left_out = _priced([row(run) for run in able])
    if not rows:
        why = left_out[0] if left_out else "no prediction knows what they ran"
        raise InputError(
            f"none of {len(runs):,} runs can be learnt from: {why}",
            hint="roofline compare-measured says it of each",
        )
    found = learn(rows)
    path = _written(found, rows, Path(out) if out else None) if found.better else None
    return Result(
        "calibrate",
        {"constants": _table(found.moved, CONSTANTS), "errors": _table(found.scores, ERRORS)},
        notes=tuple(_notes(found, len(runs) - len(rows))),
        metadata={
            "engine": found.engine.profile,
            "runs": found.runs,
            "deployments": found.deployments,
            "left out": found.apart,
            "better": found.better,
            "file": "" if path is None else str(path),
        },
    )


def _priced(records: "Sequence[dict[str, object]]") -> "tuple[list[Known], list[str]]":
    import pandas as pd

    if not records:
        return [], []
    rows, unread = cases.read(pd.DataFrame(list(records)))
    found, unpriced = prepared(rows)
    return found, [each.why for each in (*unread, *unpriced)]


def _written(found: Learnt, rows: "Sequence[Known]", out: Path | None) -> Path:
    digest = hashlib.sha256()
    for each in rows:
        one = each.row
        digest.update(repr((one.case, one.mode, one.batch, sorted(one.measured.items()))).encode())
    path = out or home() / FOLDER / f"{found.engine.profile}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    told = Told(
        found.runs,
        digest.hexdigest()[:16],
        f"{found.runs} runs of your own, shrunk towards the shipped profile",
        (),
        found.spreads,
    )
    return profiles.write(found.engine.profile, found.logs, found.sd, told, path)


CONSTANTS: Final = {
    "constant": "name",
    "unit": "unit",
    "shipped": "before",
    "learnt": "after",
    "low": "low",
    "high": "high",
    "told by the runs": "learnt",
    "meaning": "meaning",
}
ERRORS: Final = {
    "metric": "metric",
    "figures": "figures",
    "shipped": "shipped",
    "held out": "held",
    "fitted": "fitted",
}
"""Attributes of what was learnt by the columns that have them."""


def _table(records: Sequence[object], columns: Mapping[str, str]) -> Table:
    rows = [{name: getattr(each, field) for name, field in columns.items()} for each in records]
    return table(rows, {})


FEW: Final = 0.5
"""Share that runs tell of the constants below which they are few. [1]"""


def _notes(found: Learnt, refused: int) -> list[str]:
    mean = sum(each.learnt for each in found.moved) / len(found.moved)
    out = []
    if mean < FEW:
        out.append(
            f"The {found.runs} runs tell {100 * mean:.0f} % of what is not known of the constants: "
            "the rest is shrunk towards the shipped profile."
        )
    if found.deployments == 1:
        out.append(
            "All runs are of one deployment: the constants take what is particular to it, and may "
            "not hold for another."
        )
    if not found.better:
        out.append(
            f"Runs left out (one {found.apart} at a time) are predicted no better than by the "
            "shipped profile, which stays."
        )
    if refused:
        out.append(f"{refused} runs cannot be predicted and were left out.")
    return out
