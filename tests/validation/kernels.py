"""Measured kernels on shapes that a fit did not see, in groups that one fit may hold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import pytest

from roofline.bench import exchange_rows, expert_rows, kernel_rows
from roofline.bench.fit import cross_validate
from roofline.bench.held_out import Errors, coverage, errors
from roofline.bench.kernel_rows import RowGroup
from roofline.errors import InputError
from tests.cases import ALL, cases
from tests.validation.measurements import SAMPLE, measured

READERS: Final = {
    "attention_prefill": kernel_rows.prefill_groups,
    "attention_decode": kernel_rows.decode_groups,
    "mla_prefill": kernel_rows.latent_prefill_groups,
    "mla_decode": kernel_rows.latent_decode_groups,
    "mla_module": kernel_rows.module_groups,
    "mla_bmm": kernel_rows.head_groups,
    "moe": expert_rows.expert_groups,
    "deepep": exchange_rows.exchange_groups,
}
"""By the file that the rows are in."""
ROWS: Final = 600
"""Rows of a group that a test fits: a random sample, from a fixed seed."""
EXPERT_ROWS: Final = cases(400, ROWS)
"""The same of experts, whose loads are drawn row by row."""
FOLDS: Final = 4
SCORE: Final = cases(2, FOLDS)
"""Groups of families that are left out, one after the other."""
SEED: Final = 0


@dataclass(frozen=True, slots=True)
class Report:
    """Errors of a fit, with a residual table or by the equation alone; rows in their interval.

    Of a fit with a table the errors of the equation alone are known where all cases run.
    """

    group: RowGroup
    form: Errors | None
    table: Errors | None
    inside: float

    @property
    def best(self) -> Errors:
        """Errors of the most that was fitted."""
        found = self.table or self.form
        assert found is not None, self.group.name
        return found


@cache
def groups(name: str, *, sample: bool = False) -> tuple[RowGroup, ...]:
    """Groups of a file, of the device of the sample or of all others."""
    every = measured(name)
    frame = every[(every.gpu == SAMPLE) == sample]
    if name == "moe" and not sample:
        shuffled = frame.sample(frac=1.0, random_state=SEED)
        frame = shuffled.groupby(list(kernel_rows.KEY)).head(EXPERT_ROWS)
    return tuple(READERS[name](frame))


def thinned(group: RowGroup, rows: int = ROWS) -> RowGroup:
    if len(group) <= rows:
        return group
    some = np.random.default_rng(SEED).choice(len(group), rows, replace=False)
    return group[np.sort(some)]


def report(group: RowGroup, *, table: bool, score: int = SCORE) -> Report:
    some = thinned(group)
    families = len(np.unique(some.families))
    # Of few families each is left out alone, so that enough others are left.
    folds = FOLDS if families >= 2 * FOLDS else families
    scored = score if families >= 2 * FOLDS else None

    def errors_of(*, residual: bool) -> tuple[Errors, float]:
        predicted, spread = cross_validate(
            some.form,
            some.dims,
            some.machine,
            some.measured,
            families=some.families,
            folds=folds,
            score=scored,
            residual=residual,
        )
        held = np.isfinite(predicted)
        found = errors(predicted[held], some.measured[held])
        return found, coverage(predicted[held], spread[held], some.measured[held])

    form = with_table = None
    inside = 0.0
    if ALL or not table:
        form, inside = errors_of(residual=False)
    if table:
        with_table, inside = errors_of(residual=True)
    return Report(group, form, with_table, inside)


def report_all(
    files: Sequence[str], tabled: Callable[[str, RowGroup], bool], score: int = SCORE
) -> tuple[dict[str, Report], dict[str, str]]:
    """Report of each group of some files, and why there is none of the others."""
    found, refused = {}, {}
    for name in files:
        for group in groups(name):
            key = f"{name} {label(group)}"
            try:
                found[key] = report(group, table=tabled(name, group), score=score)
            except InputError as error:
                refused[key] = f"{len(group)} rows: {error}"
    return found, refused


def matching(reports: Mapping[str, Report], refused: Mapping[str, str], words: str) -> list[Report]:
    """Reports whose title has some words; a skip that says why where no group could be fitted."""
    found = [each for key, each in reports.items() if words in key]
    if not found:
        pytest.skip("; ".join(f"{key}: {why}" for key, why in refused.items() if words in key))
    return found


def label(group: RowGroup) -> str:
    shown = ("gpu", "backend", "kernel", "mode", "op", "dtype", "kv_dtype", "phase", "gemm_dtype")
    return " ".join(group.name[key] for key in shown if key in group.name)


def show(title: str, reports: Mapping[str, Report], refused: Mapping[str, str]) -> None:
    print(f"\n{title:60}  rows  {'equation':20} {'with its table':20} inside")
    none = "-".center(18)
    for name, found in reports.items():
        inside = f"{100 * found.inside:4.0f} %"
        print(
            f"{name:60} {len(found.group):5}  {found.form or none!s:20} "
            f"{found.table or none!s:20} {inside}"
        )
    for name, why in refused.items():
        print(f"{name:60} not fitted: {why}")


def overall(reports: Mapping[str, Report], of: Callable[[Report], float]) -> float:
    sizes = [min(len(found.group), ROWS) for found in reports.values()]
    return float(np.average([of(found) for found in reports.values()], weights=sizes))
