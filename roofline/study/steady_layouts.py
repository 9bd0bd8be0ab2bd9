"""Layouts as their users see them: one prompt on an idle server, and a batch that is kept full."""

from dataclasses import replace

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.serving.phases import first_tokens
from roofline.serving.steady_columns import SteadyColumns, steady_columns
from roofline.serving.workload import Workload
from roofline.study.layouts import Layouts, alike


def steady_layouts(base: Deployment, priced: Layouts, work: Workload) -> SteadyColumns:
    """Approximate steady state of layouts that are priced; the output is that of all replicas.

    Parameters
    ----------
    base, work
        As for `roofline.study.layouts.price`.
    priced
        The layouts.

    Notes
    -----
    `roofline.serving.steady_columns.steady_columns`, with the prefill of the static batch for each
    of its prompts. So its order by latency and throughput is that of static batches: every answer
    sees every prompt's prefill once, before its own tokens or among them.
    """
    idle = np.zeros(len(priced))
    prompt, cached = float(work.prompt), float(work.cached)
    for here, layout in alike(priced):
        idle[here] = first_tokens(replace(base, layout=layout), 1.0, prompt, cached).seconds
    arrival = base.engine_costs.arrival_s
    found = steady_columns(
        decode_s=priced.tpot_s,
        first_s=idle,
        prompt_s=(priced.ttft_s - arrival) / work.batch,
        arrival_s=arrival,
        batch=float(work.batch),
        output=float(work.output),
    )
    rate = np.asarray(found.output_tok_s) * priced.replicas
    return replace(found, output_tok_s=rate)
