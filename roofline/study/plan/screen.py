"""Bounds of all layouts of a kind of device, before anything is tabulated."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.cost.memory import held, memory_budget
from roofline.cost.pipeline import pace, period
from roofline.cost.step import Group
from roofline.cost.work import Array, Number
from roofline.model.architecture import Moe
from roofline.serving.objectives import Objective
from roofline.serving.phases import turns
from roofline.serving.run.setup import typical
from roofline.serving.stages import through
from roofline.study.enumeration import candidates
from roofline.study.plan.candidate import Candidate
from roofline.study.plan.demand import Demand
from roofline.study.plan.kinds import Kind

BATCHES: Final = (
    1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0,
    768.0, 1024.0, 1536.0, 2048.0, 3072.0,
)  # fmt: skip
"""Sequences of a group at which decode steps are priced, below the most that an engine runs. [1]"""


def screen(
    kind: Kind, demand: Demand, gpus: int, probes: Sequence[Objective]
) -> tuple[Candidate, ...]:
    """Bounds of every layout of a kind on up to a number of devices.

    Parameters
    ----------
    kind
        Network, formats, devices.
    demand
        Requests.
    gpus
        Most devices. [1]
    probes
        Promises, of which those about a first token are bounded one by one.
    """
    base, out = kind.base, []
    for group in candidates(base.architecture, base.node, gpus, base.options):
        out += _bounds(kind, group, demand, probes)
    return tuple(out)


def _bounds(
    kind: Kind, group: Layout, demand: Demand, probes: Sequence[Objective]
) -> list[Candidate]:
    """Bounds of layouts that have their stages in common."""
    like = np.atleast_1d(np.asarray(group.tp, float))
    deployment = replace(kind.base, layout=group)
    free, sequences, tokens = _room(kind, deployment, demand)
    most = float(deployment.sequences)
    each = np.array([*(batch for batch in BATCHES if batch < most), most])
    batches = np.concatenate(
        [np.ones((len(like), 1)), np.multiply.outer(_column(group.dp, like), each)], axis=1
    )
    steps = _decode(kind, group, batches, demand, prompts=False)
    prompts = _prompts(deployment, like, demand)
    if any(isinstance(block.feedforward, Moe) for block in kind.base.architecture.kinds):
        flux = batches / max(demand.steps / kind.round_tokens(demand), 1.0)
        mixed = np.maximum(steps, flux * prompts[:, None])
    else:
        mixed = _decode(kind, group, batches, demand, prompts=True)
    firsts = {
        each.name: _first(deployment, like, demand, each)
        for each in probes
        if each.metric == "ttft"
    }
    costs = None if kind.base.calibration is None else kind.base.calibration.costs
    if costs is not None:
        software = costs.step_s + costs.sequence_s * batches
        mixed = (mixed - steps) * costs.prefill_gain + steps * costs.decode_gain + software
        steps = steps * costs.decode_gain + software
        prompts = prompts * costs.prefill_gain
        firsts = {
            name: first * costs.prefill_gain + costs.prefill_s + costs.step_s + costs.request_s
            for name, first in firsts.items()
        }
    degrees = [_column(degree, like) for degree in (group.tp, group.cp, group.dp, group.ep)]
    made = []
    for i, (tp, cp, dp, ep) in enumerate(zip(*degrees, strict=True)):
        layout = replace(group, tp=int(tp), cp=int(cp), dp=int(dp), ep=int(ep))
        first = {name: float(values[i]) for name, values in firsts.items()}
        made.append(
            Candidate(
                kind,
                layout,
                float(free[i]),
                float(sequences[i]),
                float(tokens[i]),
                batches[i],
                steps[i],
                mixed[i],
                float(prompts[i]),
                first,
            )
        )
    return made


def _column(value: Number, like: Array) -> Array:
    return np.broadcast_to(np.asarray(value, float), like.shape)


def _room(kind: Kind, deployment: Deployment, demand: Demand) -> tuple[Array, Array, Array]:
    """Memory left for the cache [B], typical sequences [1] and tokens that it holds."""
    layout = deployment.layout
    like = np.atleast_1d(np.asarray(layout.tp, float))
    context, groups = float(typical(demand.requests)), _column(layout.dp, like)
    rows = deployment.sequences * groups
    parts = held(
        deployment,
        batch=groups,
        context=context,
        step_tokens=np.maximum((deployment.step_tokens or context) * groups, rows),
        step_rows=rows,
    )
    reserved = deployment.engine.runtime_bytes + deployment.graph_bytes
    taken = _column(parts.taken, like) - _column(parts.kv, like) + reserved
    free = _column(memory_budget(deployment, parts, kind.utilization), like) - taken
    each = np.maximum(_column(parts.kv, like), 1.0)
    # What runs at once has part of its answer still before it, and may be short.
    tokens = np.maximum(free, 0.0) / each * context * groups
    return free, tokens / demand.context(), tokens


def _decode(kind: Kind, group: Layout, batches: Array, demand: Demand, *, prompts: bool) -> Array:
    """Decode steps, with the prompts that go with them or without, of the batches' shape. [s]"""
    base = kind.base
    many = batches.shape[1]
    like = batches[:, 0]

    def repeated(degree: Number) -> Array:
        return np.repeat(_column(degree, like), many)

    axis = replace(
        group,
        tp=repeated(group.tp),
        cp=repeated(group.cp),
        dp=repeated(group.dp),
        ep=repeated(group.ep),
    )
    number, size = turns(batches.ravel(), axis)
    # One that verifies has drafted tokens of each sequence; drafting them is left out.
    drafted = kind.speculation.length if kind.speculation is not None else 0.0
    context = demand.context(_window(base)) + drafted
    groups = [Group(size, 1.0 + drafted, context, "decode")]
    rounds = demand.steps / kind.round_tokens(demand)
    if prompts and demand.steps:
        # Of each group of devices: so many prompts, of each a part that is as long as all together.
        new, apart = float(demand.new_tokens.mean()), np.asarray(axis.dp, float)
        each = size / rounds / apart
        whole = np.maximum(np.ceil(each), 1.0)
        part = np.maximum(new * each / whole, 2.0**-10)
        seen = np.maximum(demand.prompt - new / 2.0 + part / 2.0, part)
        groups.append(Group(whole * apart, part, seen, "prefill"))
    stages = through(replace(base, layout=axis), groups)
    found = period([stage.seconds() for stage in stages], number)
    return np.broadcast_to(found, batches.size).reshape(batches.shape).copy()


def _window(base: Deployment) -> int | None:
    """Keys that every layer sees at least, of a longer context; None for all of them. [token]"""
    windows = [
        getattr(block.mixer, name, None)
        for block in base.architecture.kinds
        for name in ("window", "chunk")
    ]
    return min((each for each in windows if each), default=None)


def _prompts(deployment: Deployment, like: Array, demand: Demand) -> Array:
    """A prompt in a step that is full of them, at least. [s]"""
    new, groups = float(demand.new_tokens.mean()), _column(deployment.layout.dp, like)
    budget = float(deployment.step_tokens) or new
    many = np.maximum(np.ceil(budget / new), 1.0) * groups
    stages = through(deployment, Group(many, new, demand.prompt))
    whole = np.broadcast_to(pace([stage.seconds() for stage in stages]), like.shape)
    return np.asarray(whole / many)


def _first(deployment: Deployment, like: Array, demand: Demand, probe: Objective) -> Array:
    """A prompt alone: that of the percentile of the promise, or of mean length. [s]"""
    every = demand.new_tokens
    new = float(
        every.mean()
        if probe.percentile is None
        else np.percentile(every, probe.percentile, method="lower")
    )
    number, part = turns(np.full_like(like, new), deployment.layout)
    cached = demand.prompt - new if probe.percentile is None else 0.0
    # A pipeline works on parts of it at once.
    stages = through(deployment, Group(1.0, part, max(cached, 0.0) + (new + part) / 2.0))
    first = period([stage.seconds() for stage in stages], number)
    return np.broadcast_to(first, like.shape)
