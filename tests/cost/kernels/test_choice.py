"""Choice of the best few: laws of the equation that its kernels' sources give."""

from typing import Final

import numpy as np
import pytest

from roofline.cost.kernels import choice, sparse_columns
from roofline.cost.kernels.form import Machine, machine
from roofline.cost.work import Array
from roofline.hardware.catalog import gpu
from roofline.records import replace

B200: Final = machine(gpu("b200-sxm"), "bf16")
SHARP: Final = {c.name: c.prior for c in choice.FORM.constants} | {"sharpness": 16.0, "row": 1e-7}
"""Priors, with parts that hardly mix and no start of a block."""


def time(
    batch: float, new: float, context: float, top_k: float = 1024.0, device: Machine = B200
) -> float:
    """Choice among entries of four tokens."""
    own = sparse_columns.tokens(np.array([batch]), np.array([new]), np.array([context]))
    shape = {"heads": 64.0, "head_dim": 128.0, "entry_bytes": 132.0, "ratio": 4.0}
    dims = own | sparse_columns.index(own, **shape, top_k=top_k)
    found: Array = choice.FORM.seconds(dims, device, SHARP)
    return float(found[0])


def test_a_single_row_takes_longer_where_fewer_are_chosen() -> None:
    """Half as many threads read the same scores."""
    few, many = (time(1.0, 1.0, 65536.0, top_k) - SHARP["launch"] for top_k in (512.0, 1024.0))
    scores = 65536.0 / 4 * SHARP["lane"] + choice.HELD * SHARP["refine"]
    assert few - many == pytest.approx((2.0 ** SHARP["narrow"] - 1.0) * scores, rel=0.02)


def test_many_rows_of_fewer_threads_are_as_many_more_at_once_as_shared_memory_holds() -> None:
    """Three blocks of 512 threads against two of 1024, which take 2 ** 0.7 of their time."""
    device = replace(B200, l2_bytes=1e12)
    few, many = (time(512.0, 256.0, 65536.0, top_k, device) for top_k in (512.0, 1024.0))
    assert few / many == pytest.approx(2.0 ** SHARP["narrow"] * 2.0 / 3.0, rel=0.05)


def test_rows_that_outgrow_the_cache_are_read_from_memory() -> None:
    """As many rows as the SMs hold, of 2 MB each, in a cache of 126 MB or one of a terabyte."""
    small, large = (
        time(256.0, 1.0, 2.0**21, device=replace(B200, l2_bytes=size)) for size in (126e6, 1e12)
    )
    few = (time(8.0, 1.0, 2.0**17, device=replace(B200, l2_bytes=size)) for size in (126e6, 1e12))
    assert small > 1.2 * large
    assert next(few) == pytest.approx(next(few), rel=1e-3)


def test_queries_with_no_more_entries_than_are_chosen_are_copied() -> None:
    """They cost a launch and a copy; those beside them that choose cost a row more."""
    copied = time(1.0, 1.0, 4096.0)
    assert copied == pytest.approx(SHARP["launch"] + SHARP["skip"])
    assert time(1.0, 1.0, 4100.0) > copied + SHARP["row"] - SHARP["skip"]
