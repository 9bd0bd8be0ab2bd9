"""Answers as text: tables for people, CSV, Markdown, and a versioned JSON envelope."""

import csv
import io
import json
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from shutil import get_terminal_size
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from roofline import __version__
from roofline.table import Derivation, Result, Table
from roofline.view.block import Cell, Grid
from roofline.view.derivations import derivation_lines
from roofline.view.questions import view_of

if TYPE_CHECKING:
    import pandas

WIDTH = 100
GAP: Final = 3
"""Characters between columns."""
LEAST: Final = 10
"""Characters that a column of text has at least."""
NARROW: Final = re.compile("[ -\u02ff\u2010-\u20cf\u2100-\u22ff]*")
"""Printable text whose characters all take one column of a terminal."""
CONTROL: Final = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that steer a terminal or the direction of text, and that JSON takes as they are."""
REASONS: Final = 10
"""Reasons for rows without a prediction that are printed; JSON has them all."""
STYLED: Final = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})
"""Settings by which a terminal is assumed where there is none."""


class Format(StrEnum):
    """How to print an answer."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MD = "md"


def clean(text: str) -> str:
    r"""Text without control characters: a name must not steer the terminal.

    >>> clean("a\x1b[31mb")
    'a?[31mb'
    """
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def echo(text: str) -> None:
    """Print to stdout."""
    sys.stdout.write(text + "\n")


def say(text: str) -> None:
    """Print a note to stderr, broken at the page width."""
    sys.stderr.write(wrap(text) + "\n")


def print_json(command: str, result: Mapping[str, Any], notes: Sequence[str] = ()) -> None:
    """Print one JSON document: ``{schema, version, command, result, notes}``."""
    document = {
        "schema": "roofline/result/1",
        "version": __version__,
        "command": command,
        "result": result,
        "notes": list(notes),
    }
    unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=not unicode)
    echo(CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def print_rows(
    rows: Sequence[Sequence[str]],
    header: Sequence[str],
    style: Format,
    title: str = "",
    *,
    whole: Sequence[bool] = (),
    numeric: Sequence[bool] = (),
) -> None:
    """Print a table; numbers are aligned right: where a whole column has them, if nobody says.

    Columns that are ``whole`` hold names to be copied: they are broken after all others.
    """
    cells = [[clean(cell) for cell in row] for row in rows]
    right = numeric or _numeric(cells, len(header))
    if style is Format.CSV:
        echo(_csv(cells, header))
    elif style is Format.MD:
        echo(_markdown(cells, header, title, right))
    else:
        echo(_aligned(cells, header, title, right, whole))


def print_grid(grid: Grid, style: Format, few: int = 0) -> None:
    """Print a table of an answer without what a terminal can do without."""
    kept = [place for place, head in enumerate(grid.heads) if not head.minor]
    heads = [grid.heads[place] for place in kept]
    some = grid.rows[: few or None]
    print_rows(
        [[_cell(row, at) for at in kept] for row in some],
        [plain(head.text) for head in heads],
        style,
        grid.caption + f", {len(some)} of {len(grid.rows):,}" * (len(some) < len(grid.rows)),
        numeric=[head.numeric for head in heads],
        whole=[head.short for head in heads],
    )


def _cell(row: Sequence[Cell], at: int) -> str:
    """Text of a cell; an interval beside its figure does without the unit of that."""
    cell = row[at]
    alike = "\N{NO-BREAK SPACE}" not in cell.text and at > 0 and cell.unit == row[at - 1].unit
    text = cell.text.replace(" – ", "–")
    return plain(text if cell.tone == "muted" and alike else f"{text} {cell.unit}")


def plain(text: str) -> str:
    """Text of a page as a terminal has it."""
    return text.replace("\N{NO-BREAK SPACE}", " ").strip()


def print_answer(
    command: str,
    result: Result,
    style: Format,
    values: Callable[[], Mapping[str, Any]],
    columns: str,
    none: str = "None",
    derivation: Derivation | None = None,
    few: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Print the answer to a question, or the derivation that is wanted of it.

    Args:
        command, result: The question and its answer.
        style: How to print.
        values: Makes plain values of it, for JSON.
        columns, none: Table that CSV has, and how it writes what is not there.
        derivation: What is printed instead of sentences and tables; None for these.
        few: Rows of tables by their name, where it is not for the table to say; 0 for all.
    """
    if style is Format.JSON:
        print_json(command, values(), result.notes)
    elif derivation is not None:
        for depth, head, said in derivation_lines(derivation):
            echo(clean("  " * depth + plain(head)))
            for mark, text in said:
                echo(wrap(plain(text), f"{'  ' * depth}    {mark} "))
    elif style is Format.CSV:
        print_columns(result.tables[columns], style, none)
    else:
        view = view_of(result)
        if style is Format.TABLE:
            for line in (view.title, view.subtitle, "", *view.sentences):
                echo(wrap(plain(line)))
            if view.sentences:
                echo("")
        for grid in view.grids:
            print_grid(grid, style, few.get(grid.key, grid.few))
        for text in view.remarks:
            echo(wrap(plain(text), "- ") if style is Format.TABLE else f"- {clean(text)}")
        if view.remarks:
            echo("")
        print_notes(result.notes, style)


def plain_values(result: Result) -> dict[str, Any]:
    """How a question was asked and tables as lists of rows, for JSON."""
    tables = {name: list(entry.rows()) for name, entry in result.tables.items()}
    return {**result.metadata, **tables}


def print_columns(table: Table, style: Format, none: str = "None") -> None:
    """Print a table as it is: every column by its name, in base units."""
    rows = [[none if v is None else str(v) for v in row.values()] for row in table.rows()]
    print_rows(rows, list(table.columns), style)


def print_sentences(sentences: Sequence[str]) -> None:
    """Print what an answer says in words, and a line of space."""
    for sentence in sentences:
        echo(wrap(sentence))
    if sentences:
        echo("")


def print_notes(notes: Sequence[str], style: Format) -> None:
    """Print what a reader has to know beside the tables."""
    for note in notes:
        echo(wrap(note, "note: ") if style is Format.TABLE else f"- {clean(note)}")


def print_refused(refused: Iterable[tuple[int, str, str]]) -> None:
    """Print how many rows have no prediction and why; of very many reasons the first ones."""
    every = list(refused)
    for rows, what, why in every[:REASONS]:
        echo(wrap(f"{rows:,} {what}: {why}"))
    if more := every[REASONS:]:
        left = sum(rows for rows, _, _ in more)
        echo(wrap(f"{left:,} not predicted for {len(more)} more reasons: --format json."))


def score_cells(figures: Mapping[str, Any]) -> list[str]:
    """Cells of a score: rows, of how many, errors in percent, and how many are inside."""
    whole = f"{figures['n_total']:,}"
    if not figures["n"]:
        return ["0", whole, "", "", "", ""]
    errors = (f"{figures[name]:.1f}" for name in ("median", "mean", "p90"))
    return [f"{figures['n']:,}", whole, *errors, f"{figures['interval_coverage']:.0%}"]


def _csv(rows: Sequence[Sequence[str]], header: Sequence[str]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([[no_formula(cell) for cell in row] for row in rows])
    return buffer.getvalue().rstrip("\n")


def no_formula(cell: Any) -> Any:
    """Cell of a CSV file that no spreadsheet takes for a formula: an apostrophe makes it text."""
    if not isinstance(cell, str):
        return cell
    text = clean(cell)  # a lone carriage return ends a row elsewhere
    if not text.startswith(("=", "+", "-", "@")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def write_csv(frame: "pandas.DataFrame", path: Path) -> None:
    """Write a frame as CSV, whole or not at all; see `no_formula`."""
    from roofline.files import text_output

    texts = frame.select_dtypes(exclude="number").columns
    shown = frame.assign(**{name: frame[name].map(no_formula) for name in texts})
    with text_output(path) as file:
        shown.rename(columns=no_formula).to_csv(file, index=False)


def _markdown(
    rows: Sequence[Sequence[str]], header: Sequence[str], title: str, numeric: Sequence[bool]
) -> str:
    lines = [f"**{title}**", ""] if title else []
    lines.append("| " + " | ".join(header) + " |")
    lines.append("|" + "|".join(" ---: " if right else " --- " for right in numeric) + "|")
    for row in rows:
        escaped = (
            cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") for cell in row
        )
        lines.append("| " + " | ".join(escaped) + " |")
    return "\n".join(lines) + ("\n" if title else "")


def _aligned(
    rows: Sequence[Sequence[str]],
    header: Sequence[str],
    title: str,
    numeric: Sequence[bool],
    whole: Sequence[bool],
) -> str:
    """Columns side by side, as text where no cell is broken and nothing is styled."""
    heads, widths, gap = _arranged(rows, header, numeric, whole)
    text = "".join([title, *header, *(cell for row in rows for cell in row)])
    styled = sys.stdout.isatty() or STYLED & os.environ.keys()
    across = sum(widths) + gap * (len(widths) - 1)
    fits = across <= WIDTH and all(
        len(cell) <= width for row in rows for cell, width in zip(row, widths, strict=True)
    )
    if styled or not fits or not NARROW.fullmatch(text):
        return _fitted(rows, heads, title, numeric, widths, gap)
    lines = [
        (" " * gap).join(
            cell.rstrip().rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        for row in (*zip(*heads, strict=True), *rows)
    ]
    below = len(heads[0])
    lines = [*textwrap.wrap(title, WIDTH), *lines[:below], "─" * across, *lines[below:]]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _arranged(
    rows: Sequence[Sequence[str]],
    header: Sequence[str],
    numeric: Sequence[bool],
    whole: Sequence[bool],
) -> tuple[list[list[str]], list[int], int]:
    """Lines of heads, widths of columns and of the gap: heads are broken first, then text."""
    room = get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    widths = [max(1, *map(len, column)) for column in zip(header, *rows, strict=True)]
    heads, gap, gaps = [[head] for head in header], GAP, len(widths) - 1
    if sum(widths) + gap * gaps > room and rows:
        cells = [max(map(len, column)) for column in zip(*rows, strict=True)]
        words = [max(map(len, head.split()), default=0) for head in header]
        widths = [max(pair) for pair in zip(cells, words, strict=True)]
        gap -= sum(widths) + gap * gaps > room
        text = [i for i, right in enumerate(numeric) if not right]
        named = [i for i in text if any(whole[i : i + 1])]
        for some in ([i for i in text if i not in named], named):
            while sum(widths) + gap * gaps > room and (
                wide := [i for i in some if widths[i] > max(LEAST, words[i])]
            ):
                widths[max(wide, key=widths.__getitem__)] -= 1
        pairs = zip(header, widths, strict=True)
        heads = [textwrap.wrap(head, width) or [""] for head, width in pairs]
    deep = max(map(len, heads))
    return [[*[""] * (deep - len(head)), *head] for head in heads], widths, gap


def _fitted(
    rows: Sequence[Sequence[str]],
    heads: Sequence[Sequence[str]],
    title: str,
    numeric: Sequence[bool],
    widths: Sequence[int],
    gap: int,
) -> str:
    """Columns of a terminal, or of a page that some cells are too long for."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, gap - 2),
        pad_edge=False,
        show_edge=False,
        header_style="dim",
    )
    for head, width, right in zip(heads, widths, numeric, strict=True):
        justify: Any = "right" if right else "left"
        grid.add_column(Text("\n".join(head)), justify=justify, overflow="fold", width=width)
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False, markup=False)
    with console.capture() as capture:
        if title:
            console.print(Text(title, style="bold"))
        console.print(grid)
    return "\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n")) + "\n"


def _numeric(rows: Sequence[Sequence[str]], columns: int) -> list[bool]:
    """Columns whose cells all start with a digit or a sign, or are empty."""
    return [
        any(row[i] for row in rows) and all(row[i][:1] in "0123456789+−-×<>≤≥" for row in rows)
        for i in range(columns)
    ]


def wrap(text: str, indent: str = "") -> str:
    """Break a sentence at the page width."""
    return textwrap.fill(
        clean(text), WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent)
    )
