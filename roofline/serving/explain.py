"""How each headline figure of a static batch came about, down to facts with sources."""

from collections.abc import Callable, Mapping
from typing import Final

from roofline.cost.work import Op
from roofline.errors import UnknownNameError
from roofline.hardware.machine import Gpu
from roofline.model.architecture import Attention
from roofline.serving.static import OpTime, StaticBatch
from roofline.table import BASES, Derivation
from roofline.units import SECONDS_PER_HOUR, count, show, show_binary

LARGEST: Final = 5
"""Operators that a step's derivation spells out; the others are one entry."""


def worst(bases: list[str]) -> str:
    """Basis of a figure built from others: the worst one wins.

    >>> worst(["measured", "assumed", "datasheet"])
    'assumed'
    """
    known = [BASES.index(basis) for basis in bases if basis]
    return BASES[max(known)] if known else ""


def explain(batch: StaticBatch, metric: str) -> Derivation:
    """Derivation of one metric.

    Raises
    ------
    UnknownNameError
        There is no such metric.
    """
    if metric not in METRICS:
        raise UnknownNameError(
            f"nothing called {metric!r} to explain", hint=f"metrics: {', '.join(METRICS)}"
        )
    return METRICS[metric](batch)


def explain_all(batch: StaticBatch) -> dict[str, Derivation]:
    """Derivations of every metric."""
    return {name: derive(batch) for name, derive in METRICS.items()}


def _given(name: str, value: float, unit: str) -> Derivation:
    return Derivation(name, value, unit, source="given", basis="")


def _fact(gpu: Gpu, name: str, key: str, value: float, unit: str) -> Derivation:
    fact = gpu.facts.get(key)
    if fact is None:
        return Derivation(name, value, unit, source=f"{gpu.name}, {key}", basis="datasheet")
    place = ", ".join(text for text in (fact.source, fact.where, fact.location) if text)
    return Derivation(name, value, unit, source=place, basis=fact.basis, note=fact.note)


def _network(batch: StaticBatch, name: str, field: str, value: float) -> Derivation:
    network = batch.deployment.architecture
    source = network.provenance.get(field, network.name)
    return Derivation(name, value, "", source=source)


def _rates(batch: StaticBatch) -> tuple[Derivation, ...]:
    gpu, precision = batch.deployment.node.gpu, batch.deployment.precision
    names = dict.fromkeys((precision.linear_arithmetic, precision.attention_arithmetic))
    peaks = tuple(
        _fact(gpu, f"P {name}", f"arithmetic.{name}", gpu.rate(name), "FLOP/s") for name in names
    )
    memory = _fact(gpu, "BW", "hbm", gpu.hbm_bytes_per_s, "B/s")
    link = batch.deployment.node.link
    if batch.devices == 1 or link is None:
        return (*peaks, memory)
    wire = _fact(gpu, "wire", f"links.{link.kind}.bandwidth", link.bytes_per_s, "B/s")
    return (*peaks, memory, wire)


def _flops_formula(op: Op) -> tuple[str, str]:
    """FLOP formula of an operator, and the same with its numbers."""

    def number(key: str) -> str:
        return f"{float(op.dims[key]):,.10g}"

    if op.kind == "gemm":
        return "2·m·n·k", f"2 · {number('m')} · {number('n')} · {number('k')}"
    if op.kind in ("prefill-attention", "decode-attention"):
        pairs = float(op.work.flops) / (
            4 * float(op.dims["heads"]) * float(op.dims["head_dim"]) * float(op.dims["count"])
        )
        return (
            "4·N·H·B·pairs",
            f"4 · {number('heads')} · {number('head_dim')} · {number('count')} · {pairs:,.10g}",
        )
    return "", ""


def _op(entry: OpTime, gpu: Gpu) -> Derivation:
    """Time of an operator, all executions together."""
    op = entry.op
    formula, numbers = _flops_formula(op)
    inputs = []
    if formula:
        flops = float(op.work.flops)
        inputs.append(Derivation("F", flops, "FLOP", formula=formula, substituted=numbers))
    for name, value in (
        ("weights", op.work.weight_bytes),
        ("activations", op.work.activation_bytes),
        ("KV cache", op.work.kv_bytes),
        ("wire", op.work.wire_bytes),
    ):
        if float(value):
            inputs.append(Derivation(f"{name} moved", float(value), "B"))
    per_op = [show(t / op.repeat, "s") for t in (entry.compute, entry.memory, entry.wire)]
    limits = "F / P, B / BW" + (", sent / wire" if entry.wire else "")
    return Derivation(
        op.name,
        entry.seconds,
        "s",
        formula=f"{op.repeat} · max({limits})",
        substituted=f"{op.repeat} · max({', '.join(per_op[: 3 if entry.wire else 2])})",
        inputs=tuple(inputs),
        basis="datasheet",
        note=f"bound by {entry.bound}",
    )


def _step(name: str, ops: Mapping[str, OpTime], batch: StaticBatch) -> Derivation:
    """Time of a step as the sum of its operators, the largest spelled out."""
    gpu = batch.deployment.node.gpu
    ordered = sorted(ops.values(), key=lambda entry: -entry.seconds)
    total = sum(entry.seconds for entry in ordered)
    rest = ordered[LARGEST:]
    inputs = [_op(entry, gpu) for entry in ordered[:LARGEST]]
    if rest:
        inputs.append(
            Derivation(
                f"{len(rest)} smaller operators",
                sum(entry.seconds for entry in rest),
                "s",
                note=", ".join(entry.op.name for entry in rest),
            )
        )
    rates = _rates(batch)
    return Derivation(
        name,
        total,
        "s",
        formula="sum over operators of repeats · max(F / P, B / BW)",
        substituted=" + ".join(show(entry.value, "s") for entry in inputs),
        inputs=(*inputs, *rates),
        source="roofline: Williams, Waterman, Patterson 2009",
        basis=worst([rate.basis for rate in rates]),
        note=f"each operator overlaps in itself; without any overlap "
        f"{show(sum(entry.serial for entry in ordered), 's')}; at datasheet rates both are less "
        "than real kernels take",
    )


def _ttft(batch: StaticBatch) -> Derivation:
    work = batch.workload
    one = _step("prefill step", batch.prefill, batch)
    steps = round(batch.ttft_s / one.value)
    return Derivation(
        "TTFT",
        batch.ttft_s,
        "s",
        formula="ceil(batch / prefill batch) · prefill step",
        substituted=f"{steps} · {show(one.value, 's')}",
        inputs=(
            one,
            _given("batch", work.batch, ""),
            _given("prefill batch", work.together, ""),
            _given("prompt", work.prompt, "token"),
            _given("of it cached", work.cached, "token"),
        ),
        basis=one.basis,
        note="of the prompt prefilled last; no queueing, all prompts arrive at once",
    )


def _tpot(batch: StaticBatch) -> Derivation:
    work = batch.workload
    if work.output == 1:
        return Derivation("TPOT", 0.0, "s", note="a single token has no time between tokens")
    one = _step("mean decode step", batch.decode, batch)
    first, last = work.prompt + 1, work.longest
    return Derivation(
        "TPOT",
        batch.tpot_s,
        "s",
        formula="mean of the decode step over contexts prompt + 1 … prompt + output − 1",
        substituted=f"mean over {first:,} … {last:,}",
        inputs=(
            one,
            _given("batch", work.batch, ""),
            _given("prompt", work.prompt, "token"),
            _given("output", work.output, "token"),
        ),
        source="(latency − TTFT) / (tokens − 1)",
        basis=one.basis,
    )


def _latency(batch: StaticBatch) -> Derivation:
    ttft, tpot = _ttft(batch), _tpot(batch)
    output = batch.workload.output
    return Derivation(
        "latency",
        batch.latency_s,
        "s",
        formula="TTFT + (output − 1) · TPOT",
        substituted=f"{show(ttft.value, 's')} + {output - 1} · {show(tpot.value, 's')}",
        inputs=(ttft, tpot),
        basis=worst([ttft.basis, tpot.basis]),
    )


def _throughput(batch: StaticBatch) -> Derivation:
    latency, work = _latency(batch), batch.workload
    return Derivation(
        "throughput",
        batch.throughput_tok_s,
        "token/s",
        formula="batch · output / latency",
        substituted=f"{work.batch} · {work.output} / {show(latency.value, 's')}",
        inputs=(latency,),
        basis=latency.basis,
        note="output tokens only; prefill time included",
    )


def _kv(batch: StaticBatch) -> Derivation:
    deployment, work = batch.deployment, batch.workload
    inputs, terms = [], []
    for block, layers in deployment.architecture.kinds.items():
        part = block.mixer
        if not isinstance(part, Attention):
            continue
        seen = "S" if part.window is None else f"min(S, {part.window})"
        terms.append(f"{layers} · 2 · {part.kv_heads} · {part.head_dim} · {seen}")
        inputs += [
            _network(batch, "L", "layers", layers),
            _network(batch, "K", "kv_heads", part.kv_heads),
            _network(batch, "H", "head_dim", part.head_dim),
        ]
        if part.window is not None:
            inputs.append(_network(batch, "W", "window", part.window))
    width = deployment.precision.kv.width
    return Derivation(
        "KV cache",
        batch.memory.kv,
        "B",
        formula="B · L · 2·K·H · min(S, W) · bytes / TP (K at least 1 a device)",
        substituted=f"{work.batch} · ({' + '.join(terms)}) · {width:g} B / {batch.devices}, "
        f"S = {work.longest:,}",
        inputs=(
            *inputs,
            Derivation(
                "bytes per element", width, "B", source=f"{deployment.precision.kv.name} cache"
            ),
        ),
        source="2·K·H elements a token and layer",
        note="on one device; rounding up to pages is left out"
        if work.kv_cache
        else "nothing is cached: the context is computed again for every token",
    )


def _weights(batch: StaticBatch) -> Derivation:
    deployment = batch.deployment
    network, stored = deployment.architecture, deployment.precision.weights
    return Derivation(
        "weights",
        batch.memory.weights,
        "B",
        formula="matrices · bytes / TP + (embedding + LM head) · bytes / TP + norms",
        inputs=(
            _network(batch, "D", "d_model", network.d_model),
            _network(batch, "V", "vocab", network.vocab),
            _network(batch, "layers", "layers", len(network.layers)),
            Derivation(
                "bytes per matrix element",
                stored.width,
                "B",
                source=f"{stored.name}: {stored.source}",
            ),
            _given("TP", deployment.tp, ""),
        ),
        note="on one device",
    )


def _memory(batch: StaticBatch) -> Derivation:
    memory, gpu = batch.memory, batch.deployment.node.gpu
    engine = batch.deployment.engine
    key = "memory.visible" if "memory.visible" in gpu.facts else "memory.nominal"
    share = memory.budget / memory.capacity
    return Derivation(
        "memory in use",
        memory.weights + memory.activations + memory.runtime + memory.graphs + memory.kv,
        "B",
        formula="weights + KV cache + activations + runtime + graphs",
        substituted=" + ".join(
            show_binary(value)
            for value in (
                memory.weights,
                memory.kv,
                memory.activations,
                memory.runtime,
                memory.graphs,
            )
        ),
        inputs=(
            _weights(batch),
            _kv(batch),
            Derivation(
                "activations",
                memory.activations,
                "B",
                formula="tokens · (2·D + widest layer) · bytes, or the logits",
                source="buffers alive at once in the largest step",
            ),
            Derivation(
                "runtime", memory.runtime, "B", source=f"engine {engine.name}", basis="assumed"
            ),
            Derivation(
                "graphs", memory.graphs, "B", source=f"engine {engine.name}", basis="assumed"
            ),
            _fact(gpu, "capacity", key, memory.capacity, "B"),
            Derivation("utilization", share, "", source=f"engine {engine.name} or given"),
        ),
        basis="assumed" if memory.runtime or memory.graphs else "datasheet",
        note=f"on one device; {show_binary(abs(memory.free))} "
        + ("free of" if memory.fits else "too much for")
        + f" {share:.0%} of {show_binary(memory.capacity)}",
    )


def _cost(batch: StaticBatch) -> Derivation:
    gpu = batch.deployment.node.gpu
    throughput = _throughput(batch)
    price = _fact(gpu, "price", "price.per_hour", gpu.usd_per_hour, "$/h")
    return Derivation(
        "cost of a million output tokens",
        batch.usd_per_mtok,
        "$",
        formula="price · devices / throughput · 1,000,000",
        substituted=f"{gpu.usd_per_hour:g} $/h · {batch.devices} / "
        f"{show(throughput.value, 'token/s')} · {count(1_000_000)} / {SECONDS_PER_HOUR:g} s/h",
        inputs=(price, throughput),
        basis=worst([price.basis, throughput.basis]) if gpu.usd_per_hour else "",
        note="" if gpu.usd_per_hour else "no price is assumed for this device",
    )


def _energy(batch: StaticBatch) -> Derivation:
    gpu = batch.deployment.node.gpu
    throughput = _throughput(batch)
    power = _fact(gpu, "board power", "power.tdp", gpu.tdp_w, "W")
    return Derivation(
        "energy of a million output tokens",
        batch.joule_per_mtok,
        "J",
        formula="board power · devices / throughput · 1,000,000",
        substituted=f"{gpu.tdp_w:g} W · {batch.devices} / {show(throughput.value, 'token/s')} "
        f"· {count(1_000_000)}",
        inputs=(power, throughput),
        basis=worst([power.basis, throughput.basis]),
        note="at full board power, devices only",
    )


def _ridge(batch: StaticBatch) -> Derivation:
    gpu = batch.deployment.node.gpu
    name = batch.deployment.precision.linear_arithmetic
    rates = _rates(batch)[:1]
    memory = _fact(gpu, "BW", "hbm", gpu.hbm_bytes_per_s, "B/s")
    return Derivation(
        "ridge point",
        gpu.ridge(name),
        "FLOP/B",
        formula="P / BW",
        substituted=f"{show(gpu.rate(name), 'FLOP/s', 4)} / {show(gpu.hbm_bytes_per_s, 'B/s', 4)}",
        inputs=(*rates, memory),
        source="Williams, Waterman, Patterson 2009",
        basis=worst([rates[0].basis, memory.basis]),
        note="an operator below this intensity is bound by memory",
    )


METRICS: Final[Mapping[str, Callable[[StaticBatch], Derivation]]] = {
    "ttft": _ttft,
    "tpot": _tpot,
    "latency": _latency,
    "throughput": _throughput,
    "memory": _memory,
    "weights": _weights,
    "kv": _kv,
    "cost": _cost,
    "energy": _energy,
    "ridge": _ridge,
}
