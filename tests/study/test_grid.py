"""Grids: every configuration once, in the order of nested loops, however many there are."""

import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import InputError
from roofline.study.grid import (
    MOST,
    ListedNumbers,
    NameAxis,
    NumberAxis,
    Series,
    SteppedNumbers,
    SweepGrid,
)
from tests.cases import examples


def names(*called: str, rows: list[tuple[str | int, ...]]) -> NameAxis:
    return NameAxis(called, tuple(rows))


def brute(grid: SweepGrid) -> list[dict[str, object]]:
    """All configurations by nested loops over what the axes say."""
    out: list[dict[str, object]] = []
    for block in grid.blocks:
        for rows in product(*(axis.rows for axis in block)):
            lane = {
                name: value
                for axis, row in zip(block, rows, strict=True)
                for name, value in zip(axis.names, row, strict=True)
            }
            for places in product(*(range(len(axis)) for axis in grid.axes)):
                point = {
                    name: float(series.at(np.array([place]))[0])
                    for axis, place in zip(grid.axes, places, strict=True)
                    for name, series in axis.series.items()
                }
                out.append({**lane, **point})
    return out


def decoded(grid: SweepGrid, start: int, stop: int) -> list[dict[str, object]]:
    out: list[dict[str, object]] = []
    for lane, first, last in grid.spans(start, stop):
        columns = grid.numbers(first, last)
        for place in range(last - first):
            point = {name: float(values[place]) for name, values in columns.items()}
            out.append({**grid.lane(lane), **point})
    return out


@st.composite
def grids(draw: st.DrawFn) -> SweepGrid:
    counter = iter(range(100))

    def axis() -> NameAxis:
        wide, long = draw(st.integers(1, 2)), draw(st.integers(1, 3))
        called = tuple(f"n{next(counter)}" for _ in range(wide))
        return NameAxis(called, tuple(tuple(f"{c}-{i}" for c in called) for i in range(long)))

    def numbers() -> NumberAxis:
        long = draw(st.integers(1, 4))
        series: dict[str, Series] = {}
        for _ in range(draw(st.integers(1, 2))):
            listed = ListedNumbers(
                tuple(draw(st.lists(st.floats(0, 9), min_size=long, max_size=long)))
            )
            spaced = SteppedNumbers(draw(st.integers(1, 9)), draw(st.integers(1, 9)), long)
            series[f"x{next(counter)}"] = listed if draw(st.booleans()) else spaced
        return NumberAxis(series)

    blocks = tuple(
        tuple(axis() for _ in range(draw(st.integers(0, 3))))
        for _ in range(draw(st.integers(1, 3)))
    )
    return SweepGrid(blocks, tuple(numbers() for _ in range(draw(st.integers(0, 3)))))


@settings(max_examples=examples(60), deadline=None)
@given(grids(), st.data())
def test_decoding_is_nested_loops(grid: SweepGrid, data: st.DataObject) -> None:
    every = brute(grid)
    assert len(grid) == len(every) == grid.lanes * grid.points
    start = data.draw(st.integers(0, len(every)))
    stop = data.draw(st.integers(start, len(every)))
    assert decoded(grid, start, stop) == every[start:stop]


def test_zipped_axes_go_together() -> None:
    grid = SweepGrid(
        ((names("model", "layout", rows=[("8b", "tp1"), ("70b", "tp8")]),),),
        (
            NumberAxis({"batch": ListedNumbers((1, 2))}),
            NumberAxis({"prompt": ListedNumbers((10, 20)), "output": ListedNumbers((5, 7))}),
        ),
    )
    assert decoded(grid, 0, len(grid)) == [
        {"model": model, "layout": layout, "batch": batch, "prompt": prompt, "output": output}
        for model, layout in (("8b", "tp1"), ("70b", "tp8"))
        for batch in (1, 2)
        for prompt, output in ((10, 5), (20, 7))
    ]


def test_the_last_axis_is_the_fastest() -> None:
    grid = SweepGrid(
        ((),),
        (NumberAxis({"a": SteppedNumbers(0, 1, 2)}), NumberAxis({"b": SteppedNumbers(0, 1, 3)})),
    )
    assert grid.numbers(0, 6)["b"].tolist() == [0, 1, 2, 0, 1, 2]
    assert grid.numbers(0, 6)["a"].tolist() == [0, 0, 0, 1, 1, 1]


def test_a_million_million_configurations_take_no_memory() -> None:
    tracemalloc.start()
    axes = tuple(NumberAxis({name: SteppedNumbers(1, 1, 10**4)}) for name in "abc")
    grid = SweepGrid(((names("gpu", rows=[("x",), ("y",)]),),), axes)
    assert grid.size == 2 * 10**12
    middle = 10**12 + 123_456_789_012
    assert decoded(grid, middle, middle + 1) == [
        {"gpu": "y", "a": 1235.0, "b": 5679.0, "c": 9013.0}
    ]
    list(grid.spans(middle, middle + 10**12 // 2))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000


def test_spans_cut_at_lanes() -> None:
    grid = SweepGrid(
        ((names("gpu", rows=[("x",), ("y",), ("z",)]),),),
        (NumberAxis({"b": SteppedNumbers(0, 1, 4)}),),
    )
    assert list(grid.spans(3, 10)) == [(0, 3, 4), (1, 0, 4), (2, 0, 2)]


def test_what_cannot_be_numbered_is_refused() -> None:
    many = tuple(NumberAxis({name: SteppedNumbers(1, 1, 2**21)}) for name in "abc")
    with pytest.raises(InputError, match="configurations"):
        SweepGrid(((),), many)
    assert (
        SweepGrid(((),), (*many[:2], NumberAxis({"c": SteppedNumbers(1, 1, 2**20)}))).size <= MOST
    )
    with pytest.raises(InputError, match=r"^0 configurations"):
        SweepGrid((), ())


@pytest.mark.parametrize("number", [-1, 2])
def test_there_are_no_lanes_outside(number: int) -> None:
    grid = SweepGrid(((names("gpu", rows=[("x",), ("y",)]),),), ())
    with pytest.raises(IndexError):
        grid.lane(number)
    with pytest.raises(IndexError):
        grid.numbers(0, 2)
