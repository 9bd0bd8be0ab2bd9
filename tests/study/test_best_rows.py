"""The best rows of a table and of a file, against sorting all of them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roofline.study import sweep_result
from roofline.study.sweep.keep import SweepObjective
from roofline.study.sweep_result import order, taken

WANTED = (SweepObjective("usd"), SweepObjective("speed", largest=True))


@pytest.fixture
def rows() -> pa.Table:
    """Some hundred rows with equals and unknowns among them."""
    random = np.random.default_rng(0)
    usd = random.integers(0, 9, 300).astype(float)
    usd[::17] = np.nan
    speed = random.integers(0, 9, 300).astype(float)
    feasible = random.random(300) < 0.7
    return pa.table({"index": np.arange(300), "usd": usd, "speed": speed, "feasible": feasible})


def by_hand(rows: pa.Table) -> list[int]:
    def key(row: dict[str, float]) -> tuple[bool, float, float, float]:
        usd = float("inf") if np.isnan(row["usd"]) else row["usd"]
        return not row["feasible"], usd, -row["speed"], row["index"]

    return [int(row["index"]) for row in sorted(rows.to_pylist(), key=key)]


def test_what_keeps_the_limits_comes_first_and_then_the_aims_in_their_order(
    rows: pa.Table,
) -> None:
    assert order(rows, None, WANTED).tolist() == by_hand(rows)


@pytest.mark.parametrize("most", [0, 1, 40, 300])
@pytest.mark.parametrize("group", [64, 300])
def test_a_file_gives_the_same_rows_some_at_a_time(
    rows: pa.Table, tmp_path: Path, most: int, group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "result.parquet"
    pq.write_table(rows, path, row_group_size=group)
    monkeypatch.setattr(sweep_result, "ROWS", 50)
    monkeypatch.setattr(sweep_result, "read", lambda *_: pytest.fail("all rows were read"))
    places = order(None, path, WANTED, most)
    assert taken(None, path, places)["index"].to_pylist() == by_hand(rows)[:most]
    assert taken(rows, None, places)["index"].to_pylist() == by_hand(rows)[:most]


def test_without_aims_the_order_is_that_of_the_grid(rows: pa.Table) -> None:
    good = [row["index"] for row in rows.to_pylist() if row["feasible"]]
    assert order(rows, None, ())[: len(good)].tolist() == good
