"""The whole of a plan: candidates, search, pools, confirmation, and what follows from them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from roofline.serving.objectives import Objective, parse_slo
from roofline.study.plan.candidate import Candidate
from roofline.study.plan.choose import chosen
from roofline.study.plan.confirm import MEAN, Confirmed
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.kinds import Kind
from roofline.study.plan.option import Option
from roofline.study.plan.pools import disaggregated
from roofline.study.plan.question import Question
from roofline.study.plan.screen import screen
from roofline.study.plan.search import LEAST, Found, search
from roofline.study.plan.tabled import Tables, Tell

QUICK: Final = 2000
"""Requests of a curve."""
USUAL: Final = ("ttft_p99", "tpot_p99", MEAN)
"""Latencies that are looked at beside those that are promised."""


@dataclass(frozen=True)
class Plan:
    """What was planned, and everything that was looked at on the way.

    Attributes
    ----------
    kinds, full, question
        What was compared, the traffic with all requests, and the question, with fewer.
    candidates, found
        Layouts, and what the search said of them.
    pooled
        Options with pools of their own for prefill and decode.
    best
        The cheapest deployment that keeps all promises in simulation; None where there is none.
    others
        Other options that are enough, cheapest first.
    tables
        What was tabulated and simulated.
    refused
        Options that are enough by their curves, and break a promise when simulated whole, in the
        order in which they were tried: cheapest first.
    left
        Kinds that were compared and are not ranked with ``kinds``.
    bounds
        The same planned on kinds whose times are published rates, beside measured ones: what they
        cost at least. None where there are none beside what is ranked.
    """

    kinds: tuple[Kind, ...]
    full: Demand
    question: Question
    candidates: tuple[Candidate, ...] = field(repr=False)
    found: Found = field(repr=False)
    pooled: tuple[Option, ...] = field(repr=False)
    best: Confirmed | None
    others: tuple[Option, ...] = field(repr=False)
    tables: Tables = field(repr=False)
    refused: tuple[Confirmed, ...] = field(default=(), repr=False)
    left: tuple[Kind, ...] = ()
    bounds: "Plan | None" = field(default=None, repr=False)

    @property
    def compared(self) -> tuple[Kind, ...]:
        """All kinds that were asked for."""
        return (*self.kinds, *self.left)

    @property
    def refuted(self) -> tuple[Option, ...]:
        """Options that are not enough at the traffic that is asked for, whatever curves say."""
        return tuple(each.option for each in self.refused)

    @property
    def goal(self) -> Goal:
        """What has to be kept."""
        return self.question.goal


def plan(
    kinds: Sequence[Kind],
    full: Demand,
    goal: Goal,
    *,
    pools: bool = True,
    least: int = LEAST,
    tables: Tables | None = None,
    tell: Tell = lambda _: None,
) -> Plan:
    """Find the cheapest deployment that carries traffic and keeps promises.

    A forecast is never beaten by a bound: kinds at published rates are planned apart from those
    that were measured, and recommended only where none of these is enough and nobody asks how sure
    that is.

    Parameters
    ----------
    kinds
        Devices and formats that are compared.
    full
        The traffic.
    goal
        What has to be kept.
    pools
        Whether prefill and decode may have instances of their own.
    least
        Layouts that are tabulated even if they cannot be the cheapest. [1]
    tables
        Of the same kinds and requests, to go on with; None to begin anew.
    tell
        Told what is being done.
    """
    bare = tuple(kind for kind in kinds if kind.bounded)
    known = tuple(kind for kind in kinds if not kind.bounded)
    if bare and known:
        first = _ranked(known, full, goal, pools=pools, least=least, tables=tables, tell=tell)
        # Of a bound nobody can say how sure it is.
        least_goal = replace(goal, sure=0.0)
        last = _ranked(bare, full, least_goal, pools=pools, least=1, tables=None, tell=tell)
        if first.best is None and last.best is not None and not goal.sure:
            return _joined(last, first)
        return replace(first, left=bare, bounds=last)
    return _ranked(kinds, full, goal, pools=pools, least=least, tables=tables, tell=tell)


def _ranked(
    kinds: Sequence[Kind],
    full: Demand,
    goal: Goal,
    *,
    pools: bool,
    least: int,
    tables: Tables | None,
    tell: Tell,
) -> Plan:
    """As `plan`, all kinds against each other."""
    probes = probes_of(goal.promises)
    tables = Tables(probes, tell) if tables is None else tables
    question = Question(full.first(QUICK), goal)
    candidates: tuple[Candidate, ...] = ()
    for kind in kinds:
        tell(f"{kind.name}: bounds of all layouts")
        candidates += screen(kind, question.demand, goal.gpus, probes)
    found = search(candidates, question, tables, least=least)
    pooled = disaggregated(tables.made, question, tables) if pools else ()
    best, others, refused = chosen((*found.options, *pooled), question, full, tables)
    return Plan(
        tuple(kinds), full, question, candidates, found, pooled, best, others, tables, refused
    )


def without_drafts(plan_: Plan, *, pools: bool) -> Plan:
    """The same planned where nothing drafts.

    Parameters
    ----------
    plan_
        Where something does.
    pools
        Whether prefill and decode may have instances of their own.
    """
    plain = tuple(replace(kind, speculation=None) for kind in plan_.compared)
    full = replace(plan_.full, acceptance=None)
    return plan(plain, full, plan_.goal, pools=pools, least=1, tell=plan_.tables.tell)


def _joined(plan: Plan, short: Plan) -> Plan:
    """A plan that says of other kinds why they are not enough."""
    dropped = {**short.found.dropped, **plan.found.dropped}
    found = Found(plan.found.options, (*plan.found.short, *short.found.short), dropped)
    candidates = (*plan.candidates, *short.candidates)
    return replace(plan, candidates=candidates, found=found, left=short.kinds)


def probes_of(promises: Sequence[Objective]) -> tuple[Objective, ...]:
    """Latencies that curves are of: those that are promised, and the usual ones."""
    have = {each.name for each in promises}
    usual = [parse_slo(f"{name}=1s")[0] for name in USUAL if name not in have]
    return (*promises, *usual)
