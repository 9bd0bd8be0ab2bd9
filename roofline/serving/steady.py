"""A server that is kept full by clients who ask again at once: what users see in the long run."""

from math import ceil, floor, hypot
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.engine_costs import EngineCosts
from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.phases import cut_prompts
from roofline.serving.requests import Requests, requests
from roofline.serving.simulate.prices import prices_of_lengths
from roofline.serving.simulate.server import ServerOptions, server_of
from roofline.serving.simulate.steady import RequestMeans, closed, share_of
from roofline.serving.simulate.steady.errors import CLOSED
from roofline.serving.simulate.steady.share import sequences_at_once
from roofline.serving.static import CENTRAL, StaticBatch
from roofline.serving.workload import MOST_TOKENS, branches

SPREAD: Final = 0.1
"""Share by which lengths of the steady state are shorter or longer than asked, evenly.

Any spread breaks the waves of equal lengths: from ±10 % to ±50 % TTFT and TPOT move by under 3 %.
"""
ORDER: Final = (
    *(2, 11, 25, 21, 10, 4, 29, 16, 23, 6, 18, 26, 3, 30, 8, 0),
    *(19, 12, 20, 13, 7, 5, 17, 14, 27, 22, 9, 28, 24, 1, 15, 31),
)
"""A random order, drawn once: to load NumPy's generators takes longer than all else here."""
SAMPLE: Final = len(ORDER)
"""Requests whose lengths stand for those of all."""


class SteadyState(Struct, frozen=True):
    """Means of a replica whose batch is kept full, and of one prompt while it is idle."""

    clients: int
    at_once: int
    """Sequences that are there, and those of them that have room to run. [1]"""
    ttft_idle_s: float
    """Arrival to first token of one prompt on an idle server. [s]"""
    ttft_s: float
    tpot_s: float
    latency_s: float
    """Arrival to first token; between tokens; to the last one: means. [s]"""
    output_tok_s: float
    """Output tokens of the replica. [token/s]"""
    wave: int
    """Prompts that come, and are prefilled, together where all lengths are equal. [1]"""
    wave_chance: float
    """Share of the steps that carry such a wave. [1]"""
    ttft_wave_s: float
    ttft_waves_s: float
    """Mean TTFT of such a wave alone, and where all clients have become one. [s]"""
    ttft_log_sd: float = 0.0
    tpot_log_sd: float = 0.0
    rate_log_sd: float = 0.0
    """Standard deviations of the logarithms of TTFT, TPOT and throughput, with what the closed
    form is off the simulator; 0 at datasheet rates. [1]"""


def steady_state(batch: StaticBatch, costs: EngineCosts | None = None) -> SteadyState:
    """Steady state of a replica with as many clients as the static batch has sequences.

    The closed form of the simulator's closed loop (`roofline.serving.simulate.steady.closed`), of
    requests whose lengths are `SPREAD` about those asked for. Spreads: errors of prefill and decode
    are taken to go together. In a pipeline the closed form has the pace of full stages; a prompt
    goes through all of them, one after the other, and TTFT is longer by the difference.

    Raises:
        RooflineError: There is no closed form: the network does not decode token by token, nothing
            is cached, loads from the host are hidden behind steps, or there is no room for a cache.
    """
    deployment, work = batch.deployment, batch.workload
    if not work.kv_cache:
        raise InputError("a server without a KV cache has no steady state", hint="leave it on")
    if branches(deployment, work) > 1:
        raise InputError(
            "answers that share a prompt are priced as a static batch",
            hint="simulate traffic with samples for the long run",
        )
    given = _around(work.prompt, work.output)
    server = server_of(deployment, ServerOptions(sharing=False), given, batch.utilization)
    room, _ = sequences_at_once(given, server, work.prompt + work.output / 2.0)
    at_once = min(work.batch, room)
    # As many as run: tables need not go further, and memory is looked at already.
    server = replace(server, max_sequences=at_once, kv_tokens=MOST_TOKENS)
    lengths = {"prompt": work.prompt, "output": work.output, "cached": work.cached}
    prices = prices_of_lengths(deployment, server, **lengths, spread=SPREAD)
    if costs is not None:
        prices = replace(prices, engine=costs)
    share = share_of(_around(work.prompt - work.cached, work.output), prices, server)
    found = closed(share, float(work.batch))
    columns = (found.ttft_s, found.tpot_s, found.latency_s, found.requests_per_s)
    first, each, whole, rate = (float(column[0]) for column in columns)
    lone = cut_prompts(deployment, 1.0, float(work.prompt), float(work.cached))
    idle = float((lone if costs is None else replace(lone, costs=costs)).seconds)
    fit = floor(min(float(share.at(share.full, np.array(float(at_once)))), at_once))
    wave = max(fit, min(prices.groups, at_once))
    waves_per_s = rate / wave * float(share.chunks(np.array(0.0)))
    state = SteadyState(
        clients=work.batch,
        at_once=at_once,
        ttft_idle_s=idle,
        ttft_s=first,
        tpot_s=each,
        latency_s=whole,
        output_tok_s=float(found.output_tok_s[0]),
        wave=wave,
        wave_chance=min(waves_per_s * each, 1.0) if each else 1.0,
        ttft_wave_s=_together(share, wave, wave),
        ttft_waves_s=_together(share, at_once, wave),
    )
    return _with_spreads(state, batch) if batch.calibrated else state


def _together(share: RequestMeans, clients: int, wave: int) -> float:
    """Mean TTFT where so many clients come at once and nobody decodes. [s]"""
    none, prompts = np.array(0.0), np.array(float(wave))
    chunks = float(share.chunks(none))
    step = float(share.prefill(none, prompts * share.prompt / chunks, prompts)) * chunks
    return share.request_s + step * (ceil(clients / wave) + 1) / 2.0


def _with_spreads(state: SteadyState, batch: StaticBatch) -> SteadyState:
    costs = batch.deployment.engine_costs
    prompts = max(1.0 - batch.tpot_s / state.tpot_s, 0.0) if state.tpot_s else 0.0
    prices = prompts * batch.ttft_log_sd + (1.0 - prompts) * batch.tpot_log_sd
    context = batch.workload.prompt + batch.workload.output / 2.0
    each = max(prices, float(costs.tpot_sd(state.at_once, context)))
    return replace(
        state,
        ttft_log_sd=hypot(max(batch.ttft_log_sd, costs.ttft_log_sd), CLOSED["ttft_s"] / CENTRAL),
        tpot_log_sd=hypot(each, CLOSED["tpot_s"] / CENTRAL),
        rate_log_sd=hypot(each, CLOSED["requests_per_s"] / CENTRAL),
    )


def _around(prompt: int, output: int) -> Requests:
    """Requests of about these lengths: evenly spread, long prompts with answers of any length."""
    evenly = (np.arange(SAMPLE) + 0.5) / SAMPLE * 2.0 - 1.0
    mixed = evenly[list(ORDER)]
    return requests(
        np.zeros(SAMPLE),
        np.maximum(np.rint(prompt * (1.0 + SPREAD * evenly)), 1),
        np.maximum(np.rint(output * (1.0 + SPREAD * mixed)), 1),
    )
