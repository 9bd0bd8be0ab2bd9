"""Tables that fit the page look as those that have to be fitted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cli import render

CELLS = st.sampled_from(
    [
        "",
        "a",
        "12.3 ms",
        "−3",
        "× 2",
        "several words",
        "1,280 tok/s",
        "→",
        "—",
        "µs ",
        " é",
        "×" * 40,
    ]
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[list[str]], list[str], str]:
    """Rows, header and title."""
    columns = draw(st.integers(1, 6))
    row = st.lists(CELLS, min_size=columns, max_size=columns)
    title = draw(st.sampled_from(["", "Memory", "A title that is longer than most of the tables"]))
    return draw(st.lists(row, max_size=5)), draw(row), title


@settings(max_examples=60, deadline=None)
@given(tables(), st.integers(0, 1))
def test_a_table_that_fits_is_set_as_rich_sets_it(
    table: tuple[list[list[str]], list[str], str], whole: int
) -> None:
    assert render._aligned(*table, whole) == render._fitted(*table, whole)


@pytest.mark.parametrize("cell", ["表", "e\u0301", "👍", "two\nlines", "long " * 30])
def test_what_is_wider_than_its_characters_is_left_to_rich(
    cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "_fitted", lambda *table: "fitted")
    assert render._aligned([["a", "b"]], ["name", "value"], "", 0) != "fitted"
    assert render._aligned([["a", cell]], ["name", "value"], "", 0) == "fitted"
