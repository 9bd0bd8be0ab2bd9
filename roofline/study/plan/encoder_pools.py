"""Pictures encoded on GPUs of their own before the deployment of a plan, which only has the text.

Each encode instance takes the pictures of one prompt after the other, the one that came first; what
comes out goes over the network, and only then does the prompt wait for its prefill. There are as
many instances as keep up, and as let prompts wait no longer than they are encoded, at the 99th
percentile. The rest is planned with what that leaves of limits on TTFT, and run whole
behind them.

Source: EPD disaggregation, Singh et al. 2025 (arXiv 2501.05460), for the stage and what it sends.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.layout import SINGLE
from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.encoders import encode_step, sending
from roofline.serving.objectives import Attainment, Objective, kept
from roofline.serving.requests import Requests
from roofline.serving.workload import Workload
from roofline.study.plan.candidate import DeploymentKind
from roofline.study.plan.confirm import run
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.figures import shape
from roofline.study.plan.option import UNPRICED, compared_cost
from roofline.study.plan.plan import Plan
from roofline.study.plan.plan import plan as planned
from roofline.study.plan.tabled import Tell
from roofline.table import Table, table
from roofline.units import counted, show

STAGED: Final = ("ttft", "e2e")
"""Latencies that a picture's time counts in."""


class EncoderPool(Struct, frozen=True):
    """Encode instances of a kind, and the plan of what comes after them."""

    deployment: Deployment
    """An instance, with the pictures of a prompt."""
    usd_per_hour: float
    """Price of its device; 0 where none is known. [$/h]"""
    instances: int
    """Instances. [1]"""
    encode_s: float
    send_s: float
    """Time to encode the pictures of one prompt, and to send their vectors to its prefill. [s]"""
    ready_s: float
    """Time from the arrival until they are there, at the 99th percentile. [s]"""
    rest: Plan
    """Plan of the prompts and answers."""
    reached: tuple[Attainment, ...] = ()
    """Limits of a run from the arrival to the last token; none where the rest has no plan."""

    @property
    def gpus(self) -> int:
        """Devices of all; 0 where the rest has no plan. [1]"""
        return 0 if self.rest.best is None else self.instances + self.rest.best.option.gpus

    @property
    def met(self) -> bool:
        """True if all limits hold in that run."""
        return self.gpus > 0 and all(each.met for each in self.reached)

    @property
    def cost(self) -> float:
        """Cost of all of it, by which pools are ordered; infinite without a plan. [$/h]"""
        if self.rest.best is None:
            return np.inf
        own = self.instances * (self.usd_per_hour or UNPRICED)
        return own + self.rest.question.cost(self.rest.best.option)


def ready_at(arrival: Array, instances: int, encode_s: float, send_s: float) -> Array:
    """Time at which the pictures of each prompt are at its prefill instance. [s]

    An instance takes the next prompt as soon as it is free of the last one; sending goes on beside
    it. All prompts take as long, so that they go to the instances in turn. Source: Lindley 1952,
    The theory of queues with a single server, for each instance.

    Args:
        arrival: Prompts, ascending. [s]
        instances: Instances. [1]
        encode_s, send_s: Time of each. [s]

    Examples:
        >>> ready_at(np.array([0.0, 0.0, 0.0]), 2, 1.0, 0.25)
        array([1.25, 1.25, 2.25])
    """
    each = max(encode_s, send_s)
    start = np.empty(len(arrival))
    for own in range(min(instances, len(arrival))):
        # max over j <= k of a_j + (k - j) * s, of those that go to this one.
        mine = arrival[own::instances]
        work = each * np.arange(len(mine))
        start[own::instances] = np.maximum.accumulate(mine - work) + work
    # Of prompts that come at once, rounding puts none before the one above it.
    ordered: Array = np.maximum.accumulate(start)
    return ordered + encode_s + send_s


def enough(demand: Demand, goal: Goal, encode_s: float, send_s: float) -> int:
    """Fewest instances that keep up and let prompts wait no longer than they work. [1]

    At the 99th percentile, with the headroom; the spares come on top.
    """
    rate = demand.rate * (1.0 + goal.headroom)
    arrival = demand.at(rate).arrival
    least = int(np.floor(rate * max(encode_s, send_s))) + 1

    def soon(instances: int) -> bool:
        late = ready_at(arrival, instances, encode_s, send_s) - arrival
        return bool(np.percentile(late, 99.0) <= 2.0 * encode_s + send_s)

    # With one for each prompt none waits, and with more of them none waits longer.
    counts = range(least, max(least, len(arrival)) + 1)
    return counts[bisect_left(counts, True, key=soon)] + goal.spares


def refuse_sessions(requests: Requests) -> None:
    """Refuse requests that follow others, whose pictures are in the cache, with an InputError."""
    if (requests.after >= 0).any():
        raise InputError(
            "encode pools for sessions, whose pictures come with answers",
            hint="leave `encoder_pools` out, or give single requests",
        )


def encoder_pools(
    kinds: Sequence[DeploymentKind],
    text: Sequence[DeploymentKind],
    demand: Demand,
    goal: Goal,
    *,
    pools: bool = True,
    tell: Tell = lambda _: None,
) -> tuple[EncoderPool, ...]:
    """Encode instances on each GPU, with the plan of the rest; those that cost least first.

    Args:
        kinds: Kinds of deployment, whose options have pictures, of which each GPU is tried once.
        text: The same without them.
        demand, goal, pools, tell: As of `roofline.study.plan.plan.plan`.

    Raises:
        InputError: Requests follow others, or nothing becomes tokens in a tower.
        LayoutError: A node has no network.
    """
    refuse_sessions(demand.requests)
    out = []
    workload = Workload(1, max(round(demand.prompt), 1), 1)
    for kind in {each.gpu: each for each in kinds}.values():
        tell(f"pictures encoded on {kind.gpu} alone")
        deployment = replace(kind.base, layout=SINGLE)
        encode_s, _ = encode_step(deployment, workload)
        _, sent_s = sending(deployment, *(each.base for each in text))
        instances = enough(demand, goal, encode_s, sent_s)
        arrival = demand.at(demand.rate).arrival
        ready = ready_at(arrival, instances, encode_s, sent_s)
        limits = tuple(left(each, ready - arrival) for each in goal.objectives)
        if min((each.limit_s for each in limits), default=1.0) <= 0 or goal.gpus <= instances:
            continue
        rest = planned(
            text,
            demand,
            replace(goal, objectives=limits, gpus=goal.gpus - instances),
            pools=pools,
            least=1,
            kept=0,
            tell=tell,
        )
        reached = behind(rest, demand, goal.objectives, ready) if rest.best is not None else ()
        late_s = float(np.percentile(ready - arrival, 99.0))
        price = kind.usd_per_hour
        out.append(
            EncoderPool(
                deployment, price, instances, encode_s, sent_s, late_s, rest, tuple(reached)
            )
        )
    return tuple(sorted(out, key=lambda each: (not each.met, each.cost)))


def left(objective: Objective, late: Array) -> Objective:
    """Limit on what comes after the pictures, which took so long for each prompt. [s]"""
    if objective.metric not in STAGED:
        return objective
    share = objective.percentile
    taken = float(late.mean() if share is None else np.percentile(late, share))
    return replace(objective, limit_s=objective.limit_s - taken)


def behind(
    rest: Plan, demand: Demand, objectives: Sequence[Objective], ready: Array
) -> tuple[Attainment, ...]:
    """Limits in a run of the rest on prompts that come when their pictures are ready. [s]"""
    assert rest.best is not None, "a run of a plan that is none"
    arrival = demand.at(demand.rate).arrival
    later = replace(
        demand,
        requests=replace(demand.requests, arrival=ready - ready[0]),
        drawn_per_s=demand.rate,
        name=f"{demand.name} behind pictures",
    )
    done = run(rest.best.option, later, 1.0, rest.tables).done
    came = arrival[demand.warmup :] - ready[0]
    return kept(replace(done, arrival=came), objectives)


def tabulated(found: Sequence[EncoderPool], whole: Plan) -> Table:
    """Encode pools beside the tower in each deployment, the cheapest first."""
    rows = [
        {
            "encode_gpu": each.deployment.node.gpu.name,
            "instances": each.instances,
            "encode_s": each.encode_s,
            "send_s": each.send_s,
            "ready_p99_s": each.ready_s,
            "rest": _deployment(each.rest),
            "gpus": each.gpus or None,
            "usd_per_hour": each.cost if each.usd_per_hour and _price(each.rest) else None,
            **{f"{one.objective.name}_s": one.value_s for one in each.reached},
            "met": each.met,
        }
        for each in found
    ]
    best = whole.best
    rows.append(
        {
            "encode_gpu": None,
            "instances": None,
            "encode_s": None,
            "send_s": None,
            "ready_p99_s": None,
            "rest": _deployment(whole),
            "gpus": None if best is None else best.option.gpus,
            "usd_per_hour": _price(whole),
            **(
                {}
                if best is None
                else {
                    f"{one.name}_s": best.seconds(one.name).kept.value_s
                    for one in whole.goal.objectives
                }
            ),
            "met": None if best is None else best.met,
        }
    )
    timed = {name: "s" for row in rows for name in row if name.endswith("_s")}
    return table(rows, timed | {"usd_per_hour": "$/h"})


def _deployment(found: Plan) -> str:
    """Deployment that a plan recommends, in words."""
    if found.best is None:
        return "none is enough"
    return f"{shape(found.best.option)} {found.best.option.kind.gpu}"


def _price(found: Plan) -> float | None:
    """Price of that deployment; None without one, or where a device has none. [$/h]"""
    return None if found.best is None else found.best.option.usd_per_hour or None


def said(found: Sequence[EncoderPool], whole: Plan) -> str:
    """A sentence on whether encode pools pay."""
    best = next((each for each in found if each.met), None)
    if best is None:
        return "No encode pool with a plan behind it keeps all limits on the GPUs that are allowed."
    assert best.rest.best is not None, "limits that nothing keeps"
    pools = (
        f"{counted(best.instances, 'GPU')} {best.deployment.node.gpu.name} for pictures, "
        f"{show(best.encode_s, 's')} a prompt, before {shape(best.rest.best.option)} on "
        f"{best.rest.best.option.kind.gpu}: {best.gpus} GPUs"
    )
    if whole.best is None:
        return f"An encode pool is enough where towers beside the text are not: {pools}."
    alone = whole.question.cost(whole.best.option)
    more = compared_cost(best.cost, alone)
    if best.cost < alone:
        return f"An encode pool costs {more}: {pools}."
    return f"An encode pool does not pay: {pools}, {more} than towers beside the text."
