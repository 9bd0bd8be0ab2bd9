"""A static batch at other batch sizes."""

import numpy as np

from roofline.cost.roof import seconds
from roofline.cost.step import Group, step
from roofline.cost.work import Array
from roofline.serving import room
from roofline.serving.quadrature import nodes
from roofline.serving.static import StaticBatch
from roofline.table import Table, table


def curve(batch: StaticBatch) -> Table:
    """TTFT, TPOT and throughput against batch, powers of two to beyond what fits."""
    deployment, work = batch.deployment, batch.workload
    most = room.largest_batch(deployment, work, batch.utilization)
    last = max(4 * work.batch, 2 * most, 16)
    batches = 2.0 ** np.arange(0, min(np.log2(last) + 1, 20))
    batches = np.unique(np.append(batches, work.batch))
    together = np.minimum(batches, work.prefill_batch or np.inf)
    full, left = np.divmod(batches, together)
    ttft = full * _seconds(batch, work.prefill(together), batches)
    ttft = ttft + np.where(left > 0, _seconds(batch, work.prefill(left), batches), 0.0)
    tpot = np.zeros_like(batches)
    if work.output > 1:
        contexts, weights = nodes(work.prompt + 1, work.longest)
        every = np.repeat(batches, len(contexts))
        context = np.tile(contexts, len(batches))
        new = 1.0 if work.kv_cache else context
        priced = _seconds(batch, Group(every, new, context), every)
        tpot = priced.reshape(len(batches), -1) @ weights
    latency = ttft + tpot * (work.output - 1)
    rows = [
        {
            "batch": int(b),
            "ttft_s": float(first),
            "tpot_s": float(each),
            "latency_s": float(whole),
            "throughput_tok_s": float(b) * work.output / float(whole),
            "user_tok_s": 1 / float(each) if each else 0.0,
            "fits": bool(b <= most),
        }
        for b, first, each, whole in zip(batches, ttft, tpot, latency, strict=True)
    ]
    units = {
        "ttft_s": "s",
        "tpot_s": "s",
        "latency_s": "s",
        "throughput_tok_s": "token/s",
        "user_tok_s": "token/s",
    }
    return table(rows, units, basis="datasheet")


def _seconds(batch: StaticBatch, group: Group, like: Array) -> Array:
    """Time of a step for every scenario of an axis. [s]"""
    deployment = batch.deployment
    priced = seconds(step(deployment, group), deployment)
    return np.broadcast_to(np.asarray(priced, float), like.shape)
