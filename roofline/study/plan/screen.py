"""Layouts of a kind of device, all priced at once on a few points.

What does not fit is left out first. Of the rest, layouts that differ in their pipeline alone are
priced once: a step of B sequences in p stages takes what one of B/p takes without a pipeline.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import EngineCosts
from roofline.cost.layout import Layout
from roofline.cost.memory import held, memory_budget
from roofline.cost.step import SequenceGroup
from roofline.cost.work import Array, Number, Op
from roofline.model.tower import share
from roofline.records import replace
from roofline.serving.simulate.kernels import attends, encodes, rest
from roofline.serving.simulate.prices import StepPrices
from roofline.serving.simulate.server import typical
from roofline.serving.stages import PipelineOperators, laid_out, seconds_of
from roofline.study.layouts import candidates, one_by_one
from roofline.study.plan.candidate import Candidate, DeploymentKind
from roofline.study.plan.demand import Demand

BATCHES: Final = np.array(
    [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048], float
)
"""Sequences of a group at which decode steps are priced. [1]"""
TOKENS: Final = np.array([1, 8, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384], float)
"""New tokens of a group at which steps with prompts are priced. [token]"""
Wanted = Callable[[Op], bool]
LONGER: Final = 1.25
"""Room in tables for longer requests, over the longest."""


class _Columns(Struct, frozen=True):
    """Steps of layouts without a pipeline, a row each. [s]"""

    decode: Array
    alone: Array
    others: Array
    lone: Array
    """Steps with prompts but attention, in all groups and in one of them."""
    attention: Array


def screen(kind: DeploymentKind, demand: Demand, gpus: int) -> tuple[Candidate, ...]:
    """Every layout of a kind on up to a number of devices, with an estimate of its steps."""
    base = kind.base
    layouts: list[Layout] = []
    rooms: list[tuple[float, float, float]] = []
    for group in candidates(base.architecture, base.node, gpus, base.options, base.engine):
        every = one_by_one(group)
        layouts += every
        rooms += _rooms(kind, replace(base, layout=group), len(every), demand)
    contexts = np.array([1.0, max(demand.mean_context, 2.0), demand.longest * LONGER + 2.0])
    cached = np.array([0.0, demand.longest * LONGER])
    flat = [replace(layout, pp=1) for layout in layouts]
    fits = [
        room[0] > 0 and room[2] >= demand.longest and kind.drafts_on(layout)
        for room, layout in zip(rooms, layouts, strict=True)
    ]
    wanted = list(dict.fromkeys(one for one, fit in zip(flat, fits, strict=True) if fit))
    known: dict[Layout, tuple[_Columns, int]] = {}
    ways = ([one for one in wanted if one.sequence_parallel == way] for way in (False, True))
    asked = [(some, _steps(base, some, contexts, cached)) for some in ways if some]
    found = iter(seconds_of([step for _, steps in asked for step in steps]))
    for some, steps in asked:
        columns = _columns(base, some, contexts, cached, [next(found)[0] for _ in steps])
        known |= {one: (columns, row) for row, one in enumerate(some)}
    engines = {groups: base.costs_on(groups) for groups in {one.dp for one in wanted}}
    made = []
    for layout, alike, fit, room in zip(layouts, flat, fits, rooms, strict=True):
        estimate = None
        if fit:
            estimate = _prices(layout, base, *known[alike], contexts, cached, engines[layout.dp])
        made.append(Candidate(kind, layout, *room, estimate))
    return tuple(made)


def room_of(
    kind: DeploymentKind, deployment: Deployment, demand: Demand
) -> tuple[float, float, float]:
    """Memory left for the cache [B], typical sequences [1] and tokens that it holds."""
    (room,) = _rooms(kind, deployment, 1, demand)
    return room


def _rooms(
    kind: DeploymentKind, deployment: Deployment, number: int, demand: Demand
) -> list[tuple[float, float, float]]:
    """Memory left for the cache [B], typical sequences [1] and tokens that it holds."""
    groups = np.broadcast_to(np.asarray(deployment.layout.dp, float), (number,))
    context = float(typical(demand.requests))
    rows = deployment.sequences * groups
    taken = held(
        deployment,
        batch=groups,
        context=context,
        step_tokens=np.maximum(
            deployment.step_tokens if np.any(deployment.step_tokens) else context * groups, rows
        ),
        step_rows=rows,
    )
    reserved = deployment.engine.runtime_bytes + deployment.graph_bytes
    budget = memory_budget(deployment, taken, kind.utilization)
    free = budget - (taken.taken - taken.kv + reserved)
    # Sequences that run are in the middle of their answers, and some are short.
    tokens = np.maximum(free, 0.0) / np.maximum(taken.kv, 1.0) * context * groups
    columns = np.broadcast_arrays(free, tokens / demand.own_context, tokens, groups)[:3]
    return [(float(a), float(b), float(c)) for a, b, c in zip(*columns, strict=True)]


def _steps(
    base: Deployment, layouts: Sequence[Layout], contexts: Array, cached: Array
) -> list[PipelineOperators]:
    """Steps that `_columns` are made of; the layouts differ in their degrees alone."""
    beams = base.options.sampling.beams

    def step(
        first: Array, second: Array, wanted: Wanted, *, prompts: bool, lone: bool = False
    ) -> PipelineOperators:
        """Some operators of steps at all pairs of two numbers, for one layout after the other."""
        tp, cp, dp, ep = (
            np.repeat(
                [float(getattr(layout, name)) for layout in layouts], first.size * second.size
            )
            for name in ("tp", "cp", "dp", "ep")
        )
        axis = replace(layouts[0], tp=tp, cp=cp, dp=dp, ep=ep)
        one = np.tile(np.repeat(first, len(second)), len(layouts))
        other = np.tile(second, len(layouts) * len(first))
        group = SequenceGroup(one * dp, 1.0, other)
        if prompts:
            group = SequenceGroup(1.0 if lone else dp, one, one + other)
        return laid_out(replace(base, layout=axis), group).some(wanted)

    steps = [
        step(beams * BATCHES, contexts, attends, prompts=False),
        step(BATCHES, contexts[:1], rest, prompts=False),
        step(TOKENS, cached, attends, prompts=True),
        step(TOKENS, cached[:1], rest, prompts=True),
    ]
    if _in_groups(layouts):
        steps.append(step(TOKENS, cached[:1], rest, prompts=True, lone=True))
    if beams > 1:
        steps.append(step(beams * BATCHES, contexts[:1], rest, prompts=False))
    if base.architecture.towers_of(base.options.media):
        steps.append(step(TOKENS[1:2], cached[:1], encodes, prompts=True))
    return steps


def _in_groups(layouts: Sequence[Layout]) -> bool:
    """Whether any layout has groups with sequences of their own."""
    return any(layout.dp > 1 for layout in layouts)


def _columns(
    base: Deployment,
    layouts: Sequence[Layout],
    contexts: Array,
    cached: Array,
    found: Sequence[Number],
) -> _Columns:
    """Times of layouts that have no pipeline, from those of `_steps`."""

    def table(seconds: Number, first: Array, second: Array) -> Array:
        points = len(layouts) * len(first) * len(second)
        return np.broadcast_to(seconds, points).reshape(-1, len(first), len(second))

    each = iter(found)
    own, beside = (table(next(each), BATCHES, contexts), table(next(each), BATCHES, contexts[:1]))
    attention = table(next(each), TOKENS, cached)
    others = lone = table(next(each), TOKENS, cached[:1])
    if _in_groups(layouts):
        lone = table(next(each), TOKENS, cached[:1])
    beams = base.options.sampling.beams
    busy = table(next(each), BATCHES, contexts[:1]) if beams > 1 else beside
    network, media = base.architecture, base.options.media
    if network.towers_of(media):
        encoded = table(next(each), TOKENS[1:2], cached[:1])
        attention = attention + encoded * share(network, media, TOKENS[:, None], cached)
    return _Columns(
        own + busy, beside[:, :, 0], others[:, :, 0], lone[:, :, 0], attention / TOKENS[:, None]
    )


def _prices(
    layout: Layout,
    base: Deployment,
    columns: _Columns,
    row: int,
    contexts: Array,
    cached: Array,
    engine: EngineCosts,
) -> StepPrices:
    """Coarse prices of a layout, with its pipeline."""
    stages, groups = int(layout.pp), float(np.max(layout.dp))
    # The stage with most layers sets the pace.
    whole = len(base.architecture.layers)
    uneven = -(-whole // stages) * stages / whole if stages > 1 else 1.0
    spread = stages * groups
    batches, decode = _spread(BATCHES, columns.decode[row] * uneven, spread)
    _, alone = _spread(BATCHES, columns.alone[row] * uneven, spread)
    tokens, others = _spread(TOKENS, columns.others[row] * uneven, spread)
    head = np.maximum(alone - np.interp(batches, tokens, others), 0.0)
    every = others[None]
    if groups > 1:
        alone_at, lone = _spread(TOKENS, columns.lone[row] * uneven, float(stages))
        slope = (lone[-1] - lone[-2]) / (alone_at[-1] - alone_at[-2])
        beyond = slope * np.maximum(tokens - alone_at[-1], 0.0)
        every = np.stack([others, np.interp(tokens, alone_at, lone) + beyond])
    return StepPrices(
        batches=batches,
        contexts=contexts,
        decode_s=decode,
        window=0,
        windows=np.array([1.0]),
        window_s=np.zeros((len(batches), 1)),
        alone_s=alone,
        tokens=tokens,
        shares=np.array([1.0 / groups, 1.0])[-len(every) :],
        others_s=every,
        rows=batches,
        head_s=head,
        chunks=TOKENS,
        cached=cached,
        attention_s=columns.attention[row] * uneven / stages,
        engine=engine,
    )


def _spread(points: Array, values: Array, over: float) -> tuple[Array, Array]:
    """Points of a table of steps that are spread over groups and stages, and its values there."""
    if over == 1.0:
        return points, values
    return np.concatenate([[1.0], points * over]), np.concatenate([values[:1], values])
