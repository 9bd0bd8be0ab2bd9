"""Distance of measured rows from their own neighbours, beside the errors of fits.

``python -m roofline.bench.shipping.scatter MEASUREMENTS`` writes the floor of each group to
``hwspecs/calibrations/scatter.csv``, and ``hwspecs/outside.md`` of those whose errors are above
what is asked for: what is left by coordinate, on families of shapes left out.
"""

import csv
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from operator import le
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from roofline.bench import arguments
from roofline.bench.fit import fit_and_score
from roofline.bench.kernel_rows import RowGroup
from roofline.bench.rows import SEED, checked
from roofline.bench.shipping.files import IndexEntry, entries, folder
from roofline.bench.shipping.making import FILES, THREADS, jobs_of
from roofline.cost.calibration.kernel import FitLabel
from roofline.cost.kernels.form import octaves
from roofline.files import text_output
from roofline.study.executors import cores

WANTED: Final[Mapping[str, tuple[float, float]]] = {
    "gemm": (0.04, 0.14),
    **dict.fromkeys(("prefill-attention", "decode-attention", "encoder-attention"), (0.055, 0.17)),
    **dict.fromkeys(("latent-prefill", "latent-decode", "latent-module"), (0.055, 0.17)),
    "moe": (0.08, 0.25),
    **dict.fromkeys(("collective", "expert-exchange", "moe-alltoall"), (0.06, 0.18)),
    **dict.fromkeys(("linear-attention", "sparse-attention", "moe-wideep"), (0.09, 0.28)),
}
"""Median and 90th-percentile error that is asked for, by kind. [1]"""
REPEATS: Final[Mapping[str, tuple[float, float]]] = {
    "moe": (0.008, 0.04),
    "sparse-attention": (0.01, 0.067),
    "linear-attention": (0.004, 0.055),
    "latent-prefill": (0.008, 0.08),
    "latent-decode": (0.013, 0.102),
    "latent-heads": (0.012, 0.062),
    "moe-wideep": (0.022, 0.118),
    "collective": (0.017, 0.087),
    "prefill-attention": (0.006, 0.019),
}
"""Median and 90th-percentile difference of exact repeats in a table, where there are any. [1]"""
NEAR: Final = 1.5
"""An error of so many times the floor is near it."""
MANY: Final = 300
"""Rows of a group that counts."""
APART: Final = 2.0
"""Octaves between a row's neighbours at most."""
FEW: Final = 20
"""Rows with neighbours below which nothing is said of a group."""
THIRDS: Final = 3
SOME: Final = 2000
"""Rows that residuals are told of at most."""
SCATTER: Final = "scatter.csv"
OUTSIDE: Final = "outside.md"


def scatter(group: RowGroup) -> tuple[float, float] | None:
    """Median and 90th-percentile scatter of a row about its neighbours along a coordinate. [1]

    Of a row that lies between two others which differ in that coordinate alone, the logarithm of
    the time less what is interpolated, over the root of the sum of the weights squared: noise of
    one row and, where tiles make them, steps between. The coordinate is the one with the least;
    None where too few rows have neighbours.
    """
    at, log_time = octaves(group.form, group.dims), np.log(group.measured)
    every = np.stack([np.broadcast_to(column, len(group)) for column in group.dims.values()], 1)
    names, found = list(group.dims), []
    for place, name in enumerate(group.form.coordinates):
        # What follows from the coordinate varies with it: others are what families are told by.
        rest = np.delete(at, place, axis=1)
        fixed = [names.index(each) for each in ("heads", "batch", "new") if each in names]
        alike = np.column_stack([rest, *(every[:, i] for i in fixed if names[i] != name)])
        order = np.lexsort((at[:, place], *alike.T))
        x, y, same = at[order, place], log_time[order], alike[order]
        below, above = x[1:-1] - x[:-2], x[2:] - x[1:-1]
        between = (same[2:] == same[:-2]).all(axis=1) & (below > 0.0) & (above > 0.0)
        between &= below + above <= APART
        if between.sum() < FEW:
            continue
        share = below[between] / (below + above)[between]
        away = y[1:-1] - y[:-2]
        away = away[between] - share * (y[2:] - y[:-2])[between]
        noise = np.expm1(np.abs(away) / np.sqrt(1.0 + share**2 + (1.0 - share) ** 2))
        found.append((float(np.median(noise)), float(np.quantile(noise, 0.9))))
    return min(found, default=None)


def floor(kind: str, own: tuple[float, float] | None) -> tuple[float, float]:
    """The larger of a group's scatter and of repeats of its kind: median and p90. [1]"""
    pairs = [pair for pair in (own, REPEATS.get(kind)) if pair is not None]
    median, p90 = (max((pair[i] for pair in pairs), default=0.0) for i in (0, 1))
    return median, p90


def near(entry: IndexEntry, least: tuple[float, float]) -> bool:
    """True where both errors of a fit are within `NEAR` times its floor."""
    return entry.median <= NEAR * least[0] and entry.p90 <= NEAR * least[1]


def outside(entry: IndexEntry) -> bool:
    """True where a fit of many rows has larger errors than are asked for."""
    median, p90 = WANTED.get(entry.kind, (np.inf, np.inf))
    return entry.rows >= MANY and (entry.median > median or entry.p90 > p90)


class Residuals(NamedTuple):
    """Residual of a fit on families left out."""

    within: tuple[float, float] | None
    """Median and 90th-percentile error of rows in the hull of the other families; None where they
    are few. [1]"""
    thirds: str
    """Typical residual in the lower, middle and upper third of each coordinate. [%]"""

    def meets(self, asked: tuple[float, float]) -> bool:
        """True where rows in the hull keep to what is asked for."""
        return self.within is not None and all(map(le, self.within, asked))


def residuals(group: RowGroup) -> Residuals:
    """Errors and typical residuals of families left out."""
    if len(group) > SOME:
        group = group[np.sort(np.random.default_rng(SEED).choice(len(group), SOME, replace=False))]
    rows = checked(group.form, group.machine, group.dims, group.measured, group.families)
    _, left = fit_and_score(rows)
    at = octaves(group.form, group.dims)[left.rows]
    told = []
    for name, column in zip(group.form.coordinates, at.T, strict=True):
        values = np.unique(column)
        if len(values) < THIRDS:
            continue
        part = np.searchsorted(values, column) * THIRDS // len(values)
        means = (100.0 * np.median(left.log_error[part == i]) for i in range(THIRDS))
        told.append(f"{name} " + " ".join(f"{mean:+.0f}" for mean in means))
    off = np.abs(np.expm1(-left.log_error[left.far == 0.0]))
    within = (float(np.median(off)), float(np.quantile(off, 0.9))) if len(off) >= FEW else None
    return Residuals(within, ", ".join(told))


_GROUPS: Final[dict[FitLabel, RowGroup]] = {}
"""Groups by label, which processes forked from this one find here."""


def _scatter(label: FitLabel) -> tuple[float, float] | None:
    return scatter(_GROUPS[label])


def _residuals(label: FitLabel) -> Residuals:
    return residuals(_GROUPS[label])


def lines(
    found: Sequence[tuple[IndexEntry, tuple[float, float]]], told: Mapping[FitLabel, Residuals]
) -> Iterator[str]:
    """Lines of the Markdown file of groups outside."""
    counted = [entry for entry, _ in found if entry.rows >= MANY and entry.kind in WANTED]
    many = [(entry, least) for entry, least in found if outside(entry)]
    close = sum(near(*each) for each in many)
    met = sum(
        told[entry.label].meets(WANTED[entry.kind]) for entry, _ in many if entry.label in told
    )
    yield "# Measured kernels whose errors are above what is asked for"
    yield ""
    yield f"Of {len(counted):,} groups of {MANY} rows or more, {len(counted) - len(many):,} are"
    yield f"inside; {close} of the {len(many)} below are near their floor (errors within"
    yield f"{NEAR:g} times how far rows are from neighbours that differ in one coordinate, or from"
    yield f"their repeats): marked `*`. {met} keep to what is asked on rows of families left out"
    yield "that are within the shapes of the others (`within`): the rest of their error is of the"
    yield "outermost shapes, such as the most heads that were measured. Then typical residuals,"
    yield "measured over predicted, of families left out, in the lower, middle and upper third of"
    yield "each coordinate. All in %, median and 90th percentile."
    yield ""
    yield "| device | provider | kernel | rows | asked | error | within | floor | residuals |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for entry, least in many:
        left = told.get(entry.label, Residuals(None, ""))
        cells = [
            entry.device,
            entry.provider,
            f"{entry.kind} {entry.variant}",
            f"{entry.rows:,}",
            _pair(WANTED[entry.kind]),
            _pair((entry.median, entry.p90)),
            "–" if left.within is None else _pair(left.within),
            _pair(least) + " *" * near(entry, least),
            left.thirds,
        ]
        yield f"| {' | '.join(cells)} |"


def _pair(pair: tuple[float, float]) -> str:
    return f"{100.0 * pair[0]:.1f} / {100.0 * pair[1]:.0f}"


def main(measurements: Path) -> None:
    """Write both files."""
    known = entries()
    _GROUPS.update(item for item in jobs_of(measurements, FILES) if item[0] in known)
    with ProcessPoolExecutor(cores(), get_context("fork")) as pool:
        own = dict(zip(_GROUPS, pool.map(_scatter, _GROUPS, chunksize=16), strict=True))
        found = [(entry, floor(entry.kind, own.get(label))) for label, entry in known.items()]
        wanted = [entry.label for entry, _ in found if outside(entry) and entry.label in _GROUPS]
        told = dict(zip(wanted, pool.map(_residuals, wanted), strict=True))
    with text_output(folder() / SCATTER) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("device", "provider", "kind", "variant", "median", "p90", "near"))
        for entry, least in found:
            label = (entry.device, entry.provider, entry.kind, entry.variant)
            writer.writerow((*label, *(f"{each:.4g}" for each in least), int(near(entry, least))))
    with text_output(folder().parent / OUTSIDE) as file:
        file.writelines(f"{line}\n" for line in lines(found, told))


if __name__ == "__main__":
    module = "roofline.bench.shipping.scatter"
    asked = arguments.parser(module, __doc__)
    asked.add_argument("measurements", type=arguments.folder, help="folder of measurements")
    given = asked.parse_args()
    if any(os.environ.get(name) != "1" for name in THREADS):
        told_apart = os.environ | dict.fromkeys(THREADS, "1")
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], told_apart)
    arguments.answer(asked, lambda: main(given.measurements))
