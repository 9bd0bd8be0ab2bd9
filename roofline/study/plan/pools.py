"""Prefill and decode on instances of their own, made of the layouts that have curves.

TTFT is that of the prefill pool and TPOT that of the decode pool, so that each is made large enough
by itself, and the cheapest of both together are the cheapest. Time between tokens
starts with the first token, so that a cache's wait for a step of the decode pool is in its curve.
The time on the interconnect is not: the simulation of both pools together has it.

Source: DistServe, Zhong et al. 2024 (arXiv 2401.09670), section 4.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from roofline.errors import RooflineError
from roofline.serving.kv_transfer import prompt_bytes
from roofline.serving.simulate.disaggregated import Handover, handover, wires_between
from roofline.study.plan.curve import SHARES, Role
from roofline.study.plan.option import Option, Pool
from roofline.study.plan.question import Question
from roofline.study.plan.search import sized
from roofline.study.plan.tabled import Replica, Tables

WIRES: Final = "interconnect"
"""What binds where caches are not carried away fast enough."""
MOST: Final = 3
"""Layouts of a pool that are compared at most, those of the best bounds first. [1]"""


def disaggregated(
    replicas: Iterable[Replica], question: Question, tables: Tables
) -> tuple[Option, ...]:
    """The cheapest pair of pools for each format of the cache that is enough.

    Conversations, and limits on the whole of an answer, are not planned on two pools.

    Args:
        replicas: Layouts that have curves; those inside a node, where there are any.
    """
    goal, demand = question.goal, question.demand
    sessions = bool((demand.requests.after >= 0).any())
    answers = bool((demand.requests.output > 1).any())
    if sessions or not answers or any(each.metric == "e2e" for each in goal.objectives):
        return ()
    by_cache: dict[str, list[Replica]] = {}
    every = list(replicas)
    for replica in [each for each in every if each.candidate.usual] or every:
        by_cache.setdefault(replica.candidate.kind.kv, []).append(replica)
    made = (_pair(some, question, tables) for some in by_cache.values())
    return tuple(each for each in made if each is not None)


def _pair(replicas: list[Replica], question: Question, tables: Tables) -> Option | None:
    prefill = _cheapest("prefill", replicas, question, tables)
    decode = _cheapest("decode", replicas, question, tables)
    if prefill is None or decode is None:
        return None
    option = Option((prefill, decode), question.demand.rate)
    wires = _wires(option, question)
    if wires is None:
        return None
    option = _carried(replace(option, wires=wires), question)
    return option if option.gpus <= question.goal.gpus else None


def _cheapest(
    role: Role, replicas: list[Replica], question: Question, tables: Tables
) -> Pool | None:
    """The cheapest pool, by branch and bound as for whole replicas."""
    best: Pool | None = None
    every = sorted(
        _bounds(role, replicas, question),
        key=lambda each: (each[0], each[2].candidate.plainness, -each[1]),
    )
    for least, _, replica in every[:MOST]:
        if best is not None and least > _order(best, question)[0]:
            break
        pool = sized(role, replica, question, tables)
        if pool.carries > 0 and (best is None or _order(pool, question) < _order(best, question)):
            best = pool
    return best


def _bounds(
    role: Role, replicas: list[Replica], question: Question
) -> Iterator[tuple[float, float, Replica]]:
    """Least cost of a pool of each replica, the most that it could carry, and the replica."""
    for replica in replicas:
        each = question.bound(replica.candidate, role)
        if each:
            number = question.replicas(each)
            yield question.least_cost(replica.candidate, number), each * number, replica


def _order(pool: Pool, question: Question) -> tuple[float, tuple[bool, bool, bool], float]:
    """Sort key of pools: the cheapest, of those the plainest."""
    cost = question.cost(Option((pool,), question.demand.rate))
    return cost, pool.candidate.plainness, -pool.carries * pool.instances


def _wires(option: Option, question: Question) -> Handover | None:
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


def _carried(option: Option, question: Question) -> Option:
    """The option with instances enough for its interconnect."""
    prompt = question.demand.prompt
    assert option.wires is not None, "pools without wires"
    sides = (option.wires.send_s_per_token, option.wires.receive_s_per_token)
    pools = []
    for pool, each in zip(option.pools, sides, strict=True):
        most = SHARES[-1] / (each * prompt) if each else pool.carries
        if most < pool.carries:
            instances = question.replicas(most)
            pool = replace(pool, carries=most, binds=WIRES, instances=instances)
        pools.append(pool)
    return replace(option, pools=tuple(pools))
