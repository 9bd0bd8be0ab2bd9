"""A static batch at other batch sizes."""

from dataclasses import replace

import numpy as np

from roofline.cost.layout import Layout
from roofline.cost.pipeline import finish, finish_with, period
from roofline.cost.work import Array
from roofline.serving import room
from roofline.serving.quadrature import nodes
from roofline.serving.stages import through
from roofline.serving.static import StaticBatch, micro
from roofline.serving.workload import Workload
from roofline.table import Table, table


def curve(batch: StaticBatch) -> Table:
    """TTFT, TPOT and throughput against batch, powers of two to beyond what fits."""
    deployment, work = batch.deployment, batch.workload
    most = room.largest_batch(deployment, work, batch.utilization)
    last = max(4 * work.batch, 2 * most, 16)
    batches = 2.0 ** np.arange(0, min(np.log2(last) + 1, 20))
    batches = np.unique(np.append(batches, work.batch))
    turns, sizes = _turns(batches, deployment.layout)
    together = np.minimum(batches, work.prefill_batch or np.inf)
    if deployment.layout.pp > 1 and micro(deployment, replace(work, prefill_batch=0)) == work:
        together = sizes  # prompts go through the pipeline as the answers do
        if not deployment.layout.microbatches:
            together = np.minimum(sizes, room.prompts_in_a_step(deployment, work))
    full, left = np.divmod(batches, together)
    ttft = _first(batch, work, together, full, left)
    tpot = np.zeros_like(batches)
    if work.output > 1:
        contexts, weights = nodes(work.prompt + 1, work.longest)
        every = np.repeat(sizes, len(contexts))
        stages = through(deployment, work.decode(np.tile(contexts, len(batches)), every))
        times = period([stage.seconds() for stage in stages], np.repeat(turns, len(contexts)))
        tpot = np.broadcast_to(times, every.shape).reshape(len(batches), -1) @ weights
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


def _turns(batches: Array, layout: Layout) -> tuple[Array, Array]:
    """Micro-batches that take turns, and sequences of each, for every batch. [1]"""
    asked = np.minimum(float(layout.microbatches or layout.pp), batches)
    sizes = np.ceil(batches / asked)
    return np.ceil(batches / sizes), sizes


def _first(batch: StaticBatch, work: Workload, together: Array, full: Array, left: Array) -> Array:
    """Time to the first token of the last prompt, for every batch. [s]"""
    deployment = batch.deployment

    def times(prompts: Array) -> list[Array]:
        stages = through(deployment, work.prefill(prompts))
        return [np.broadcast_to(stage.seconds(), prompts.shape) for stage in stages]

    whole = times(together)
    ends = finish(whole, full)
    if np.any(left):
        ends = np.where(left > 0, finish_with(whole, full, times(left)), ends)
    return np.asarray(ends)
