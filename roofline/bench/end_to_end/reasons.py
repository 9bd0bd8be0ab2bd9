"""Why a figure of a run is outside its interval."""

from collections.abc import Sequence
from dataclasses import dataclass

from roofline.bench.end_to_end.comparing import Compared, Figure
from roofline.bench.end_to_end.evidence import Context, series
from roofline.bench.end_to_end.rules import RULES


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a figure is outside."""

    name: str
    """Of the rule."""
    text: str
    """One sentence, with the figures that it rests on."""


def reason(figure: Figure, run: Compared, runs: Sequence[Compared]) -> Reason | None:
    """The likeliest reason, None for a figure that is inside or has no interval.

    Args:
        figure: Of the run.
        run, runs: Its run, and all of them.
    """
    if figure.inside is not False:
        return None
    context = Context(figure, run, series(run, runs))
    for name, rule in RULES.items():
        text = rule(context)
        if text:
            return Reason(name, text)
    raise AssertionError("the last rule always holds")
