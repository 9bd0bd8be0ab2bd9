"""Errors of measured rows by engine, GPU and network, and why figures are outside."""

from typing import Final

from roofline.report.scored import has_scores
from roofline.table import Result
from roofline.view.block import Block
from roofline.view.questions import grids_of
from roofline.view.scores import groups

ORDER: Final = 13


def build(result: Result) -> Block | None:
    """Section of the page."""
    if not has_scores(result):
        return None
    grids = (*groups(result), *grids_of(result, "reasons"), *grids_of(result, "refused"))
    if not grids:
        return None
    return Block("groups", "By engine, GPU and network", "folded.html", grids=grids)
