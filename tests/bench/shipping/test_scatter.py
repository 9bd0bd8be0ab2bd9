"""Scatter of rows about their neighbours, and what is said of groups beside it."""

from typing import Final

import numpy as np
import pytest

from roofline.bench.kernel_rows import RowGroup
from roofline.bench.shipping.files import entries
from roofline.bench.shipping.making import filed, meant
from roofline.bench.shipping.scatter import (
    FEW,
    Residuals,
    floor,
    lines,
    near,
    outside,
    residuals,
    scatter,
)
from roofline.cost.kernels.form import machine
from roofline.cost.kernels.gemm import GEMM
from roofline.hardware.catalog import gpu
from roofline.records import replace

H100: Final = machine(gpu("h100-sxm"), "bf16")
ROWS: Final = 4000
SPREAD: Final = 0.1


def group(noise: float, rows: int = ROWS) -> RowGroup:
    """Times that grow as a power of m, with noise in their logarithm; m in steps of a quarter."""
    m = np.tile(2.0 ** np.arange(0.0, 10.0, 0.25), rows // 40)
    n = np.repeat(np.arange(1.0, rows // 40 + 1.0), 40)
    dims = {"m": m, "n": n, "k": np.full(rows, 512.0)}
    random = np.random.default_rng(5)
    measured = 1e-6 * m**0.7 * n**0.3 * np.exp(noise * random.standard_normal(rows))
    families = n.astype(np.int64)
    places = np.arange(rows)
    form = GEMM["bfloat16"]
    return RowGroup({"gpu": "h100-sxm"}, form, H100, dims, measured, families, places, "bf16")


def test_scatter_is_the_noise_of_one_row() -> None:
    """Median and 90th percentile of a normal distribution: 0.674 and 1.645 deviations."""
    found = scatter(group(SPREAD))
    assert found is not None
    assert found[0] == pytest.approx(np.expm1(0.674 * SPREAD), rel=0.05)
    assert found[1] == pytest.approx(np.expm1(1.645 * SPREAD), rel=0.05)


def test_a_power_has_no_scatter() -> None:
    assert scatter(group(0.0)) == pytest.approx((0.0, 0.0), abs=1e-9)


def test_nothing_is_said_of_few_rows() -> None:
    some = group(SPREAD)[np.arange(FEW)]
    assert scatter(some) is None


def test_a_group_outside_is_near_a_floor_that_explains_both_errors() -> None:
    entry = replace(next(iter(entries().values())), kind="gemm", rows=5000, median=0.06, p90=0.2)
    assert outside(entry)
    assert not outside(replace(entry, median=0.04, p90=0.14))
    assert not outside(replace(entry, rows=200))
    assert near(entry, floor("gemm", (0.05, 0.15)))
    assert not near(entry, floor("gemm", (0.05, 0.1)))
    assert floor("moe", (0.001, 0.001)) == (0.008, 0.04)
    left = Residuals((0.03, 0.1), "m +1 -2 +3")
    *words, line = lines([(entry, (0.05, 0.15))], {entry.label: left})
    assert line.endswith("| 4.0 / 14 | 6.0 / 20 | 3.0 / 10 | 5.0 / 15 * | m +1 -2 +3 |")
    assert any("1 keep to what is asked" in each for each in words)


def test_families_within_the_others_are_told_apart_from_the_outermost() -> None:
    """The widest layers take four times as long: no fit without them can know."""
    known = group(0.02, 480)
    outermost = known.dims["n"] == known.dims["n"].max()
    known = replace(known, measured=known.measured * np.where(outermost, 4.0, 1.0))
    left = residuals(known)
    assert left.within is not None
    assert left.within[1] < 0.2
    assert not left.meets((0.001, 0.001))
    assert left.meets((0.1, 0.2))
    assert not Residuals(None, "").meets((1.0, 1.0))


def test_kernels_are_meant_by_their_kind_or_by_a_part_of_their_names() -> None:
    wanted = ("sparse-attention/topk", "moe")
    assert meant("sparse-attention", "fast_topk_transform_fused", wanted)
    assert not meant("sparse-attention", "FLASHMLA_SPARSE", wanted)
    assert meant("moe", "any", wanted)
    assert not meant("gemm", "topk", wanted)


def test_fits_of_one_kind_are_made_of_all_files_that_have_its_rows() -> None:
    assert filed(("sparse-attention/topk", "gemm")) == ["gemm", "sparse-attention", "msa"]
