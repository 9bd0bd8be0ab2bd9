"""Layouts as their users see them: one prompt on an idle server, and a batch that is kept full."""

from dataclasses import dataclass, replace

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.cost.work import Array
from roofline.serving.phases import first_tokens
from roofline.serving.steady_columns import steady_columns
from roofline.serving.workload import Workload
from roofline.study.layouts import Layouts


@dataclass(frozen=True, slots=True)
class SteadyLayouts:
    """Approximate steady state of layouts, one entry of every array for each.

    Attributes
    ----------
    ttft_idle_s, tpot_s
        TTFT of one prompt on an idle server; time between tokens with the batch kept full. [s]
    output_tok_s
        Output tokens of all replicas. [token/s]
    """

    ttft_idle_s: Array
    tpot_s: Array
    output_tok_s: Array


def steady_layouts(base: Deployment, priced: Layouts, work: Workload) -> SteadyLayouts:
    """Approximate steady state of layouts that are priced.

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
    kinds = np.stack([priced.pp, priced.sequence_parallel])
    for pp, parallel in np.unique(kinds, axis=1).T:
        here = np.flatnonzero((priced.pp == pp) & (priced.sequence_parallel == parallel))
        layout = Layout(
            priced.tp[here],
            priced.cp[here],
            priced.dp[here],
            priced.ep[here],
            pp=int(pp),
            sequence_parallel=bool(parallel),
        )
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
    return SteadyLayouts(idle, np.asarray(found.tpot_s), rate)
