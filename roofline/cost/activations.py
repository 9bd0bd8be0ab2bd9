"""Activations that a step keeps at once, at their largest."""

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.cost.work import Number
from roofline.model.architecture import Block

LOGIT_WIDTH = 4.0  # engines sample from fp32 logits


def activation_peak(deployment: Deployment, tokens: Number, rows: Number) -> Number:
    """Activations alive at once in a step, at their largest.

    The residual stream and its normed copy live through a layer; beside them either the inputs
    and outputs of the attention or those of the feed-forward part, or at the end the logits, in
    fp32 beside their 16-bit originals. [B] With naive attention, the scores and their softmax.
    Under sequence parallelism a device has 1/t of the tokens of the residual stream. Experts that
    are sent their tokens hold as many rows as one device has on average.
    Source: counting the buffers of the layers in `roofline.cost.layers`; Korthikanti et al. 2022
    (arXiv 2205.05198) for the split by tokens.

    Args:
        deployment: Network, formats and layout.
        tokens: New tokens of the step on one device. [token]
        rows: Rows of logits on one device. [1]
    """
    network, layout = deployment.architecture, deployment.layout
    width = deployment.precision.activations.width
    stream: Number = 2.0 * network.d_model
    if layout.sequence_parallel:
        stream = network.d_model * (1.0 + 1.0 / layout.tp)
    widest: Number = 0.0
    for block in network.kinds:
        widest = np.maximum(widest, _widest(block, layout))
    logits = rows * network.vocab * (width + LOGIT_WIDTH)  # gathered: whole on every device
    return tokens * stream * width + np.maximum(tokens * widest * width, logits)


def _widest(block: Block, layout: Layout) -> Number:
    """Inputs and outputs of the widest part of a layer, per token. [1]"""
    tp = layout.tp
    mixed: Number = block.mixer.activation_width(tp) if block.mixer is not None else 0.0
    fed: Number = 0.0
    if block.feedforward is not None:
        fed = block.feedforward.activation_width(tp, layout.sharing("shared"))
    return np.maximum(mixed, fed)


def naive_score_bytes(
    deployment: Deployment, count: Number, new: Number, context: Number
) -> Number:
    """Scores and probabilities of one layer where attention is not fused.

    2·N·T·S elements. [B] Source: standard attention of Dao et al. 2022 (arXiv 2205.14135).

    Args:
        deployment: Network, formats and layout.
        count: Sequences. [1]
        new, context: New tokens, and context with them. [token]
    """
    mixers = (block.mixer for block in deployment.architecture.kinds)
    heads = max((float(each.score_heads) for each in mixers if each is not None), default=0.0)
    scores = 2.0 * heads / deployment.tp * count * new * context
    return scores * deployment.precision.activations.width
