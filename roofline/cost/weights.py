"""Weights on one device: what is split, repeated, padded and spread."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.expert_parallel import held_experts
from roofline.cost.layout import Stage, padded
from roofline.cost.work import Number, total
from roofline.model.architecture import Block, Linear
from roofline.model.linear import ROUTER
from roofline.model.parameters import projections
from roofline.model.precision import named
from roofline.part import Part
from roofline.units import BITS_PER_BYTE


def weight_bytes(deployment: Deployment, stage: Stage | None = None) -> Number:
    """Weights on one device, those of experts that it holds included. [B]

    Matrices are split over the tensor-parallel group, key/value projections only as far as there
    are heads; norms are on every device; embedding and LM head are split by vocabulary. Experts are
    spread over their groups. Where each device sends them tokens of its own, it has shared experts
    whole.

    Source: Shoeybi et al. 2019 (arXiv 1909.08053) for what is split.

    Args:
        deployment: Network, formats and layout.
        stage: Stage of the pipeline; None for all layers.
    """
    network = deployment.architecture
    here = stage or Stage(tuple(network.kinds.items()), first=True, last=True)
    total: Number = outside_bytes(deployment, here.first, here.last)
    for block, layers in holding(here):
        total = total + layers * layer_bytes(deployment, block)
    return total


def holding(stage: Stage) -> list[tuple[Block, int]]:
    """Kinds of layers of a stage, with the number of those whose weights it holds. [1]

    Layers that use the weights of earlier ones hold none, or a copy where those are on another
    stage. Source: definition of `roofline.model.architecture.Block.owners`.

    Args:
        stage: Stage of the pipeline.
    """
    own = {block for block, _ in stage.layers}
    held = []
    for block, layers in stage.layers:
        if not block.owners:
            held.append((block, layers))
        elif replace(block, owners=0) not in own:
            held.append((block, min(layers, block.owners)))
    return held


def outside_bytes(deployment: Deployment, first: bool, last: bool) -> Number:
    """Embedding, LM head and what else is outside the layers, on the stages that have them. [B]

    Source: as `weight_bytes`.

    Args:
        deployment: Network, formats and layout.
        first, last: Whether the stage has the embedding, and the LM head.
    """
    return total(outside_parts(deployment, first, last))


def outside_parts(deployment: Deployment, first: bool, last: bool) -> Iterator[Part]:
    """`outside_bytes` by what it is made of.

    Source: as `weight_bytes`.

    Args:
        deployment, first, last: As for `outside_bytes`.
    """
    network, stored, tp = deployment.architecture, deployment.precision.head, deployment.tp
    rows, wide, tied = padded(network.vocab, tp), network.embedding_width, network.tied_embeddings
    embedded = min(stored, named(network.plain_format), key=lambda each: each.width)

    def plain(name: str, parameters: Number) -> Part:
        symbols = {"parameters": parameters, "bytes": stored.width}
        return Part(name, parameters * stored.width, "parameters · bytes", symbols)

    def table(name: str) -> Part:
        symbols = {"V": network.vocab, "TP": tp, "width": wide, "bytes": embedded.width}
        text = "ceil(V[ / TP]) · width · bytes"
        return Part(name, rows * wide * embedded.width, text, symbols, f"stored as {embedded.name}")

    if first:
        yield table("embedding" + " and LM head" * (tied and last))
        yield plain("positions", network.position_rows * network.d_model)
        yield plain("norm of the embedding", network.embedding_norm_parameters)
        if network.seen_parameters:
            sharing = tp
            for tower in network.towers:
                sharing = np.minimum(sharing, tower.devices(tp))
            yield Part(
                "what is before the decoder",
                network.seen_parameters / sharing * stored.width,
                "parameters[ / sharing] · bytes",
                {
                    "parameters": network.seen_parameters,
                    "sharing": sharing,
                    "bytes": stored.width,
                },
                "TP where the heads of every tower divide over it, else 1",
            )
    for linear, here in zip(projections(network), (first, last), strict=False):
        if here:
            yield _matrix(deployment, None, replace(linear, split="none"), 1.0)
    if last:
        yield plain("final norm", network.final_norm_parameters)
        if not tied:
            head = Linear("lm-head", int(network.vocab), wide)
            yield _matrix(deployment, None, head, tp)
        elif not first:  # on another device than the embedding
            yield table("LM head")
        if network.head_bias:
            yield plain("biases of the LM head", rows)


def layer_bytes(deployment: Deployment, block: Block) -> Number:
    """Weights of one layer on one device. [B]

    Source: as `weight_bytes`.

    Args:
        deployment, block: Network, formats and layout; the layer.
    """
    return total(layer_parts(deployment, block))


def layer_parts(deployment: Deployment, block: Block) -> Iterator[Part]:
    """`layer_bytes` by matrix.

    Source: as `weight_bytes`.

    Args:
        deployment, block: As for `layer_bytes`.
    """
    d, layout = deployment.architecture.d_model, deployment.layout
    for linear in _linears(deployment, block):
        tp = layout.sharing(linear.group)
        yield _matrix(deployment, block, linear, tp, _repeated(block, linear, tp))
    routing = deployment.options.routing
    symbols, experts = {"E": block.experts, "EP": layout.ep}, "E"
    if routing.redundant:
        symbols, experts = {**symbols, "redundant": routing.redundant}, "(E + redundant)"
    for linear in block.expert_linears(d):
        one = _matrix(deployment, block, linear, layout.sharing(linear.group))
        yield replace(
            one,
            value=held_experts(block.experts, layout.ep, routing) * one.value,
            formula=f"ceil({experts}[ / EP]) · " + one.formula,
            symbols={**one.symbols, **symbols},
            source=f"{one.source}; TP · CP · DP / EP devices share one",
        )
    others, width = _others(block, deployment), deployment.precision.activations.width
    symbols = {"parameters": others, "width": width}
    yield Part("norms and biases", others * width, "parameters · width", symbols)


def adapter_parts(deployment: Deployment, block: Block) -> Iterator[Part]:
    """One LoRA adapter of a layer on one device, by the matrix that it is added to. [B]

    R·(in + out) elements for each layer of the checkpoint, of what the device has of that layer:
    all of A and a part of B where outputs are split, a part of A and all of B where inputs are.
    Source: as `roofline.cost.layers.common.adapted`.

    Args:
        deployment, block: Adapters, formats and layout; the layer.
    """
    lora, layout = deployment.options.lora, deployment.layout
    width = deployment.precision.activations.width
    for linear in block.linears(deployment.architecture.d_model):
        joined = lora.modules(block, linear.name)
        if not joined:
            continue
        tp = layout.sharing(linear.group)
        repeated = _repeated(block, linear, tp)
        n = linear.n / tp if linear.split == "column" else float(linear.n)
        k = linear.k / tp if linear.split == "row" else float(linear.k)
        inputs, outputs = _ADAPTER[linear.split]
        yield Part(
            f"adapter of {linear.name}",
            lora.lora_rank * (joined * k + n * repeated) * width,
            f"R · ({inputs}[ · joined] + {outputs}) · width",
            {
                "R": lora.lora_rank,
                "joined": joined,
                "n": linear.n,
                "k": linear.k,
                "TP": tp,
                "repeated": repeated,
                "width": width,
            },
        )


def adapter_bytes(deployment: Deployment, layers: Iterable[tuple[Block, int]]) -> Number:
    """One LoRA adapter of some layers on one device. [B]

    Source: sum of `adapter_parts`.

    Args:
        deployment: Adapters, formats and layout.
        layers: Layers, and the number of each.
    """
    if not deployment.options.lora.adapters:
        return 0.0
    out: Number = 0.0
    for block, number in layers:
        out = out + number * total(adapter_parts(deployment, block))
    return out


_ADAPTER: Final = {
    "column": ("k", "n[ / TP][ · repeated]"),
    "row": ("k[ / TP]", "n"),
    "none": ("k", "n"),
}
"""Input and output width of a matrix on one device by how it is split."""
_MATRIX: Final = {
    "column": "n[ / TP] · (k · bytes[ + scale])[ · repeated]",
    "row": "n · (k[ / TP] · bytes[ + scale])",
    "none": "n · (k · bytes[ + scale])",
}
"""A matrix on one device by how it is split; each row may have a scale."""


def _matrix(
    deployment: Deployment, block: Block | None, linear: Linear, tp: Number, repeated: Number = 1.0
) -> Part:
    """One matrix on one device, in the format of its role, with scales. [B]"""
    stored = named(deployment.stored(block, linear.name))
    head = linear.name == "lm-head"
    rows = padded(linear.n, tp) if head else linear.n / tp
    n = rows if linear.split == "column" else float(linear.n)
    k = linear.k / tp if linear.split == "row" else float(linear.k)
    scale = stored.row_bits / BITS_PER_BYTE
    return Part(
        linear.name,
        (n * k * stored.width + n * stored.row_bits / BITS_PER_BYTE) * repeated,
        _PADDED if head else _MATRIX[linear.split],
        {
            "n": linear.n,
            "k": linear.k,
            "bytes": stored.width,
            "scale": scale,
            "TP": tp,
            "repeated": repeated,
        },
        f"stored as {stored.name}",
    )


_PADDED: Final = "ceil(n[ / TP]) · (k · bytes[ + scale])"


def _repeated(block: Block, linear: Linear, tp: Number) -> Number:
    """Size of the fused q, k, v matrix over that without repeated key/value heads. [1]"""
    return 1.0 if block.mixer is None else block.mixer.repeated(linear, tp)


def _linears(deployment: Deployment, block: Block) -> list[Linear]:
    """Matrices of every token; without a router where tokens come routed."""
    every = block.linears(deployment.architecture.d_model)
    return [each for each in every if not (deployment.fed and each.name == ROUTER)]


def _others(block: Block, deployment: Deployment) -> Number:
    """Norms, biases and other parameters of a layer on one device. [parameter]"""
    layout, d_model = deployment.layout, deployment.architecture.d_model
    tp = layout.tp
    total: Number = float(block.norm_parameters + block.extra_parameters)
    d_free = 1.0 / tp
    if block.mixer is not None:
        total = total + block.mixer.repeated_biases(tp) + block.mixer.other_share(tp)
    for linear in _linears(deployment, block):
        if linear.name != "qkv":
            total = total + linear.biased * (d_free if linear.split == "column" else 1.0)
    if block.feedforward is not None:
        total = total + block.feedforward.other_parameters
    experts = block.expert_linears(d_model)
    if experts:
        each = (n.biased / layout.expert_tp if n.split == "column" else n.biased for n in experts)
        here = held_experts(block.experts, layout.ep, deployment.options.routing)
        total = total + here * sum(each)
    return total
