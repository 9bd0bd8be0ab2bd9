"""The best of rows: what is kept of parts, put together, is what is kept of the whole."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.study.sweep.keep import SweepObjective
from roofline.study.sweep_result import BestRows

OBJECTIVES = (SweepObjective("usd_per_mtok"), SweepObjective("user_tok_s", largest=True))
Pair = tuple[float | None, float]
PAIRS = st.lists(
    st.tuples(st.none() | st.integers(0, 6).map(float), st.integers(0, 6).map(float)), max_size=40
)


def table(pairs: list[Pair], feasible: list[bool] | None = None) -> pa.Table:
    return pa.table(
        {
            "index": np.arange(len(pairs)),
            "usd_per_mtok": pa.array([usd for usd, _ in pairs], pa.float64()),
            "user_tok_s": pa.array([tokens for _, tokens in pairs], pa.float64()),
            "feasible": pa.array([True] * len(pairs) if feasible is None else feasible, pa.bool_()),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["pareto", "top-1", "top-5"])
@settings(deadline=None)
@given(pairs=PAIRS, cut=st.integers(0, 40))
def test_parts_and_the_whole_keep_the_same(keep: str, pairs: list[Pair], cut: int) -> None:
    best, whole = BestRows(keep, OBJECTIVES), table(pairs)
    parts = [best(whole.slice(0, cut)), best(whole.slice(cut))]
    assert best(pa.concat_tables(parts)).equals(best(whole).combine_chunks())


@settings(deadline=None)
@given(pairs=PAIRS)
def test_the_frontier_is_what_nothing_beats(pairs: list[Pair]) -> None:
    known = [(np.inf if usd is None else usd, -tokens) for usd, tokens in pairs]
    expected = [
        place
        for place, (x, y) in enumerate(known)
        if not any(a <= x and b <= y and (a < x or b < y) for a, b in known)
    ]
    assert BestRows("pareto", OBJECTIVES)(table(pairs))["index"].to_pylist() == expected


def test_what_misses_something_is_not_among_the_best() -> None:
    rows = table([(1.0, 9.0), (2.0, 5.0), (3.0, 7.0)], [False, True, True])
    assert BestRows("pareto", OBJECTIVES)(rows)["index"].to_pylist() == [1, 2]
    assert BestRows("top-1", OBJECTIVES)(rows)["index"].to_pylist() == [1]


def test_a_figure_that_is_not_there_is_the_worst() -> None:
    rows = table([(None, 5.0), (2.0, 5.0)])
    assert BestRows("top-1", OBJECTIVES)(rows)["index"].to_pylist() == [1]


def test_a_bound_beats_no_forecast_and_is_kept_beside_them() -> None:
    rows = table([(9.0, 1.0), (1.0, 9.0), (8.0, 2.0), (2.0, 8.0)])
    basis = pa.array(["interpolated", "datasheet", "datasheet", "datasheet"])
    # The third has measured parts: it has an interval, and is a forecast.
    low = pa.array([0.1, None, 0.1, None], pa.float64())
    rows = rows.append_column("basis", basis).append_column("ttft_s_low", low)
    assert BestRows("pareto", OBJECTIVES)(rows)["index"].to_pylist() == [1, 2]
    assert BestRows("top-1", OBJECTIVES)(rows)["index"].to_pylist() == [1, 2]
    unpriced = rows.append_column("gpu", pa.array(["a", "b", "a", "b"]))
    each = BestRows("top-1", OBJECTIVES, ("gpu",))(unpriced)
    assert each["index"].to_pylist() == [1, 2]
