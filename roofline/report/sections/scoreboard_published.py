"""Published results beside predictions, each with its source."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from roofline.report.block import Block
from roofline.report.scored import METRICS, RATE, has_scores
from roofline.report.sections.others import grid
from roofline.report.text import clean
from roofline.report.words import heading, mid, written
from roofline.table import Result, table
from roofline.units import counted

ORDER: Final = 12
SHOWN: Final = (
    "result", "figure", "unit", "measured", "predicted", "low", "high", "error", "inside", "basis",
    "in fit",
)  # fmt: skip
SAFE: Final = "https://"
"""Beginning of an address that the page links to."""


@dataclass(frozen=True, slots=True)
class Quoted:
    """A result as its source states it."""

    title: str
    where: str
    note: str


@dataclass(frozen=True, slots=True)
class Source:
    """A public document and the results that are taken from it."""

    title: str
    url: str
    """Address, empty where it is not one to link to."""
    date: str
    results: tuple[Quoted, ...]


@dataclass(frozen=True, slots=True)
class PublishedFacts:
    """Facts of the published results, beside their table."""

    outside: tuple[str, ...]
    """The likeliest reason of each figure outside its interval."""
    left: tuple[str, ...]
    """Why others are not predicted."""
    sources: tuple[Source, ...]


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
    return {**row, "result": row["title"], "figure": figure, "in fit": row["fitted"]}


def published_facts(result: Result) -> PublishedFacts:
    """Reasons and sources of published results."""
    rows = [_shown(row) for row in result.tables["published_results"].rows()]
    outside = [
        f"{row['result']}, {mid(row['figure'])} {written('error', row['error'])}: {row['reason']}"
        for row in rows
        if row["reason"]
    ]
    left = [f"{row['result']}: {row['why not']}" for row in rows if row["why not"]]
    return PublishedFacts(
        tuple(clean(sentence) for sentence in outside),
        tuple(clean(sentence) for sentence in left),
        sources(result),
    )


def build(result: Result) -> Block | None:
    """Section of the page."""
    if not has_scores(result):
        return None
    entries = result.tables["published_results"].rows()
    rows = [_shown(row) for row in entries if row["metric"] in METRICS]
    if not rows:
        return None
    done = [{name: row[name] for name in SHOWN} for row in rows if row["predicted"] is not None]
    shown = table(done, dict.fromkeys(SHOWN, ""))
    grids = (grid("published-results", "Beside predictions", shown, SHOWN),) if done else ()
    facts = published_facts(result)
    return Block("published", "Published results", "published.html", facts, grids=grids)
