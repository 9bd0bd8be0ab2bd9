"""Tables of a run."""

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment
from roofline.serving.draft_schedule import ranges
from roofline.serving.facility import Consumption, Facility
from roofline.serving.objectives import Attainment, FinishedRequests, goodput, spread, window
from roofline.serving.price import usd_per_mtok
from roofline.serving.requests import Integers
from roofline.serving.run.serve import running, sent, waiting
from roofline.serving.running_cost import joule_per_token, power, request_energy
from roofline.serving.simulate.served import ServedRequests
from roofline.serving.simulate.server import UNLIMITED
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from roofline.table import Column, Table, table, units_of
from roofline.units import MILLION, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from roofline.serving.run.intervals import Intervals
    from roofline.serving.run.result import Run

LATENCIES: Final = (
    ("ttft_s", "ttft_s", "arrival to first token"),
    ("queueing_s", "queue_s", "of it: before the first step"),
    ("tpot_s", "tpot_s", "between tokens, mean of a request"),
    ("latency_s", "latency_s", "arrival to last token"),
)
"""Name in tables, attribute and meaning of each."""
FIGURES: Final = ("mean", "p50", "p90", "p95", "p99")
"""Figures of each, as attributes of `roofline.serving.objectives.Spread`."""
SPREAD_UNITS: Final = dict.fromkeys(("reported", *FIGURES), "s")


def latencies(
    done: FinishedRequests, basis: str, statistic: str, sure: "Intervals | None" = None
) -> Table:
    """Mean and percentiles over requests; nothing of what no request has.

    ``reported`` is the one figure that a benchmark with that statistic would print. Where prices
    were measured, ``low`` and ``high`` are its central 80 %, and others have theirs: ``p99_low``.
    """
    rows: list[dict[str, Any]] = []
    for name, attribute, meaning in LATENCIES:
        if (made := spread(getattr(done, attribute))) is not None:
            rows.append(
                {
                    "metric": name,
                    "reported": made.p50 if statistic == "median" else made.mean,
                    **{figure: getattr(made, figure) for figure in FIGURES},
                    "unit": "s",
                    "requests": made.requests,
                    "basis": basis,
                    "meaning": meaning,
                }
            )
    if sure is None:
        return table(rows, SPREAD_UNITS, basis)
    for row in rows:
        for figure in SPREAD_UNITS:
            named = "" if figure == "reported" else f"{figure}_"
            row[f"{named}low"], row[f"{named}high"] = sure.of(row["metric"], figure)
    timed = [n for n in rows[0] if n in SPREAD_UNITS or n.endswith(("low", "high"))]
    return table(rows, dict.fromkeys(timed, "s"), basis)


def throughput(run: "Run", done: FinishedRequests) -> Table:
    """Throughput and cost, over the time of the requests that count."""
    seconds, gpu = window(done), run.deployment.node.gpu
    tokens = float(done.output.sum())
    rate = len(done) / seconds
    rows: list[dict[str, Any]] = []
    add = partial(_add, rows)
    if run.load.rate:
        add("offered_requests_per_s", run.load.rate, "request/s", "that come")
        add("saturation_requests_per_s", run.saturation, "request/s", "the most it can serve")
    add("makespan_s", seconds, "s", "first arrival to last token")
    add("requests_per_s", rate, "request/s", "requests in that time")
    if run.objectives:
        good = goodput(done, run.objectives)
        add("goodput_requests_per_s", good, "request/s", "within all limits of the SLO")
    add("throughput_tok_s", tokens / seconds, "token/s", "output tokens, all GPUs")
    each = tokens / seconds / run.mean_devices
    add("throughput_tok_s_per_gpu", each, "token/s", "output tokens, each GPU")
    whole = tokens + float(done.prompt.sum())
    add("total_tok_s", whole / seconds, "token/s", "prompts and answers")
    if run.fleet.schedule is not None:
        hours = run.paid_s * run.deployment.devices / SECONDS_PER_HOUR
        add("gpu_hours", hours, "h", "paid, starts of replicas included")
    if hourly := run.usd_per_hour:
        price = float(usd_per_mtok(hourly, seconds, tokens))
        add("usd_per_mtok", price, "$", "per million output tokens")
        add("tokens_per_usd", MILLION / price, "token", "output tokens for a dollar")
    if gpu.tdp_w and not run.fleet.others:
        watts = power(gpu.tdp_w * run.mean_devices, run.served.totals.busy_s / run.paid_s)
        joule = float(joule_per_token(watts, seconds, tokens))
        add("joule_per_token", joule, "J", "per output token, idle time included")
    if run.sure is not None:
        for row in rows:
            row["low"], row["high"] = run.sure.of(row["metric"], "value")
    return table(rows, {})


def replica_kinds(run: "Run", done: FinishedRequests) -> Table:
    """Requests, latencies and price of the replicas of each kind."""
    seconds = window(done)
    where = sent(run.fleet, run.requests)[-len(done) :]
    rows, first = [], 0
    for deployment, number in _kinds(run):
        mine = (where >= first) & (where < first + number)
        first += number
        tokens = float(done.output[mine].sum())
        hourly = number * deployment.usd_per_hour
        row: dict[str, Any] = {
            "gpu": deployment.node.gpu.title,
            "layout": deployment.layout.spelled,
            "replicas": number,
            "requests": int(mine.sum()),
            "request_share": float(mine.mean()),
            "throughput_tok_s": tokens / seconds,
        }
        for name in ("ttft", "tpot"):
            each = spread(getattr(done, f"{name}_s")[mine]) if mine.any() else None
            row |= {f"{name}_p50_s": each and each.p50, f"{name}_p99_s": each and each.p99}
        priced = bool(hourly and tokens)
        row["usd_per_mtok"] = float(usd_per_mtok(hourly, seconds, tokens)) if priced else None
        rows.append(row)
    timed = dict.fromkeys(("ttft_p50_s", "ttft_p99_s", "tpot_p50_s", "tpot_p99_s"), "s")
    return table(rows, timed | {"throughput_tok_s": "token/s", "usd_per_mtok": "$"})


def _kinds(run: "Run") -> list[tuple[Deployment, int]]:
    """Deployment and number of the replicas of each kind. [1]"""
    others = [(each.deployment, each.number) for each in run.fleet.others]
    return [(run.deployment, run.fleet.alike), *others]


def machines(run: "Run") -> str:
    """Devices of each kind of replica, in words."""
    return ", ".join(
        f"{number * each.devices} × {each.node.gpu.title}" for each, number in _kinds(run)
    )


def arranged(run: "Run") -> str:
    """Layout of each kind of replica, in words."""
    return " and ".join(dict.fromkeys(str(each.layout) for each, _ in _kinds(run)))


def _add(rows: list[dict[str, Any]], metric: str, value: float, unit: str, meaning: str) -> None:
    rows.append({"metric": metric, "value": value, "unit": unit, "meaning": meaning})


def drawn(run: "Run", done: FinishedRequests, facility: Facility) -> Consumption:
    """Power of all replicas over the run, priced at its mean prompt, answer and decode step."""
    served, totals = run.served, run.served.totals
    prompt = float(served.prompt.mean())
    work = Workload(
        batch=max(round(totals.decoded_tokens / totals.steps), 1),
        prompt=max(round(prompt), 1),
        output=max(round(float(served.output.mean())), 1),
        prefix_hit=max(1.0 - totals.prefilled_tokens / len(served) / prompt, 0.0),
    )
    energy = request_energy(static_batch(run.deployment, work))
    seconds = window(done)
    rate = len(done) / seconds
    return Consumption(
        facility,
        run.deployment.node,
        energy.power(rate / run.fleet.replicas, totals.busy_s / run.paid_s),
        run.devices,
        rate,
        float(done.output.sum()) / seconds,
    )


def objectives(reached: tuple[Attainment, ...], sure: "Intervals | None" = None) -> Table:
    """Objectives and how they were kept; where prices were measured, with what chance they are."""
    rows: list[dict[str, Any]] = [
        {
            "objective": each.objective.name,
            "limit_s": each.objective.limit_s,
            "value_s": each.value_s,
            "attainment": each.attainment,
            "met": each.met,
        }
        for each in reached
    ]
    units = ["limit_s", "value_s"]
    if sure is not None:
        for row in rows:
            name = row["objective"]
            for figure in ("value_s", "attainment"):
                stem = figure.removesuffix("_s")
                row[f"{stem}_low"], row[f"{stem}_high"] = sure.of(name, figure)
            row["chance"] = sure.chances[name]
        units += ["value_low", "value_high"]
    return table(rows, dict.fromkeys(units, "s"))


def draft_lengths(lengths: Integers) -> Table:
    """Tokens drafted by the sequences that decode in a step."""
    rows = [
        {"from_batch": first, "to_batch": last, "drafted": length}
        for first, last, length in ranges(lengths[1:])
    ]
    return table(rows, {"drafted": "token"})


def server(run: "Run") -> Table:
    """Work of the server: all replicas together, means over the run."""
    served, totals = run.served, run.served.totals
    queue, queue_most = waiting(served)
    active, active_most = running(served)
    replicas = run.fleet.replicas
    whose = "the replica" if replicas == 1 else f"all {replicas} replicas"
    rows: list[dict[str, Any]] = []
    add = partial(_add, rows)
    add("utilisation", totals.busy_s / run.paid_s, "", "share of the time in which steps run")
    add("steps", totals.steps, "step", f"of {whose}")
    add("step_s", totals.busy_s / totals.steps, "s", "mean of all steps")
    add("running", active, "request", "begun and not finished, mean")
    add("running_most", active_most, "request", "the same, most at once")
    add("queue", queue, "request", "waiting for a first step, mean")
    add("queue_most", queue_most, "request", "the same, most at once")
    add("prefilled_tokens", totals.prefilled_tokens, "token", "computed in prefill")
    add("decoded_tokens", totals.decoded_tokens, "token", "computed in decode")
    found = float(served.cached.sum()) / float(served.prompt.sum())
    add("prefix_hits", found, "", "share of prompt tokens found in the cache")
    if run.fleet.server.adapter_load_s:
        add("adapter_loads", totals.adapter_loads, "adapter", "LoRA adapters loaded from the host")
    add("loaded_tokens", totals.loaded_tokens, "token", "of them: back from the host")
    add("preemptions", totals.preemptions, "", "sequences that lost their place for want of memory")
    add("recomputed_tokens", totals.recomputed_tokens, "token", "computed again after that")
    add("swapped_tokens", totals.swapped_tokens, "token", "moved to the host and back after that")
    return table(rows, {})


def tiers(run: "Run") -> Table:
    """Tiers of the cache of one replica: room, prefixes found there, load against computing again.

    What loading a prefix of the mean prompt takes, and what a step that computes it does.
    """
    served, server, prices = run.served, run.fleet.server, run.fleet.prices
    totals, prompts = served.totals, float(served.prompt.sum())
    mean = float(served.prompt.mean())
    again = float(prices.engine.prefill_step(prices.prompt_s(mean)))
    found = float(served.cached.sum())
    read, loaded = float(totals.read_tokens), float(totals.loaded_tokens - totals.read_tokens)
    rows = [
        {
            "tier": name,
            "room_tokens": None if room >= UNLIMITED else room,
            "hit_tokens": hits,
            "hits": hits / prompts,
            "load_s": seconds * mean,
            "compute_s": again,
            "gain": again / (seconds * mean) if seconds else None,
        }
        for name, room, hits, seconds in (
            ("GPU", server.kv_tokens, max(found - loaded - read, 0.0), 0.0),
            ("host memory", server.tier_tokens, loaded, server.swap_s_per_token),
            (
                "pool of all" if server.pooled else "NVMe",
                server.disk_tokens,
                read,
                server.disk_s_per_token,
            ),
        )
        if room
    ]
    units = {"room_tokens": "token", "hit_tokens": "token", "load_s": "s", "compute_s": "s"}
    return table(rows, units)


def cache(run: "Run") -> Table:
    """Cache of one replica, in tokens; means are over steps."""
    totals, room = run.served.totals, run.fleet.kv_tokens
    parts = (
        ("room", float(room), "what the memory holds"),
        ("peak", totals.kv_peak_tokens, "given out, most at once"),
        ("given out", totals.kv_held_tokens, "mean"),
        ("filled", totals.kv_stored_tokens, "of it: tokens that are cached"),
        ("reserved", totals.kv_reserved_tokens, "of it: for tokens still to come"),
        ("internal waste", totals.kv_internal_tokens, "of it: never to be filled"),
        ("external waste", totals.kv_external_tokens, "free, but in no piece that is large enough"),
    )
    rows = [
        {"part": name, "tokens": value, "share": value / room, "meaning": meaning}
        for name, value, meaning in parts
        if room < UNLIMITED or name != "room"
    ]
    return table(rows, {"tokens": "token"})


def workload(run: "Run") -> Table:
    """Workload as it was given and drawn."""
    load, requests = run.load, run.requests
    left_out = f", the first {load.warmup:,} left out" if load.warmup else ""
    named = {
        "workload": load.title,
        "arrivals": load.arrivals,
        "prompt": load.prompt,
        "output": load.output,
        "requests": f"{len(requests):,}{left_out}",
        "prompt as drawn": _drawn(requests.prompt),
        "output as drawn": _drawn(requests.output),
        "statistic": load.statistic,
    }
    return table([{"what": what, "value": value} for what, value in named.items()], {})


def _drawn(lengths: Integers) -> str:
    return f"mean {lengths.mean():,.0f}, {lengths.min():,} to {lengths.max():,} tokens"


def requests(served: ServedRequests) -> Table:
    """Every request, in order of arrival."""
    tpot = served.tpot_s.astype(object)
    tpot[np.isnan(served.tpot_s)] = None
    columns: dict[str, NDArray[Any]] = {
        "request": served.number,
        **{f"{t}_s": getattr(served, t) for t in ("arrival", "admitted", "first_token", "finish")},
        **{name: getattr(served, name) for name in ("prompt", "output", "cached", "preemptions")},
        "ttft_s": served.ttft_s,
        "tpot_s": tpot,
        "latency_s": served.latency_s,
    }
    units = units_of(columns) | dict.fromkeys(("prompt", "output", "cached"), "token")
    return Table(
        {name: Column(tuple(v.tolist()), units.get(name, "")) for name, v in columns.items()}
    )
