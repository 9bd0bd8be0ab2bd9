"""The latency model of the inference lecture: published closed forms on a network and a GPU.

Every parameter is read for every token, the input embedding too; norms and biases are not counted;
the cache holds S tokens of every layer; time is memory traffic over bandwidth. What a serving
engine does differently is in `roofline.serving.static`.
"""

from typing import Final

from roofline.cost.textbook import bounds, latency, memory, parameters
from roofline.cost.work import Number
from roofline.errors import InputError
from roofline.hardware.machine import Gpu
from roofline.model.architecture import Architecture, Attention, Mlp
from roofline.model.precision import NumberFormat
from roofline.serving.explain.parts import derived, fact
from roofline.serving.workload import Workload
from roofline.table import Derivation, Result, table
from roofline.version import __version__

SOURCE: Final = "Stanford CS336 (2025), lecture 10"


def analyze(
    network: Architecture,
    gpu: Gpu,
    workload: Workload,
    stored: NumberFormat,
    cache: NumberFormat,
    devices: int,
) -> Result:
    """Memory, latency of a decode step and throughput as the lecture computes them.

    Args:
        network: Equal layers of attention and a gated feed-forward part.
        gpu: Whose bandwidth and arithmetic rate.
        workload: Batch B [1]; the prompt is the context S. [token]
        stored, cache: Formats of weights and cache.
        devices: Devices that share the memory traffic evenly. [1]

    Raises:
        InputError: The closed forms do not describe the network.
    """
    attention, mlp = _shape(network)
    count = parameters.lecture_parameters(
        d_model=network.d_model,
        d_ff=mlp.width,
        layers=len(network.layers),
        heads=attention.heads,
        kv_heads=attention.kv_heads,
        head_dim=attention.head_dim,
        vocab=network.vocab,
    )
    per_token = memory.kv_bytes_per_token(
        len(network.layers), attention.kv_heads, attention.head_dim, cache.width
    )
    weights = memory.weight_memory(count, stored.width)
    sequence = memory.kv_memory(per_token, workload.prompt)
    held = memory.decode_memory(weights, workload.batch, sequence)
    step = bounds.memory_time(held, gpu.hbm_bytes_per_s, devices)
    rate = latency.decode_throughput(workload.batch, step)
    arithmetic = next(name for name in ("bf16", "fp16", "fp32") if name in gpu.flops_per_s)
    tokens = workload.batch * workload.prompt
    first = latency.prefill_latency(count, tokens, gpu.rate(arithmetic), devices)
    ridge = bounds.ridge(gpu.rate(arithmetic), gpu.hbm_bytes_per_s)

    number = Derivation(
        "P",
        float(count),
        "parameter",
        formula="2·V·D + L·(2·D·N·H + 2·D·K·H + 3·D·F)",
        source=SOURCE,
        note="no norms, no biases; embedding and LM head apart even where they are one matrix",
    )
    terms = {
        "B": workload.batch,
        "S": workload.prompt,
        "K": attention.kv_heads,
        "H": attention.head_dim,
        "L": len(network.layers),
        "bytes in the cache": cache.width,
        "bytes": stored.width,
        "devices": devices,
        "peak": gpu.rate(arithmetic),
    }

    def shown(name: str, value: Number, unit: str, text: str, *inputs: Derivation) -> Derivation:
        basis = "datasheet" if unit == "s" else ""
        return derived(name, float(value), unit, text, inputs, terms, source=SOURCE, basis=basis)

    text = "B · S · 2 · K · H · L · bytes in the cache"
    kept = shown("KV cache", workload.batch * sequence, "B", text)
    moved = shown("memory", held, "B", "P · bytes + KV cache", number, kept)
    rates = fact(gpu, "BW", "hbm", gpu.hbm_bytes_per_s, "B/s")
    decoded = shown("TPOT", step, "s", "memory / BW[ / devices]", moved, rates)
    prefilled = shown("TTFT", first, "s", "2 · P · B · S / (peak · devices)", number)
    figures: tuple[tuple[str, Number, str, str], ...] = (
        ("parameters", count, "parameter", "input embedding in, norms out"),
        ("kv_bytes_per_token", per_token, "B", "every layer"),
        ("kv_bytes", kept.value, "B", "of the batch at context S"),
        ("weight_bytes", weights, "B", "all parameters"),
        ("memory_bytes", held, "B", "read for every token"),
        ("ttft_s", first, "s", "2·P·B·S FLOP at the dense peak"),
        ("tpot_s", step, "s", "memory / bandwidth"),
        ("throughput_tok_s", rate, "token/s", "batch / latency of a step"),
        ("ridge", ridge, "FLOP/B", f"dense {arithmetic} peak / bandwidth"),
    )
    columns = ("metric", "value", "unit", "basis", "meaning")
    rows = [
        dict(zip(columns, (metric, float(value), unit, "datasheet", meaning), strict=True))
        for metric, value, unit, meaning in figures
    ]
    return Result(
        kind="analyze",
        tables={"headline": table(rows, {})},
        derivations={
            "ttft": prefilled,
            "tpot": decoded,
            "memory": moved,
            "kv": kept,
            "weights": number,
        },
        notes=(
            f"Textbook convention, {SOURCE}: memory traffic only, at the datasheet bandwidth; "
            f"context S = prompt = {workload.prompt} tokens.",
        ),
        metadata={
            "version": __version__,
            "model": network.name,
            "gpu": gpu.name,
            "gpu_title": gpu.title,
            "gpus": devices,
            "tp": devices,
            "weights": stored.name,
            "kv": cache.name,
            "batch": workload.batch,
            "prompt": workload.prompt,
            "convention": "textbook",
            "basis": "datasheet",
            "fits": bool(held <= devices * gpu.memory_bytes),
            "summary": (),
        },
    )


def _shape(network: Architecture) -> tuple[Attention, Mlp]:
    """The one kind of layer that the closed forms know; windows do not enter them."""
    shapes = {
        (part.heads, part.kv_heads, part.head_dim, mlp.width, mlp.gated)
        for part, mlp in ((block.mixer, block.feedforward) for block in network.kinds)
        if isinstance(part, Attention) and isinstance(mlp, Mlp)
    }
    first = network.layers[0]
    attention, mlp = first.mixer, first.feedforward
    whole = all(block.mixer and block.feedforward for block in network.kinds)
    if (
        not (
            len(shapes) == 1 and whole and isinstance(attention, Attention) and isinstance(mlp, Mlp)
        )
        or not mlp.gated
    ):
        raise InputError(
            f"the textbook forms do not describe {network.name}",
            hint="they are for equal layers of attention and a gated feed-forward part; "
            "use `convention=engine`",
        )
    return attention, mlp
