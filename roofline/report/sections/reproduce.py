"""How to get the same page again."""

from dataclasses import dataclass
from typing import Final

from roofline.report.block import Block
from roofline.table import Result

ORDER: Final = 100

ELSEWHERE: Final = (
    "summary",
    "command",
    "version",
    "layout_title",
    "title",
    "about",
    "units",
    "start",
)


@dataclass(frozen=True, slots=True)
class ReproduceFacts:
    """Command, version, and the inputs as they were resolved."""

    command: str
    version: str
    inputs: tuple[tuple[str, str], ...]


def reproduce_facts(result: Result) -> ReproduceFacts:
    """Command and inputs of a result."""
    given = result.metadata
    return ReproduceFacts(
        command=str(given.get("command", "")),
        version=str(given.get("version", "")),
        inputs=tuple(
            (str(key), str(value)) for key, value in given.items() if key not in ELSEWHERE
        ),
    )


def build(result: Result) -> Block | None:
    """Section of the page."""
    return Block("reproduce", "Reproduce", "reproduce.html", reproduce_facts(result))
