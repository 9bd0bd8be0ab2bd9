"""Rates at which rows are predicted and fits left out. Figures are printed, never asserted."""

import time
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from roofline.bench.fit import fit
from roofline.bench.kernel_rows import RowGroup
from roofline.bench.predictors import PredictedTimes, left_out, one_by_one
from roofline.bench.validation import READERS, validate
from roofline.cost.kernels.form import FittedForm, log_sd, seconds
from roofline.cost.work import Array
from roofline.study.executors import cores
from tests.benchmarks.reference import reference

MANY = 250_000
FITTED = 4000


def linear(rows: int, random: np.random.Generator) -> Mapping[str, object]:
    return {
        "m": random.integers(1, 16384, rows),
        "n": 64 * random.integers(1, 256, rows),
        "k": 64 * random.integers(1, 256, rows),
    }


def decoding(rows: int, random: np.random.Generator) -> Mapping[str, object]:
    heads = 2 ** random.integers(3, 7, rows)
    return {
        "batch": random.integers(1, 512, rows),
        "seq_kv": random.integers(1, 65536, rows),
        "n_heads": heads,
        "n_kv_heads": heads // 4,
    }


def experts(rows: int, random: np.random.Generator) -> Mapping[str, object]:
    return {
        "num_tokens": random.integers(1, 4096, rows),
        "hidden": 1024 * random.integers(2, 8, rows),
        "inter": 256 * random.integers(2, 8, rows),
        "experts": 2 ** random.integers(3, 8, rows),
        "topk": 2,
    }


MAKERS = {"gemm": linear, "attention-decode": decoding, "moe": experts}


def frame(kind: str, rows: int) -> pd.DataFrame:
    """Shapes at random, with times that a form of its kind could have."""
    random = np.random.default_rng(0)
    given = pd.DataFrame({"gpu": "h100_sxm", **MAKERS[kind](rows, random), "time_s": 1.0})
    return given.assign(time_s=random.lognormal(-11, 0.1, rows))


def fitted(kind: str) -> tuple[object, RowGroup]:
    from roofline.bench.columns import prepared

    (group,) = READERS[kind](prepared(kind, frame(kind, FITTED))[0])
    times: Array = group.form.seconds(
        group.dims, group.machine, {c.name: c.prior for c in group.form.constants}
    )
    bumps = np.exp(0.1 * np.sin(np.log2(group.dims[group.form.coordinates[0]])))
    return (
        fit(
            group.form, group.dims, group.machine, times * bumps, families=group.families, starts=1
        ),
        group,
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
def test_rows_by_a_fitted_model(kind: str) -> None:
    model, _ = fitted(kind)
    rows = frame(kind, MANY)

    def known(group: RowGroup) -> PredictedTimes:
        assert isinstance(model, FittedForm)
        dims, machine = group.dims, group.machine
        spreads = log_sd(model, dims, machine)
        return PredictedTimes(seconds(model, dims, machine), spreads, "interpolated")

    with reference() as loop:
        wall, own = time.perf_counter(), time.process_time()
        found = validate(kind, rows, one_by_one(known))
        wall, own = time.perf_counter() - wall, time.process_time() - own
    table = getattr(model, "residual", None) is not None
    print(
        f"\n  {int(found.known.sum()):,} {kind} rows read, predicted and bracketed in {wall:.1f} s "
        f"({MANY / own:,.0f} a second of processor {loop.rate(MANY / own)}), table: {table}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("rows", [10_000])
def test_rows_left_out_family_by_family(rows: int) -> None:
    given = frame("gemm", rows)
    given["n"], given["k"] = 1024 * (given.n // 1024 + 1), 1024 * (given.k // 1024 + 1)
    for jobs in (1, cores()):
        with reference() as loop:
            began = time.perf_counter()
            validate("gemm", given, left_out(jobs))
            wall = time.perf_counter() - began
        print(f"\n  {rows:,} rows left out by {jobs}: {wall:.1f} s {loop.time(wall)}")
