"""A static batch at other batch sizes."""

from dataclasses import replace

import numpy as np

from roofline.cost.work import distinct
from roofline.serving.static import CENTRAL, StaticBatch, micro, static_batches
from roofline.table import Table, table


def curve(batch: StaticBatch, most: int) -> Table:
    """TTFT, TPOT and throughput against batch, powers of two to beyond the most that fits."""
    deployment, work = batch.deployment, batch.workload
    last = max(4 * work.batch, 2 * most, 16)
    batches = 2.0 ** np.arange(0, min(np.log2(last) + 1, 20))
    batches = distinct(np.append(batches, work.batch))
    asked = work.prefill_batch
    if deployment.layout.pp > 1 and micro(deployment, replace(work, prefill_batch=0)) == work:
        asked = 0  # nobody said how many prompts go together
    found = static_batches(deployment, work, batches, asked)
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
        for b, start, each, whole in zip(
            batches, found.ttft_s, found.tpot_s, found.latency_s, strict=True
        )
    ]
    if batch.calibrated:
        for place, row in enumerate(rows):
            for name, sds in (
                ("ttft_s", found.ttft_log_sd),
                ("tpot_s", found.tpot_log_sd),
                ("throughput_tok_s", found.latency_log_sd),
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
