"""Measured kernels on shapes that a fit did not see, in groups that one fit may hold."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from roofline.bench.fit import cross_validate
from roofline.bench.held_out import Errors, coverage, errors
from roofline.bench.kernel_rows import READERS, Group
from tests.validation.measurements import FOLDER

ROWS: Final = 400
"""Of a group that a test fits: a random sample, from a fixed seed."""
EXPERT_ROWS: Final = 6000
"""Read of all groups of experts, whose loads are drawn one by one."""
FOLDS: Final = 4
SEED: Final = 0
SAMPLE: Final = "h200_sxm"
"""Device of which there is a sample only: what is measured elsewhere is carried to it."""


@dataclass(frozen=True, slots=True)
class Report:
    """Errors of the equation alone, and with its residual table where that was fitted; rows in
    their interval."""

    group: Group
    form: Errors
    table: Errors | None
    inside: float

    @property
    def best(self) -> Errors:
        """Errors of the most that was fitted."""
        return self.table or self.form


def available(name: str) -> bool:
    return (FOLDER / f"{name}.parquet").is_file()


@cache
def groups(name: str, *, sample: bool = False) -> tuple[Group, ...]:
    """Groups of a file, of the device of the sample or of all others."""
    import pandas as pd

    frame = pd.read_parquet(FOLDER / f"{name}.parquet")
    frame = frame[(frame.gpu == SAMPLE) == sample]
    if name == "moe" and not sample:
        frame = frame.sample(EXPERT_ROWS, random_state=SEED)
    return tuple(READERS[name](frame))


def thinned(group: Group, rows: int = ROWS) -> Group:
    if len(group) <= rows:
        return group
    some = np.random.default_rng(SEED).choice(len(group), rows, replace=False)
    return group[np.sort(some)]


def report(group: Group, *, table: bool) -> Report:
    some = thinned(group)

    def errors_of(*, residual: bool) -> tuple[Errors, float]:
        predicted, spread = cross_validate(
            some.form,
            some.dims,
            some.machine,
            some.measured,
            families=some.families,
            folds=FOLDS,
            residual=residual,
        )
        found = errors(predicted, some.measured)
        return found, coverage(predicted, spread, some.measured)

    form, inside = errors_of(residual=False)
    if not table:
        return Report(group, form, None, inside)
    with_table, inside = errors_of(residual=True)
    return Report(group, form, with_table, inside)


def label(group: Group) -> str:
    shown = ("gpu", "backend", "kernel", "mode", "op", "dtype", "kv_dtype", "phase", "gemm_dtype")
    return " ".join(group.name[key] for key in shown if key in group.name)


def show(title: str, reports: Mapping[str, Report]) -> None:
    print(f"\n{title:60}  rows  {'equation':20} {'with its table':20} inside")
    none = "-".center(18)
    for name, found in reports.items():
        inside = f"{100 * found.inside:4.0f} %"
        print(
            f"{name:60} {len(found.group):5}  {found.form!s:20} {found.table or none!s:20} {inside}"
        )


def overall(reports: Mapping[str, Report], of: Callable[[Report], float]) -> float:
    sizes = [min(len(found.group), ROWS) for found in reports.values()]
    return float(np.average([of(found) for found in reports.values()], weights=sizes))
