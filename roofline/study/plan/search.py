"""Layouts that may be the cheapest, likely ones first, and the best way to run each."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from roofline.serving.simulate.server import Server
from roofline.study.plan.candidate import Candidate
from roofline.study.plan.curve import Role
from roofline.study.plan.option import Option, Pool
from roofline.study.plan.question import CHEAPER, ROUNDING, Question
from roofline.study.plan.tabled import Key, Replica, Tables, key_of
from roofline.units import counted

LEAST: Final = 4
"""Layouts that have a curve even if they cannot be the cheapest: what else there is. [1]"""
MOST: Final = {True: 4, False: 2}
MORE: Final = 2
"""Layouts that have a curve at most, inside a node and others, and so many more for each kind;
those that are likely to be cheap first. [1]"""


@dataclass(frozen=True)
class SearchResult:
    """Layouts by what became of them."""

    options: tuple[Option, ...]
    """Best way to run each layout that is enough by its curve, cheapest first."""
    short: tuple[Option, ...]
    """Best way to run each of the others that have a curve: too many devices, or a limit that
    none keeps."""
    dropped: Mapping[Key, str]
    """Reason why others have no curve, by what tells candidates apart."""

    @property
    def best(self) -> Option | None:
        """The cheapest."""
        return self.options[0] if self.options else None


def search(
    candidates: Sequence[Candidate], question: Question, tables: Tables, *, least: int = LEAST
) -> SearchResult:
    """Find the deployments that may be the cheapest.

    Branch and bound, first over layouts inside a node, then over those that may be so much cheaper
    that they are preferred. Among equally cheap ones the one that carries more comes first.

    Args:
        least: Layouts that have a curve even if they cannot be the cheapest. [1]
    """
    dropped, open_ = _bounded(candidates, question)
    found: list[Option] = []
    for usual in (True, False):
        seen: set[str] = set()
        some = [each for each in open_ if each[1].usual == usual]
        most = MOST[usual] + MORE * len({each.kind.name for _, each in some})
        looked = 0
        for cost, candidate in some:
            enough = [question.cost(each) for each in found if question.enough(each)]
            best = min(enough, default=math.inf)
            ceiling = best if usual else best * (1.0 - CHEAPER)
            # There is one of every kind, so that kinds can be compared.
            free = usual and (looked < least or candidate.kind.name not in seen)
            key = key_of(candidate)
            if not free and cost > ceiling * (1.0 + ROUNDING):
                dropped[key] = "cannot be cheaper" if usual else f"cannot be {CHEAPER:.0%} cheaper"
                continue
            if not free and looked >= most:
                dropped[key] = f"not looked at: {most} that are likely cheaper were"
                continue
            seen.add(candidate.kind.name)
            looked += 1
            made = option(candidate, question, tables)
            if isinstance(made, str):
                dropped[key] = made
            else:
                found.append(made)
    able = sorted((one for one in found if question.enough(one)), key=question.order)
    return SearchResult(
        tuple(able), tuple(one for one in found if not question.enough(one)), dropped
    )


def _bounded(
    candidates: Sequence[Candidate], question: Question
) -> tuple[dict[Key, str], list[tuple[float, Candidate]]]:
    """Candidates that cannot do it, with the reason; the others with the least that they cost."""
    goal, dropped = question.goal, {}
    found = []
    for candidate in candidates:
        reason, carries = question.refusal(candidate), 0.0
        if not reason:
            carries = question.bound(candidate)
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
            guess = question.bound(candidate, likely=True)
            likely = question.least_cost(candidate, question.replicas(guess))
            found.append(
                (likely, candidate.plainness, -guess / candidate.devices, least, candidate)
            )
    found.sort(key=lambda each: (*each[:3], each[4].rank))
    return dropped, [(least, candidate) for *_, least, candidate in found]


def option(candidate: Candidate, question: Question, tables: Tables) -> Option | str:
    """A candidate in replicas enough, or the reason why there is none.

    Where the engine's own settings keep no limit others are tried; where none does the option
    carries nothing, in one replica.
    """
    replica = tables.replica(candidate, question.demand)
    if isinstance(replica, str):
        return replica
    pool = sized("all", replica, question, tables)
    if not pool.carries:
        some = [each for each in tunings(pool, question, tables, chunks=True) if each.carries]
        pool = next(iter(some), pool)
    return Option((pool,), question.demand.rate)


def sized(
    role: Role,
    replica: Replica,
    question: Question,
    tables: Tables,
    server: Server | None = None,
) -> Pool:
    """Instances enough of a replica in a role; where no limit holds one that carries nothing.

    Args:
        server: Its settings; None for those of the engine.
    """
    kind, server = replica.candidate.kind, server or replica.servers[0]
    curve = tables.curve(role, replica, server, question.demand, question.factor)
    slower = curve.slower(question.slowness(kind) / question.factor)
    carries, binds = slower.carries(question.objectives(kind))
    instances = question.replicas(carries) if carries > 0 else 1
    return Pool(role, replica, server, curve, carries, binds, instances)


def tunings(pool: Pool, question: Question, tables: Tables, *, chunks: bool = False) -> list[Pool]:
    """Pools with other settings than the engine's own, those that carry most first.

    Args:
        pool, question, tables: Pool as the engine runs it; as for `search`.
        chunks: Whether only chunks of prompts are made shorter.
    """
    usual, *others = pool.replica.ways(pool.role)
    # A limit that is hardly reached changes nothing.
    ways = [
        server
        for server in others
        if server.max_sequences == usual.max_sequences
        or (not chunks and server.max_sequences < 2.0 * pool.curve.sequences)
    ]
    made = [sized(pool.role, pool.replica, question, tables, server) for server in ways]
    return sorted(made, key=lambda each: -each.carries)
