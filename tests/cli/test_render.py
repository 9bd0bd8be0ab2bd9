"""Tables that fit the page look as those that have to be fitted."""

import json
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from roofline.cli import render
from roofline.content import label
from roofline.view import terminal
from tests.cases import examples

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


def as_rich_sets_it(
    rows: list[list[str]], header: list[str], title: str, numeric: list[bool]
) -> str:
    """Table of columns as wide as their longest cell, as the library sets it."""
    grid = Table(
        box=SIMPLE_HEAD, padding=(0, 1, 0, terminal.GAP - 2), pad_edge=False, show_edge=False
    )
    for name, column, right in zip(header, zip(header, *rows, strict=True), numeric, strict=True):
        width = max(1, *map(cell_len, column))
        grid.add_column(Text(name), justify="right" if right else "left", width=width)
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    console = Console(width=1000, highlight=False, markup=False, color_system=None)
    with console.capture() as capture:
        if title:
            console.print(Text(title))
        console.print(grid)
    return "\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n")) + "\n"


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(tables(), st.lists(st.booleans(), min_size=6, max_size=6))
def test_a_table_that_fits_is_set_as_rich_sets_it(
    table: tuple[list[list[str]], list[str], str], whole: list[bool]
) -> None:
    rows, header, title = table
    numeric = terminal.numeric_columns(rows, len(header))
    fitted = as_rich_sets_it(rows, header, title, numeric)
    across = max(map(cell_len, fitted.splitlines()))
    assume(across <= terminal.WIDTH)
    assert terminal.aligned(rows, header, title, numeric, whole) == fitted


@settings(max_examples=examples(60), deadline=None)
@given(tables(), st.integers(90, 120))
@example(([], ["", "", "", "×" * 40, "×" * 40], ""), 91)
def test_no_word_is_broken_and_no_line_is_wider_than_the_page(
    table: tuple[list[list[str]], list[str], str], width: int
) -> None:
    rows, header, title = table
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal, "WIDTH", width)
        numeric = terminal.numeric_columns(rows, len(header))
        shown = terminal.aligned(rows, header, title, numeric, ())
    assert max(map(cell_len, shown.splitlines())) <= width
    words = set(shown.split())
    assert {word for row in rows for cell in row for word in cell.split()} <= words


def test_columns_that_do_not_fit_follow_below_with_the_names_again() -> None:
    rows = [[name, *["123 tok/s"] * 12] for name in ("tp8", "tp4-cp2")]
    header = ["Layout", *(f"Figure {n}" for n in range(12))]
    shown = terminal.aligned(rows, header, "Layouts", [False, *[True] * 12], ())
    assert shown.count("tp4-cp2") == 2
    assert shown.count("123 tok/s") == 24
    assert max(map(len, shown.splitlines())) <= terminal.WIDTH


def test_an_interval_stays_beside_its_figure() -> None:
    names = [text for n in range(6) for text in (f"Figure {n}", "80 %")]
    rows = [["tp8", *["12.34 ms", "1.23–4.56 ms"] * 6]]
    shown = terminal.aligned(rows, ["Layout", *names], "", [False, *[True] * 12], ())
    for line in shown.splitlines():
        assert line.count("80 %") == line.count("Figure")


@pytest.mark.parametrize("cell", ["表", "e\u0301", "👍", "two\nlines", "long " * 30, "表 " * 70])
def test_columns_are_aligned_by_what_characters_take(cell: str) -> None:
    shown = terminal.aligned([["a", cell, "end"]], ["name", "value", "last"], "", [False] * 3, ())
    head, rule, first, *_ = shown.splitlines()
    assert cell_len(rule) <= terminal.WIDTH
    assert cell_len(head.partition("last")[0]) == cell_len(first.partition("end")[0])


def test_json_has_no_character_that_steers_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    steering = "a\x1b[31m \x7f \x85 \x9b31m \u202e b"
    render.print_json("analyze", {"name": steering})
    out = capsys.readouterr().out
    assert all(character.isprintable() or character == "\n" for character in out)
    assert json.loads(out)["result"]["name"] == steering


def test_paths_are_shown_without_control_characters() -> None:
    assert label(Path("a\x9b31m/b\x1b\x85.yaml")) == r"a\x9b31m/b\x1b\x85.yaml"
