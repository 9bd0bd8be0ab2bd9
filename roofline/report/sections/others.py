"""Tables that no other section shows, as they are."""

from typing import Final

from roofline.table import Result
from roofline.view.block import Block
from roofline.view.questions import grids_of

ORDER: Final = 85

ELSEWHERE: Final = frozenset(
    {
        "assumptions",
        "batch_curve",
        "capacity",
        "factors",
        "objectives",
        "figures",
        "groups",
        "headline",
        "kernels",
        "memory",
        "ops",
        "points",
        "published_results",
        "reasons",
        "refused",
        "roofs",
        "scores",
        "static_batch",
        "summary",
        "what_if",
    }
)
"""Tables that have a section of their own."""
PLANNED: Final = frozenset(
    {
        "verdict",
        "relaxations",
        "confidences",
        "runners_up",
        "frontier",
        "bounds",
        "gpus_by_rate",
        "sensitivity",
    }
)
"""Tables of a plan that have sections of their own."""


def build(result: Result) -> Block | None:
    """Section of the page."""
    elsewhere = ELSEWHERE | (PLANNED if "verdict" in result.tables else frozenset())
    names = [name for name in result.tables if name not in elsewhere]
    grids = tuple(grid for name in names for grid in grids_of(result, name))
    return Block("tables", "Tables", "folded.html", grids=grids) if grids else None
