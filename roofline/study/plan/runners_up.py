"""Other deployments beside what is recommended, and larger ones, all simulated."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from roofline.study.plan.choose import Choice
from roofline.study.plan.confirm import Confirmed, confirm, holds
from roofline.study.plan.figures import named
from roofline.study.plan.option import Option
from roofline.study.plan.question import Question
from roofline.study.plan.tabled import Tables

NEXT, PLAIN, APART = "next cheapest", "one pool inside nodes", "pools of their own"
FEW: Final = 2
"""Other deployments that are simulated for one kind at most. [1]"""
TRIES: Final = 2
"""Sizes of each that are tried. [1]"""
LARGER: Final = 2
"""Larger sizes of what is recommended that are simulated. [1]"""


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """Another option."""

    done: Confirmed
    """Option and its simulation."""
    why: str
    """Aims in which it is best, in words."""


def runners_up(choice: Choice, question: Question, tables: Tables) -> tuple[RunnerUp, ...]:
    """The plain deployment beside any other, the next cheapest, and the fastest; cheapest first."""
    assert choice.best is not None, "others beside nothing"
    best, names = choice.best.option, named(question.goal.objectives)
    every = list(choice.others)
    picked: list[tuple[Option, str]] = []

    def pick(why: str, some: Sequence[Option], name: str = "") -> None:
        if some:
            key = (lambda each: each.seconds(name)) if name else question.order
            picked.append((min(some, key=key), why))

    if choice.plain is not None and not best.usual:
        usual = [each for each in every if each.usual]
        same = [each for each in usual if each.layout == choice.plain.layout]
        pick(PLAIN, same or [choice.plain])
    if not best.wires:
        pick(APART, [each for each in every if each.wires])
    pick(NEXT, every)
    for name in dict.fromkeys(each.kind.name for each in every):
        some = [each for each in every if each.kind.name == name]
        if name != best.kind.name:
            pick(f"best on {some[0].kind.gpu}, {some[0].kind.weights}", some)
    # What a layout that is less plain adds is seldom worth its trouble.
    alike = [
        each for each in every if each.usual == best.usual and each.plainness <= best.plainness
    ]
    pick("fastest tokens", alike, names.tpot)
    pick("fastest first token", alike, names.ttft)
    reasons: dict[int, tuple[Option, list[str]]] = {}
    for option, why in picked:
        must = why in (PLAIN, APART) or why.startswith("best on")
        if id(option) in reasons or must or len(reasons) < FEW:
            reasons.setdefault(id(option), (option, []))[1].append(why)
    out = []
    for option, whys in reasons.values():
        done = confirmed(option, question, tables)
        if done is not None and not done.option.same(best):
            out.append(RunnerUp(done, ", ".join(whys)))
    return tuple(sorted(out, key=lambda each: question.order(each.done.option)))


def larger(best: Option, question: Question, tables: Tables) -> list[Confirmed]:
    """The recommended option with more instances, simulated."""
    out: list[Confirmed] = []
    option = best.resized(1)
    while option.gpus <= question.goal.gpus and len(out) < LARGER and tables.budget.left:
        out.append(confirm(option, question, tables, interval=False))
        option = option.resized(1)
    return out


def confirmed(option: Option, question: Question, tables: Tables) -> Confirmed | None:
    """An option simulated whole, larger where it has to be; None where that is not enough."""
    for _ in range(TRIES):
        if option.gpus > question.goal.gpus or tables.budget.left < TRIES:
            return None
        if holds(option, question, tables, closely=True):
            done = confirm(option, question, tables, interval=False)
            return done if done.met else None
        option = option.resized(1)
    return None
