"""Answers as text: tables for people, CSV, Markdown, and a versioned JSON envelope."""

import csv
import io
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roofline import __version__
from roofline.table import Table
from roofline.units import show

if TYPE_CHECKING:
    import pandas

WIDTH = 100
NARROW: Final = re.compile("[ -\u02ff\u2010-\u20cf\u2100-\u22ff]*")
"""Printable text whose characters all take one column of a terminal."""
CONTROL: Final = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that steer a terminal or the direction of text, and that JSON takes as they are."""
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


def show_time(seconds: float) -> str:
    """A time for people, who do not count thousands of seconds by prefix."""
    return f"{seconds:,.0f} s" if seconds >= 1000 else show(seconds, "s")


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
    whole: int = 0,
) -> None:
    """Print a table; numbers are aligned right where a whole column has them.

    The first columns, as many as ``whole``, hold names to be copied: they are never broken.
    """
    cells = [[clean(cell) for cell in row] for row in rows]
    if style is Format.CSV:
        echo(_csv(cells, header))
    elif style is Format.MD:
        echo(_markdown(cells, header, title))
    else:
        echo(_aligned(cells, header, title, whole))


def print_columns(table: Table, style: Format) -> None:
    """Print a table as it is: every column by its name, in base units."""
    rows = [[str(value) for value in row.values()] for row in table.rows()]
    print_rows(rows, list(table.columns), style)


def print_sentences(sentences: Sequence[str]) -> None:
    """Print what an answer says in words, and a line of space."""
    for sentence in sentences:
        echo(wrap(sentence))
    if sentences:
        echo("")


def print_heading(asked: Sequence[str], sentences: Sequence[str], style: Format) -> None:
    """Print what was asked, a line of space, and what the answer says in words, above tables."""
    if style is not Format.TABLE:
        return
    for line in asked:
        echo(wrap(line))
    echo("")
    print_sentences(sentences)


def print_notes(notes: Sequence[str], style: Format) -> None:
    """Print what a reader has to know beside the tables."""
    for note in notes:
        echo(wrap(note, "note: ") if style is Format.TABLE else f"- {clean(note)}")


def _csv(rows: Sequence[Sequence[str]], header: Sequence[str]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([[plain(cell) for cell in row] for row in rows])
    return buffer.getvalue().rstrip("\n")


def plain(cell: Any) -> Any:
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
    """Write a frame as CSV, whole or not at all; see `plain`."""
    from roofline.files import text_output

    texts = frame.select_dtypes(exclude="number").columns
    shown = frame.assign(**{name: frame[name].map(plain) for name in texts})
    with text_output(path) as file:
        shown.rename(columns=plain).to_csv(file, index=False)


def _markdown(rows: Sequence[Sequence[str]], header: Sequence[str], title: str) -> str:
    numeric = _numeric(rows, len(header))
    lines = [f"**{title}**", ""] if title else []
    lines.append("| " + " | ".join(header) + " |")
    lines.append("|" + "|".join(" ---: " if right else " --- " for right in numeric) + "|")
    for row in rows:
        escaped = (
            cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") for cell in row
        )
        lines.append("| " + " | ".join(escaped) + " |")
    return "\n".join(lines) + ("\n" if title else "")


def _aligned(rows: Sequence[Sequence[str]], header: Sequence[str], title: str, whole: int) -> str:
    """Columns as wide as their cells, which are broken where all together exceed the page."""
    numeric = _numeric(rows, len(header))
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    across = sum(widths) + 3 * (len(widths) - 1)
    text = "".join([title, *header, *(cell for row in rows for cell in row)])
    plain = not (sys.stdout.isatty() or STYLED & os.environ.keys())
    if plain and max(len(title), 1) <= across <= WIDTH and NARROW.fullmatch(text):
        lines = [
            "   ".join(
                cell.rstrip().rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(row, widths, numeric, strict=True)
            )
            for row in (header, *rows)
        ]
        lines = [*([title] if title else []), lines[0], "─" * across, *lines[1:]]
        return "\n".join(line.rstrip() for line in lines) + "\n"
    return _fitted(rows, header, title, whole)


def _fitted(rows: Sequence[Sequence[str]], header: Sequence[str], title: str, whole: int) -> str:
    """Columns of a terminal, or of a page that some cells are too long for."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    numeric = _numeric(rows, len(header))
    grid = Table(
        title=Text(title, style="bold") if title else None,
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        header_style="dim",
    )
    for place, (name, right) in enumerate(zip(header, numeric, strict=True)):
        grid.add_column(
            Text(name),
            justify="right" if right else "left",
            overflow="fold",
            no_wrap=right or place < whole,
        )
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False, markup=False)
    with console.capture() as capture:
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
    import textwrap

    return textwrap.fill(
        clean(text), WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent)
    )
