"""Verdict of predictions: how many figures are in their interval, and the error of each metric."""

from typing import Final

from roofline.report.scored import (
    ScoredFigure,
    median_error,
    scored_figures,
    share_inside,
)
from roofline.table import Result
from roofline.units import counted
from roofline.view.block import Block, Card, Verdict
from roofline.view.text import Amount, clean, percent
from roofline.view.words import heading

ENOUGH: Final = 0.77
"""Share of the figures from which on intervals that are made to hold 80 % do so. [1]"""


def measured_verdict(result: Result) -> Verdict | None:
    """Verdict of measured figures; None where none is predicted."""
    found = scored_figures(result)
    every = tuple(figure for figures in found.values() for figure in figures)
    rows = tuple(figure for figure in every if not figure.published)
    published = tuple(figure for figure in every if figure.published)
    judged = rows or published
    if not judged:
        return None
    share, what = share_inside(judged), "measured" if rows else "published"
    said = "" if share is None else f"{percent(share)} of {len(judged):,} {what} figures are in"
    cards = [
        _card(heading(metric), tuple(each for each in figures if each.published != bool(rows)))
        for metric, figures in found.items()
    ]
    if rows and published:
        cards.append(_card("Published results", published))
    return Verdict(
        _kept(f"{said} their 80 % interval") if said else "",
        (share or 0.0) >= ENOUGH,
        tuple(_kept(clean(sentence)) for sentence in result.metadata.get("summary", ())),
        tuple(card for card in cards if card is not None),
    )


def _kept(sentence: str) -> str:
    """A sentence whose numbers stay on the line of their per cent."""
    return sentence.replace(" %", "\N{NO-BREAK SPACE}%")


def _card(name: str, figures: tuple[ScoredFigure, ...]) -> Card | None:
    if not figures:
        return None
    share = share_inside(figures)
    inside = "" if share is None else f"; {percent(share)} in their interval"
    said = f"{counted(len(figures), 'figure')}{inside}"
    error = Amount(percent(median_error(figures)))
    return Card(f"{clean(name)}, median error", error, None, (said,))


def build(result: Result) -> Block | None:
    """Section of the page."""
    facts = measured_verdict(result)
    return Block(10, "verdict", "Verdict", "answer.html", facts) if facts else None
