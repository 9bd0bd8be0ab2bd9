"""A merged file depends on the rows alone, and is made in memory for few of them."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.study.store import parts
from roofline.study.store.parts import merge, reduced
from tests.cases import examples
from tests.study.store.works import Least

ROWS = 100
"""Rows of a row group, here."""


@pytest.fixture(autouse=True, scope="module")
def small_groups() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "ROWS", ROWS)
        yield


def table(start: int, stop: int) -> Any:
    index = np.arange(start, stop)
    names = pa.array([f"gpu-{number // 30 % 4}" for number in index], pa.string())
    return pa.table(
        {
            "index": index,
            "gpu": names.dictionary_encode(),
            "latency_s": np.sin(index * 1.0),
            "fits": index % 5 > 0,
        }
    )


def cut(total: int, places: list[int]) -> list[Any]:
    """The same rows in several tables, some of them empty."""
    ends = [0, *sorted(place % (total + 1) for place in places), total]
    return [table(start, stop) for start, stop in pairwise(ends)]


@pytest.mark.slow
@settings(max_examples=examples(50), deadline=None)
@given(total=st.integers(0, 450), places=st.lists(st.integers(0, 1000), max_size=12))
def test_bytes_do_not_depend_on_how_rows_were_cut(
    total: int, places: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("m")
    assert merge([table(0, total)], folder / "one", {}) == total
    assert merge(cut(total, places), folder / "several", {}) == total
    assert (folder / "one").read_bytes() == (folder / "several").read_bytes()
    assert pq.read_table(folder / "several").to_pylist() == table(0, total).to_pylist()
    sizes = pq.ParquetFile(folder / "several").metadata
    groups = [sizes.row_group(number).num_rows for number in range(sizes.num_row_groups)]
    assert all(size == ROWS for size in groups[:-1])


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None)
@given(
    total=st.integers(1, 450),
    places=st.lists(st.integers(0, 1000), max_size=12),
    least=st.integers(1, 300),
)
def test_rows_are_reduced_as_if_they_were_in_one_table(
    total: int, places: list[int], least: int
) -> None:
    expected = Least(least)(table(0, total)).to_pylist()
    assert reduced(cut(total, places), Least(least)).to_pylist() == expected


@pytest.mark.slow
@pytest.mark.parametrize("keep", [10, 5 * ROWS])
def test_a_reduction_looks_at_rows_a_few_times_and_never_at_many(keep: int) -> None:
    largest, looked = 0, 0

    def least(kept: Any) -> Any:
        nonlocal largest, looked
        largest, looked = max(largest, len(kept)), looked + len(kept)
        return Least(keep)(kept)

    reduced((table(start, start + 7) for start in range(0, 70_000, 7)), least)
    assert largest < 2 * max(keep, ROWS) + ROWS
    assert looked < 3 * 70_000


def test_names_stay_names_and_other_columns_stay_as_they_are(tmp_path: Path) -> None:
    merge([table(0, 10), table(10, 400)], tmp_path / "r", {"units": {"latency_s": "s"}})
    schema = pq.read_schema(tmp_path / "r")
    assert schema.remove_metadata() == table(0, 1).schema
    assert schema.metadata[b"roofline"] == b'{"units": {"latency_s": "s"}}'


@pytest.mark.slow
def test_memory_of_a_merge_is_that_of_few_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow's own memory, of which it keeps count."""
    monkeypatch.setattr(parts, "ROWS", 4096)
    most = {}
    for count in (10, 100):
        pool = pa.default_memory_pool()
        before, peak = pool.bytes_allocated(), 0

        def tables(count: int = count, pool: Any = pool) -> Iterator[Any]:
            nonlocal peak
            for number in range(count):
                peak = max(peak, pool.bytes_allocated())
                yield table(number * 3000, (number + 1) * 3000)

        merge(tables(), tmp_path / "r", {})
        most[count] = peak - before
    assert most[100] < 2 * most[10]


def test_an_interrupted_merge_leaves_what_was_there(tmp_path: Path) -> None:
    def tables() -> Iterator[Any]:
        yield table(0, 500)
        raise KeyboardInterrupt

    merge([table(0, 3)], tmp_path / "r", {})
    before = (tmp_path / "r").read_bytes()
    with pytest.raises(KeyboardInterrupt):
        merge(tables(), tmp_path / "r", {})
    assert (tmp_path / "r").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
