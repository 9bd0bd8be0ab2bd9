"""The same question asked again of what was tabulated: with other traffic, prices or promises."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from roofline.study.plan.option import Option
from roofline.study.plan.pools import disaggregated
from roofline.study.plan.question import Question
from roofline.study.plan.search import sized
from roofline.study.plan.tabled import Replica, Tables


def replanned(
    replicas: Iterable[Replica],
    question: Question,
    tables: Tables,
    *,
    pools: bool = True,
    refuted: Sequence[Option] = (),
) -> Option | None:
    """The cheapest option of some replicas by their curves; None where none is enough.

    Parameters
    ----------
    replicas
        What may be used.
    question, tables
        What is asked; curves that are there are not simulated again.
    pools
        Whether prefill and decode may have instances of their own.
    refuted
        Options that are not enough whatever their curves say: larger ones take their places.
    """
    some = tuple(replicas)
    options = []
    for replica in some:
        pool = sized("all", replica, question, tables)
        option = Option((pool,), question.demand.rate)
        if option.capacity > 0:
            options.append(option)
    if pools:
        options += disaggregated(some, question, tables)
    able = (option.standing(refuted) for option in options)
    fitting = (option for option in able if option.gpus <= question.goal.gpus)
    return min(fitting, key=question.order, default=None)


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
