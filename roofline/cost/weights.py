"""Weights on one device: what is split, repeated, padded and spread."""

from dataclasses import replace

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.placement import kv_heads_per_device, padded, qkv_biased_per_device
from roofline.cost.stages import Stage
from roofline.cost.work import Number
from roofline.model.architecture import Attention, Block, Linear, Moe, Recurrent
from roofline.model.parameters import projections
from roofline.model.precision import named
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
    for block, layers in here.layers:
        total = total + layers * layer_bytes(deployment, block)
    return total


def outside_bytes(deployment: Deployment, first: bool, last: bool) -> Number:
    """Embedding, LM head and what else is outside the layers, on the stages that have them. [B]

    Source: as `weight_bytes`.

    Args:
        deployment: Network, formats and layout.
        first, last: Whether the stage has the embedding, and the LM head.
    """
    network, width, tp = deployment.architecture, deployment.precision.head.width, deployment.tp
    table = padded(network.vocab, tp) * network.embedding_width
    total: Number = 0.0
    projected = [
        _matrix(deployment, None, replace(linear, split="none"), 1.0)
        for linear in projections(network)
    ]
    if first:
        outside = network.position_rows * network.d_model + network.embedding_norm_parameters
        total = total + (table + outside) * width
        total = total + sum(projected[:1])
    if last:
        total = total + network.final_norm_parameters * width + sum(projected[1:])
        if not network.tied_embeddings:
            head = Linear("lm-head", int(network.vocab), network.embedding_width)
            total = total + _matrix(deployment, None, head, tp)
        elif not first:  # tied, but on another device than the embedding
            total = total + table * width
        if network.head_bias:
            total = total + padded(network.vocab, tp) * width
    return total


def layer_bytes(deployment: Deployment, block: Block) -> Number:
    """Weights of one layer on one device. [B]

    Source: as `weight_bytes`.

    Args:
        deployment, block: Network, formats and layout; the layer.
    """
    d, layout = deployment.architecture.d_model, deployment.layout
    alone = np.where(np.asarray(layout.apart) > 0, 1.0, layout.tp)[()]
    matrices: Number = 0.0
    for linear in block.linears(d):
        tp = alone if linear.name.startswith("shared-") else layout.tp
        held = _matrix(deployment, block, linear, tp) * _repeated(block, linear, tp)
        matrices = matrices + held
    if isinstance(part := block.feedforward, Moe):
        here = padded(part.experts, layout.ep)
        for linear in part.expert_linears(d):
            matrices = matrices + here * _matrix(deployment, block, linear, layout.expert_tp)
    return matrices + _others(block, deployment) * deployment.precision.activations.width


def _matrix(deployment: Deployment, block: Block | None, linear: Linear, tp: Number) -> Number:
    """One matrix on one device, in the format of its role, with scales. [B]"""
    stored = named(deployment.stored(block, linear.name))
    rows = padded(linear.n, tp) if linear.name == "lm-head" else linear.n / tp
    n = rows if linear.split == "column" else float(linear.n)
    k = linear.k / tp if linear.split == "row" else float(linear.k)
    return n * k * stored.width + n * stored.row_bits / BITS_PER_BYTE


def _repeated(block: Block, linear: Linear, tp: Number) -> Number:
    """How much more of the fused q, k, v matrix there is where key/value heads are repeated."""
    part = block.mixer
    if not isinstance(part, Attention) or linear.name != "qkv":
        return 1.0
    repeats = kv_heads_per_device(part, tp) * tp / part.kv_heads
    return (linear.n + (repeats - 1) * part.projected_kv) / linear.n


def _others(block: Block, deployment: Deployment) -> Number:
    """Norms, biases and other parameters of a layer on one device. [parameter]"""
    layout, d_model = deployment.layout, deployment.architecture.d_model
    tp = layout.tp
    total: Number = float(block.norm_parameters + block.extra_parameters)
    part, d_free = block.mixer, 1.0 / tp
    if isinstance(part, Attention):
        total = total + qkv_biased_per_device(part, tp) + part.other_parameters
    elif isinstance(part, Recurrent):
        # The convolution and decays go with their heads.
        total = total + part.other_parameters * d_free
    elif part is not None:
        total = total + part.other_parameters
    for linear in block.linears(d_model):
        if linear.name != "qkv":
            total = total + linear.biased * (d_free if linear.split == "column" else 1.0)
    if block.feedforward is not None:
        total = total + block.feedforward.other_parameters
    if isinstance(block.feedforward, Moe):
        up, down = block.feedforward.expert_linears(d_model)
        here = padded(block.feedforward.experts, layout.ep)
        total = total + here * (up.biased / layout.expert_tp + down.biased)
    return total
