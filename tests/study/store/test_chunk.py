"""Chunks cover a sweep once, whatever its size."""

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from roofline.study.store.chunk import chunks, count


@given(st.integers(0, 500), st.integers(1, 60))
def test_chunks_cover_each_configuration_once(total: int, size: int) -> None:
    cut = list(chunks(total, size))
    assert [n for chunk in cut for n in range(chunk.start, chunk.stop)] == list(range(total))
    assert [chunk.number for chunk in cut] == list(range(count(total, size)))
    assert all(len(chunk) == size for chunk in cut[:-1])
    assert all(0 < len(chunk) <= size for chunk in cut)


def test_chunks_are_cut_as_they_are_asked_for() -> None:
    first, second = islice(chunks(10**15, 8192), 2)
    assert (first.stop, second.start) == (8192, 8192)


def test_a_chunk_names_its_configurations() -> None:
    _, second = chunks(3000, 2000)
    assert str(second) == "chunk 1 (configurations 2,000 to 2,999)"
