"""What a deployment keeps in device memory, and how much of it is left for the KV cache."""

import math
from dataclasses import dataclass

import numpy as np

from roofline.cost.deployment import Deployment, kv_heads_per_device, qkv_biased_per_device
from roofline.cost.work import Number
from roofline.model.architecture import Attention, Block, Mlp

LOGIT_WIDTH = 4.0  # engines sample from fp32 logits


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
    tables = embedding * (1 if network.tied_embeddings else 2)
    outside = (
        network.position_rows * network.d_model
        + network.embedding_norm_parameters
        + network.final_norm_parameters
    )
    total = (tables / tp + outside) * precision.head.width
    if network.embedding_width != network.d_model:
        total += 2 * network.embedding_width * network.d_model * precision.weights.width
    if network.head_bias:
        total += network.vocab / tp * precision.head.width
    for block, layers in network.kinds.items():
        matrices, others = _block(block, network.d_model, tp)
        total += layers * (
            matrices * precision.weights.width + others * precision.activations.width
        )
    return total


def _block(block: Block, d_model: int, tp: int) -> tuple[float, float]:
    """Matrix elements and other parameters of one layer on one device. [parameter]"""
    matrices, others = 0.0, float(block.norm_parameters)
    if isinstance(block.mixer, Attention):
        part = block.mixer
        heads, kv_heads = part.heads / tp, kv_heads_per_device(part, tp)
        matrices += (2 * heads + 2 * kv_heads) * part.head_dim * d_model
        others += (
            qkv_biased_per_device(part, tp)
            + part.norm_parameters
            + (d_model if part.out_bias else 0)
        )
    if isinstance(block.feedforward, Mlp):
        up, down = block.feedforward.linears(d_model)
        matrices += (up.n * up.k + down.n * down.k) / tp
        others += up.biased / tp + down.biased  # split by outputs; every device has the outputs
    return matrices, others


def kv_bytes_per_sequence(deployment: Deployment, context: Number) -> Number:
    """Cache of one sequence on one device.

    Parameters
    ----------
    deployment
        Network, formats and layout.
    context
        Tokens of the sequence. [token]

    Notes
    -----
    Sum over layers of 2·K·H·min(S, W) elements. [B] Paging is left out: engines round up to a
    block, and may give windowed layers whole pages. Source: Pope et al. 2022
    (arXiv 2211.05102), section 2.
    """
    total: Number = 0.0
    for block, layers in deployment.architecture.kinds.items():
        if isinstance(block.mixer, Attention):
            heads = kv_heads_per_device(block.mixer, deployment.tp)
            per_token = layers * 2.0 * heads * block.mixer.head_dim * deployment.precision.kv.width
            window = block.mixer.window
            kept = context if window is None else np.minimum(context, float(window))
            total = total + per_token * kept
    return total


def activation_peak(deployment: Deployment, tokens: float, rows: float) -> float:
    """Activations alive at once in a step, at their largest.

    Parameters
    ----------
    deployment
        Network, formats and layout.
    tokens
        New tokens of the step. [token]
    rows
        Rows of logits. [1]

    Notes
    -----
    The residual stream and its normed copy live through a layer; beside them either the inputs
    and outputs of the attention or those of the feed-forward part, or at the end the logits, in
    fp32 beside their 16-bit originals. [B] With naive attention, the scores and their softmax.
    Source: counting the buffers of the layers in `roofline.cost.layers`.
    """
    network, tp = deployment.architecture, deployment.tp
    width = deployment.precision.activations.width
    stream = 2.0 * network.d_model
    widest = 0.0
    for block in network.kinds:
        if isinstance(block.mixer, Attention):
            part = block.mixer
            queries = part.heads / tp * part.head_dim
            keys = kv_heads_per_device(part, tp) * part.head_dim
            widest = max(widest, 2 * queries + 2 * keys)
        if isinstance(block.feedforward, Mlp):
            inner = block.feedforward.width / tp
            widest = max(widest, inner * (3 if block.feedforward.gated else 2))
    logits = rows * network.vocab * (width + LOGIT_WIDTH) / tp
    return tokens * stream * width + max(tokens * widest * width, logits)


def naive_score_bytes(deployment: Deployment, count: float, new: float, context: float) -> float:
    """Scores and probabilities of one layer where attention is not fused.

    Parameters
    ----------
    deployment
        Network, formats and layout.
    count
        Sequences. [1]
    new, context
        New tokens, and context with them. [token]

    Notes
    -----
    2·N·T·S elements. [B] Source: standard attention of Dao et al. 2022 (arXiv 2205.14135).
    """
    heads = max(
        (
            block.mixer.heads / deployment.tp
            for block in deployment.architecture.kinds
            if isinstance(block.mixer, Attention)
        ),
        default=0.0,
    )
    return 2.0 * heads * count * new * context * deployment.precision.activations.width


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


def largest_batch(deployment: Deployment, memory: Memory, context: float) -> int:
    """Sequences of a context that fit into the pool. [1]

    Parameters
    ----------
    deployment
        Network, formats and layout.
    memory
        Budget, of which the pool counts.
    context
        Longest context of each. [token]

    Notes
    -----
    Source: pool / cache of one sequence, rounded down.
    """
    one = float(kv_bytes_per_sequence(deployment, context))
    if memory.pool <= 0 or one <= 0:
        return 0
    return math.floor(memory.pool / one)


def largest_context(deployment: Deployment, memory: Memory, batch: float, limit: int) -> int:
    """Longest context that fits for each of a batch, at most ``limit``. [token]

    Parameters
    ----------
    deployment
        Network, formats and layout.
    memory
        Budget, of which the pool counts.
    batch
        Sequences. [1]
    limit
        Where to stop looking. [token]

    Notes
    -----
    The cache never shrinks with the context, so bisection finds the last one that fits.
    Source: as `kv_bytes_per_sequence`.
    """
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if float(batch * kv_bytes_per_sequence(deployment, float(middle))) <= memory.pool:
            low = middle
        else:
            high = middle - 1
    return low
