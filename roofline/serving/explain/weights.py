"""Derivation of the weights on one device: layers by kind, and what is outside them."""

from collections import defaultdict
from collections.abc import Iterator

from roofline.cost.placement import kv_heads_per_device, padded
from roofline.cost.stages import Stage, pipeline
from roofline.cost.weights import layer_bytes, outside_bytes
from roofline.model.architecture import Attention, Block, Linear, Moe, Recurrent
from roofline.model.precision import named
from roofline.serving.explain.parts import config, outside_share, same
from roofline.serving.static import StaticBatch
from roofline.table import Derivation
from roofline.units import BITS_PER_BYTE, show


def weights(batch: StaticBatch) -> Derivation:
    """Weights on one device, of the stage that takes most."""
    deployment, offload = batch.deployment, batch.deployment.offload
    network, stored, layout = (
        deployment.architecture,
        deployment.precision.weights,
        batch.deployment.layout,
    )
    stages = pipeline(network, layout, deployment.node)
    stage = stages[batch.memory.stage]
    layers = [_kind(batch, block, number) for block, number in stage.layers]
    outside = _outside(batch, stage)
    text = " + ".join(show(each.value, "B", 4) for each in layers)
    formula = "sum over kinds of layer + outside the layers"
    if offload.weights:
        formula = "share kept · sum over kinds of layer + outside the layers"
        text = f"({text})" if len(layers) > 1 else text
        text = f"{1 - offload.weights:.6g} · {text}"
    degrees = {"TP": layout.tp, "EP": layout.ep, "PP": layout.pp, "DP": layout.dp, "CP": layout.cp}
    note = "on one device"
    if len(stages) > 1:
        note += f", of stage {batch.memory.stage + 1} of {len(stages)}, which takes most"
    return Derivation(
        "weights",
        batch.memory.weights,
        "B",
        formula=formula,
        substituted=f"{text} + {show(outside.value, 'B', 4)}",
        inputs=(
            *layers,
            outside,
            *(
                [outside_share("share of the layers kept outside", offload.weights, offload)]
                if offload.weights
                else []
            ),
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
                Derivation(name, float(degree), "", source=f"the layout, {layout}")
                for name, degree in degrees.items()
                if name == "TP" or degree != 1
            ),
        ),
        note=note,
    )


def _kind(batch: StaticBatch, block: Block, number: int) -> Derivation:
    """Layers of one kind on one device."""
    one = float(layer_bytes(batch.deployment, block))
    parts = list(_matrices(batch, block))
    rest = one - sum(part.value for part in parts)
    if not same(rest + one, one):
        small = "norms, biases and others"
        parts.append(Derivation(small, rest, "B", source="each as wide as what it acts on"))
    text = " + ".join(show(part.value, "B", 4) for part in parts)
    return Derivation(
        f"{number} layers: {_called(block)}" if number != 1 else f"1 layer: {_called(block)}",
        number * one,
        "B",
        formula="L · (" + " + ".join(part.name for part in parts) + ")",
        substituted=f"{number} · ({text})",
        inputs=tuple(parts),
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


def _matrices(batch: StaticBatch, block: Block) -> Iterator[Derivation]:
    """Matrices of a layer by how they lie on devices."""
    deployment, layout = batch.deployment, batch.deployment.layout
    d, tp = deployment.architecture.d_model, float(layout.tp)
    groups: dict[tuple[str, bool], list[Linear]] = defaultdict(list)
    for linear in block.linears(d):
        alone = bool(layout.apart) and linear.name.startswith("shared-")
        split = linear.split != "none" and not alone
        groups[deployment.stored(block, linear.name), split or tp == 1].append(linear)
    for (name, split), linears in groups.items():
        yield _divided(batch, block, linears, name, tp if split else 1.0)
        if extra := _repeated(batch, block, linears, name):
            yield extra
    if isinstance(part := block.feedforward, Moe):
        yield _experts(batch, block, part)


def _divided(
    batch: StaticBatch, block: Block, linears: list[Linear], name: str, tp: float
) -> Derivation:
    """Matrices in one format that are divided by TP, or whole on each device."""
    form, elements = named(name), sum(linear.n * linear.k for linear in linears)
    scales = 0.0
    for linear in linears:
        rows = linear.n / tp if linear.split == "column" else float(linear.n)
        scales += rows * form.row_bits / BITS_PER_BYTE
    whole = tp == 1 < batch.deployment.layout.tp
    text = f"{elements:,} · {form.width:.10g}" + f" / {tp:g}" * (tp != 1)
    return Derivation(
        f"matrices in {name}" + " that are whole on each device" * whole,
        elements * form.width / tp + scales,
        "B",
        formula="elements · bytes" + " / TP" * (tp != 1) + " + scales" * bool(scales),
        substituted=text + f" + {scales:,.10g}" * bool(scales),
        note=", ".join(linear.name for linear in linears),
    )


def _repeated(
    batch: StaticBatch, block: Block, linears: list[Linear], name: str
) -> Derivation | None:
    """What of the keys' and values' projections is on several devices."""
    part, tp = block.mixer, float(batch.deployment.layout.tp)
    fused = [linear for linear in linears if linear.name == "qkv"]
    if not isinstance(part, Attention) or not fused:
        return None
    heads = float(kv_heads_per_device(part, tp))
    copies = heads * tp / part.kv_heads
    if copies == 1:
        return None
    form, rows = named(name), part.projected_kv
    each = fused[0].k * form.width + form.row_bits / BITS_PER_BYTE
    return Derivation(
        "repeated key and value heads",
        (copies - 1) * rows / tp * each,
        "B",
        formula="(TP / K − 1) · rows of keys and values · bytes of a row / TP",
        substituted=f"({tp:g} / {part.kv_heads} − 1) · {rows:,} · {each:,.10g} / {tp:g}",
        inputs=(config(batch, "K", "kv_heads", part.kv_heads),),
    )


def _experts(batch: StaticBatch, block: Block, part: Moe) -> Derivation:
    """Routed experts that a device has, the last group padded."""
    deployment, layout = batch.deployment, batch.deployment.layout
    held, share = float(padded(part.experts, layout.ep)), float(layout.expert_tp)
    linears = part.expert_linears(deployment.architecture.d_model)
    one = scales = 0.0
    for linear in linears:
        form = named(deployment.stored(block, linear.name))
        rows = linear.n / share if linear.split == "column" else float(linear.n)
        scales += rows * form.row_bits / BITS_PER_BYTE
        one += linear.n * linear.k * form.width / share
    formats = dict.fromkeys(deployment.stored(block, linear.name) for linear in linears)
    elements = sum(linear.n * linear.k for linear in linears)
    expert = Derivation(
        "bytes of an expert",
        one + scales,
        "B",
        formula="elements · bytes / devices that share it" + " + scales" * bool(scales),
        substituted=f"{elements:,} · {one * share / elements:.10g} / {share:g}"
        + f" + {scales:,.10g}" * bool(scales),
        source=f"in {' and '.join(formats)}; TP · CP · DP / EP devices share one",
    )
    return Derivation(
        "experts",
        held * (one + scales),
        "B",
        formula="⌈E / EP⌉ · bytes of an expert on a device",
        substituted=f"{held:g} · {show(one + scales, 'B', 4)}",
        inputs=(config(batch, "E", "experts", part.experts), expert),
        note="the last group is filled up" if part.experts % layout.ep else "",
    )


def _outside(batch: StaticBatch, stage: Stage) -> Derivation:
    """Embedding and LM head, each with the vocabulary padded to a multiple of TP."""
    deployment, network = batch.deployment, batch.deployment.architecture
    total = float(outside_bytes(deployment, stage.first, stage.last))
    rows, wide = float(padded(network.vocab, deployment.tp)), network.embedding_width
    parts: list[Derivation] = []

    def table(name: str, stored: str) -> None:
        form = named(stored)
        scales = rows * form.row_bits / BITS_PER_BYTE
        parts.append(
            Derivation(
                name,
                rows * wide * form.width + scales,
                "B",
                formula="⌈V / TP⌉ · width · bytes" + " + scales" * bool(scales),
                substituted=f"{rows:,.10g} · {wide:,} · {form.width:.10g}"
                + f" + {scales:,.10g}" * bool(scales),
                source=f"in {form.name}",
            )
        )

    tied = network.tied_embeddings
    if stage.first:
        table("embedding" + ", also the LM head" * (tied and stage.last), _plain(batch))
    if stage.last and not (tied and stage.first):
        table("LM head", deployment.stored(None, "lm-head") if not tied else _plain(batch))
    if stage.first and network.position_rows:
        width = named(_plain(batch)).width
        parts.append(
            Derivation(
                "positions",
                network.position_rows * network.d_model * width,
                "B",
                formula="rows · D · bytes",
                substituted=f"{network.position_rows:,} · {network.d_model:,} · {width:g}",
                source="learned, whole on each device",
            )
        )
    rest = total - sum(part.value for part in parts)
    if not same(rest + total, total):
        parts.append(
            Derivation(
                "others", rest, "B", source="norms, and projections to the width of the layers"
            )
        )
    return Derivation(
        "outside the layers",
        total,
        "B",
        formula=" + ".join(part.name.partition(",")[0] for part in parts) or "none",
        substituted=" + ".join(show(part.value, "B", 4) for part in parts),
        inputs=tuple(parts),
    )


def _plain(batch: StaticBatch) -> str:
    """Format of the embedding."""
    return batch.deployment.precision.head.name
