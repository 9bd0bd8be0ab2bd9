"""A plan: candidates, search, pools, choice."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from roofline.records import replace
from roofline.serving.objectives import Objective, parse_slo
from roofline.study.plan.candidate import Candidate, DeploymentKind
from roofline.study.plan.choose import KEPT, PlanChoice, chosen
from roofline.study.plan.confirm import MEAN, SimulatedOption
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.ffn_pools import fed_candidates
from roofline.study.plan.option import Option, PlanQuestion
from roofline.study.plan.screen import screen
from roofline.study.plan.search import LEAST, SearchResult, disaggregated, search
from roofline.study.plan.tabled import Budget, Tables, Tell, key_of

FED: Final = "decodes only, beside a pool that prefills"
"""Sentence on candidates with a pool of feed-forward parts that are not recommended."""
USUAL: Final = ("ttft_p99", "tpot_p99", MEAN)
"""Latencies that are looked at beside those that have limits."""


@dataclass(frozen=True)
class Plan:
    """A plan, and everything that was looked at on the way."""

    kinds: tuple[DeploymentKind, ...]
    question: PlanQuestion
    """Kinds that were compared, and the question."""
    candidates: tuple[Candidate, ...] = field(repr=False)
    found: SearchResult = field(repr=False)
    """Layouts, and the search among them."""
    pooled: tuple[Option, ...] = field(repr=False)
    """Options with pools of their own for prefill and decode."""
    choice: PlanChoice = field(repr=False)
    """Recommendation, and other options."""
    tables: Tables = field(repr=False)
    """Curves and runs."""
    left: tuple[DeploymentKind, ...] = ()
    """Kinds that were compared and are not ranked with ``kinds``."""
    bounds: "Plan | None" = field(default=None, repr=False)
    """The same planned on kinds whose times are published rates, beside measured ones: what they
    cost at least. None where there are none beside what is ranked."""

    @property
    def best(self) -> SimulatedOption | None:
        """The recommended deployment; None where none keeps all limits."""
        return self.choice.best

    @property
    def compared(self) -> tuple[DeploymentKind, ...]:
        """All kinds that were asked for."""
        return (*self.kinds, *self.left)

    @property
    def demand(self) -> Demand:
        """Traffic."""
        return self.question.demand

    @property
    def goal(self) -> Goal:
        """Limits that have to be kept."""
        return self.question.goal


def plan(
    kinds: Sequence[DeploymentKind],
    demand: Demand,
    goal: Goal,
    *,
    pools: bool = True,
    ffn: bool = False,
    least: int = LEAST,
    tell: Tell = lambda _: None,
    budget: Budget | None = None,
    kept: int = KEPT,
) -> Plan:
    """Find the cheapest deployment that carries traffic and keeps all limits.

    A forecast is never beaten by a bound: kinds at published rates are planned apart from those
    that were measured, and recommended only where none of these is enough and no confidence is
    asked for.

    Args:
        pools: True if prefill and decode may have instances of their own.
        ffn: True if feed-forward parts of those that decode may have a pool of their own, too.
        least: Layouts that have a curve even if they cannot be the cheapest. [1]
        kept: Simulations that are left for what follows from the plan. [1]
    """
    budget = Budget() if budget is None else budget
    bare = tuple(kind for kind in kinds if kind.bounded)
    known = tuple(kind for kind in kinds if not kind.bounded)
    probes = probes_of(goal.objectives)
    if bare and known:
        first = _ranked(known, demand, goal, Tables(probes, tell, budget), pools, least, kept, ffn)
        # Nobody can say how likely a bound is.
        least_goal = replace(goal, confidence=0.0)
        last = _ranked(
            bare, demand, least_goal, Tables(probes, tell, budget), pools, 1, kept // 2, ffn
        )
        if first.best is None and last.best is not None and not goal.confidence:
            return _joined(last, first)
        return replace(first, left=bare, bounds=last)
    if bare:
        goal = replace(goal, confidence=0.0)
    return _ranked(kinds, demand, goal, Tables(probes, tell, budget), pools, least, kept, ffn)


def _ranked(
    kinds: Sequence[DeploymentKind],
    demand: Demand,
    goal: Goal,
    tables: Tables,
    pools: bool,
    least: int,
    kept: int,
    ffn: bool = False,
) -> Plan:
    """A plan with all kinds against each other: see `plan`."""
    question = PlanQuestion(demand, goal)
    candidates: tuple[Candidate, ...] = ()
    for kind in kinds:
        tables.tell(f"{kind.name}: bounds of all layouts")
        candidates += screen(kind, question.demand, goal.most(kind.gpu))
    found = search(candidates, question, tables, least=least)
    pooled = disaggregated(tables.made, question, tables) if pools else ()
    if pools and ffn:
        fed: tuple[Candidate, ...] = ()
        for kind in kinds:
            tables.tell(f"{kind.name}: pools of feed-forward parts")
            limits = (each for each in question.objectives(kind) if each.metric == "tpot")
            least_s = min((each.limit_s for each in limits), default=float("inf"))
            most = goal.most(kind.gpu)
            fed += fed_candidates(kind, demand, most, least_s / question.slowness(kind))
        made = (tables.replica(each, demand) for each in fed)
        able = [each for each in made if not isinstance(each, str)]
        pooled += disaggregated(tables.made, question, tables, able) if able else ()
        candidates += fed
        found = replace(found, dropped={**found.dropped, **dict.fromkeys(map(key_of, fed), FED)})
    choice = chosen((*found.options, *pooled), question, tables, kept=kept)
    return Plan(tuple(kinds), question, candidates, found, pooled, choice, tables)


def without_drafts(plan_: Plan, *, pools: bool) -> Plan:
    """The same planned where nothing drafts, with pools for prefill and decode or without."""
    plain = tuple(replace(kind, speculation=None) for kind in plan_.compared)
    demand = replace(plan_.demand, acceptance=None)
    tables = plan_.tables
    return plan(
        plain,
        demand,
        plan_.goal,
        pools=pools,
        least=1,
        tell=tables.tell,
        budget=tables.budget,
        kept=0,
    )


def _joined(plan: Plan, short: Plan) -> Plan:
    """A plan that says of other kinds why they are not enough."""
    dropped = {**short.found.dropped, **plan.found.dropped}
    found = SearchResult(plan.found.options, (*plan.found.short, *short.found.short), dropped)
    candidates = (*plan.candidates, *short.candidates)
    return replace(plan, candidates=candidates, found=found, left=short.kinds)


def probes_of(objectives: Sequence[Objective]) -> tuple[Objective, ...]:
    """Latencies that curves have: those with limits, and the usual ones."""
    have = {each.name for each in objectives}
    usual = [parse_slo(f"{name}=1s")[0] for name in USUAL if name not in have]
    return (*objectives, *usual)
