"""What a deployment keeps in device memory, and how much of it is left for the KV cache."""

from dataclasses import dataclass, replace

import numpy as np

from roofline.cost.activations import activation_peak, naive_score_bytes
from roofline.cost.deployment import Deployment, kv_heads_per_device, qkv_biased_per_device
from roofline.cost.work import Number
from roofline.model.architecture import (
    Attention,
    Block,
    CompressedAttention,
    Linear,
    Moe,
    Recurrent,
)
from roofline.model.parameters import projections
from roofline.model.precision import named
from roofline.units import BITS_PER_BYTE


@dataclass(frozen=True, slots=True)
class Memory:
    """Budget of one device. All in bytes.

    Attributes
    ----------
    capacity
        What software can use of the device.
    budget
        The share of it that the engine takes.
    weights, activations, runtime, graphs
        Taken whatever is cached: ``activations`` is the peak of the largest step.
    kv
        Cache of the batch at its longest context.
    """

    capacity: float
    budget: float
    weights: float
    activations: float
    runtime: float
    graphs: float
    kv: float

    @property
    def pool(self) -> float:
        """Left for the cache; negative where not even the weights fit. [B]"""
        return self.budget - self.weights - self.activations - self.runtime - self.graphs

    @property
    def free(self) -> float:
        """Left beside the cache of this batch; negative where it does not fit. [B]"""
        return self.pool - self.kv

    @property
    def fits(self) -> bool:
        """Whether the batch fits at its longest context."""
        return self.free >= 0


def weight_bytes(deployment: Deployment) -> float:
    """Weights on one device. [B]

    Matrices are split over the tensor-parallel group, key/value projections only as far as there
    are heads; norms are on every device; embedding and LM head are split by vocabulary.

    Parameters
    ----------
    deployment
        Network, formats and layout.

    Notes
    -----
    Source: Shoeybi et al. 2019 (arXiv 1909.08053) for what is split.
    """
    network, precision, tp = deployment.architecture, deployment.precision, deployment.tp
    embedding = network.vocab * network.embedding_width
    outside = (
        network.position_rows * network.d_model
        + network.embedding_norm_parameters
        + network.final_norm_parameters
    )
    total = (embedding / tp + outside) * precision.head.width
    if not network.tied_embeddings:
        head = Linear("lm-head", network.vocab, network.embedding_width)
        total += _matrix(deployment, None, head)
    for linear in projections(network):
        total += _matrix(deployment, None, replace(linear, split="none"))
    if network.head_bias:
        total += network.vocab / tp * precision.head.width
    for block, layers in network.kinds.items():
        matrices = sum(
            _matrix(deployment, block, linear) * _repeated(block, linear, tp)
            for linear in block.linears(network.d_model)
        )
        if isinstance(part := block.feedforward, Moe):
            routed = part.expert_linears(network.d_model)
            matrices += part.experts * sum(_matrix(deployment, block, each) for each in routed)
        others = _others(block, network.d_model, tp) * precision.activations.width
        total += layers * (matrices + others)
    return total


def _matrix(deployment: Deployment, block: Block | None, linear: Linear) -> float:
    """One matrix on one device, in the format of its role, with scales. [B]"""
    stored = named(deployment.stored(block, linear.name))
    tp = deployment.tp
    n = linear.n / tp if linear.split == "column" else float(linear.n)
    k = linear.k / tp if linear.split == "row" else float(linear.k)
    return n * k * stored.width + n * stored.row_bits / BITS_PER_BYTE


def _repeated(block: Block, linear: Linear, tp: int) -> float:
    """How much more of the fused q, k, v matrix there is where key/value heads are repeated."""
    part = block.mixer
    if not isinstance(part, Attention) or linear.name != "qkv":
        return 1.0
    repeats = kv_heads_per_device(part, tp) * tp / part.kv_heads
    return (linear.n + (repeats - 1) * part.projected_kv) / linear.n


def _others(block: Block, d_model: int, tp: int) -> float:
    """Norms, biases and other parameters of a layer on one device. [parameter]"""
    total = float(block.norm_parameters + block.extra_parameters)
    part, d_free = block.mixer, 1.0 / tp
    if isinstance(part, Attention):
        total += qkv_biased_per_device(part, tp) + part.other_parameters
    elif isinstance(part, Recurrent):
        total += part.other_parameters * d_free  # convolution and decays go with their heads
    elif part is not None:
        total += part.other_parameters
    for linear in block.linears(d_model):
        if linear.name != "qkv":
            total += linear.biased * (d_free if linear.split == "column" else 1.0)
    if block.feedforward is not None:
        total += block.feedforward.other_parameters
    if isinstance(block.feedforward, Moe):
        up, down = block.feedforward.expert_linears(d_model)
        total += block.feedforward.experts * (up.biased * d_free + down.biased)
    return total


def kv_bytes_per_sequence(
    deployment: Deployment, context: Number, *, one_page_table: bool = False
) -> Number:
    """What one sequence keeps on one device: keys and values, latents, indices, states.

    Parameters
    ----------
    deployment
        Network, formats and layout.
    context
        Tokens of the sequence. [token]
    one_page_table
        Whether layers with a window or chunks keep every token, as engines do that manage all
        layers with one table of pages.

    Notes
    -----
    Sum over layers of 2·K·H·min(S, W) elements, C + r for latent attention, the index's bytes, and
    a constant for recurrent layers. [B] Rounding up to pages is left out. Source: Pope et al. 2022
    (arXiv 2211.05102), section 2.
    """
    total: Number = 0.0
    for block, layers in deployment.architecture.kinds.items():
        total = total + layers * kept_by_layer(deployment, block, context, one_page_table)
    return total


def kept_by_layer(
    deployment: Deployment, block: Block, context: Number, one_page_table: bool = False
) -> Number:
    """What one layer keeps of one sequence on one device. See `kv_bytes_per_sequence`. [B]

    Parameters
    ----------
    deployment, block
        Network, formats and layout; the layer.
    context
        Tokens of the sequence. [token]
    one_page_table
        As in `kv_bytes_per_sequence`.

    Notes
    -----
    Source: definitions of the kinds of layer in `roofline.model`.
    """
    precision, tp, part = deployment.precision, deployment.tp, block.mixer
    if part is None:
        return 0.0
    if isinstance(part, Recurrent):
        matrices = part.matrix_elements * named(part.state_format).width
        taps = (part.state_elements - part.matrix_elements) * precision.activations.width
        return (matrices + taps) / tp
    kept, shared, entries = context, 1.0, 0
    if isinstance(part, Attention):
        shared = kv_heads_per_device(part, tp) / part.kv_heads
        span = part.window if part.window is not None else part.chunk
        if span is not None and not one_page_table:
            kept = np.minimum(context, float(span))
    elif isinstance(part, CompressedAttention):
        entries = part.entry_elements
        kept = np.minimum(context, float(part.window))
    size = ((part.kv_elements - entries) * shared * precision.kv.width) * kept
    growing = entries * precision.kv.width
    if part.index is not None:
        growing += float(part.index.bytes_per_token)
    return size + growing * context if growing else size


def budget(
    deployment: Deployment,
    *,
    batch: float,
    context: float,
    step_tokens: float,
    step_rows: float,
    utilization: float | None = None,
    cached: bool = True,
) -> Memory:
    """Memory of one device for a batch at its longest context.

    Parameters
    ----------
    deployment
        Network, node, formats, layout and engine.
    batch
        Sequences held at once. [1]
    context
        Their longest context. [token]
    step_tokens, step_rows
        New tokens and rows of logits in the largest step. [token]
    utilization
        Share of the device that the engine takes; None for the engine's default. [1]
    cached
        False where nothing is cached between steps.

    Notes
    -----
    Source: the sum of the parts above; reserves are the engine's, from its file.
    """
    engine = deployment.engine
    share = engine.memory_utilization if utilization is None else utilization
    capacity = deployment.node.gpu.memory_bytes
    activations = activation_peak(deployment, step_tokens, step_rows)
    if deployment.options.attention == "naive":
        new = step_tokens / max(step_rows, 1.0)
        activations += naive_score_bytes(deployment, step_rows, new, context)
    return Memory(
        capacity=capacity,
        budget=capacity * share,
        weights=weight_bytes(deployment),
        activations=activations,
        runtime=engine.runtime_bytes,
        graphs=engine.graph_bytes,
        kv=float(batch * kv_bytes_per_sequence(deployment, context)) if cached else 0.0,
    )
