"""Verdict of a scoreboard: how many figures are in their interval, and the error of each metric."""

from dataclasses import dataclass
from typing import Final

from roofline.report.scored import (
    ScoredFigure,
    has_scores,
    median_error,
    scored_figures,
    share_inside,
)
from roofline.report.sections.plan_verdict import Figure
from roofline.table import Result
from roofline.units import counted
from roofline.view.block import Block
from roofline.view.text import Amount, clean, percent
from roofline.view.words import heading

ORDER: Final = 10
ENOUGH: Final = 0.77
"""Share of the figures from which on intervals that are made to hold 80 % do so. [1]"""


@dataclass(frozen=True, slots=True)
class ScoreboardFacts:
    """Facts of the verdict."""

    holds: bool
    """Whether intervals hold as many figures as they promise."""
    verdict: str
    """How many figures are in their interval."""
    sentences: tuple[str, ...]
    """The rest, one after the other."""
    figures: tuple[Figure, ...]
    """The median error of each metric, and of published results."""


def scoreboard_facts(result: Result) -> ScoreboardFacts | None:
    """Verdict of a scoreboard; None where nothing is predicted."""
    found = scored_figures(result)
    every = tuple(figure for figures in found.values() for figure in figures)
    rows = tuple(figure for figure in every if not figure.published)
    published = tuple(figure for figure in every if figure.published)
    judged = rows or published
    if not judged:
        return None
    share, what = share_inside(judged), "measured" if rows else "published"
    cards = [
        _card(heading(metric), tuple(each for each in figures if each.published != bool(rows)))
        for metric, figures in found.items()
    ]
    if rows and published:
        cards.append(_card("Published results", published))
    return ScoreboardFacts(
        share >= ENOUGH,
        _kept(f"{percent(share)} of {len(judged):,} {what} figures are in their 80 % interval"),
        tuple(_kept(clean(sentence)) for sentence in result.metadata.get("summary", ())),
        tuple(card for card in cards if card is not None),
    )


def _kept(sentence: str) -> str:
    """A sentence whose numbers stay on the line of their per cent."""
    return sentence.replace(" %", "\N{NO-BREAK SPACE}%")


def _card(name: str, figures: tuple[ScoredFigure, ...]) -> Figure | None:
    if not figures:
        return None
    said = f"{counted(len(figures), 'figure')}; {percent(share_inside(figures))} in their interval"
    error = Amount(percent(median_error(figures)))
    return Figure(f"{clean(name)}, median error", error, None, said)


def build(result: Result) -> Block | None:
    """Section of the page."""
    facts = scoreboard_facts(result) if has_scores(result) else None
    if facts is None:
        return None
    return Block("verdict", "Verdict", "scoreboard_verdict.html", facts)
