"""Published results beside predictions, each with its source."""

from dataclasses import dataclass
from typing import Final

from roofline.report.scored import has_scores
from roofline.table import Result
from roofline.view.block import Block
from roofline.view.scores import published, quoted
from roofline.view.text import clean
from roofline.view.words import mid, written

ORDER: Final = 12
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


def published_facts(result: Result) -> PublishedFacts:
    """Reasons and sources of published results."""
    rows = [quoted(row) for row in result.tables["published_results"].rows()]
    outside = [
        f"{row['title']}, {mid(row['figure'])} {written('error', row['error'])}: {row['reason']}"
        for row in rows
        if row["reason"]
    ]
    left = [f"{row['title']}: {row['why not']}" for row in rows if row["why not"]]
    return PublishedFacts(
        tuple(clean(sentence) for sentence in outside),
        tuple(clean(sentence) for sentence in left),
        sources(result),
    )


def build(result: Result) -> Block | None:
    """Section of the page."""
    if not has_scores(result):
        return None
    if not len(result.tables["published_results"]):
        return None
    facts, grid = published_facts(result), published(result)
    return Block(
        "published", "Published results", "published.html", facts, grids=(grid,) if grid else ()
    )
