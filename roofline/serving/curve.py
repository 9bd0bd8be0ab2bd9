"""A static batch at other batch sizes."""

from dataclasses import replace

import numpy as np

from roofline.cost.work import distinct
from roofline.serving import room
from roofline.serving.phases import decode_steps, first_tokens, remembering
from roofline.serving.quadrature import Answers, context_nodes
from roofline.serving.static import CENTRAL, StaticBatch, micro
from roofline.table import Table, table


def curve(batch: StaticBatch) -> Table:
    """TTFT, TPOT and throughput against batch, powers of two to beyond what fits."""
    deployment, work = batch.deployment, batch.workload
    most = room.largest_batch(deployment, work, batch.utilization)
    last = max(4 * work.batch, 2 * most, 16)
    batches = 2.0 ** np.arange(0, min(np.log2(last) + 1, 20))
    batches = distinct(np.append(batches, work.batch))
    asked = work.prefill_batch
    if deployment.layout.pp > 1 and micro(deployment, replace(work, prefill_batch=0)) == work:
        asked = 0  # nobody said how many prompts go together
    known, costs = remembering(deployment), deployment.engine_costs
    wide, prompt = batches[:, None], float(work.prompt)
    first = first_tokens(known, wide, prompt, float(work.cached), asked)
    ttft, first_sd = first.seconds[:, 0], first.log_sd[:, 0]
    tpot, spread = np.zeros_like(batches), np.zeros_like(batches)
    if work.output > 1:
        network = deployment.architecture
        contexts = context_nodes(network, prompt, float(work.longest), cached=work.kv_cache)
        steps = decode_steps(known, wide, contexts, kv_cache=work.kv_cache)
        answer = Answers.of(contexts, np.array([prompt]), np.array([float(work.output)]))
        places = np.arange(len(batches))
        answers = answer.taken(0 * places)
        kernels = np.asarray(steps.mean("seconds", answers, places))
        tpot = np.asarray(costs.decode_step(kernels, batches))
        share = costs.decode_gain * kernels / tpot
        spread = np.asarray(costs.log_sd(steps.mean("log_sd", answers, places), share))
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
                factor = float(np.exp(CENTRAL * sds[place]))
                row[f"{name}_low"], row[f"{name}_high"] = row[name] / factor, row[name] * factor
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
