"""Chunks cover a sweep once, whatever its size."""

from itertools import islice, pairwise

from hypothesis import given
from hypothesis import strategies as st

from roofline.study.store.chunk import chunks, count


@given(st.integers(0, 500), st.integers(1, 60))
def test_chunks_cover_each_configuration_once(total: int, size: int) -> None:
    cut = list(chunks(total, size, "a"))
    assert [n for chunk in cut for n in range(chunk.start, chunk.stop)] == list(range(total))
    assert [chunk.number for chunk in cut] == list(range(count(total, size)))
    assert all(len(chunk) == size for chunk in cut[:-1])
    assert all(0 < len(chunk) <= size for chunk in cut)


def test_chunks_are_cut_as_they_are_asked_for() -> None:
    first, second = islice(chunks(10**15, 8192, "a"), 2)
    assert (first.stop, second.start) == (8192, 8192)


def test_seeds_are_of_the_scenario_and_the_number_alone() -> None:
    a = [chunk.seed for chunk in chunks(1000, 1, "a")]
    assert len(set(a)) == 1000
    assert [chunk.seed for chunk in chunks(2000, 2, "a")] == a
    assert not set(a) & {chunk.seed for chunk in chunks(1000, 1, "b")}
    assert all(0 <= seed < 2**64 for seed in a)


def test_a_chunk_names_its_configurations() -> None:
    _, second = chunks(3000, 2000, "a")
    assert str(second) == "chunk 1 (configurations 2,000 to 2,999)"
    assert all(before.seed != after.seed for before, after in pairwise([second, *chunks(2, 1, "")]))
