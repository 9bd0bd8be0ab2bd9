"""Weights that a token is multiplied with, counted apart from the cost model."""

from roofline.model.architecture import Architecture, Moe


def matmul_parameters(architecture: Architecture) -> int:
    """Weights every token is multiplied with, LM head included, biases and norms not. [parameter]

    Twice this is the FLOPs of a token outside attention.
    """
    d = architecture.d_model
    elements = architecture.vocab * architecture.embedding_width
    elements += sum(linear.n * linear.k for linear in architecture.projections)
    for block, layers in architecture.kinds.items():
        elements += layers * sum(linear.n * linear.k for linear in block.linears(d))
        if isinstance(part := block.feedforward, Moe):
            each = sum(linear.n * linear.k for linear in part.expert_linears(d))
            elements += layers * part.active * each
    return elements
