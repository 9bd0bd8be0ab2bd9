"""Tables in text: CSV with a header, Markdown with bars."""

import csv
import re
from typing import Final

from roofline.errors import DocumentError
from roofline.interop.results.content import LONGEST_HEADER, MOST_DOCUMENTS, Content
from roofline.interop.results.node import Node

_RULE: Final = re.compile(r":?-+:?")


def header(content: Content) -> tuple[str, ...]:
    """Names of the columns of a CSV file, in lower case; empty where the first line has none."""
    if content.documents is not None or len(content.heading) > LONGEST_HEADER:
        return ()
    try:
        return tuple(name.strip().lower() for name in next(csv.reader([content.heading])))
    except csv.Error:
        return ()


def rows(content: Content) -> list[Node]:
    """Rows of a CSV file as mappings from column to text; empty cells are left out.

    Raises:
        DocumentError: At the line that has more or fewer values than the header, or is no CSV.
    """
    names = header(content)
    if not names:
        raise content.error("this is no table", "name a CSV file with a header", 1)
    if len(set(names)) != len(names):
        raise content.error("a column is there twice", "remove one of them", 1)
    reader = csv.reader(content.text.split("\n"), strict=True)
    found: list[tuple[int, list[str]]] = []  # a table that is too long costs no more than its text
    try:
        for cells in reader:
            if len(cells) > len(names):
                raise _ragged(content, reader.line_num, len(cells), len(names))
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(names):
                raise _ragged(content, reader.line_num, len(cells), len(names))
            if len(found) > MOST_DOCUMENTS:
                raise content.error(
                    f"the table has more than {MOST_DOCUMENTS:,} rows",
                    "save one row for each run",
                    reader.line_num,
                )
            found.append((reader.line_num, cells))
    except csv.Error:
        raise content.error(
            "the line is not CSV", "check commas and quotes", reader.line_num
        ) from None
    return [
        Node(
            {name: cell.strip() for name, cell in zip(names, cells, strict=True) if cell.strip()},
            f"{content.source}:{line}",
        )
        for line, cells in found[1:]
    ]


def _ragged(content: Content, line: int, have: int, want: int) -> DocumentError:
    last = line > content.text.count("\n")
    if last and have < want:
        hint = "copy the whole file again, or remove the line"
        return content.error("the last line is cut off", hint, line)
    return content.error(f"the line has {have} values, the header {want}", "check commas", line)


def bars(content: Content) -> list[Node]:
    """Rows of all Markdown tables of a text, as mappings from column to text.

    Raises:
        DocumentError: At the line that has more or fewer cells than the header above it.
    """
    names: list[str] = []
    out = []
    for number, line in enumerate(content.text.split("\n"), 1):
        if not line.lstrip().startswith("|"):
            names = []
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not names:
            names = [cell.lower() for cell in cells]
        elif all(_RULE.fullmatch(cell) for cell in cells):
            continue
        elif len(cells) != len(names):
            raise _ragged(content, number, len(cells), len(names))
        else:
            value = {name: cell for name, cell in zip(names, cells, strict=True) if name and cell}
            out.append(Node(value, f"{content.source}:{number}"))
    return out
