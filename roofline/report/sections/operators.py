"""Every operator with its counts and times."""

from typing import Final

from roofline.table import Result
from roofline.view.block import Block
from roofline.view.operators import operator_grids

ORDER: Final = 80


def build(result: Result) -> Block | None:
    """Section of the page."""
    grids = operator_grids(result)
    return Block("operators", "Operators", "grids.html", grids=grids) if grids else None
