"""Answers as text of a terminal: sentences broken at its width, tables in aligned columns."""

import os
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from shutil import get_terminal_size
from types import MappingProxyType
from typing import Final, TextIO

from roofline.table import Derivation, Result, Table
from roofline.view.block import Cell, PageTable
from roofline.view.grids import INTERVAL, grid
from roofline.view.questions import view_of
from roofline.view.words import derivation_lines

WIDTH = 100
GAP: Final = 3
"""Characters between columns."""
LEAST: Final = 10
"""Characters that a column of text has at least."""
ENDLESS: Final = 10_000
"""Characters of a line that nobody looks at. [1]"""
SCREEN: Final = 20
"""Rows of a table that a screen has room for. [1]"""
NARROW: Final = re.compile("[ -\u02ff\u2010-\u20cf\u2100-\u22ff]*")
"""Printable text whose characters all take one column of a terminal."""
LONG: Final = 20
"""Characters of the longest word that is never broken; paths and identifiers may be, at a mark."""
_PARTS: Final = re.compile(r"[^/_.-]*[/_.-]+|[^/_.-]+")
"""Parts of a path or of an identifier, each with the mark behind it."""
STYLED: Final = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})
"""Settings by which a terminal is assumed where there is none."""


def clean(text: str) -> str:
    r"""Text without control characters: a name must not steer the terminal.

    >>> clean("a\x1b[31mb")
    'a?[31mb'
    """
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def plain(text: str) -> str:
    """Text of a page as a terminal has it."""
    return text.replace("\N{NO-BREAK SPACE}", " ").strip()


def wrap(text: str, indent: str = "", of: TextIO | None = None) -> str:
    """Break a sentence at the page width, or at that of a narrower terminal.

    Names and options stay whole: they have hyphens, and are to be copied.

    Args:
        text, indent: The sentence, and what its first line begins with.
        of: Stream that it is for; None for standard output.
    """
    return textwrap.fill(
        clean(text),
        page_width(of),
        initial_indent=indent,
        subsequent_indent=" " * len(indent),
        break_on_hyphens=False,
    )


def page_width(of: TextIO | None = None) -> int:
    """Characters of a line of text on a stream. [1]"""
    return min(WIDTH, get_terminal_size().columns) if (of or sys.stdout).isatty() else WIDTH


def numeric_columns(rows: Sequence[Sequence[str]], columns: int) -> list[bool]:
    """Columns whose cells all start with a digit or a sign, or are empty."""
    return [
        any(row[i] for row in rows) and all(row[i][:1] in "0123456789+−-×<>≤≥" for row in rows)
        for i in range(columns)
    ]


def shown_text(shown: Result | Table | Derivation, whole: bool) -> str:
    """Text of a result, a table or a derivation.

    Args:
        shown: What is written.
        whole: Whether all of it is; else a screenful.
    """
    if isinstance(shown, Derivation):
        return derivation_text(shown)
    if isinstance(shown, Table):
        title = f"{len(shown):,} rows"
        few = 0 if whole else SCREEN
        return grid_text(grid("", title, shown), few).rstrip() if len(shown) else title
    if whole:
        return answer_text(shown)
    view = view_of(shown)
    lines = [wrap(plain(line)) for line in (view.title, view.subtitle, *view.sentences)]
    lines += ["", *(grid_text(each, each.few or SCREEN) for each in view.grids[:1])]
    return "\n".join([*lines, wrap(f"Tables: {', '.join(shown.tables)}.")])


def answer_text(result: Result, few: Mapping[str, int] = MappingProxyType({})) -> str:
    """Answer to a question: how it was asked, sentences, tables, notes.

    Args:
        result: The answer.
        few: Rows of tables by their key, where it is not for the table to say; 0 for all. [1]
    """
    view = view_of(result)
    lines = [wrap(plain(line)) for line in (view.title, view.subtitle, "", *view.sentences)]
    lines += [""] if view.sentences else []
    lines += [grid_text(grid, few.get(grid.key, grid.few)) for grid in view.grids]
    lines += [wrap(plain(text), "- ") for text in view.remarks]
    lines += [""] if view.remarks else []
    return "\n".join([*lines, *(wrap(note, "note: ") for note in result.notes)])


def derivation_text(derivation: Derivation) -> str:
    """Tree of how a figure came about."""
    lines = []
    for depth, head, said in derivation_lines(derivation):
        lines.append(wrap(plain(head), "  " * depth))
        lines += [wrap(plain(text), f"{'  ' * depth}    {mark} ") for mark, text in said]
    return "\n".join(lines)


def grid_text(grid: PageTable, few: int) -> str:
    """Table of an answer in aligned columns, its first rows where `few` is not 0."""
    rows, header, title, numeric, whole = shown_rows(grid, few)
    return aligned([[clean(cell) for cell in row] for row in rows], header, title, numeric, whole)


def shown_rows(
    grid: PageTable, few: int
) -> tuple[list[list[str]], list[str], str, list[bool], list[bool]]:
    """Rows, heads and title of a table, without the columns that a terminal can do without.

    Returns:
        Rows, heads, title; columns that are aligned as numbers; columns that hold names to be
        copied, which are broken after all others.
    """
    kept = [place for place, head in enumerate(grid.heads) if not head.minor]
    heads = [grid.heads[place] for place in kept]
    some = grid.rows[: few or None]
    return (
        [[_cell(row, at) for at in kept] for row in some],
        [plain(head.text) for head in heads],
        grid.caption + f", {len(some)} of {len(grid.rows):,}" * (len(some) < len(grid.rows)),
        [head.numeric for head in heads],
        [head.short for head in heads],
    )


def _cell(row: Sequence[Cell], at: int) -> str:
    """Text of a cell; an interval beside its figure does without the unit of that."""
    cell = row[at]
    alike = "\N{NO-BREAK SPACE}" not in cell.text and at > 0 and cell.unit == row[at - 1].unit
    text = cell.text.replace(" – ", "–")
    return plain(text if cell.tone == "muted" and alike else f"{text} {cell.unit}")


def aligned(
    rows: Sequence[Sequence[str]],
    header: Sequence[str],
    title: str,
    numeric: Sequence[bool],
    whole: Sequence[bool],
    *,
    listed: bool = False,
) -> str:
    """Columns side by side; those beyond the width follow below, with the first column again.

    Args:
        rows, header, title, numeric: The table; columns that are aligned right.
        whole: Columns of names to be copied: they are broken after all others, and where no
            terminal is not at all, so that they are found in a pipe.
        listed: Whether a row, which begins with a name, is a line: a terminal has the first
            columns that fit, a pipe has all.
    """
    tty = sys.stdout.isatty()
    room = get_terminal_size().columns if tty else ENDLESS if listed else WIDTH
    names = [any(whole[i : i + 1]) and not tty for i in range(len(header))]
    names[:1] = [names[0] or listed] if names else []
    blocks = _fitting(rows, header, numeric, names, room)
    lines = [(line, "bold") for line in textwrap.wrap(title, room)]
    for below, shown in enumerate(blocks[:1] if listed else blocks):
        block = [[row[i] for i in shown] for row in (header, *rows)]
        right, kept = [numeric[i] for i in shown], [names[i] for i in shown]
        widths, gap = _widths(block, right, [any(whole[i : i + 1]) for i in shown], kept, room)
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
    if listed and len(blocks) > 1:
        left = ", ".join(header[i] for block in blocks[1:] for i in block if i)
        lines += [("", ""), (f"Without room here: {left}.", "")]
    return "\n".join(_styled(lines)) + "\n"


def _fitting(
    rows: Sequence[Sequence[str]],
    header: Sequence[str],
    numeric: Sequence[bool],
    names: Sequence[bool],
    room: int,
) -> list[list[int]]:
    """Places of the columns that fit beside each other without a broken word, the first in all."""
    blocks: list[list[int]] = [[0]]
    least = [
        _least(column, right or name)
        for column, right, name in zip(zip(header, *rows, strict=True), numeric, names, strict=True)
    ]
    for place in range(1, len(header)):
        across = sum(least[i] + GAP - 1 for i in blocks[-1]) + least[place]
        if across > room and len(blocks[-1]) > 1:
            with_figure = header[place] == plain(INTERVAL) and len(blocks[-1]) > 2
            blocks.append([0, blocks[-1].pop()] if with_figure else [0])
        blocks[-1].append(place)
    return blocks


def _least(column: Sequence[str], one_line: bool) -> int:
    """Width below which a word of a column would be broken, or a cell that keeps to one line."""
    head, *cells = column
    texts = cells
    if not one_line:
        words = [word for cell in cells for word in cell.split()]
        texts = [p for w in words for p in ([w] if _length(w) <= LONG else _PARTS.findall(w))]
    return max((_length(text) for text in (*head.split(), *texts)), default=1)


def _widths(
    block: Sequence[Sequence[str]],
    numeric: Sequence[bool],
    whole: Sequence[bool],
    names: Sequence[bool],
    room: int,
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
    least = [
        _least(column, right or name)
        for column, right, name in zip(columns, numeric, names, strict=True)
    ]
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
    rest = [i for i in range(len(widths)) if not names[i]]
    while sum(widths) + gap * gaps > room and (wide := [i for i in rest if widths[i] > 1]):
        widths[max(wide, key=widths.__getitem__)] -= 1  # where nothing else is left
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
