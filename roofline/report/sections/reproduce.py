"""Command, inputs and digests by which a page is made again."""

import hashlib
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from roofline.sources import installed
from roofline.table import Result
from roofline.view.block import Section
from roofline.view.text import clean, is_number, to_json
from roofline.view.words import heading, is_share, unit_of, written

ELSEWHERE: Final = frozenset(
    {
        *("about", "basis", "command", "commands", "constraints", "data", "fits", "limit"),
        *("limits", "met", "objectives", "objectives_of", "start", "summary", "title", "units"),
        *("version", "scenario", "engine_costs", "of", "kind", "name", "stable", "rows"),
        *("ttft_statistic", "tpot_statistic", "gpu_names", "each", "steps"),
    }
)
"""Metadata that the page shows elsewhere, or that is no input."""
RESOLVED: Final = ("_title", "_titles")
"""Ends of names that are said with the name that they are of."""


class ReproduceFacts(Struct, frozen=True):
    """Command and inputs of a page, and digests that show that it is the same."""

    command: str
    version: str
    """Version of the program; empty where it is not known."""
    inputs: tuple[tuple[str, str], ...]
    """Names and values of inputs, as they were resolved."""
    digests: tuple[tuple[str, str], ...]
    """Names and hashes of what it was made from and of what came out."""


def reproduce_facts(result: Result) -> ReproduceFacts:
    """Command and inputs of a result."""
    given = result.metadata
    return ReproduceFacts(
        command=str(given.get("command", "")),
        version=str(given.get("version", "")),
        inputs=tuple(
            (clean(heading(str(key))), _said(str(key), value))
            for key, value in given.items()
            if key not in ELSEWHERE
            and not str(key).endswith(RESOLVED)
            and value not in ("", None, [], (), {})
        ),
        digests=tuple(_digests(result)),
    )


def _said(name: str, value: object) -> str:
    """A value of any kind in words."""
    if isinstance(value, dict):
        return "; ".join(f"{heading(str(key))} {_said('', each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_said("", each) for each in value)
    if is_number(value) and name and not unit_of(name) and not is_share(name):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
    return str(written(name, value))


def _digests(result: Result) -> Iterator[tuple[str, str]]:
    """Hashes: of the scenario, of the data that came with the program, of the figures."""
    if result.metadata.get("scenario"):
        yield "Scenario", str(result.metadata["scenario"])
    yield "Program, machines, networks and fits", digest_of(to_json(dict(installed())))
    tables = {
        name: {key: list(column.values) for key, column in table.columns.items()}
        for name, table in result.tables.items()
    }
    yield "Figures of this page", digest_of(to_json(tables))


def digest_of(text: str) -> str:
    """Digest of a text. [sha256]"""
    return hashlib.sha256(text.encode()).hexdigest()


def build(result: Result) -> Section | None:
    """Section of the page."""
    return Section(100, "reproduce", "Reproduce", "reproduce.html", reproduce_facts(result))
