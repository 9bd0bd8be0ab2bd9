"""One forward step of a network: its operators and their work on one device.

Prefill, decode, chunked prefill, verification of a draft and mixed batches are the same function
of groups of sequences. Attention is one operator per group; everything else sees all new tokens.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.layers import blocks
from roofline.cost.layers.common import ForwardPass, is_one
from roofline.cost.layout import Stage
from roofline.cost.memory import layer_bytes
from roofline.cost.work import Formula, Number, Op, Work, by, plus, times
from roofline.hardware.links import host_link, storage_link
from roofline.model.architecture import Block
from roofline.records import replace


class SequenceGroup(Struct, frozen=True):
    """Sequences that do the same in a step."""

    count: Number
    """Sequences. [1]"""
    new: Number
    """New tokens T of each. [token]"""
    context: Number
    """Keys the last new token sees, itself included: S. [token]"""
    name: str = ""
    """Tells groups apart in a mixed step: ``"prefill"``."""


def prefill(batch: Number, prompt: Number, cached: Number = 0.0) -> SequenceGroup:
    """Prompts of a length, of which the first tokens are cached already.

    Source: T = prompt − cached and S = prompt, the conventions of `SequenceGroup`.

    Args:
        batch: Sequences. [1]
        prompt, cached: Length, and how much of it is in the cache. [token]
    """
    return SequenceGroup(batch, prompt - cached, prompt)


def decode(batch: Number, cached: Number) -> SequenceGroup:
    """One new token for each sequence.

    Source: T = 1 and S = cached + 1, the conventions of `SequenceGroup`.

    Args:
        batch: Sequences. [1]
        cached: Tokens before the new one. [token]

    Examples:
        >>> decode(8, 512).context
        513
    """
    return SequenceGroup(batch, 1.0, cached + 1)


def step(
    deployment: Deployment,
    groups: Sequence[SequenceGroup] | SequenceGroup,
    stage: Stage | None = None,
) -> dict[str, Op]:
    """Operators of one forward step, in order of execution, as one device sees them.

    Attention data parallelism gives a device 1/d of the sequences, rounded up; context parallelism
    1/c of the new tokens, or all of them where each sequence has only one. Left out: sampling from
    the logits, and a few vector FLOP per element.
    Source: the layers of Vaswani et al. 2017 (arXiv 1706.03762), fused as serving engines do;
    Shoeybi et al. 2019 (arXiv 1909.08053) for how devices share a layer.

    Args:
        deployment: Network, formats, layout and options.
        groups: What each sequence of the replica does; numbers may be arrays over the scenario
            axis.
        stage: Stage of the pipeline; None for all layers, as if there were one.

    Returns:
        dict: Operators by name. Layers whose operator is the same share one entry, with their
            number as ``repeat``; entries that differ are told apart in the name
            (``attention-window-4096``).
    """
    pass_ = _pass(deployment, [groups] if isinstance(groups, SequenceGroup) else groups)
    here = stage or Stage(tuple(deployment.architecture.kinds.items()), first=True, last=True)
    return _step(pass_, here, {})


def steps(
    deployment: Deployment, groups: Sequence[SequenceGroup] | SequenceGroup, stages: Sequence[Stage]
) -> list[dict[str, Op]]:
    """Operators of one forward step on several stages; layers they have in common are made once.

    Source: `step` of each.
    """
    pass_ = _pass(deployment, [groups] if isinstance(groups, SequenceGroup) else groups)
    made: dict[Block, tuple[Op, ...]] = {}
    return [_step(pass_, stage, made) for stage in stages]


def feed_forward(deployment: Deployment, tokens: Number) -> dict[str, Op]:
    """Operators of the layers alone, for tokens that another pool sends.

    A device has 1/d of the tokens, rounded up. Source: the layers of `step`.

    Args:
        deployment: Network of feed-forward parts, formats, layout and options.
        tokens: Tokens of a step. [token]
    """
    pass_ = feed_forward_pass(deployment, tokens)
    kinds = deployment.architecture.kinds.items()
    return _merged(
        replace(op, repeat=op.repeat * number)
        for block, number in kinds
        for op in blocks.block(pass_, block, 1)
    )


def feed_forward_pass(deployment: Deployment, tokens: Number) -> ForwardPass:
    """The pass of `feed_forward`, whose tokens [token] have sequences of their own."""
    return _pass(deployment, [SequenceGroup(tokens, 1.0, 1.0)])


def _pass(deployment: Deployment, every: Sequence[SequenceGroup]) -> ForwardPass:
    """Groups as one device sees them."""
    layout = deployment.layout
    numbers = tuple(
        (group.name, _float(group.count), _float(group.new), _float(group.context))
        for group in every
    )
    mine = tuple(
        (name, _share(count, layout.dp), new, context) for name, count, new, context in numbers
    )
    alone = all(is_one(new) for _, _, new, _ in numbers)
    split = 1.0 if alone else layout.cp
    tokens = reduce(add, (times(count, new) for _, count, new, _ in mine))
    rows = reduce(add, (count for _, count, _, _ in mine))
    lora = deployment.options.lora
    return ForwardPass(
        deployment,
        mine,
        tokens=tokens if _one(split) else tokens / split,
        rows=rows,
        adapters=lora.touched(rows) if lora.adapters else 0.0,
        tp=layout.tp,
        copies=layout.cp if alone else 1.0,
        everyone=reduce(add, (times(count, new) for _, count, new, _ in numbers)),
    )


def _step(pass_: ForwardPass, stage: Stage, made: dict[Block, tuple[Op, ...]]) -> dict[str, Op]:
    """Operators of a stage, of whose layers some may be made already."""
    layers = []
    read, own = blocks.prompt_operators(pass_)
    for block, number in stage.layers:
        if block not in made:
            made[block] = tuple(blocks.block(own, block, 1))
        layers += [replace(op, repeat=op.repeat * number) for op in made[block]]
    loaded = loads(pass_.deployment, layers, stage) if pass_.deployment.offload.any else ()
    return _merged(
        [
            *(blocks.tower_operators(pass_) if stage.first else ()),
            *(blocks.embedding(pass_) if stage.first else ()),
            *(read if stage.first else ()),
            *loaded,
            *layers,
            *(blocks.head(own) if stage.last else blocks.handover(own, stage.crosses)),
        ]
    )


def _share(count: Number, groups: Number) -> Number:
    """Sequences of the group of devices that has most of them."""
    if _one(groups):
        return count
    return np.where(np.asarray(groups) > 1, np.ceil(count / groups), count)[()]


def _one(value: Number) -> bool:
    return not isinstance(value, np.ndarray) and value == 1


def _float(value: Number) -> Number:
    """float64 from any kind of number: FLOP counts overflow int64."""
    return value.astype(np.float64, copy=False) if isinstance(value, np.ndarray) else float(value)


def _merged(ops: Iterable[Op]) -> dict[str, Op]:
    """Add up the repeats of equal operators; rename those that only share a name."""
    out: dict[str, Op] = {}
    for op in ops:
        name, number = op.name, 1
        while name in out and not _equal(out[name], op):
            number += 1
            name = f"{op.name}-{number}"
        if name in out or number > 1:
            repeat = op.repeat + (out[name].repeat if name in out else 0)
            op = replace(op, name=name, repeat=repeat)
        out[name] = op
    return out


def _equal(a: Op, b: Op) -> bool:
    """True where two operators have one shape."""

    def same(x: Number, y: Number) -> bool:
        if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
            return x is y or np.array_equal(x, y)
        return bool(x == y)

    # Weights tell layers apart that differ in a bias or a norm only; wires, collectives that are
    # not everywhere on the scenario axis.
    return (
        same(a.work.weight_bytes, b.work.weight_bytes)
        and same(a.wire_s, b.wire_s)
        and all(same(a.dims[key], value) for key, value in b.dims.items())
    )


def loads(deployment: Deployment, layers: Sequence[Op], stage: Stage) -> Iterator[Op]:
    """Offloaded shares of what the layers of a step move.

    Weights once, of experts those that are touched, apart; what is read of the cache, and what is
    written to it. They pass through device memory, whose traffic is in the operators already.
    """
    offload = deployment.offload
    if offload.weights:
        read: Number = 0.0
        chosen: Number = 0.0
        for op in layers:
            moved = op.work.weight_bytes * float(op.repeat)
            if op.kind == "adapter":
                continue  # adapters stay on the device
            if op.kind == "moe":
                chosen = plus(chosen, moved)
            else:
                read = plus(read, moved)
        stored: Number = 0.0
        for block, number in stage.layers:
            stored = stored + number * layer_bytes(deployment, block)
        read = np.minimum(read, stored)
        yield _load("load-weights", offload.weights, read, _WEIGHTS, deployment)
        if np.any(chosen):
            experts = np.minimum(chosen, stored - read)
            op = _load("load-experts", offload.weights, experts, _EXPERTS, deployment)
            yield replace(op, algorithm="when chosen")  # the router says which a layer needs
    if offload.kv:
        cached: Number = 0.0
        for op in layers:
            cached = plus(cached, op.work.kv_bytes * float(op.repeat))
        op = _load("load-cache", offload.kv, cached, _CACHE, deployment)
        yield replace(op, by_group=True)


def _load(name: str, share: float, whole: Number, says: Formula, deployment: Deployment) -> Op:
    rate, moved = outside_bytes_per_s(deployment), share * whole
    symbols = {"share kept outside": share, "what the layers move": whole, "W host": rate}
    work = Work(host_bytes=moved, made=by(says, symbols))
    return Op(name, "host", work, dims={"bytes": moved}, wire_s=moved / rate)


def _loaded(source: str) -> Formula:
    return Formula(
        host_bytes="share kept outside · what the layers move",
        seconds="loaded / W host",
        meanings=(
            ("share kept outside", "given, or the least with which it fits"),
            ("what the layers move", source),
        ),
    )


_WEIGHTS: Final = _loaded("weights moved of the operators of the layers, experts apart")
_EXPERTS: Final = _loaded("weights moved of the experts that tokens of the step touch")
_CACHE: Final = _loaded("KV cache moved of the operators of the layers, reads and writes")


def outside_bytes_per_s(deployment: Deployment) -> float:
    """Rate at which a device is loaded: of its wires to the host, or of a drive behind them. [B/s]

    Source: the slower of the two is the rate of both.
    """
    link = host_link(deployment.node.gpu)
    assert link is not None, "a device without a link to the host is refused"
    rate = link.bytes_per_s
    return min(rate, storage_link().bytes_per_s) if deployment.offload.to == "nvme" else rate
