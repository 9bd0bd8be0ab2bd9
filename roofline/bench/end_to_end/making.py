"""From measured rows to the profiles of engines that are shipped.

``python -m roofline.bench.end_to_end.making e2e.csv.gz`` writes
``hwspecs/calibrations/engines/`` and ``hwspecs/left-out.md``; with the name of an engine behind it
that engine's constants alone, where no other's depend on its rows: one that runs no CUDA graphs.

Most of a fit is the derivatives of predictions by constants. Those at the shipped constants are
kept in the folder of caches: after a change of the simulator or of kernels, rows whose predictions
it left alone keep theirs.
"""

import hashlib
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zipfile import BadZipFile

import numpy as np
from msgspec import Struct

from roofline import files
from roofline.bench import arguments
from roofline.bench.end_to_end import held_out, left_out, profiles
from roofline.bench.end_to_end.cases import contradicted, read
from roofline.bench.end_to_end.driving import unsure
from roofline.bench.end_to_end.engines import PROFILES, SHARED
from roofline.bench.end_to_end.fitting import LinearModel, cells, fit, linear
from roofline.bench.end_to_end.held_out import DEVIATIONS, HeldOut, Spreads
from roofline.bench.end_to_end.metrics import workers_of
from roofline.bench.end_to_end.predicting import FITTED, prepared
from roofline.bench.end_to_end.profiles import ErrorFile, ProfileEvidence
from roofline.bench.end_to_end.replay import PreparedRow
from roofline.content import cache, shipped
from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.records import replace

if TYPE_CHECKING:
    import pandas

KEPT: Final = "derivatives.npz"
OF_ENGINE: Final = 3
"""Words from which on the key of a spread begins with an engine."""
NOTHING: Final = "no measured row: priors of an engine that runs CUDA graphs"


class FittedEngines(Struct, frozen=True):
    """Constants that were fitted, and how far off they are on networks left out."""

    logs: Array
    sd: Array
    """Logarithms of all constants, and their standard deviations."""
    told: Mapping[str, ProfileEvidence]
    """Rest of the file of each engine, and of the kernels that all share."""
    left_out: Sequence[str]
    """Lines of the table of errors."""


def made(frame: "pandas.DataFrame", source: str, only: str = "") -> FittedEngines:
    """Constants, their spread and what they rest on, for each engine and the kernels they share.

    Args:
        frame: Measurements; rows of a quality that is not in `FITTED` are left out, and those that
            nobody knows how to read.
        source: Which file, in words.
        only: Profile that is fitted alone; empty for all. Its engine's kernels are those measured
            alone, so that it shares no constant with others.

    Raises:
        InputError: The engine of that profile runs the kernels that all share, or has no rows.
    """
    rows, _ = read(frame[frame["quality"].isin(FITTED)].reset_index(drop=True))
    found, _ = prepared([row for row in rows if not unsure(row)])
    if only:
        found = [each for each in found if each.engine.profile == only]
        if not found or any(each.engine.graph_kernels for each in found):
            raise InputError(
                f"{only!r:.40} has no rows, or shares constants with other engines",
                hint="fit all profiles",
            )
    with workers_of(found):
        start = linear(found, cells(found), profiles.load()[0]) if only else _derivatives(found)
        near, sd = fit(found, start)
        scored = held_out.cross_validate(found, near=near)
    logs = near.start
    missed = _missed(found, scored)
    spreads = held_out.spread(found, cells(found), missed)
    out = {}
    for name in (only,) if only else PROFILES:
        mine = [place for place, each in enumerate(found) if each.engine.profile == name]
        families = {found[place].engine.family or name for place in mine}
        own = {
            key: value
            for key, value in spreads.items()
            if len(key) >= OF_ENGINE and key[0] in families
        }
        out[name] = _told(found, scored, mine, own, source)
    if not only:
        rest = {key: value for key, value in spreads.items() if len(key) < OF_ENGINE}
        modern = [place for place, each in enumerate(found) if each.engine.graph_kernels]
        out[SHARED] = _told(found, scored, modern, rest, source)
    return FittedEngines(logs, sd, out, left_out.table(found, scored))


def _derivatives(rows: Sequence[PreparedRow]) -> LinearModel:
    """Cells around the shipped constants; rows that are served as before keep derivatives."""
    path, start, has = cache() / KEPT, profiles.load()[0], cells(rows)
    named = [repr(replace(each.row, place=0)).encode() for each in rows]
    names = [
        hashlib.sha256(named[row] + metric.encode()).hexdigest()
        for row, metric in zip(has.row, has.metric, strict=True)
    ]
    before = None
    with suppress(OSError, ValueError, KeyError, BadZipFile), np.load(path) as kept:
        at = {name: place for place, name in enumerate(kept["names"].tolist())}
        places = np.array([at.get(name, -1) for name in names])
        then = np.where(places < 0, np.nan, kept["at"][places])
        before = LinearModel(kept["start"], then, kept["slopes"][places])
    near = linear(rows, has, start, before=before)
    with files.output(path, folders=True) as file:
        np.savez_compressed(file, names=names, start=start, at=near.at, slopes=near.slopes)
    return near


def _missed(rows: Sequence[PreparedRow], scored: HeldOut) -> Array:
    """Log of predicted over measured, cell by cell."""
    has = cells(rows)
    values = [scored.metrics[row][name] for row, name in zip(has.row, has.metric, strict=True)]
    missed: Array = np.log(np.maximum(values, 1e-12)) - has.measured
    return missed


def _told(
    rows: Sequence[PreparedRow], scored: HeldOut, mine: Sequence[int], spreads: Spreads, source: str
) -> ProfileEvidence:
    digest = hashlib.sha256()
    together: dict[tuple[str, str], list[tuple[float, bool]]] = {}
    for place in mine:
        row = rows[place].row
        said = sorted(row.measured.items())
        digest.update(repr((row.case, row.mode, row.batch, row.isl, row.osl, said)).encode())
        for name, value in row.measured.items():
            if name != contradicted(row):
                predicted = scored.metrics[place][name]
                held = abs(np.log(predicted / value)) <= DEVIATIONS * scored.log_sd[place][name]
                together.setdefault((row.mode, name), []).append(
                    (abs(predicted / value - 1), bool(held))
                )
    errors = []
    for (mode, name), each in sorted(together.items()):
        off = np.array([error for error, _ in each])
        median, p90 = np.quantile(off, (0.5, 0.9))
        inside = float(np.mean([held for _, held in each]))
        found = {"median": float(median), "mean": float(off.mean()), "p90": float(p90)}
        errors.append(ErrorFile(mode=mode, metric=name, rows=len(off), inside=inside, **found))
    return ProfileEvidence(
        len(mine),
        digest.hexdigest()[:16],
        source if mine else NOTHING,
        tuple(errors),
        spreads,
    )


def main(path: Path, only: str = "") -> None:
    """Fit all profiles to a file of measurements, or one of them, and write them."""
    import pandas as pd

    source = f"rows of {path.name} whose quality is {' or '.join(FITTED)}; each names its source"
    found = made(pd.read_csv(path), source, only)
    for name, told in found.told.items():
        place = profiles.write(name, found.logs, found.sd, told)
        sys.stdout.write(f"{place.name}: {told.rows} rows\n")
    if not only:
        text = left_out.TEXT.format(table="\n".join(found.left_out))
        with files.text_output(shipped("hwspecs") / "left-out.md") as file:
            file.write(text)
        sys.stdout.write(text)


if __name__ == "__main__":
    asked = arguments.parser("roofline.bench.end_to_end.making", __doc__)
    asked.add_argument("file", type=arguments.file, help="measured rows: e2e.csv.gz")
    asked.add_argument("engine", nargs="?", default="", help="profile that is fitted alone")
    given = asked.parse_args()
    arguments.answer(asked, lambda: main(given.file, given.engine))
