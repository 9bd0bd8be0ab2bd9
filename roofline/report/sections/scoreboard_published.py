"""Published results beside predictions, each with its source."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from roofline.report.scored import has_scores
from roofline.table import Result
from roofline.view.block import Section
from roofline.view.scores import published, quoted
from roofline.view.text import clean
from roofline.view.words import mid, written

SAFE: Final = "https://"
"""Beginning of an address that the page links to."""


class Source(Struct, frozen=True):
    """A public document and the results that are taken from it."""

    title: str
    url: str
    """Address, empty where it is not one to link to."""
    date: str
    results: tuple[Mapping[str, str], ...]
    """Title, place and note of each, as the document states it."""


def sources(result: Result) -> tuple[Source, ...]:
    """Sources in the order of the results."""
    found: dict[tuple[str, str, str], dict[str, Mapping[str, str]]] = {}
    for row in result.tables["published_results"].rows():
        url = str(row["url"])
        key = clean(row["source"]), url if url.startswith(SAFE) else "", clean(row["date"])
        quoted = {name: clean(row[name]) for name in ("title", "where", "note")}
        found.setdefault(key, {})[str(row["name"])] = quoted
    return tuple(Source(*key, tuple(results.values())) for key, results in found.items())


def published_facts(result: Result) -> Mapping[str, tuple[Any, ...]]:
    """Reasons of figures outside their intervals, and of those not predicted; sources."""
    rows = [quoted(row) for row in result.tables["published_results"].rows()]
    outside = [
        f"{row['title']}, {mid(row['figure'])} {written('error', row['error'])}: {row['reason']}"
        for row in rows
        if row["reason"]
    ]
    left = [f"{row['title']}: {row['why not']}" for row in rows if row["why not"]]
    return {
        "outside": tuple(clean(sentence) for sentence in outside),
        "left": tuple(clean(sentence) for sentence in left),
        "sources": sources(result),
    }


def build(result: Result) -> Section | None:
    """Section of the page."""
    if not has_scores(result):
        return None
    if not len(result.tables["published_results"]):
        return None
    facts, grid = published_facts(result), published(result)
    return Section(
        12, "published", "Published results", "published.html", facts, grids=(grid,) if grid else ()
    )
