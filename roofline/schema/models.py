"""Shapes that files of all rooms share: strict models, and figures with their sources."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from roofline.errors import DocumentError, QuantityError
from roofline.schema.document import Document, shown
from roofline.units import parse

ASSUMED = "assumed"
"""Source of a guess. It is not listed among the sources, but says in a note why."""


class Strict(BaseModel):
    """A mapping with known keys, whose values are taken as they are written."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SourceEntry(Strict):
    """A document that figures are taken from."""

    title: str = Field(min_length=1)
    url: str = ""
    """Title and address."""
    read_on: str = ""
    """Date."""
    note: str = ""
    """Remark for the reader."""


class Sourced(Strict):
    """A figure and where it is from."""

    value: str | float | int
    """Quantity with its unit, or a plain number."""
    source: str = Field(min_length=1)
    """Key under ``sources:``, or ``assumed``."""
    where: str = ""
    """Place in the source."""
    note: str = ""
    """Needed where the source is ``assumed``."""
    date: str = ""
    """Date of the figure, if that matters."""


def check_sources(document: Document) -> None:
    """Hold a document to its sources: those used are listed, those listed are used.

    Every mapping with the key ``source`` counts as a figure, wherever it is. A source ``assumed``
    needs no entry, but a ``note``.

    Args:
        document: Whose top level has the entries under ``sources``.

    Raises:
        DocumentError: At the figure without an entry or note, or at the entry that nothing uses.
    """
    data = document.data if isinstance(document.data, dict) else {}
    entries = data.get("sources")
    names = list(entries) if isinstance(entries, dict) else []
    used: set[str] = set()
    # Reversed, so that the stack gives figures in the order of the document.
    waiting: list[tuple[tuple[str | int, ...], Any]] = [
        ((key,), value) for key, value in reversed(data.items()) if key != "sources"
    ]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, list):
            waiting += [((*path, index), item) for index, item in enumerate(value)][::-1]
        elif isinstance(value, dict):
            if isinstance(value.get("source"), str):
                used.add(_check_figure(document, path, value, names))
            waiting += [((*path, key), item) for key, item in reversed(value.items())]
    for name in names:
        if name not in used:
            raise DocumentError(
                f"the source {shown(name)} is listed but nothing uses it",
                hint="remove it, or name it at the figures that are taken from it",
                where=document.where_key("sources", name),
            )


def _check_figure(
    document: Document, path: tuple[str | int, ...], figure: dict[str, Any], names: list[str]
) -> str:
    source: str = figure["source"]
    if source == ASSUMED:
        if not figure.get("note"):
            raise DocumentError(
                f"{shown(path[-1])} is assumed, without a reason",
                hint="add a 'note:' that says why this value, or name a source",
                where=document.where(*path, "source"),
            )
    elif source not in names:
        raise DocumentError(
            f"the source {shown(source)} is not listed",
            hint=f"add it under 'sources:', which has {', '.join(names) or 'no entries'}",
            where=document.where(*path, "source"),
        )
    return source


def quantity(document: Document, unit: str, *path: str | int) -> float:
    """Value at a path in base units.

    Args:
        document: What the value is read from.
        unit: Base unit it must have: ``"B/s"``; empty for a plain number.
        path: Keys and indices that lead to a text or a number.

    Raises:
        QuantityError: At the value, if it is not in that unit or not finite.

    Examples:
        >>> quantity(Document({"hbm": "3.35 TB/s"}, "x.yaml"), "B/s", "hbm")
        3350000000000.0
    """
    value = document.data
    for step in path:
        value = value[step]
    try:
        if isinstance(value, int | float):
            return parse(repr(value), unit)
        if isinstance(value, str):
            return parse(value, unit)
    except QuantityError as error:
        where = document.where(*path)
        raise QuantityError(error.message, hint=error.hint, where=where) from None
    raise QuantityError(
        f"{shown(value)} is not a quantity",
        hint=f"write it like '1.5 G{unit}'" if unit else "write a number",
        where=document.where(*path),
    )
