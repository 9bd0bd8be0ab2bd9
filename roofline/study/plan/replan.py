"""Question asked again of options that have curves: with other traffic, prices or limits."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from roofline.study.plan.choose import renewed
from roofline.study.plan.option import Option
from roofline.study.plan.question import Question
from roofline.study.plan.tabled import Tables


def replanned(
    options: Iterable[Option],
    question: Question,
    tables: Tables,
    *,
    refused: Sequence[Option] = (),
) -> Option | None:
    """The option that is preferred by curves; None where none is enough.

    Parameters
    ----------
    options
        Layouts and settings that may be used, in as many instances as it takes.
    question, tables
        Question, and curves; those that are missing are made.
    refused
        Options that are not enough whatever their curves say: larger ones take their places.
    """
    able = []
    for each in options:
        option = renewed(each, question, tables)
        while option.capacity > 0 and any(option.same(one) for one in refused):
            option = option.resized(1)
        if option.capacity > 0 and option.gpus <= question.goal.gpus:
            able.append(option)
    return question.preferred(able)


def at_rate(question: Question, rate: float) -> Question:
    """The question with other traffic.

    Parameters
    ----------
    question
        As it was.
    rate
        Requests a second. [1/s]
    """
    return replace(question, demand=replace(question.demand, rate=rate))
