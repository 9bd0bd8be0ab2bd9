"""Layouts that may be the cheapest, likely ones first, and the best way to run each.

Prefill and decode may have pools of their own, made of the layouts that have curves. TTFT is that
of the prefill pool and TPOT that of the decode pool, so that each is made large enough by itself,
and the cheapest of both together are the cheapest. Time between tokens starts with the first token,
so that a cache's wait for a step of the decode pool is in its curve. The time on the interconnect
is not: the simulation of both pools together has it.

Source: DistServe, Zhong et al. 2024 (arXiv 2401.09670), section 4.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from roofline.errors import RooflineError
from roofline.records import replace
from roofline.serving.kv_transfer import prompt_bytes, software_s
from roofline.serving.simulate.disaggregated import Handover, handover, wires_between
from roofline.serving.simulate.server import Server
from roofline.study.plan.candidate import Candidate
from roofline.study.plan.curve import SHARES, Role
from roofline.study.plan.option import CHEAPER, ROUNDING, Option, PlanQuestion, Pool
from roofline.study.plan.tabled import Key, Replica, Tables, key_of
from roofline.units import counted

LEAST: Final = 4
"""Layouts that have a curve even if they cannot be the cheapest: what else there is. [1]"""
MOST: Final = {True: 4, False: 2}
MORE: Final = 2
"""Layouts that have a curve at most, inside a node and others, and so many more for each kind;
those that are likely to be cheap first. [1]"""

WIRES: Final = "interconnect"
"""Limit of pools whose caches are not carried away fast enough."""
COMPARED: Final = 3
"""Layouts of a pool that are compared at most, those of the best bounds first. [1]"""


class SearchResult(Struct, frozen=True):
    """Layouts by what became of them."""

    options: tuple[Option, ...]
    """Best way to run each layout that is enough by its curve, cheapest first."""
    short: tuple[Option, ...]
    """Best way to run each of the others that have a curve: too many devices, or a limit that
    none keeps."""
    dropped: Mapping[Key, str]
    """Reason why others have no curve, by what tells candidates apart."""


def search(
    candidates: Sequence[Candidate], question: PlanQuestion, tables: Tables, *, least: int = LEAST
) -> SearchResult:
    """Find the deployments that may be the cheapest.

    Branch and bound, first over layouts inside a node, then over those that may be so much cheaper
    that they are preferred. Among equally cheap ones the one that carries more comes first. The
    least number of layouts have a curve even if they cannot be the cheapest. [1]
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
    candidates: Sequence[Candidate], question: PlanQuestion
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
            elif replicas * candidate.devices > (most := goal.most(candidate.kind.gpu)):
                least_gpus = counted(replicas * candidate.devices, "GPU")
                verb = "is" if most == 1 else "are"
                reason = f"rate: {least_gpus} at least, {most:,} {verb} allowed"
        if reason:
            dropped[key_of(candidate)] = reason
        else:
            least = question.least_cost(candidate, carries)
            guess = question.bound(candidate, likely=True)
            likely = question.least_cost(candidate, guess)
            found.append(
                (likely, candidate.plainness, -guess / candidate.devices, least, candidate)
            )
    found.sort(key=lambda each: (*each[:3], each[4].rank))
    return dropped, [(least, candidate) for *_, least, candidate in found]


def option(candidate: Candidate, question: PlanQuestion, tables: Tables) -> Option | str:
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
    question: PlanQuestion,
    tables: Tables,
    server: Server | None = None,
) -> Pool:
    """Instances enough of a replica in a role; where no limit holds one that carries nothing.

    Settings are those of the server, None for the engine's own.
    """
    kind, server = replica.candidate.kind, server or replica.servers[0]
    curve = tables.curve(role, replica, server, question.demand, question.factor)
    slower = curve.slower(question.slowness(kind, role) / question.factor)
    carries, binds = slower.carries(question.objectives(kind, role))
    instances = question.replicas(carries) if carries > 0 else 1
    return Pool(role, replica, server, curve, carries, binds, instances)


def tunings(
    pool: Pool, question: PlanQuestion, tables: Tables, *, chunks: bool = False
) -> list[Pool]:
    """Pools with other settings than the engine's own, those that carry most first.

    With chunks, only chunks of prompts are made shorter.
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


def disaggregated(
    replicas: Iterable[Replica],
    question: PlanQuestion,
    tables: Tables,
    decoding: Sequence[Replica] = (),
) -> tuple[Option, ...]:
    """The cheapest pair of pools for each format of the cache that is enough.

    Conversations, and limits on the whole of an answer, are not planned on two pools. Replicas
    inside a node go before others. Where some are named that decode, only those do; the others
    prefill.
    """
    goal, demand = question.goal, question.demand
    sessions = bool((demand.requests.after >= 0).any())
    answers = bool((demand.requests.output > 1).any())
    if sessions or not answers or any(each.metric == "e2e" for each in goal.objectives):
        return ()
    by_cache: dict[str, list[Replica]] = {}
    every = [each for each in replicas if each.candidate.ffn is None]
    for replica in [each for each in every if each.candidate.usual] or every:
        by_cache.setdefault(replica.candidate.kind.kv, []).append(replica)
    made = (
        _pair(some, [each for each in decoding if each.candidate.kind.kv == kv], question, tables)
        for kv, some in by_cache.items()
    )
    return tuple(each for each in made if each is not None)


def _pair(
    replicas: list[Replica], decoding: list[Replica], question: PlanQuestion, tables: Tables
) -> Option | None:
    decode = _cheapest("decode", decoding or replicas, question, tables)
    if decode is None:
        return None
    served = decode.replica.deployment
    # The intake of the decode instance is in its curve.
    software = software_s(served) - served.engine_costs.request_s
    rest = Option((decode,), question.demand.rate, handover_s=software)
    after = {
        each.name: rest.seconds(each.name)
        for each in question.goal.objectives
        if each.metric == "ttft"
    }
    prefill = _cheapest("prefill", replicas, question.beside(after), tables)
    if prefill is None:
        return None
    option = Option((prefill, decode), question.demand.rate)
    wires = _wires(option, question)
    if wires is None:
        return None
    rate = max(wires.send_s_per_token, wires.receive_s_per_token)
    handover_s = rate * question.demand.prompt + wires.latency_s
    option = _carried(replace(option, wires=wires, handover_s=handover_s), question)
    return option if question.allowed(option) else None


def _cheapest(
    role: Role, replicas: list[Replica], question: PlanQuestion, tables: Tables
) -> Pool | None:
    """The cheapest pool, by branch and bound as for whole replicas."""
    best: Pool | None = None
    every = sorted(
        _bounds(role, replicas, question),
        key=lambda each: (each[0], each[2].candidate.plainness, -each[1]),
    )
    for least, _, replica in every[:COMPARED]:
        if best is not None and least > _order(best, question)[0]:
            break
        pool = sized(role, replica, question, tables)
        if pool.carries > 0 and (best is None or _order(pool, question) < _order(best, question)):
            best = pool
    return best


def _bounds(
    role: Role, replicas: list[Replica], question: PlanQuestion
) -> Iterator[tuple[float, float, Replica]]:
    """Least cost of a pool of each replica, the most that it could carry, and the replica."""
    for replica in replicas:
        each = question.bound(replica.candidate, role)
        if each:
            number = question.replicas(each)
            yield question.least_cost(replica.candidate, each), each * number, replica


def _order(pool: Pool, question: PlanQuestion) -> tuple[float, tuple[bool, bool, bool], float]:
    """Sort key of pools: the cheapest, of those the plainest."""
    cost = question.cost(Option((pool,), question.demand.rate))
    return cost, pool.candidate.plainness, -pool.carries * pool.instances


def _wires(option: Option, question: PlanQuestion) -> Handover | None:
    """Hand-over inside the node where it holds all, else over the network; None without one."""
    prefill, decode = (pool.replica.deployment for pool in option.pools)
    wires = wires_between(prefill, decode, option.gpus)
    prompt = max(round(question.demand.prompt), 1)
    try:
        found = handover(prefill, decode, prompt, wires)
    except RooflineError:
        return None
    more = 1.0 + _drafted(option.pools[-1].replica, prompt)
    return replace(
        found,
        send_s_per_token=found.send_s_per_token * more,
        receive_s_per_token=found.receive_s_per_token * more,
    )


def _drafted(replica: Replica, prompt: int) -> float:
    """Cache of what drafts, which is handed over too, over that of the network. [1]"""
    draft = replica.draft
    if draft is None or draft.deployment is None or not draft.sequential:
        return 0.0
    own = prompt_bytes(draft.deployment, float(prompt))
    return own / prompt_bytes(replica.deployment, float(prompt))


def _carried(option: Option, question: PlanQuestion) -> Option:
    """The option with instances enough for its interconnect."""
    prompt = question.demand.prompt
    assert option.wires is not None, "pools without links"
    sides = (option.wires.send_s_per_token, option.wires.receive_s_per_token)
    pools = []
    for pool, each in zip(option.pools, sides, strict=True):
        most = SHARES[-1] / (each * prompt) if each else pool.carries
        if most < pool.carries:
            instances = question.replicas(most)
            pool = replace(pool, carries=most, binds=WIRES, instances=instances)
        pools.append(pool)
    return replace(option, pools=tuple(pools))
