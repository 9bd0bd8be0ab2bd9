"""Sparse attention on networks and heads that a fit never saw, in samples of measured rows."""

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from roofline.bench.columns import prepared
from roofline.bench.fit import OUTER, cross_validate
from roofline.bench.held_out import coverage, errors
from roofline.bench.rows import grouped
from roofline.bench.validation import READERS
from tests.cases import cases
from tests.validation.kernels import thinned
from tests.validation.measurements import file, needs

if TYPE_CHECKING:
    import pandas

ROWS = 500
"""Rows of a group, here."""
SCORE = cases(2, OUTER)
"""Groups of families that are left out, one after the other."""


@cache
def every(name: str) -> "pandas.DataFrame":
    """Rows of a file."""
    import pandas as pd

    rows = pd.read_parquet(file(name))
    for column in rows.select_dtypes("category"):
        rows[column] = rows[column].astype(str)
    return rows


def check(kind: str, name: str, where: str, median: float, p90: float) -> None:
    """Errors of every group of some rows are below those, in percent."""
    rows, refused = prepared(kind, every(name).query(where))
    assert not refused
    groups = list(READERS[kind](rows))
    assert groups
    print()
    for whole in groups:
        group = thinned(whole, ROWS)
        given = (group.form, group.dims, group.machine, group.measured)
        predicted, spread = cross_validate(*given, families=group.families, score=SCORE)
        held = grouped(group.families, OUTER) < SCORE
        assert np.isfinite(predicted[held]).all()
        found = errors(predicted[held], group.measured[held])
        inside = coverage(predicted[held], spread[held], group.measured[held])
        print(f"{' '.join(group.name.values()):90} {len(whole):6} {found} {inside:.2f}")
        assert found.median <= median
        assert found.p90 <= p90


@needs(file("sparse_attention"))
@pytest.mark.parametrize(
    "where",
    [
        "gpu == 'h100_sxm' and backend == 'trtllm' and gemm_dtype == 'fp8_block'"
        + cases(" and phase == 'prefill'", ""),
        "gpu == 'b200_sxm' and gemm_dtype == 'nvfp4' and kv_dtype == 'fp8' and phase == 'decode'",
        "gpu == 'h100_sxm' and backend == 'vllm' and op == 'hca'",
        "gpu == 'b200_sxm' and backend == 'sglang' and op == 'csa' and phase == 'decode'",
    ],
)
def test_sparse_attention_of_heads_left_out_is_known(where: str) -> None:
    check("sparse-attention", "sparse_attention", where, 0.08, 0.25)


@needs(file("msa"))
@pytest.mark.parametrize("gpu", cases(["b200_sxm"], ["b200_sxm", "h100_sxm"]))
def test_attention_to_chosen_blocks_of_heads_left_out_is_known(gpu: str) -> None:
    where = f"gpu == '{gpu}' and backend == 'vllm' and gemm_dtype == 'fp8_block'"
    where += " and kv_dtype == 'fp8'"
    check("msa", "msa", where, 0.08, 0.25)
