"""Priced pools as a result: sentences, tables, derivations, notes."""

import math
from collections.abc import Mapping
from typing import Any, Final

from roofline.cost.measured import GROUNDS
from roofline.cost.memory import MemoryBudget
from roofline.records import replace
from roofline.serving.advice import shares
from roofline.serving.disaggregated import PoolPair
from roofline.serving.explain.disaggregated import explain_all
from roofline.serving.ffn_pools import VISITS, Ratio, ratio_of
from roofline.serving.notes import DATASHEET
from roofline.serving.pools import PoolTimes
from roofline.serving.static import StaticBatch, static_batch
from roofline.table import USUAL_KERNELS, Derivation, Result, Table, table, units_of, worst
from roofline.units import count, counted, dollars, show, show_binary, significant
from roofline.version import __version__

BINDS: Final = {
    "weights": "reading weights",
    "KV cache": "reading the KV cache",
    "wires": "the interconnect between devices",
    "engine": "the engine's own work",
}


def result_of(pools: PoolPair) -> Result:
    """Tables, derivations, notes and inputs of two pools."""
    first, rest = pools.prefill.deployment, pools.decode.deployment
    work, derivations = pools.decode.workload, explain_all(pools)
    beside = alternative_table(pools)
    ffn = {} if rest.ffn is None else {"visits": visit_table(pools)}
    if pools.ratios:
        ffn["ratios"] = ratio_table(pools)
    return Result(
        kind="disaggregate",
        tables={
            "headline": headline(pools, derivations),
            "pools": pool_table(pools),
            **ffn,
            "transfer": transfer_table(pools),
            "alternatives": beside,
        },
        derivations=derivations,
        notes=tuple(dict.fromkeys(notes(pools))),
        metadata={
            **({"calibration": USUAL_KERNELS} if _basis(pools) == "assumed" else {}),
            "version": __version__,
            "model": rest.architecture.name,
            "gpu": first.node.gpu.name,
            "gpu_title": first.node.gpu.title,
            "node": first.node.name,
            "decode_gpu": rest.node.gpu.name,
            "decode_gpu_title": rest.node.gpu.title,
            "decode_node": rest.node.name,
            "machines": _machines(pools),
            "gpus": pools.gpus,
            "gpus_used": pools.used,
            "prefill": first.layout.spelled,
            "decode": rest.spelled,
            "prefill_instances": pools.split.prefill,
            "decode_instances": pools.split.decode,
            "ratio": pools.overlap.ratio,
            "over": pools.transfer.wires,
            "overlapped": pools.overlapped,
            "engine": rest.engine.name,
            "weights": rest.weights_name,
            "kv": rest.precision.kv.name,
            "prefill_batch": pools.prefill.workload.batch,
            "batch": work.batch,
            "prompt": work.prompt,
            "output": work.output,
            "prefix_hit": work.prefix_hit,
            "convention": "engine",
            "basis": "datasheet" if pools.fast is None else "calibrated",
            "fits": pools.fits,
            "summary": sentences(pools, beside),
        },
    )


def _machines(pools: PoolPair) -> str:
    """Devices of each kind, with the pools that have them."""
    rest = pools.decode.deployment
    held = [("prefill", pools.split.prefill, pools.prefill.deployment.pools[0])]
    both = zip(("decode", "feed-forward"), rest.pools, strict=False)
    held += [(name, pools.split.decode, pool) for name, pool in both]
    kinds: dict[str, list[tuple[str, int]]] = {}
    for name, number, pool in held:
        devices = number * int(pool.layout.devices)
        kinds.setdefault(pool.node.gpu.title, []).append((name, devices))
    if len(kinds) == 1:
        return f"{pools.gpus} × {next(iter(kinds))}"
    return " and ".join(
        f"{sum(number for _, number in parts)} × {title} ({', '.join(name for name, _ in parts)})"
        for title, parts in kinds.items()
    )


def sentences(pools: PoolPair, beside: Table) -> tuple[str, ...]:
    """Summary: the ratio, what binds, price, gain."""
    return (
        _ratio(pools),
        *([_to_and_fro(pools)] if pools.decode.deployment.ffn is not None else []),
        _split(pools),
        f"Prefill is bound by {_bound(pools.prefill, 'prefill')}, "
        f"decode by {_bound(pools.decode, 'decode')}.",
        _wires(pools),
        _room(pools),
        _gain(beside),
    )


def _ratio(pools: PoolPair) -> str:
    phases, first, rest = pools.overlap, pools.prefill.deployment, pools.decode.deployment
    more, fewer = "prefill", "decode"
    ratio = phases.ratio
    if ratio < 1:
        more, fewer, ratio = fewer, more, 1.0 / ratio
    sending = ", as its links send caches" * (phases.send_s > phases.prompt_s)
    layouts = " + ".join(str(pool.layout) for pool in rest.pools)
    receiving = ", as its links bring caches" * (phases.receive_s > phases.answer_s)
    return (
        f"A prefill instance ({first.layout}) takes {significant(phases.prompts_per_s)} prompts/s"
        f"{sending}, a decode instance ({layouts}) gives {significant(phases.answers_per_s)} "
        f"answers/s{receiving}: "
        f"{significant(ratio)} {more} instances balance one {fewer} instance."
    )


def _to_and_fro(pools: PoolPair) -> str:
    """Attention and feed-forward parts of a decode instance, and what sets their pace."""
    rest = pools.decode.deployment
    assert rest.ffn is not None, "everything is in one pool"
    best = ratio_of(rest, pools.decode.workload, pools.decode.utilization)
    number, size = pools.decode.workload.turns(rest)
    attention, there, ffn, back = (show(each, "s") for each in pools.decode.decode_stages)
    pace = (
        "none of them is busy all the time: a micro-batch waits for itself"
        if best.binds == "latency"
        else f"{best.binds} sets the pace"
    )
    return (
        f"{counted(best.groups, 'attention instance')} on "
        f"{counted(int(rest.layout.devices), 'GPU')} beside "
        f"{counted(int(rest.ffn.deployment.layout.devices), 'GPU')} for feed-forward parts: each "
        f"of {counted(number, 'micro-batch')} of {size} sequences takes {attention} of attention, "
        f"{there} there, {ffn} of feed-forward parts, {back} back; {pace}."
    )


def _split(pools: PoolPair) -> str:
    phases, split = pools.overlap, pools.split
    idle = split.idle(phases)
    names = ("prefill", "decode")
    pace = "the links set the pace" if split.utilisation(phases) > 1 else ""
    if not pace:
        slower = int(idle[1] < idle[0])
        waits = f", {names[1 - slower]} waits {idle[1 - slower]:.0%} of its time"
        pace = f"{names[slower]} sets the pace" + (waits if idle[1 - slower] >= 0.005 else "")
    left = pools.gpus - pools.used
    over = ""
    if left:
        over = f"; {left} GPU{'s are' if left > 1 else ' is'} left over"
    price = pools.usd_per_mtok(phases)
    cost = f" at {dollars(price)} per million" if price else ""
    return (
        f"On {pools.gpus} GPUs, {split.prefill} prefill and {split.decode} decode "
        f"instance{'s' if split.decode > 1 else ''} serve "
        f"{significant(split.requests_per_s(phases))} requests/s, "
        f"{count(pools.tok_s(phases))} tok/s{cost}: {pace}{over}."
    )


def _bound(batch: StaticBatch, phase: str) -> str:
    parts = shares(batch.prefill if phase == "prefill" else batch.decode)
    name = max(parts, key=lambda part: parts[part])
    return f"{BINDS.get(name, name)} ({parts[name]:.0%} of its time)"


def _wires(pools: PoolPair) -> str:
    handed, phases = pools.transfer, pools.overlap
    needed, given = pools.wire_bytes_per_s(phases)
    waits = (
        f"The cache of a prompt, {show(handed.prompt_bytes, 'B')}, makes decode wait "
        f"{show(phases.transfer_s, 's')}"
    )
    if handed.software_s:
        waits += f", {show(handed.software_s, 's')} of it software"
    if needed > given:
        return (
            f"{waits}. The {handed.wires} binds: {show(needed, 'B/s')} would be needed, "
            f"{significant(needed / given)} times what its links give."
        )
    share = needed / given
    part = f"{share:.0%}" if share >= 0.01 else f"{share:.1%}" if share >= 0.001 else "under 0.1%"
    return (
        f"{waits}; all caches need {show(needed, 'B/s')}, {part} of what the {handed.wires} gives."
    )


def _room(pools: PoolPair) -> str:
    held = {"prefill": pools.prefill_memory, "decode": pools.decode_memory}
    if pools.ffn_memory is not None:
        held["feed-forward"] = pools.ffn_memory
    if pools.fits:
        spare = ", ".join(
            f"{show_binary(memory.free)} to spare on each {name} device"
            for name, memory in held.items()
        )
        return f"{'Both' if len(held) == 2 else 'All'} pools fit: {spare}."
    short = " and ".join(
        f"{show_binary(-memory.free)} too much on each {name} device"
        for name, memory in held.items()
        if not memory.fits
    )
    return f"Does not fit: {short}."


def _gain(beside: Table) -> str:
    ours, theirs = list(beside.rows())[:2]
    factor = ours["throughput_tok_s_per_gpu"] / theirs["throughput_tok_s_per_gpu"]
    unfit = "" if theirs["fits"] else " (which do not fit)"
    return (
        f"Against static batches on {theirs['layout']}, both phases together{unfit}: throughput "
        f"per GPU × {significant(factor, 2)}. Their TTFT is that of prompts that arrive at once, "
        "and nothing decodes meanwhile: it does not compare."
    )


def notes(pools: PoolPair) -> tuple[str, ...]:
    """Conventions, omissions and choices behind the figures."""
    first, rest = pools.prefill.deployment, pools.decode.deployment
    work = pools.prefill.workload
    out = [
        DATASHEET
        if pools.fast is None
        else f"Times of operators are {GROUNDS[_basis(pools)]}; both ends of a figure are the "
        "central 80 %, errors of both pools taken to go together. Steps of both pools have "
        "the engine's software in them, TTFT its front end. The hand-over of the cache is at "
        "published rates.",
        "TTFT ends with the first step of the decode instance, which answers: the first token, "
        "made by the prefill, comes with the second. TPOT = (latency − TTFT) / (tokens − 1). "
        "Queues are left out: a pool that sets the pace is in use all the time, and one that is "
        "has a queue without end.",
        "Each layer's cache is sent while the next is computed; the figures without overlap "
        "send it all after the prefill."
        if pools.overlapped
        else "The cache is sent after the prefill; layer by layer (`overlapped`) most of that time "
        "is hidden.",
        "What several devices hold alike is sent once; copies inside an instance, and its own "
        f"traffic on the same {pools.transfer.wires}, are left out.",
        f"A prefill instance holds {pools.in_flight} prompts until they are sent; a decode "
        f"instance its batch and {pools.arriving} on their way.",
        "Static batches are a coarser model than the pools: all prompts of a batch arrive at once "
        "and nothing decodes while they are prefilled. With equal layouts and free links both "
        "serve as much; layouts or devices of their own can gain, whole instances lose.",
    ]
    if rest.ffn is not None:
        out.append(
            "A micro-batch visits attention and feed-forward pool once a layer, and goes over the "
            "interconnect in between: to each group of devices with an expert of a token. All "
            "layers are taken as alike; the engine's software is added once a step."
        )
    if work.cached:
        out.append("The cache of a prefix hit is sent too: the decode pool may not have it.")
    limit = first.step_tokens
    if limit and work.together * (work.prompt - work.cached) > limit:
        out.append(
            f"Prefill is priced as one step; the memory of its activations is that of the "
            f"{limit / first.layout.dp:,.0f}-token chunks {first.engine.title} cuts it into."
        )
    if not pools.usd_per_hour:
        out.append("No price is assumed for a device of these pools: give one with `usd_per_hour`.")
    return (*out, *first.precision.notes, *rest.precision.notes, *rest.architecture.notes)


TIMES: Final = ("attention_s", "to_ffn_s", "ffn_s", "from_ffn_s")
"""Columns of the times of `VISITS`."""
SHOWN: Final = 8
"""Numbers of attention instances that are shown. [1]"""


def _basis(pools: PoolPair) -> str:
    return worst(each.deployment.basis for each in (pools.prefill, pools.decode))


def headline(pools: PoolPair, derivations: Mapping[str, Derivation]) -> Table:
    """Metrics of the deployment, one row each.

    Calibrated, ``low`` and ``high`` bound the central 80 %; else ``serial`` is without overlap.
    """

    def figures(phases: PoolTimes) -> dict[str, float]:
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


def pool_table(both: PoolPair) -> Table:
    """The two pools: instances, steps, rates, how long they wait, memory of one device."""
    idle = both.split.idle(both.overlap)

    def row(
        pool: str, batch: StaticBatch, number: int, waits: float, memory: MemoryBudget, held: int
    ) -> dict[str, Any]:
        prefills = pool == "prefill"

        def step(phases: PoolTimes) -> float:
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


def visit_table(both: PoolPair) -> Table:
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


def ratio_table(both: PoolPair) -> Table:
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


def transfer_table(both: PoolPair) -> Table:
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
            (
                "software",
                handed.software_s,
                "s",
                "second intake, router, bootstrap, room for the cache",
            ),
            ("time", handed.seconds, "s", f"to hand {prompts} over, at the slower end"),
            ("waited", both.overlap.transfer_s, "s", "of it before decode can start"),
            ("needed", needed, "B/s", "caches of all requests, if links were no limit"),
            ("given", given, "B/s", f"by the {handed.wires} of the slower end's devices"),
            ("utilisation", needed / given, "", "needed of given; above 1 the links bind"),
        )
    ]
    return table(rows, {})


def _shared(devices: int, end: str) -> str:
    whole = f"its part on the busiest of {devices} {end}s"
    return whole if devices > 1 else f"by the one {end}"


def alternative_table(both: PoolPair) -> Table:
    """The pools beside static batches of either layout that do both phases, on as many devices."""
    tokens = both.tok_s(both.overlap)
    split, decoding = both.split, both.decode.deployment.spelled
    decoding = f"({decoding})" if "+" in decoding else decoding
    rows = [
        {
            "serving": "disaggregated",
            "layout": f"{both.prefill.deployment.layout.spelled} × {split.prefill} + "
            f"{decoding} × {split.decode}",
            "gpus": both.used,
            "ttft_mean_s": both.prefill.ttft_mean_s + both.overlap.transfer_s + both.overlap.step_s,
            "tpot_s": both.overlap.tpot_s,
            "latency_s": both.overlap.latency_s,
            "throughput_tok_s": tokens,
            "throughput_tok_s_per_gpu": tokens / both.used,
            "usd_per_mtok": both.usd_per_mtok(both.overlap),
            "fits": both.fits,
        }
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


def _static(both: PoolPair, batch: StaticBatch) -> dict[str, Any]:
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
