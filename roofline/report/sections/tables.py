"""Sections that are only tables or notes: changes, operators, and the rest."""

from collections.abc import Iterator
from typing import Final

from roofline.table import Result
from roofline.view.block import Section
from roofline.view.operators import operator_grids
from roofline.view.questions import grids_of
from roofline.view.tables import what_if

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
        "validated",
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


def build(result: Result) -> Iterator[Section]:
    """Sections of the page."""
    if changes := what_if(result):
        yield Section(70, "what-if", "What would help", "what_if.html", grids=(changes,))
    if operators := operator_grids(result):
        yield Section(80, "operators", "Operators", "operators.html", grids=operators)
    elsewhere = ELSEWHERE | (PLANNED if "verdict" in result.tables else frozenset())
    elsewhere |= {"best"} if "layouts" in result.tables else frozenset()  # its cards and sentences
    names = [name for name in result.tables if name not in elsewhere]
    if grids := tuple(grid for name in names for grid in grids_of(result, name)):
        yield Section(85, "tables", "Tables", "folded.html", grids=grids)
    if result.notes:
        yield Section(95, "notes", "Notes", "notes.html", tuple(result.notes))
