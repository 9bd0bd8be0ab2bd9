"""How good predictions were: errors and intervals of all measured figures, metric by metric."""

from dataclasses import dataclass
from typing import Final

from roofline.report.sections.parity import Panel, compared
from roofline.report.sections.plan_verdict import Figure
from roofline.table import Result
from roofline.units import counted
from roofline.view.block import Block
from roofline.view.text import Amount, clean, percent
from roofline.view.words import heading

ORDER: Final = 10
PROMISED: Final = 0.8
"""Share of figures that intervals are made to hold. [1]"""


@dataclass(frozen=True, slots=True)
class MeasuredFacts:
    """What a reader takes away."""

    inside: int
    judged: int
    """Figures within their interval, and those that have one. [1]"""
    figures: tuple[Figure, ...]
    """The median error of each metric."""

    @property
    def holds(self) -> bool:
        """Whether as many are within as intervals promise."""
        return self.inside >= PROMISED * self.judged


def measured_facts(found: tuple[Panel, ...]) -> MeasuredFacts:
    """Verdict of all panels."""
    judged = [pair.inside for panel in found for pair in panel.pairs if pair.inside is not None]
    return MeasuredFacts(sum(judged), len(judged), tuple(_figure(panel) for panel in found))


def _figure(panel: Panel) -> Figure:
    within = "" if panel.inside is None else f"; {percent(panel.inside)} in their interval"
    number = len(panel.pairs)
    said = f"{counted(number, 'figure')}{within}"
    return Figure(
        f"{clean(heading(panel.metric))}, median error", Amount(percent(panel.error)), None, said
    )


def build(result: Result) -> Block | None:
    """Section of the page."""
    found = compared(result)
    if not found:
        return None
    return Block("verdict", "Verdict", "measured_verdict.html", measured_facts(found))
