"""What a reader must know, and how to get the same page again."""

from dataclasses import dataclass
from typing import Final

from roofline.report.block import Block
from roofline.table import Result

ORDER: Final = 100


@dataclass(frozen=True, slots=True)
class ReadingFacts:
    """Notes, and the command with the version that made the page."""

    notes: tuple[str, ...]
    command: str
    version: str
    given: tuple[tuple[str, str], ...]


def reading_facts(result: Result) -> ReadingFacts:
    """Notes and inputs of a result."""
    given = result.metadata
    hidden = ("summary", "command", "version")
    return ReadingFacts(
        notes=tuple(result.notes),
        command=str(given.get("command", "")),
        version=str(given.get("version", "")),
        given=tuple((str(key), str(value)) for key, value in given.items() if key not in hidden),
    )


def build(result: Result) -> Block | None:
    """Section of the page."""
    return Block("reading", "Notes and how to reproduce", "reading.html", reading_facts(result))
