"""From what a search found to what is recommended: confirmed by simulation, or made larger."""

import heapq
from collections.abc import Iterable

from roofline.study.plan.confirm import Confirmed, confirm
from roofline.study.plan.demand import Demand
from roofline.study.plan.option import Option
from roofline.study.plan.question import Question
from roofline.study.plan.tabled import Tables
from roofline.units import counted


def chosen(
    options: Iterable[Option], question: Question, full: Demand, tables: Tables
) -> tuple[Confirmed | None, tuple[Option, ...], tuple[Confirmed, ...]]:
    """The cheapest option that keeps its promises when it is simulated whole, and the others.

    And those that were tried before it and break some, in that order.

    Parameters
    ----------
    options
        That are enough by their curves.
    question, tables
        Of the search that found them.
    full
        The traffic with requests enough for percentiles.

    Notes
    -----
    Curves are of one replica; all of them together are a little better off, as requests go to them
    in turn, and a percentile of few requests depends on chance. An option that does not keep its
    promises is tried again with one more replica.
    """
    queue = [(*question.order(each), i, each) for i, each in enumerate(options)]
    heapq.heapify(queue)
    refused: list[Confirmed] = []
    while queue:
        *_, i, option = heapq.heappop(queue)
        tables.tell(f"simulating {counted(option.gpus, 'GPU')}: {option.layout}")
        done = confirm(option, full, question.goal, tables.probes)
        if done.enough and sure_enough(done, question):
            rest = sorted(queue)
            return done, tuple(each for *_, each in rest), tuple(refused)
        refused.append(done)
        larger = option.resized(1)
        if larger.gpus <= question.goal.gpus:
            heapq.heappush(queue, (*question.order(larger), i, larger))
    return None, (), tuple(refused)


def sure_enough(done: Confirmed, question: Question) -> bool:
    """Whether it is as likely as asked for that all promises hold."""
    asked = question.goal.sure
    return not asked or (done.probability is not None and done.probability >= asked)
