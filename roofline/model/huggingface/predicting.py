"""Layers that predict further tokens: counted apart, and not part of the decoder."""

from dataclasses import replace
from typing import Final

from roofline.model.architecture import Architecture, Block, Moe
from roofline.model.huggingface.fields import Fields

LEFT_OUT: Final = "multi-token prediction layers are left out of the text decoder"


def further_tokens(fields: Fields, body: Architecture) -> Architecture:
    """Count ``num_nextn_predict_layers`` layers like the last one under other parameters.

    Like the last that has an index of its own, where there are such. Each has a projection of two
    widths to one, two norms before it and one at its end; embedding and LM head are the decoder's.
    Source: DeepSeek-V3 technical report (2024), section 2.2.
    """
    number = fields.optional("prediction_layers", "num_nextn_predict_layers", low=0) or 0
    width = body.d_model
    like = next(block for block in reversed(body.layers) if _chooses(block))
    each = block_parameters(like, width) + 2 * width * width + 3 * width
    return with_prediction(fields, body, number * each)


def with_prediction(fields: Fields, body: Architecture, parameters: int) -> Architecture:
    """A decoder whose layers that predict further tokens are counted under other parameters."""
    if not parameters:
        return body
    fields.notes.append(LEFT_OUT)
    return replace(body, other_parameters={"multi-token prediction": parameters})


def _chooses(block: Block) -> bool:
    """Whether the layer leans on no earlier one for what it attends to."""
    index = getattr(block.mixer, "index", None)
    return index is None or index.computes


def block_parameters(block: Block, d_model: int) -> int:
    """All parameters of one layer. [parameter]"""
    routed = block.feedforward
    return (
        sum(linear.parameters for linear in block.linears(d_model))
        + sum(part.other_parameters for part in block.parts)
        + (routed.expert_parameters(d_model) if isinstance(routed, Moe) else 0)
        + block.norm_parameters
        + block.extra_parameters
    )
