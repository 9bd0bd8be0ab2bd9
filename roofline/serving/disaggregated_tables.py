"""Disaggregated serving as tables: metrics, pools, transfer, alternatives."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from roofline.cost.memory import Memory
from roofline.serving.disaggregated import Disaggregated
from roofline.serving.ffn_pools import VISITS, Ratio
from roofline.serving.pools import Phases
from roofline.serving.static import StaticBatch, static_batch
from roofline.table import Derivation, Table, table, units_of

TIMES: Final = ("attention_s", "to_ffn_s", "ffn_s", "from_ffn_s")
"""Columns of the times of `VISITS`."""
SHOWN: Final = 8
"""Numbers of attention instances that are shown. [1]"""


def _basis(pools: Disaggregated) -> str:
    return "datasheet" if pools.fast is None else "interpolated"


def headline(pools: Disaggregated, derivations: Mapping[str, Derivation]) -> Table:
    """Metrics of the deployment, one row each.

    Calibrated, ``low`` and ``high`` bound the central 80 %; else ``serial`` is without overlap.
    """

    def figures(phases: Phases) -> dict[str, float]:
        tokens = pools.tok_s(phases)
        return {
            "ttft_s": phases.ttft_s,
            "prefill_s": phases.prefill_s,
            "tpot_s": phases.tpot_s,
            "latency_s": phases.latency_s,
            "requests_per_s": pools.split.requests_per_s(phases),
            "throughput_tok_s": tokens,
            "throughput_tok_s_per_gpu": tokens / pools.used,
            "user_tok_s": 1.0 / phases.tpot_s if phases.tpot_s else math.inf,
            "joule_per_mtok": pools.joule_per_mtok(phases),
            "usd_per_mtok": pools.usd_per_mtok(phases),
        }

    predicted, serial = figures(pools.overlap), figures(pools.serial)
    bounds = [figures(phases) for phases in (pools.fast, pools.slow) if phases is not None]

    def beside(metric: str) -> dict[str, float]:
        if not bounds:
            return {"serial": serial[metric]}
        ends = [figures[metric] for figures in bounds]
        return {"low": min(ends), "high": max(ends)}

    rows = [
        {
            "metric": metric,
            "value": predicted[metric],
            **beside(metric),
            "unit": unit,
            "basis": derivations[explained].basis,
            "meaning": meaning,
        }
        for metric, unit, explained, meaning in _METRICS
        if predicted[metric] < math.inf and (metric != "usd_per_mtok" or pools.usd_per_hour)
    ]
    return table(rows, {})


_METRICS: Final = (
    ("ttft_s", "s", "ttft", "prefill, transfer and a decode step"),
    ("prefill_s", "s", "prefill", "start of the prefill to its end"),
    ("tpot_s", "s", "tpot", "between tokens, mean over the answer; the first two come together"),
    ("latency_s", "s", "latency", "start of the prefill to the last token"),
    ("requests_per_s", "request/s", "throughput", "prompts in, answers out"),
    ("throughput_tok_s", "token/s", "throughput", "output tokens, both pools"),
    ("throughput_tok_s_per_gpu", "token/s", "throughput", "output tokens, each GPU in use"),
    ("user_tok_s", "token/s", "tpot", "one user, after the first token"),
    ("joule_per_mtok", "J", "throughput", "energy per million output tokens at board power"),
    ("usd_per_mtok", "$", "cost", "per million output tokens"),
)


def pools(both: Disaggregated) -> Table:
    """The two pools: instances, steps, rates, how long they wait, memory of one device."""
    idle = both.split.idle(both.overlap)

    def row(
        pool: str, batch: StaticBatch, number: int, waits: float, memory: Memory, held: int
    ) -> dict[str, Any]:
        prefills = pool == "prefill"

        def step(phases: Phases) -> float:
            return phases.prefill_s if prefills else phases.step_s

        each = both.overlap.prompt_s if prefills else both.overlap.answer_s
        beside = {"serial_s": step(both.serial)}
        if both.fast is not None and both.slow is not None:
            beside = {"low_s": step(both.fast), "high_s": step(both.slow)}
        return {
            "pool": pool,
            "instances": number,
            "layout": batch.deployment.spelled,
            "gpu": batch.deployment.node.gpu.name,
            "gpus": batch.devices,
            "batch": batch.workload.batch,
            "step_s": step(both.overlap),
            **beside,
            "request_s": each,
            "requests_per_s": number / each,
            "idle": waits,
            "sequences": held,
            "weight_bytes": memory.weights,
            "kv_bytes": memory.kv,
            "activation_bytes": memory.activations,
            "free_bytes": memory.free,
            "fits": memory.fits,
        }

    decoded = both.decode.workload.batch + both.arriving
    split, held = both.split, both.in_flight
    rows = [
        row("prefill", both.prefill, split.prefill, idle[0], both.prefill_memory, held),
        row("decode", both.decode, split.decode, idle[1], both.decode_memory, decoded),
    ]
    return table(rows, units_of(rows[0]), _basis(both))


def visits(both: Disaggregated) -> Table:
    """Pools of a decode instance and the transfers between them, for one micro-batch's step."""
    rest, number = both.decode.deployment, both.decode.workload.turns(both.decode.deployment)[0]
    assert rest.ffn is not None, "everything is in one pool"
    assert both.ffn_memory is not None, "a pool without memory"
    memories = (both.decode_memory, None, both.ffn_memory, None)
    where = (rest, None, rest.ffn.deployment, None)
    rows = [
        {
            "visit": name,
            "layout": pool.layout.spelled if pool else f"{rest.ffn.over}",
            "gpu": pool.node.gpu.name if pool else "",
            "gpus": int(pool.layout.devices) if pool else None,
            "visit_s": seconds,
            "busy": min(number * seconds / both.decode.tpot_s, 1.0),
            "weight_bytes": memory.weights if memory else None,
            "kv_bytes": memory.kv if memory else None,
            "free_bytes": memory.free if memory else None,
        }
        for name, pool, seconds, memory in zip(
            VISITS, where, both.decode.decode_stages, memories, strict=True
        )
    ]
    return table(rows, units_of(rows[0]), _basis(both))


def ratios(both: Disaggregated) -> Table:
    """Numbers of attention instances beside the feed-forward pool, the best one first.

    Each with as many micro-batches as are best for it.
    """
    best: dict[int, Ratio] = {}
    for each in both.ratios:
        best.setdefault(each.groups, each)
    rows = [
        {
            "attention_instances": each.groups,
            "microbatches": each.deployment.turns,
            "gpus": each.deployment.devices,
            **dict(zip(TIMES, each.batch.decode_stages, strict=True)),
            "tpot_s": each.batch.tpot_s,
            "tok_s_per_gpu": each.tok_s_per_gpu,
            "binds": each.binds,
            "fits": each.fits,
        }
        for each in list(best.values())[:SHOWN]
    ]
    return table(rows, units_of(rows[0]), _basis(both))


def transfer(both: Disaggregated) -> Table:
    """Transfer of the cache: bytes, time, and load of the interconnect."""
    handed = both.transfer
    needed, given = both.wire_bytes_per_s(both.overlap)
    prompts = f"the {handed.together} prompts of a step" if handed.together > 1 else "a prompt"
    rows = [
        {"what": what, "value": value, "unit": unit, "meaning": meaning}
        for what, value, unit, meaning in (
            ("cache", handed.prompt_bytes, "B", "of a prompt, all layers, each part once"),
            ("sent", handed.send.busiest_bytes, "B", _shared(handed.send.sharing, "sender")),
            (
                "received",
                handed.receive.busiest_bytes,
                "B",
                _shared(handed.receive.sharing, "receiver"),
            ),
            ("time", handed.seconds, "s", f"to hand {prompts} over, at the slower end"),
            ("waited", both.overlap.transfer_s, "s", "of it before decode can start"),
            ("needed", needed, "B/s", "caches of all requests, if wires were no limit"),
            ("given", given, "B/s", f"by the {handed.wires} of the slower end's devices"),
            ("utilisation", needed / given, "", "needed of given; above 1 the wires bind"),
        )
    ]
    return table(rows, {})


def _shared(devices: int, end: str) -> str:
    whole = f"its part on the busiest of {devices} {end}s"
    return whole if devices > 1 else f"by the one {end}"


def alternatives(both: Disaggregated) -> Table:
    """The pools beside static batches of either layout that do both phases, on as many devices."""
    tokens = both.tok_s(both.overlap)
    split = both.split
    rows = [
        {
            "serving": "disaggregated",
            "layout": f"{both.prefill.deployment.layout.spelled} × {split.prefill} + "
            f"{_several(both.decode.deployment.spelled)} × {split.decode}",
            "gpus": both.used,
            "ttft_mean_s": both.prefill.ttft_mean_s + both.overlap.transfer_s + both.overlap.step_s,
            "tpot_s": both.overlap.tpot_s,
            "latency_s": both.overlap.latency_s,
            "throughput_tok_s": tokens,
            "throughput_tok_s_per_gpu": tokens / both.used,
            "usd_per_mtok": both.usd_per_mtok(both.overlap),
            "fits": both.fits,
        },
    ]
    first, rest = both.prefill.deployment, both.decode.deployment
    if rest.ffn is None:
        rows.append(_static(both, both.decode))
    differs = rest.ffn is not None or (first.layout, first.node) != (rest.layout, rest.node)
    if differs and first.devices <= both.gpus:
        work = both.decode.workload
        together = min(both.prefill.workload.batch, work.batch)
        other = static_batch(
            first, replace(work, prefill_batch=together), utilization=both.decode.utilization
        )
        rows.append(_static(both, other))
    return table(rows, units_of(rows[0]), _basis(both))


def _several(layout: str) -> str:
    return f"({layout})" if "+" in layout else layout


def _static(both: Disaggregated, batch: StaticBatch) -> dict[str, Any]:
    replicas = both.gpus // batch.devices
    tokens = batch.throughput_tok_s
    return {
        "serving": "aggregated",
        "layout": f"{batch.deployment.layout.spelled} × {replicas}",
        "gpus": replicas * batch.devices,
        "ttft_mean_s": batch.ttft_mean_s,
        "tpot_s": batch.tpot_s,
        "latency_s": batch.latency_s,
        "throughput_tok_s": tokens * replicas,
        "throughput_tok_s_per_gpu": tokens / batch.devices,
        "usd_per_mtok": batch.usd_per_mtok,
        "fits": batch.memory.fits,
    }
