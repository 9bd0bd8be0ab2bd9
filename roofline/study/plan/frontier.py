"""What more money buys: latency and headroom of every option in more instances, and the best."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from roofline.study.plan.figures import Named
from roofline.study.plan.option import Option
from roofline.study.plan.question import ROUNDING, Question

STEPS: Final = 24
"""Sizes of each option at most."""
AIMS: Final = ("ttft", "tpot", "headroom")


@dataclass(frozen=True, slots=True)
class Point:
    """An option that nothing at its cost or below beats in what is named.

    Attributes
    ----------
    option
        What it is.
    best_in
        Of ``"ttft"``, ``"tpot"`` and ``"headroom"``.
    """

    option: Option
    best_in: tuple[str, ...]


def frontier(
    options: Iterable[Option],
    question: Question,
    names: Named,
    refuted: Sequence[Option] = (),
) -> tuple[Point, ...]:
    """Options of which none is both cheaper and better, for each aim; cheapest first.

    Parameters
    ----------
    options
        That keep all promises.
    question
        What is planned for.
    names
        Latencies that are compared.
    refuted
        Options that keep them by their curves only, which are left out.
    """
    sizes = (each for option in options for each in _sizes(option, question))
    every = sorted(
        (each for each in sizes if not any(each.same(one) for one in refuted)), key=question.order
    )
    values = {
        "ttft": [each.seconds(names.ttft) for each in every],
        "tpot": [each.seconds(names.tpot) for each in every],
        "headroom": [-each.capacity for each in every],
    }
    best = {name: _least(values[name], [question.cost(each) for each in every]) for name in AIMS}
    return tuple(
        Point(option, aims)
        for place, option in enumerate(every)
        if (aims := tuple(name for name in AIMS if place in best[name]))
    )


def _sizes(option: Option, question: Question) -> Iterator[Option]:
    """The option, and larger ones."""
    for _ in range(STEPS):
        if option.gpus > question.goal.gpus:
            return
        yield option
        option = option.resized(1)


def _least(values: Sequence[float], costs: Sequence[float]) -> set[int]:
    """Places of values lower than all that cost less, or as much."""
    found: set[int] = set()
    lowest = float("inf")
    order = sorted(range(len(values)), key=lambda place: (costs[place], values[place]))
    for place in order:
        if values[place] < lowest * (1.0 - ROUNDING if lowest > 0 else 1.0 + ROUNDING):
            lowest = values[place]
            found.add(place)
    return found
