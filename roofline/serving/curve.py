"""A static batch at other batch sizes."""

from dataclasses import replace

import numpy as np

from roofline.cost.pipeline import period
from roofline.cost.work import distinct
from roofline.serving import room
from roofline.serving.phases import first_tokens, together, turns
from roofline.serving.quadrature import nodes
from roofline.serving.stages import log_sd_of_slowest, through
from roofline.serving.static import CENTRAL, StaticBatch, micro
from roofline.table import Table, table


def curve(batch: StaticBatch) -> Table:
    """TTFT, TPOT and throughput against batch, powers of two to beyond what fits."""
    deployment, work = batch.deployment, batch.workload
    most = room.largest_batch(deployment, work, batch.utilization)
    last = max(4 * work.batch, 2 * most, 16)
    batches = 2.0 ** np.arange(0, min(np.log2(last) + 1, 20))
    batches = distinct(np.append(batches, work.batch))
    number, sizes = turns(batches, deployment.layout)
    asked = work
    if deployment.layout.pp > 1 and micro(deployment, replace(work, prefill_batch=0)) == work:
        asked = replace(work, prefill_batch=0)  # nobody said how many prompts go together
    prompts = together(deployment, asked, batches)
    first = first_tokens(deployment, work, batches, prompts)
    ttft, first_sd = (
        np.broadcast_to(np.asarray(each, float), batches.shape)
        for each in (first.seconds, first.log_sd)
    )
    tpot, spread = np.zeros_like(batches), np.zeros_like(batches)
    if work.output > 1:
        contexts, weights = nodes(work.prompt + 1, work.longest)
        every = np.repeat(sizes, len(contexts))
        stages = through(deployment, work.decode(np.tile(contexts, len(batches)), every))
        taken = np.repeat(np.broadcast_to(number, batches.shape), len(contexts))
        times = period([stage.seconds() for stage in stages], taken)
        kernels = np.broadcast_to(times, every.shape).reshape(len(batches), -1) @ weights
        costs = deployment.engine_costs
        tpot = np.asarray(costs.decode_step(kernels, batches))
        sds = np.broadcast_to(log_sd_of_slowest(stages), every.shape)
        part = costs.decode_gain * kernels / tpot
        spread = np.asarray(costs.log_sd(sds.reshape(len(batches), -1) @ weights, part))
    latency = ttft + tpot * (work.output - 1)
    # Errors of both phases are taken to go together.
    whole_sd = (ttft * first_sd + (latency - ttft) * spread) / latency
    rows = [
        {
            "batch": int(b),
            "ttft_s": float(start),
            "tpot_s": float(each),
            "latency_s": float(whole),
            "throughput_tok_s": float(b) * work.output / float(whole),
            "user_tok_s": 1 / float(each) if each else 0.0,
            "fits": bool(b <= most),
        }
        for b, start, each, whole in zip(batches, ttft, tpot, latency, strict=True)
    ]
    if batch.calibrated:
        for place, row in enumerate(rows):
            for name, sds in (
                ("ttft_s", first_sd),
                ("tpot_s", spread),
                ("throughput_tok_s", whole_sd),
            ):
                wide = float(np.exp(CENTRAL * sds[place]))
                row[f"{name}_low"], row[f"{name}_high"] = row[name] / wide, row[name] * wide
    units = {
        "ttft_s": "s",
        "tpot_s": "s",
        "latency_s": "s",
        "throughput_tok_s": "token/s",
        "user_tok_s": "token/s",
    }
    for name in tuple(units):
        if f"{name}_low" in rows[0]:
            units |= {f"{name}_low": units[name], f"{name}_high": units[name]}
    return table(rows, units, basis="interpolated" if batch.calibrated else "datasheet")
