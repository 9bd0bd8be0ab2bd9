"""Sections that are only tables or notes: groups of errors, changes, operators, and the rest."""

from collections.abc import Iterator
from typing import Final

from roofline.report.scored import has_scores
from roofline.table import Result
from roofline.view.block import Block
from roofline.view.operators import operator_grids
from roofline.view.questions import grids_of
from roofline.view.scores import groups
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


def build(result: Result) -> Iterator[Block]:
    """Sections of the page."""
    if has_scores(result):
        scored = (*groups(result), *grids_of(result, "reasons"), *grids_of(result, "refused"))
        if scored:
            yield Block(13, "groups", "By engine, GPU and network", "folded.html", grids=scored)
    elif "groups" in result.tables:  # of own runs, where there is more than one group
        by = [each for each in groups(result) if each.key != "groups-all"]
        metrics = len({row["metric"] for row in result.rows("groups")})
        if several := tuple(each for each in by if len(each.rows) > metrics):
            yield Block(13, "groups", "Errors by group", "folded.html", grids=several)
    if changes := what_if(result):
        yield Block(70, "what-if", "What would help", "what_if.html", grids=(changes,))
    if operators := operator_grids(result):
        yield Block(80, "operators", "Operators", "operators.html", grids=operators)
    elsewhere = ELSEWHERE | (PLANNED if "verdict" in result.tables else frozenset())
    elsewhere |= {"best"} if "layouts" in result.tables else frozenset()  # its cards and sentences
    names = [name for name in result.tables if name not in elsewhere]
    if grids := tuple(grid for name in names for grid in grids_of(result, name)):
        yield Block(85, "tables", "Tables", "folded.html", grids=grids)
    if result.notes:
        yield Block(95, "notes", "Notes", "notes.html", tuple(result.notes))
