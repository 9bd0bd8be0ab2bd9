"""Notes that a reader needs to read the numbers right."""

from typing import Final

from roofline.table import Result
from roofline.view.block import Block

ORDER: Final = 95


def build(result: Result) -> Block | None:
    """Section of the page."""
    if not result.notes:
        return None
    return Block("notes", "Notes", "notes.html", tuple(result.notes))
