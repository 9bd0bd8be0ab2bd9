"""Derivations of what is kept in device memory."""

from typing import Final

from roofline.cost.layout import Stage, pipeline
from roofline.cost.memory import kept, kv_bytes_per_sequence
from roofline.cost.weights import (
    adapter_parts,
    holding,
    layer_bytes,
    layer_parts,
    outside_bytes,
    outside_parts,
)
from roofline.model.architecture import Block
from roofline.serving.explain.parts import (
    cached_element,
    config,
    derived,
    fact,
    given,
    outside_share,
    parted,
    told_apart,
)
from roofline.serving.room import own
from roofline.serving.static import StaticBatch
from roofline.table import Derivation
from roofline.units import show_binary

_CONFIG: Final = {"K": "kv_heads", "H": "head_dim", "W": "window", "C": "latent", "r": "rope_dim"}
"""Symbols that are numbers of a network, and where they stand in its config."""


def kv(batch: StaticBatch) -> Derivation:
    """Cache of the batch at its longest context, on one device."""
    deployment, work = batch.deployment, batch.workload
    if not work.kv_cache:
        source = "nothing is cached: the context is computed again for every token"
        return Derivation("KV cache", 0.0, "B", source=source)
    layout, (stage, told) = deployment.layout, stage_of(batch)
    layers = told_apart(_layer(batch, *each) for each in stage.layers if each[0].mixer)
    whole = kv_bytes_per_sequence(deployment, work.longest, one_page_table=True, stage=stage)
    held = -(-work.batch // int(layout.dp)) * float(whole)
    note = "on one device; rounding up to pages is left out" + f"; {told}" * bool(told)
    further = batch.sequences // work.batch - 1
    if held > batch.memory.kv and not further and not deployment.offload.kv:
        note += f"; an engine with one table of pages for all layers holds {show_binary(held)}"
    summed = " + ".join(each.name for each in layers) or "0"
    more = []
    if further:
        tokens, name = own(deployment, work), "cache of a further answer or beam"
        each = float(kv_bytes_per_sequence(deployment, tokens, stage=stage))
        more.append(given(name, each, "B", f"{tokens:,.1f} tokens in pages beside the first's"))
        summed += f" + {further} · {name}"
    return derived(
        "KV cache",
        batch.memory.kv,
        "B",
        f"{'ceil(B / DP)' if layout.dp > 1 else 'B'} · ({summed})[ · share kept]",
        (
            *layers,
            *more,
            given("B", work.batch, ""),
            given("S", work.longest, "token"),
            cached_element(deployment),
        ),
        {"DP": float(layout.dp), "share kept": 1 - deployment.offload.kv},
        note=note,
    )


def _layer(batch: StaticBatch, block: Block, number: int) -> Derivation:
    """Cache that layers of one kind keep of a sequence."""
    part = kept(batch.deployment, block, float(batch.workload.longest))
    terms = part.symbols
    inputs = [
        config(batch, name, key, float(terms[name]))
        for name, key in _CONFIG.items()
        if name in terms
    ]
    one = parted(part, "B", inputs)
    if not one.formula:
        return Derivation(f"{number} {one.name}", 0.0, "B", source="they keep nothing")
    return derived(
        f"{number} {one.name}",
        number * one.value,
        "B",
        f"{number} · {one.formula}",
        inputs,
        {name: float(value) for name, value in terms.items()},
        source=one.source,
    )


def _buffer(batch: StaticBatch) -> Derivation:
    """Layers on their way from outside device memory."""
    deployment, offload = batch.deployment, batch.deployment.offload
    layers = holding(stage_of(batch)[0])
    matrices = sum(number * float(layer_bytes(deployment, block)) for block, number in layers)
    cache = (batch.memory.host - offload.weights * matrices) / offload.kv if offload.kv else 0.0
    parts = {"weights": (offload.weights, matrices), "cache": (offload.kv, cache)}
    parts = {name: both for name, both in parts.items() if both[0]}
    outside = derived(
        "kept outside",
        batch.memory.host,
        "B",
        " + ".join(f"share of the {name} · {name} of the layers" for name in parts),
        [
            entry
            for name, (share, whole) in parts.items()
            for entry in (
                outside_share(f"share of the {name}", share, offload),
                Derivation(f"{name} of the layers", whole, "B", source="of one device"),
            )
        ],
        binary=True,
    )
    return derived(
        "layers being loaded",
        batch.memory.buffer,
        "B",
        "min(2 / layers, 1) · kept outside",
        [outside],
        {"layers": sum(number for _, number in layers)},
        binary=True,
        note="of one device; one layer that computes and one on its way",
    )


def memory(batch: StaticBatch) -> Derivation:
    """Everything in the memory of one device."""
    held, gpu, engine = batch.memory, batch.deployment.node.gpu, batch.deployment.engine
    key = "memory.visible" if "memory.visible" in gpu.facts else "memory.nominal"
    share = held.budget / held.capacity
    reserved = {"runtime": held.runtime, "graphs": held.graphs}
    parts = (
        weights(batch),
        *([adapters(batch)] if held.adapters else []),
        kv(batch),
        Derivation(
            "activations",
            held.activations,
            "B",
            formula="tokens · (2·D + widest layer) · bytes, or the logits",
            source="buffers alive at once in the largest step",
        ),
        *(given(*each, "B", f"engine {engine.name}", "assumed") for each in reserved.items()),
        *([_buffer(batch)] if held.buffer else []),
    )
    return derived(
        "memory in use",
        held.weights + held.activations + held.runtime + held.graphs + held.kv + held.buffer,
        "B",
        " + ".join(part.name for part in parts),
        (
            *parts,
            fact(gpu, "capacity", key, held.capacity, "B"),
            Derivation("utilization", share, "", source=f"engine {engine.name} or given"),
        ),
        basis="assumed" if any(reserved.values()) else "datasheet",
        binary=True,
        note=f"on one device; {show_binary(abs(held.free))} "
        + ("free of" if held.fits else "too much for")
        + f" {share:.0%} of {show_binary(held.capacity)}",
    )


def stage_of(batch: StaticBatch) -> tuple[Stage, str]:
    """Stage of the pipeline that takes most memory, and which one that is."""
    deployment, number = batch.deployment, batch.memory.stage
    stages = pipeline(deployment.architecture, deployment.layout, deployment.node)
    told = f"stage {number + 1} of {len(stages)}, which takes most" if len(stages) > 1 else ""
    return stages[number], told


def weights(batch: StaticBatch) -> Derivation:
    """Weights on one device, of the stage that takes most."""
    deployment, offload = batch.deployment, batch.deployment.offload
    network, layout = deployment.architecture, deployment.layout
    stored = deployment.precision.weights
    stage, told = stage_of(batch)
    layers = told_apart(_layers(batch, block, number) for block, number in holding(stage))
    outside = _outside(batch, stage)
    summed = " + ".join(each.name for each in layers)
    share = outside_share("share of the layers kept outside", offload.weights, offload)
    degrees = {"TP": layout.tp, "EP": layout.ep, "PP": layout.pp, "DP": layout.dp, "CP": layout.cp}
    formula = f"(1 − {share.name}) · ({summed})" if share.value else summed
    return derived(
        "weights",
        batch.memory.weights - batch.memory.adapters,
        "B",
        f"{formula} + {outside.name}",
        (
            *layers,
            outside,
            *([share] if share.value else []),
            config(batch, "D", "d_model", network.d_model),
            config(batch, "V", "vocab", network.vocab),
            config(batch, "layers", "layers", len(network.layers)),
            given("bytes per matrix element", stored.width, "B", f"{stored.name}: {stored.source}"),
            *(
                given(name, float(degree), "", f"the layout, {layout}")
                for name, degree in degrees.items()
                if name == "TP" or degree != 1
            ),
        ),
        note="on one device" + f", of {told}" * bool(told),
    )


def adapters(batch: StaticBatch) -> Derivation:
    """LoRA adapters that are kept on one device, of the stage that takes most."""
    deployment, lora = batch.deployment, batch.deployment.options.lora
    layers = told_apart(
        derived(
            f"{number} layers",
            number * sum(each.value for each in parts),
            "B",
            f"{number} · ({' + '.join(each.name for each in parts)})",
            parts,
        )
        for block, number in stage_of(batch)[0].layers
        if (parts := [parted(each, "B") for each in adapter_parts(deployment, block)])
    )
    return derived(
        "LoRA adapters",
        batch.memory.adapters,
        "B",
        f"kept · ({' + '.join(each.name for each in layers)})",
        (given("kept", float(lora.kept), "", "`max_loras`, or all of `adapters`"), *layers),
        note="on one device, each with a place of the whole rank",
    )


def _layers(batch: StaticBatch, block: Block, number: int) -> Derivation:
    """Layers of one kind on one device."""
    deployment = batch.deployment
    parts = [parted(each, "B") for each in layer_parts(deployment, block) if each.value]
    experts = config(batch, "E", "experts", block.experts) if block.experts else None
    return derived(
        f"{number} layers: {_called(block)}" if number != 1 else f"1 layer: {_called(block)}",
        number * float(layer_bytes(deployment, block)),
        "B",
        f"{number} · ({' + '.join(each.name for each in parts)})",
        (*parts, experts) if experts else parts,
    )


def _called(block: Block) -> str:
    """Parts of a layer in a few words."""
    feedforward = block.feedforward
    parts = [block.mixer.label] if block.mixer is not None else []
    if feedforward is not None:
        parts.append(feedforward.label)
    return " and ".join(parts) or "norms"


def _outside(batch: StaticBatch, stage: Stage) -> Derivation:
    """Embedding, LM head and what else is outside the layers."""
    where = (batch.deployment, stage.first, stage.last)
    parts = [parted(each, "B") for each in outside_parts(*where) if each.value]
    text = " + ".join(each.name for each in parts) or "0"
    return derived("outside the layers", float(outside_bytes(*where)), "B", text, parts)
