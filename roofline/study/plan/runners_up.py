"""What else there is beside what is recommended, and what each gives up."""

from collections.abc import Sequence
from dataclasses import dataclass

from roofline.study.plan.confirm import Confirmed, confirm
from roofline.study.plan.demand import Demand
from roofline.study.plan.figures import named
from roofline.study.plan.option import Option
from roofline.study.plan.question import Question
from roofline.study.plan.tabled import Tables


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """Another option.

    Attributes
    ----------
    done
        What it is, simulated whole.
    why
        What it is best in, in words.
    """

    done: Confirmed
    why: str


def runners_up(
    best: Option, others: Sequence[Option], question: Question, full: Demand, tables: Tables
) -> tuple[RunnerUp, ...]:
    """The next cheapest, and those that are best in something else, cheapest first.

    Parameters
    ----------
    best
        What is recommended.
    others
        What else is enough, cheapest first.
    question, full, tables
        What was planned for, with few requests and with all, and what was tabulated.
    """
    if not others:
        return ()
    names = named(question.goal.promises)
    picked: dict[int, list[str]] = {}

    def pick(why: str, some: Sequence[Option], key: object = None) -> None:
        if some:
            one = min(some, key=key) if callable(key) else some[0]
            picked.setdefault(id(one), []).append(why)

    every = list(others)
    pick("next cheapest", every)
    pick(
        "one pool for both phases" if best.wires else "pools of their own",
        [each for each in every if bool(each.wires) != bool(best.wires)],
    )
    pick("fastest first token", every, lambda each: each.seconds(names.ttft))
    pick("fastest tokens", every, lambda each: each.seconds(names.tpot))
    pick("carries most for the money", every, lambda e: question.cost(e) / e.capacity)
    for name in dict.fromkeys(each.kind.name for each in every):
        if name != best.kind.name:
            some = [each for each in every if each.kind.name == name]
            pick(f"best on {some[0].kind.gpu}, {some[0].kind.weights}", some)
    out = []
    for option in every:
        if id(option) in picked:
            tables.tell(f"simulating {option.gpus} GPUs: {option.layout}")
            done = confirmed(option, question, full, tables)
            if done is not None:
                out.append(RunnerUp(done, ", ".join(picked[id(option)])))
    return tuple(out)


def confirmed(option: Option, question: Question, full: Demand, tables: Tables) -> Confirmed | None:
    """An option simulated whole, larger where it has to be; None where devices are not enough.

    Parameters
    ----------
    option, question, full, tables
        As for `runners_up`.
    """
    while option.gpus <= question.goal.gpus:
        done = confirm(option, full, question.goal, tables.probes, sure=False)
        if done.enough:
            return done
        option = option.resized(1)
    return None
