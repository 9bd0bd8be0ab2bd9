"""The cheapest deployments: layouts in the order of what they promise, until none can be cheaper.

Branch and bound. The bound of `roofline.study.plan.screen` says what a layout costs at least; it is
tabulated and simulated only while that is no more than the best that was found.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from roofline.study.plan.candidate import Candidate
from roofline.study.plan.curve import Role
from roofline.study.plan.option import Option, Pool
from roofline.study.plan.question import ROUNDING, Question
from roofline.study.plan.tabled import Key, Replica, Tables, key_of
from roofline.units import counted

LEAST: Final = 6
"""Layouts that are tabulated even if they cannot be the cheapest: what else there is."""
MOST: Final = 24
"""Layouts that are tabulated at most, those that promise most first."""


@dataclass(frozen=True)
class Found:
    """What a search came to.

    Attributes
    ----------
    options
        Best way to run each layout that was tabulated and is enough, cheapest first.
    short
        Of the others that were tabulated, the best way to run each: too many devices, or a promise
        that none keeps.
    dropped
        Why others were not tabulated, by what tells candidates apart.
    """

    options: tuple[Option, ...]
    short: tuple[Option, ...]
    dropped: Mapping[Key, str]

    @property
    def best(self) -> Option | None:
        """The cheapest."""
        return self.options[0] if self.options else None


def search(
    candidates: Sequence[Candidate], question: Question, tables: Tables, *, least: int = LEAST
) -> Found:
    """Find the cheapest deployments.

    Parameters
    ----------
    candidates
        Layouts with their bounds.
    question
        What is planned for.
    tables
        What was tabulated before, and will be.
    least
        Layouts that are tabulated even if they cannot be the cheapest. [1]

    Notes
    -----
    Among equally cheap ones the one that carries more comes first, of those that were looked at.
    """
    dropped, open_ = _bounded(candidates, question)
    options: list[Option] = []
    short: list[Option] = []
    seen: set[str] = set()
    looked = 0
    for cost, candidate in open_:
        best = min((question.cost(each) for each in options), default=math.inf)
        # Of every kind there is one, so that kinds can be compared.
        free = looked < least or candidate.kind.name not in seen
        found: Option | str = "cannot be cheaper"
        if looked >= MOST and not free:
            found = f"not tabulated: {MOST} that promise more were"
        elif free or cost <= best * (1.0 + ROUNDING):
            looked += 1
            if free or _rivals(candidate, best, question, tables):
                found = option(candidate, question, tables)
        if isinstance(found, str):
            dropped[key_of(candidate)] = found
            continue
        seen.add(candidate.kind.name)
        fits = found.capacity > 0 and found.gpus <= question.goal.gpus
        (options if fits else short).append(found)
    options.sort(key=question.order)
    return Found(tuple(options), tuple(short), dropped)


def _rivals(candidate: Candidate, best: float, question: Question, tables: Tables) -> bool:
    """Whether a candidate might cost no more than the best so far, by a run of each way."""
    replica = tables.replica(candidate, question.demand)
    if isinstance(replica, str) or not math.isfinite(best):
        return True
    need = question.needs(candidate, best)
    demand, promises = question.demand, question.goal.promises
    return tables.reaches(replica, demand, question.factor, promises, need=need)


def _bounded(
    candidates: Sequence[Candidate], question: Question
) -> tuple[dict[Key, str], list[tuple[float, Candidate]]]:
    """Those that cannot do it, with the reason; the others by what they cost at least."""
    goal, dropped = question.goal, {}
    found = []
    for candidate in candidates:
        reason = candidate.refusal(question.demand, goal.promises, question.factor)
        carries = 0.0
        if not reason:
            carries = candidate.bound(question.demand, goal.promises, question.factor)
            replicas = question.replicas(carries) if carries else 1
            if not carries:
                reason = "memory: no room for a request of typical length"
            elif replicas * candidate.devices > goal.gpus:
                least_gpus = counted(replicas * candidate.devices, "GPU")
                verb = "is" if goal.gpus == 1 else "are"
                reason = f"rate: {least_gpus} at least, {goal.gpus:,} {verb} allowed"
        if reason:
            dropped[key_of(candidate)] = reason
        else:
            least = question.least_cost(candidate, question.replicas(carries))
            found.append((least, -carries / candidate.devices, candidate))
    found.sort(key=lambda each: (each[0], each[1], each[2].layout.spelled))
    return dropped, [(cost, candidate) for cost, _, candidate in found]


def option(candidate: Candidate, question: Question, tables: Tables) -> Option | str:
    """The way to run a candidate that carries most, in replicas enough; else why there is none.

    Parameters
    ----------
    candidate, question, tables
        As for `search`. Where no promise holds the option carries nothing, in one replica.
    """
    replica = tables.replica(candidate, question.demand)
    if isinstance(replica, str):
        return replica
    pool = sized("all", replica, question, tables)
    return Option((pool,), question.demand.rate)


def sized(role: Role, replica: Replica, question: Question, tables: Tables) -> Pool:
    """The way to run a replica in a role that carries most, in instances enough.

    Parameters
    ----------
    role, replica, question, tables
        As for `search`. Where no promise holds one instance carries nothing.
    """
    made = []
    usual, running = replica.servers[0], math.inf
    for server in replica.ways(role):
        if running <= server.max_sequences < usual.max_sequences:
            continue  # a limit that is never reached
        curve = tables.curve(role, replica, server, question.demand, question.factor)
        if server is usual:
            running = curve.running
        carries, binds = curve.carries(question.goal.promises)
        made.append((carries, binds, server, curve))
    # Of equals the first, which is what the engine does by itself.
    carries, binds, server, curve = max(made, key=lambda each: each[0])
    instances = question.replicas(carries) if carries > 0 else 1
    return Pool(role, replica, server, curve, carries, binds, instances)
