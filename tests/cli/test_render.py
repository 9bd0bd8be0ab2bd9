"""Tables that fit the page look as those that have to be fitted."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cli import render
from roofline.content import label

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
@given(tables(), st.lists(st.booleans(), min_size=6, max_size=6))
def test_a_table_that_fits_is_set_as_rich_sets_it(
    table: tuple[list[list[str]], list[str], str], whole: list[bool]
) -> None:
    rows, header, title = table
    numeric = render._numeric(rows, len(header))
    heads, widths, gap = render._arranged(rows, header, numeric, whole)
    fitted = render._fitted(rows, heads, title, numeric, widths, gap)
    assert render._aligned(rows, header, title, numeric, whole) == fitted


@pytest.mark.parametrize("cell", ["表", "e\u0301", "👍", "two\nlines", "long " * 30])
def test_what_is_wider_than_its_characters_is_left_to_rich(
    cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "_fitted", lambda *table: "fitted")
    assert render._aligned([["a", "b"]], ["name", "value"], "", [False] * 2, ()) != "fitted"
    assert render._aligned([["a", cell]], ["name", "value"], "", [False] * 2, ()) == "fitted"


def test_json_has_no_character_that_steers_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    steering = "a\x1b[31m \x7f \x85 \x9b31m \u202e b"
    render.print_json("analyze", {"name": steering})
    out = capsys.readouterr().out
    assert all(character.isprintable() or character == "\n" for character in out)
    assert json.loads(out)["result"]["name"] == steering


def test_paths_are_shown_without_control_characters() -> None:
    assert label(Path("a\x9b31m/b\x1b\x85.yaml")) == r"a\x9b31m/b\x1b\x85.yaml"
