"""Published results beside predictions, each with its source."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from roofline.report.block import Block
from roofline.report.scored import METRICS, RATE, has_scores
from roofline.report.sections.others import grid
from roofline.report.text import clean
from roofline.report.words import heading
from roofline.table import Result, table
from roofline.units import counted

ORDER: Final = 12
SHOWN: Final = (
    "result", "figure", "unit", "measured", "predicted", "low", "high", "error", "inside",
    "seen by a fit",
)  # fmt: skip
WHY: Final = ("result", "figure", "error", "basis", "reason")
LEFT_OUT: Final = ("result", "figure", "unit", "measured", "why not")
SAFE: Final = "https://"
"""What an address begins with that the page links to."""


@dataclass(frozen=True, slots=True)
class Quoted:
    """A result as its source states it."""

    title: str
    where: str
    note: str


@dataclass(frozen=True, slots=True)
class Source:
    """A public document and the results that are taken from it.

    Attributes
    ----------
    url
        Address, empty where it is not one to link to.
    """

    title: str
    url: str
    date: str
    results: tuple[Quoted, ...]


def sources(result: Result) -> tuple[Source, ...]:
    """Sources in the order of the results."""
    found: dict[tuple[str, str, str], dict[str, Quoted]] = {}
    for row in result.tables["published_results"].rows():
        url = str(row["url"])
        key = clean(row["source"]), url if url.startswith(SAFE) else "", clean(row["date"])
        quoted = Quoted(clean(row["title"]), clean(row["where"]), clean(row["note"]))
        found.setdefault(key, {})[str(row["name"])] = quoted
    return tuple(Source(*key, tuple(results.values())) for key, results in found.items())


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """A figure in the columns of the page; a rate says of how many GPUs it is."""
    figure = heading(str(row["metric"]))
    if row["metric"] == RATE:
        figure = f"{figure} of {counted(int(row['per']), 'GPU')}"
    return {**row, "result": row["title"], "figure": figure, "seen by a fit": row["fitted"]}


def build(result: Result) -> Block | None:
    """Section of the page."""
    if not has_scores(result):
        return None
    entries = result.tables["published_results"].rows()
    rows = [_shown(row) for row in entries if row["metric"] in METRICS]
    done = [row for row in rows if row["predicted"] is not None]
    tables = (
        ("published-results", "Beside predictions", done, SHOWN),
        ("published-why", "Outside the interval", [row for row in done if row["reason"]], WHY),
        ("published-left", "Not predicted", [row for row in rows if row["why not"]], LEFT_OUT),
    )
    grids = tuple(
        grid(key, title, table([{name: row[name] for name in names} for row in shown], {}), names)
        for key, title, shown, names in tables
        if shown
    )
    if not grids:
        return None
    return Block("published", "Published results", "published.html", sources(result), grids=grids)
