"""Answers as text: tables for people, CSV, Markdown, and a versioned JSON envelope."""

import csv
import io
import json
import os
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from shutil import get_terminal_size
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from roofline import __version__
from roofline.table import Derivation, Result, Table
from roofline.view.block import Cell, Grid
from roofline.view.derivations import derivation_lines
from roofline.view.grids import INTERVAL
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
LONG: Final = 20
"""Characters of the longest word that is never broken; paths and identifiers may be, at a mark."""
_PARTS: Final = re.compile(r"[^/_.-]*[/_.-]+|[^/_.-]+")
"""Parts of a path or of an identifier, each with the mark behind it."""
STYLED: Final = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})
"""Settings by which a terminal is assumed where there is none."""


class Format(StrEnum):
    """Format of a printed answer."""

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
            echo(wrap(plain(head), "  " * depth))
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
    """Metadata of a result with each of its tables as a list of rows, for JSON."""
    tables = {name: list(entry.rows()) for name, entry in result.tables.items()}
    return {**result.metadata, **tables}


def print_columns(table: Table, style: Format, none: str = "None") -> None:
    """Print a table as it is: every column by its name, in base units."""
    rows = [[none if v is None else str(v) for v in row.values()] for row in table.rows()]
    print_rows(rows, list(table.columns), style)


def print_notes(notes: Sequence[str], style: Format) -> None:
    """Print what a reader has to know beside the tables."""
    for note in notes:
        echo(wrap(note, "note: ") if style is Format.TABLE else f"- {clean(note)}")


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
    """Columns side by side; those beyond the width follow below, with the first column again."""
    room = get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    lines = [(line, "bold") for line in textwrap.wrap(title, room)]
    for below, shown in enumerate(_fitting(rows, header, numeric, room)):
        block = [[row[i] for i in shown] for row in (header, *rows)]
        right = [numeric[i] for i in shown]
        widths, gap = _widths(block, right, [any(whole[i : i + 1]) for i in shown], room)
        head, *body = (
            [_broken(cell, width) for cell, width in zip(row, widths, strict=True)] for row in block
        )
        deep = max(map(len, head))
        head = [[*[""] * (deep - len(cell)), *cell] for cell in head]
        lines += [("", "")] if below else []
        for cells in (head, *body):
            for parts in zip_longest(*cells, fillvalue=""):
                padded = (_padded(*each) for each in zip(parts, widths, right, strict=True))
                lines.append(((" " * gap).join(padded).rstrip(), "dim" if cells is head else ""))
            if cells is head:
                lines.append(("─" * (sum(widths) + gap * (len(widths) - 1)), ""))
    return "\n".join(_styled(lines)) + "\n"


def _fitting(
    rows: Sequence[Sequence[str]], header: Sequence[str], numeric: Sequence[bool], room: int
) -> list[list[int]]:
    """Places of the columns that fit beside each other without a broken word, the first in all."""
    blocks: list[list[int]] = [[0]]
    least = [
        _least(column, right)
        for column, right in zip(zip(header, *rows, strict=True), numeric, strict=True)
    ]
    for place in range(1, len(header)):
        across = sum(least[i] + GAP - 1 for i in blocks[-1]) + least[place]
        if across > room and len(blocks[-1]) > 1:
            with_figure = header[place] == plain(INTERVAL) and len(blocks[-1]) > 2
            blocks.append([0, blocks[-1].pop()] if with_figure else [0])
        blocks[-1].append(place)
    return blocks


def _least(column: Sequence[str], right: bool) -> int:
    """Width below which a word of a column would be broken; numbers keep to their units."""
    head, *cells = column
    texts = cells
    if not right:
        words = [word for cell in cells for word in cell.split()]
        texts = [p for w in words for p in ([w] if _length(w) <= LONG else _PARTS.findall(w))]
    return max((_length(text) for text in (*head.split(), *texts)), default=1)


def _widths(
    block: Sequence[Sequence[str]], numeric: Sequence[bool], whole: Sequence[bool], room: int
) -> tuple[list[int], int]:
    """Widths of columns, heads first, and of the gap: heads are broken first, then text."""
    columns, gap = list(zip(*block, strict=True)), GAP
    widths = [max(1, *map(_length, column)) for column in columns]
    gaps = len(widths) - 1
    if sum(widths) + gap * gaps <= room:
        return widths, gap
    parts = [[*column[0].split(), *column[1:]] for column in columns]
    widths = [max(map(_length, part), default=1) or 1 for part in parts]
    gap -= sum(widths) + gap * gaps > room
    least = [_least(column, right) for column, right in zip(columns, numeric, strict=True)]
    text = [i for i, right in enumerate(numeric) if not right]
    for some, floor in (
        ([i for i in text if not whole[i]], LEAST),
        ([i for i in text if whole[i]], LEAST),
        (text, 1),
    ):
        while sum(widths) + gap * gaps > room and (
            wide := [i for i in some if widths[i] > max(floor, least[i])]
        ):
            widths[max(wide, key=widths.__getitem__)] -= 1
    while sum(widths) + gap * gaps > room and max(widths) > 1:  # where nothing else is left
        widths[widths.index(max(widths))] -= 1
    return widths, gap


def _broken(cell: str, width: int) -> list[str]:
    """Lines of a cell: broken between words, in long ones behind a mark, else where it must be."""
    lines: list[str] = []
    for text in cell.split("\n"):
        if _length(text) <= width:
            lines.append(text)
            continue
        line = ""
        for word in text.split():
            for start, part in enumerate(_PARTS.findall(word) if _length(word) > width else [word]):
                joined = f"{line} {part}" if line and not start else f"{line}{part}"
                if line and _length(joined) > width:
                    lines.append(line)
                    joined = part
                while _length(joined) > width:
                    lines.append(joined[:width])
                    joined = joined[width:]
                line = joined
        lines.append(line)
    return lines


def _padded(text: str, width: int, right: bool) -> str:
    space = " " * (width - _length(text.rstrip() if right else text))
    return space + text.rstrip() if right else text + space


def _length(text: str) -> int:
    """Columns of a terminal that a text takes."""
    if NARROW.fullmatch(text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _styled(lines: Sequence[tuple[str, str]]) -> list[str]:
    """Lines in their style where a terminal shows one."""
    if not (sys.stdout.isatty() or STYLED & os.environ.keys()):
        return [line for line, _ in lines]
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    with console.capture() as capture:
        for line, style in lines:
            console.print(Text(line, style=style), no_wrap=True, overflow="ignore", crop=False)
    return capture.get().rstrip("\n").split("\n")


def _numeric(rows: Sequence[Sequence[str]], columns: int) -> list[bool]:
    """Columns whose cells all start with a digit or a sign, or are empty."""
    return [
        any(row[i] for row in rows) and all(row[i][:1] in "0123456789+−-×<>≤≥" for row in rows)
        for i in range(columns)
    ]


def wrap(text: str, indent: str = "") -> str:
    """Break a sentence at the page width, or at that of a narrower terminal."""
    return textwrap.fill(
        clean(text), page_width(), initial_indent=indent, subsequent_indent=" " * len(indent)
    )


def page_width() -> int:
    """Characters of a line of text. [1]"""
    return min(WIDTH, get_terminal_size().columns) if sys.stdout.isatty() else WIDTH
