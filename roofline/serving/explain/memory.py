"""Derivations of what is kept in device memory."""

from roofline.cost.memory import kept_by_layer, kv_bytes_per_sequence
from roofline.cost.placement import kv_heads_per_device
from roofline.cost.stages import pipeline
from roofline.cost.weights import layer_bytes
from roofline.model.architecture import Attention, Block, CompressedAttention, Mla, Recurrent
from roofline.model.precision import named
from roofline.serving.explain.parts import config, fact, given, outside_share
from roofline.serving.explain.weights import weights
from roofline.serving.static import StaticBatch
from roofline.table import Derivation
from roofline.units import show_binary


def kv(batch: StaticBatch) -> Derivation:
    """Cache of the batch at its longest context, on one device."""
    deployment, work = batch.deployment, batch.workload
    if not work.kv_cache:
        return Derivation(
            "KV cache",
            0.0,
            "B",
            source="nothing is cached: the context is computed again for every token",
        )
    layout = deployment.layout
    stages = pipeline(deployment.architecture, layout, deployment.node)
    stage = stages[batch.memory.stage]
    layers = [_layers(batch, block, number) for block, number in stage.layers if block.mixer]
    context, mine = float(work.longest), -(-work.batch // int(layout.dp))
    held = float(
        mine * kv_bytes_per_sequence(deployment, context, one_page_table=True, stage=stage)
    )
    kept = 1 - deployment.offload.kv
    formula = "B · sum over layers of what each keeps of a sequence"
    shared = " + ".join(f"{each.value:,.12g}" for each in layers)
    shared = f"{mine} · ({shared})" if len(layers) > 1 else f"{mine} · {shared}"
    note = "on one device; rounding up to pages is left out"
    if layout.dp > 1:
        formula = formula.replace("B ·", "⌈B / DP⌉ ·")
    if kept != 1:
        formula, shared = f"kept share · {formula}", f"{kept:g} · {shared}"
    if len(stages) > 1:
        note += f"; stage {batch.memory.stage + 1} of {len(stages)}, which takes most"
    if held > batch.memory.kv and not deployment.offload.kv:
        note += f"; an engine with one table of pages for all layers holds {show_binary(held)}"
    return Derivation(
        "KV cache",
        batch.memory.kv,
        "B",
        formula=formula,
        substituted=shared,
        inputs=(
            *layers,
            given("B", work.batch, ""),
            given("S", work.longest, "token"),
            Derivation(
                "bytes per element",
                deployment.precision.kv.width,
                "B",
                source=f"{deployment.precision.kv.name} cache",
            ),
        ),
        note=note,
    )


def _layers(batch: StaticBatch, block: Block, number: int) -> Derivation:
    """What layers of one kind keep of a sequence."""
    deployment, context = batch.deployment, batch.workload.longest
    part, tp, width = block.mixer, deployment.tp, deployment.precision.kv.width
    kept = number * float(kept_by_layer(deployment, block, float(context)))
    cp = float(deployment.layout.cp)
    name, formula, numbers = "layers", "", ""
    inputs: tuple[Derivation, ...] = ()
    if isinstance(part, Attention):
        heads, span = kv_heads_per_device(part, tp), part.window or part.chunk
        both = part.head_dim + part.value_width
        name = "attention layers"
        formula = "L · max(K / TP, 1) · (H + H of values) · S · bytes"
        tokens = context if span is None else min(context, span)
        if span is not None:
            formula = formula.replace(" S ", " min(S, W) ")
        numbers = f"{number} · {heads:g} · {both} · {tokens:,} · {width:g}"
        inputs = (
            config(batch, "K", "kv_heads", part.kv_heads),
            config(batch, "H", "head_dim", part.head_dim),
            *([config(batch, "W", "window", span)] if span is not None else []),
        )
        if part.reuses_kv or not kept:
            name = "layers that read another's cache" if part.reuses_kv else f"{name} of an encoder"
            formula = numbers = "0"
    elif isinstance(part, Mla):
        name, formula = "latent attention layers", "L · (C + r) · S · bytes, on every device"
        numbers = f"{number} · ({part.latent} + {part.rope_dim}) · {context:,} · {width:g}"
        inputs = (
            config(batch, "C", "latent", part.latent),
            config(batch, "r", "rope_dim", part.rope_dim),
        )
    elif isinstance(part, Recurrent):
        name = f"{part.kind} layers"
        formula = "L · (h·R·P · state bytes + taps of the convolution) / TP, whatever the context"
        state = named(part.state_format).width
        taps = part.state_elements - part.matrix_elements
        wide = deployment.precision.activations.width
        numbers = f"{number} · ({part.matrix_elements} · {state:g} + {taps} · {wide:g}) / {tp}"
    elif isinstance(part, CompressedAttention):
        name, formula = "compressed attention layers", "L · (H·min(S, W) + H / ratio·S) · bytes"
    index = getattr(part, "index", None)
    if index is not None and index.bytes_per_token:
        formula += " + L · index bytes · S"
        numbers += (
            f" + {number} · {float(index.bytes_per_token):g} · {context:,}" if numbers else ""
        )
    if cp > 1:
        formula, numbers = f"({formula}) / CP", f"({numbers}) / {cp:g}" if numbers else ""
    return Derivation(
        f"{number} {name}", kept, "B", formula=formula, substituted=numbers, inputs=inputs
    )


def _buffer(batch: StaticBatch) -> Derivation:
    """Layers on their way from outside device memory."""
    deployment, held, offload = batch.deployment, batch.memory, batch.deployment.offload
    stages = pipeline(deployment.architecture, deployment.layout, deployment.node)
    layers = stages[held.stage].layers
    matrices = sum(number * float(layer_bytes(deployment, block)) for block, number in layers)
    cache = (held.host - offload.weights * matrices) / offload.kv if offload.kv else 0.0
    outside = [
        (name, share, whole)
        for name, share, whole in (
            ("weights of the layers", offload.weights, matrices),
            ("cache", offload.kv, cache),
        )
        if share
    ]
    return Derivation(
        "layers being loaded",
        held.buffer,
        "B",
        formula="min(2 / layers, 1) · kept outside",
        substituted=f"min(2 / {sum(number for _, number in layers)}, 1) · "
        f"{show_binary(held.host, digits=4)}",
        inputs=(
            Derivation(
                "kept outside",
                held.host,
                "B",
                formula=" + ".join(f"share · {name}" for name, _, _ in outside),
                substituted=" + ".join(
                    f"{share:.6g} · {show_binary(whole, digits=4)}" for _, share, whole in outside
                ),
                inputs=tuple(
                    outside_share(f"share of the {name.split()[-1]}", share, offload)
                    for name, share, _ in outside
                ),
            ),
        ),
        note="of one device; one layer that computes and one on its way",
    )


def memory(batch: StaticBatch) -> Derivation:
    """Everything in the memory of one device."""
    held, gpu = batch.memory, batch.deployment.node.gpu
    engine = batch.deployment.engine
    key = "memory.visible" if "memory.visible" in gpu.facts else "memory.nominal"
    share = held.budget / held.capacity
    return Derivation(
        "memory in use",
        held.weights + held.activations + held.runtime + held.graphs + held.kv + held.buffer,
        "B",
        formula="weights + KV cache + activations + runtime + graphs"
        + " + layers being loaded" * bool(held.buffer),
        substituted=" + ".join(
            show_binary(value)
            for value in (
                held.weights,
                held.kv,
                held.activations,
                held.runtime,
                held.graphs,
                *([held.buffer] if held.buffer else []),
            )
        ),
        inputs=(
            weights(batch),
            kv(batch),
            Derivation(
                "activations",
                held.activations,
                "B",
                formula="tokens · (2·D + widest layer) · bytes, or the logits",
                source="buffers alive at once in the largest step",
            ),
            Derivation(
                "runtime", held.runtime, "B", source=f"engine {engine.name}", basis="assumed"
            ),
            Derivation("graphs", held.graphs, "B", source=f"engine {engine.name}", basis="assumed"),
            *([_buffer(batch)] if held.buffer else []),
            fact(gpu, "capacity", key, held.capacity, "B"),
            Derivation("utilization", share, "", source=f"engine {engine.name} or given"),
        ),
        basis="assumed" if held.runtime or held.graphs else "datasheet",
        note=f"on one device; {show_binary(abs(held.free))} "
        + ("free of" if held.fits else "too much for")
        + f" {share:.0%} of {show_binary(held.capacity)}",
    )
