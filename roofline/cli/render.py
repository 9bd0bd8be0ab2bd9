"""Answers as text: tables for people, CSV, Markdown, and a versioned JSON envelope."""

import io
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from roofline.cli.flags import flags, in_flags
from roofline.cli.progress import end_progress
from roofline.records import replace
from roofline.table import Derivation, Result, Table
from roofline.version import __version__
from roofline.view.block import PageTable
from roofline.view.questions import view_of
from roofline.view.terminal import (
    aligned,
    answer_text,
    clean,
    derivation_text,
    numeric_columns,
    shown_rows,
    wrap,
)

if TYPE_CHECKING:
    import pandas

CONTROL: Final = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that steer a terminal or the direction of text, and that JSON takes as they are."""


class OutputFormat(StrEnum):
    """Format of a printed answer."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MD = "md"


def echo(text: str) -> None:
    """Print to stdout."""
    sys.stdout.write(flags(text) + "\n")


def said(text: str) -> None:
    """Print a line to stderr, as it is."""
    sys.stderr.write(clean(flags(text)) + "\n")


def say(text: str) -> None:
    """Print a note to stderr, broken at the page width."""
    end_progress()
    sys.stderr.write(wrap(flags(text), of=sys.stderr) + "\n")


def print_json(command: str, result: Mapping[str, Any], notes: Sequence[str] = ()) -> None:
    """Print one JSON document: ``{schema, version, command, result, notes}``."""
    import json

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
    style: OutputFormat,
    title: str = "",
    *,
    whole: Sequence[bool] = (),
    numeric: Sequence[bool] = (),
    listed: bool = False,
) -> None:
    """Print a table; numbers are aligned right: where a whole column has them, if nobody says.

    Columns that are ``whole`` hold names to be copied: they are broken after all others.
    """
    cells = [[clean(flags(cell)) for cell in row] for row in rows]
    right = numeric or numeric_columns(cells, len(header))
    if style is OutputFormat.CSV:
        echo(_csv(cells, header))
    elif style is OutputFormat.MD:
        echo(_markdown(cells, header, title, right))
    else:
        echo(aligned(cells, header, title, right, whole, listed=listed))


def print_grid(grid: PageTable, style: OutputFormat, few: int = 0, *, listed: bool = False) -> None:
    """Print a table of an answer without what a terminal can do without."""
    rows, header, title, numeric, whole = shown_rows(grid, few)
    print_rows(rows, header, style, title, numeric=numeric, whole=whole, listed=listed)


def print_answer(
    command: str,
    result: Result,
    style: OutputFormat,
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
    if style is OutputFormat.JSON:
        print_json(command, values(), result.notes)
        return
    if derivation is not None:
        echo(derivation_text(in_flags(derivation)))
        return
    if style is OutputFormat.CSV:
        print_columns(in_flags(result.tables[columns]), style, none)
        return
    result = in_flags(replace(result, derivations={}))  # of these, only the one that is asked for
    if style is OutputFormat.TABLE:
        echo(answer_text(result, few))
    else:
        view = view_of(result)
        for grid in view.grids:
            print_grid(grid, style, few.get(grid.key, grid.few))
        for text in view.remarks:
            echo(f"- {clean(text)}")
        if view.remarks:
            echo("")
        print_notes(result.notes, style)


def plain_values(result: Result) -> dict[str, Any]:
    """Metadata of a result with each of its tables as a list of rows, for JSON."""
    tables = {name: list(entry.rows()) for name, entry in result.tables.items()}
    return {**result.metadata, **tables}


def print_columns(table: Table, style: OutputFormat, none: str = "None") -> None:
    """Print a table as it is: every column by its name, in base units."""
    rows = [[none if v is None else str(v) for v in row.values()] for row in table.rows()]
    print_rows(rows, list(table.columns), style)


def print_notes(notes: Sequence[str], style: OutputFormat) -> None:
    """Print what a reader has to know beside the tables."""
    for note in map(flags, notes):
        echo(wrap(note, "note: ") if style is OutputFormat.TABLE else f"- {clean(note)}")


def score_cells(figures: Mapping[str, Any]) -> list[str]:
    """Cells of a score: rows, of how many, errors in percent, and how many are inside."""
    whole = f"{figures['n_total']:,}"
    if not figures["n"]:
        return ["0", whole, "", "", "", ""]
    errors = (f"{figures[name]:.1f}" for name in ("median", "mean", "p90"))
    return [f"{figures['n']:,}", whole, *errors, f"{figures['interval_coverage']:.0%}"]


def _csv(rows: Sequence[Sequence[str]], header: Sequence[str]) -> str:
    import csv

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
