"""What a step keeps of activations at once, at its largest."""

from roofline.cost.deployment import Deployment, kv_heads_per_device
from roofline.model.architecture import (
    Attention,
    Block,
    CompressedAttention,
    Mla,
    Mlp,
    Moe,
    Recurrent,
)

LOGIT_WIDTH = 4.0  # engines sample from fp32 logits


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
    widest = max((_widest(block, tp) for block in network.kinds), default=0.0)
    logits = rows * network.vocab * (width + LOGIT_WIDTH)  # gathered: whole on every device
    return tokens * stream * width + max(tokens * widest * width, logits)


def _widest(block: Block, tp: int) -> float:
    """Inputs and outputs of the widest part of a layer, per token. [1]"""
    widths = [0.0]
    if isinstance(block.mixer, Attention):
        part = block.mixer
        keys = kv_heads_per_device(part, tp) * (part.head_dim + part.value_width)
        widths.append((part.query_width + part.out_width) / tp + keys)
    elif isinstance(block.mixer, Mla):
        mla = block.mixer
        inner = mla.heads * (2 * mla.nope_dim + mla.rope_dim + 2 * mla.value_dim) / tp
        widths.append(inner + mla.query_rank + mla.kv_elements)
    elif isinstance(block.mixer, CompressedAttention):
        widths.append(2 * block.mixer.query_width / tp + block.mixer.kv_elements)
    elif isinstance(block.mixer, Recurrent):
        widths.append(sum(linear.n for linear in block.mixer.projections[:-1]) / tp)
    if isinstance(block.feedforward, Mlp):
        dense = block.feedforward
        widths.append(dense.width / tp * (3 if dense.gated else 2))
    elif isinstance(block.feedforward, Moe):
        moe = block.feedforward
        inner = moe.width / tp * (3 if moe.gated else 2)
        out = moe.latent  # what the experts give back is as wide as the stream otherwise
        widths.append(moe.active * (inner + out) + moe.shared_width / tp * (3 if moe.gated else 2))
    return max(widths)


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
