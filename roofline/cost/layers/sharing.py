"""Attention of sequences whose tokens are shared by the devices of a context-parallel group."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from roofline.cost.collectives import all_gather, all_reduce, ring
from roofline.cost.layers.common import Pass, collective, is_one
from roofline.cost.work import Number, Op, Part


def gathered(p: Pass, new: Number, cache: Number, layers: int) -> Iterator[Op]:
    """Keys and values of the whole context on every device that shares it, before prefill attends.

    Args:
        p, layers: The step; how often.
        new: New tokens of each sequence. [token]
        cache: Keys and values of the whole context that one device attends to. [B]
    """
    cp = p.deployment.layout.cp
    if np.all(np.asarray(cp) == 1) or is_one(new) or p.deployment.options.ring_attention:
        return
    ranks = p.deployment.ranks(cp, p.tp)
    whole = Part("M", cache, source="keys and values of the whole context that a device attends to")
    yield collective("gather-context", all_gather(cache, ranks), whole, ranks, layers)


def shared(p: Pass, op: Op, *, cache: Number, out: Number) -> Iterator[Op]:
    """One device's share of an attention operator, and the sum of outputs in decode.

    Prefill: each device has the queries of 1/c of the new tokens, cut so that all have as many
    pairs, and needs the keys and values of the whole context: gathered before, or passed around a
    ring while it attends. Decode: each device attends to 1/c of the cache, and outputs are added
    up with the weights of their softmax.

    Args:
        p, op: The step; attention as if there were no group.
        cache: Keys and values of the whole context that one device attends to. [B]
        out: Width of a query's output on one device, with its two 16-bit softmax sums. [1]
    """
    cp = p.deployment.layout.cp
    if np.all(np.asarray(cp) == 1):
        yield op
        return
    work, dims = op.work, op.dims
    ranks = p.deployment.ranks(cp, p.tp)
    if is_one(dims["new"]):
        less = work.parted(cp, "flops", "kv_bytes")
        yield replace(op, work=less, dims={**dims, "context": dims["context"] / cp})
        payload = (out * p.width) * dims["count"]
        moved = all_reduce(payload, ranks)
        whole = Part("M", payload, source="outputs of the queries, with their softmax sums")
        yield collective(f"all-reduce-{op.name}", moved, whole, ranks, op.repeat)
        return
    less = work.parted(cp, "flops", "activation_bytes")
    mine = replace(op, work=less, dims={**dims, "new": dims["new"] / cp, "sharers": cp})
    if p.deployment.options.ring_attention:
        passed = ring(cache, ranks)
        mine = replace(mine, work=less + passed.work, wire_s=passed.seconds, algorithm="ring")
    yield mine
