"""Changes, each priced by itself."""

from typing import Final

from roofline.table import Result
from roofline.view.block import Block
from roofline.view.tables import what_if

ORDER: Final = 70


def build(result: Result) -> Block | None:
    """Section of the page."""
    grid = what_if(result)
    return Block("what-if", "What would help", "what_if.html", grids=(grid,)) if grid else None
