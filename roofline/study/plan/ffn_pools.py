"""Instances that decode with their feed-forward parts on a pool of their own, as candidates.

Of every layout of attention and every layout of that pool the ratio with most tokens a second for
each GPU is kept, at the batches that memory and the limit on the time between tokens allow.

Source: MegaScale-Infer, Zhu et al. 2025 (arXiv 2504.02263), deployment plan search.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from roofline.cost.layout import Layout
from roofline.errors import RooflineError
from roofline.records import replace
from roofline.serving.ffn_pools import ffn_memory
from roofline.serving.simulate.prices import step_prices
from roofline.serving.static_batches import static_batches
from roofline.serving.workload import MOST_SEQUENCES, Workload
from roofline.study.plan.candidate import Candidate, DeploymentKind, FeedForwardPools
from roofline.study.plan.demand import Demand
from roofline.study.plan.screen import room_of

TURNS: Final = (2, 3)
"""Micro-batches that are tried. [1]"""
KEPT: Final = 3
"""Candidates of a kind, those with most tokens for each GPU first. [1]"""
FILLED: Final = (0.125, 0.5, 1.0)
"""Shares of the sequences that memory holds at which steps are compared. [1]"""


def fed_candidates(
    kind: DeploymentKind, demand: Demand, gpus: int, limit_s: float
) -> tuple[Candidate, ...]:
    """Candidates that decode with a pool of feed-forward parts, on up to a number of devices.

    None where drafts are planned, answers have one token, or steps have no price by parts; time
    between tokens is within a limit. [s]
    """
    if kind.speculation is not None or demand.steps < 1:
        return ()
    best = sorted(_best(kind, demand, gpus, limit_s), key=lambda each: -each[0])
    out = []
    for _, candidate in best[:KEPT]:
        deployment = candidate.deployed()
        sequences = deployment.sequences * int(deployment.layout.dp)
        try:
            prices = step_prices(deployment, sequences=sequences, longest=demand.longest)
        except RooflineError:
            continue
        out.append(replace(candidate, estimate=prices))
    return tuple(out)


def _best(
    kind: DeploymentKind, demand: Demand, gpus: int, limit_s: float
) -> Iterator[tuple[float, Candidate]]:
    """For both layouts the best ratio, with its tokens a second for each GPU."""
    for tp in _powers(min(kind.base.node.gpus, gpus - 1)):
        for layout in _layouts(kind, gpus - tp):
            found = [
                made
                for groups in _powers((gpus - int(layout.devices)) // tp)
                for turns in TURNS
                if (made := _priced(kind, demand, Layout(tp=tp), groups, layout, turns, limit_s))
            ]
            if found:
                yield max(found, key=lambda each: each[0])


def _powers(most: int) -> list[int]:
    return [2**power for power in range(most.bit_length())] if most > 0 else []


def _layouts(kind: DeploymentKind, gpus: int) -> Iterator[Layout]:
    """Layouts of the feed-forward pool: experts spread over all, else matrices split in a node."""
    if any(block.experts for block in kind.base.architecture.kinds):
        yield from (Layout(dp=number, ep=number) for number in _powers(gpus)[1:])
    else:
        yield from (Layout(tp=number) for number in _powers(min(gpus, kind.base.node.gpus)))


def _priced(
    kind: DeploymentKind,
    demand: Demand,
    attention: Layout,
    groups: int,
    layout: Layout,
    turns: int,
    limit_s: float,
) -> tuple[float, Candidate] | None:
    """Most tokens a second for each GPU, and the candidate; None where it cannot be."""
    pool = FeedForwardPools(layout, turns)
    bare = Candidate(kind, replace(attention, dp=groups), 0.0, 0.0, 0.0, None, pool)
    try:
        deployment = bare.deployed()
    except RooflineError:
        return None
    free, sequences, tokens = room_of(kind, deployment, demand)
    most = int(min(sequences, deployment.sequences * groups, MOST_SEQUENCES))
    if free <= 0 or most < 1 or tokens < demand.longest:
        return None
    work = Workload(most, max(round(demand.prompt), 1), max(round(demand.output), 2))
    if not ffn_memory(deployment, work, kind.utilization).fits:
        return None
    batch = np.unique(np.maximum(np.floor(most * np.array(FILLED)), 1.0))
    step_s = static_batches(deployment, work, batch, 1).tpot_s
    rates = np.where(step_s <= limit_s, batch / step_s, 0.0) / deployment.devices
    if not rates.any():
        return None
    return float(rates.max()), replace(bare, free=free, sequences=sequences, tokens=tokens)
