"""Cost of confidence: what is preferred for several probabilities that all limits hold."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from roofline.study.plan.choose import replanned
from roofline.study.plan.confirm import Confirmed, holds
from roofline.study.plan.option import Option
from roofline.study.plan.question import Question
from roofline.study.plan.tabled import Tables

LEVELS: Final = (0.5, 0.75, 0.9, 0.95, 0.99)
"""Probabilities that are shown. [1]"""
TRIES: Final = 3
"""Options that are simulated for each at most. [1]"""


@dataclass(frozen=True, slots=True)
class Level:
    """A probability that all limits hold, and what keeps them with it."""

    confidence: float
    """Probability. [1]"""
    option: Option | None
    """Preferred deployment; None where none of those looked at is enough."""


def levels(
    best: Confirmed,
    options: Sequence[Option],
    question: Question,
    tables: Tables,
    *,
    spare: int,
) -> tuple[Level, ...]:
    """Deployments for each probability of `LEVELS`; none where errors are not known.

    More confidence never costs less: what keeps a higher one keeps a lower one too.

    Args:
        best: Recommended deployment, which is shown at the confidence asked for.
        spare: Runs that are left for other things. [1]
    """
    if not best.step_sd:
        return ()
    asked = question.goal.confidence
    some = [*options, best.option]
    found: dict[float, Option | None] = {asked: best.option} if asked else {}
    for confidence in sorted(LEVELS, key=lambda each: abs(each - asked)):
        if confidence not in found:
            at = replace(question, goal=replace(question.goal, confidence=confidence))
            found[confidence] = _held(at, some, tables, spare)
    out: list[Level] = []
    for confidence in sorted(found, reverse=True):
        option, above = found[confidence], out[-1].option if out else None
        dearer = above is not None and (
            option is None or question.cost(above) < question.cost(option)
        )
        if dearer and confidence != asked:
            option = above
        out.append(Level(confidence, option))
    return tuple(reversed(out))


def _held(
    question: Question, options: Sequence[Option], tables: Tables, spare: int
) -> Option | None:
    """The preferred option that holds in a run; by its curve where no run is left."""
    refused: list[Option] = []
    for _ in range(TRIES):
        option = replanned(options, question, tables, refused=refused)
        if option is None or tables.budget.left <= spare:
            return option
        if holds(option, question, tables):
            return option
        refused.append(option)
    return replanned(options, question, tables, refused=refused)
