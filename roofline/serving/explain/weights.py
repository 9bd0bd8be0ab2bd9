"""Derivation of the weights on one device: layers by kind, and what is outside them."""

from dataclasses import replace

from roofline.cost.layout import Stage, pipeline
from roofline.cost.weights import layer_bytes, layer_parts, outside_bytes, outside_parts
from roofline.model.architecture import Attention, Block, Moe, Recurrent
from roofline.serving.explain.parts import config, derived, given, outside_share, parted, told_apart
from roofline.serving.static import StaticBatch
from roofline.table import Derivation


def stage_of(batch: StaticBatch) -> tuple[Stage, str]:
    """Stage of the pipeline that takes most memory, and which one that is."""
    deployment, number = batch.deployment, batch.memory.stage
    stages = pipeline(deployment.architecture, deployment.layout, deployment.node)
    told = f"stage {number + 1} of {len(stages)}, which takes most" if len(stages) > 1 else ""
    return stages[number], told


def weights(batch: StaticBatch) -> Derivation:
    """Weights on one device, of the stage that takes most."""
    deployment, offload = batch.deployment, batch.deployment.offload
    network, stored, layout = (
        deployment.architecture,
        deployment.precision.weights,
        deployment.layout,
    )
    stage, told = stage_of(batch)
    layers = told_apart(_layers(batch, block, number) for block, number in stage.layers)
    outside = _outside(batch, stage)
    summed = " + ".join(each.name for each in layers)
    share = outside_share("share of the layers kept outside", offload.weights, offload)
    degrees = {"TP": layout.tp, "EP": layout.ep, "PP": layout.pp, "DP": layout.dp, "CP": layout.cp}
    formula = f"(1 − {share.name}) · ({summed})" if share.value else summed
    return derived(
        "weights",
        batch.memory.weights,
        "B",
        f"{formula} + {outside.name}",
        (
            *layers,
            outside,
            *([share] if share.value else []),
            config(batch, "D", "d_model", network.d_model),
            config(batch, "V", "vocab", network.vocab),
            config(batch, "layers", "layers", len(network.layers)),
            Derivation(
                "bytes per matrix element",
                stored.width,
                "B",
                source=f"{stored.name}: {stored.source}",
            ),
            *(
                replace(given(name, float(degree), ""), source=f"the layout, {layout}")
                for name, degree in degrees.items()
                if name == "TP" or degree != 1
            ),
        ),
        note="on one device" + f", of {told}" * bool(told),
    )


def _layers(batch: StaticBatch, block: Block, number: int) -> Derivation:
    """Layers of one kind on one device."""
    deployment, part = batch.deployment, block.feedforward
    parts = [parted(each, "B") for each in layer_parts(deployment, block) if each.value]
    experts = config(batch, "E", "experts", part.experts) if isinstance(part, Moe) else None
    return derived(
        f"{number} layers: {_called(block)}" if number != 1 else f"1 layer: {_called(block)}",
        number * float(layer_bytes(deployment, block)),
        "B",
        f"{number} · ({' + '.join(each.name for each in parts)})",
        (*parts, experts) if experts else parts,
    )


def _called(block: Block) -> str:
    """What a layer is made of, in a few words."""
    mixer, feedforward = block.mixer, block.feedforward
    names = {"Mla": "latent attention", "CompressedAttention": "compressed attention"}
    parts = []
    if mixer is not None:
        kind = mixer.kind if isinstance(mixer, Recurrent) else "attention"
        parts.append(names.get(type(mixer).__name__, kind))
        if isinstance(mixer, Attention) and mixer.window is not None:
            parts[-1] = "attention in a window"
    if feedforward is not None:
        parts.append("experts" if isinstance(feedforward, Moe) else "dense")
    return " and ".join(parts) or "norms"


def _outside(batch: StaticBatch, stage: Stage) -> Derivation:
    """Embedding, LM head and what else is outside the layers."""
    where = (batch.deployment, stage.first, stage.last)
    parts = [parted(each, "B") for each in outside_parts(*where) if each.value]
    text = " + ".join(each.name for each in parts) or "0"
    return derived("outside the layers", float(outside_bytes(*where)), "B", text, parts)
