"""Errors of measured rows by engine, GPU and network, and why figures are outside."""

from typing import Final

from roofline.report.block import Block
from roofline.report.scored import has_scores
from roofline.report.sections.others import grid
from roofline.report.text import clean
from roofline.table import Result, table

ORDER: Final = 13
TITLES: Final = {
    "all": "All measured rows",
    "engine": "By engine",
    "gpu": "By GPU",
    "engine and gpu": "By engine and GPU",
    "network": "By network",
    "mode": "By load",
}
"""Captions by what figures are grouped by, in the order of the page."""
NUMBERS: Final = ("figures", "median_error", "mean_error", "p90_error", "inside")


def build(result: Result) -> Block | None:
    """Section of the page."""
    if not has_scores(result):
        return None
    groups = list(result.tables["groups"].rows())
    grids = []
    for by, title in TITLES.items():
        mine = [row for row in groups if row["by"] == by]
        keys = [] if by == "all" else by.split(" and ")
        names = (*keys, "metric", *NUMBERS)
        if mine:
            rows = [{name: row[name] for name in names} for row in mine]
            key = f"groups-{by.replace(' ', '-')}"
            grids.append(grid(key, f"{title}: absolute errors", table(rows, {}), names, most=1000))
    for name, title in (
        ("reasons", "Why figures are outside their interval"),
        ("refused", "Rows that are not predicted"),
    ):
        found = result.tables.get(name)
        if found is not None and len(found):
            grids.append(grid(f"scores-{name}", clean(title), found))
    if not grids:
        return None
    return Block("groups", "By engine, GPU and network", "folded.html", grids=tuple(grids))
