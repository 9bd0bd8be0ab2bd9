"""Findings of a sweep: the best rows first, from memory or from a file of many groups of rows."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roofline.study.sweep_result import Sweep
from tests.study.scenario.documents import BATCH, scenario

RANDOM = np.random.default_rng(0)
ROWS = pa.table(
    {
        "index": np.arange(100),
        "feasible": RANDOM.random(100) < 0.7,
        "usd_per_mtok": RANDOM.integers(0, 9, 100).astype(float),
        "user_tok_s": RANDOM.integers(0, 9, 100).astype(float),
    }
)
ASKED = scenario(BATCH, objectives=["min usd_per_mtok", "max user_tok_s"])


@pytest.fixture(params=["memory", "file"])
def found(request: pytest.FixtureRequest, tmp_path: Path) -> Sweep:
    if request.param == "memory":
        return Sweep(ASKED, 200, 100, {"feasible": 70}, _kept=ROWS)
    path = tmp_path / "result.parquet"
    pq.write_table(ROWS, path, row_group_size=7)
    return Sweep(ASKED, 200, 100, {"feasible": 70}, path=path)


def expected() -> list[int]:
    rows = ROWS.to_pylist()
    rows.sort(key=lambda row: (not row["feasible"], row["usd_per_mtok"], -row["user_tok_s"]))
    return [row["index"] for row in rows]


@pytest.mark.parametrize("most", [0, 1, 9, 100, 1000])
def test_the_best_come_first_and_equals_in_their_order(found: Sweep, most: int) -> None:
    assert found.best(most)["index"].tolist() == expected()[: most or None]


def test_all_rows_are_there_in_the_order_of_the_grid(found: Sweep) -> None:
    assert found.table.equals(ROWS)
    assert found.to_pandas().attrs["units"]["usd_per_mtok"] == "$"
    assert found.feasible == 70


def test_nothing_found_is_a_table_of_nothing(tmp_path: Path) -> None:
    pq.write_table(ROWS.slice(0, 0), tmp_path / "result.parquet")
    found = Sweep(ASKED, 200, 0, {}, path=tmp_path / "result.parquet")
    assert found.best(5).empty
    assert found.feasible == 0


def test_bounds_come_after_forecasts_and_before_what_misses_something() -> None:
    basis = np.where(RANDOM.random(100) < 0.5, "datasheet", "interpolated")
    rows = ROWS.append_column("basis", pa.array(basis))
    found = Sweep(ASKED, 200, 100, {"feasible": 70}, _kept=rows)
    best = found.best()
    places = [
        (not good, kind == "datasheet")
        for good, kind in zip(best["feasible"], best["basis"], strict=True)
    ]
    assert places == sorted(places)
    assert len(set(places)) == 4
