"""FLOPs, bytes and intensity of attention, as published: no causal half, softmax left out.

Symbols: B batch, T new tokens, S context, D model width, F feed-forward width, N query heads, K
key/value heads, G = N/K.
"""

from roofline.cost.work import Number


def attention_flops(batch: Number, context: Number, new: Number, d_model: Number) -> Number:
    """Q·Kᵀ and P·V of MHA without the causal half: 4·B·S·T·D. [FLOP]

    Source: Stanford CS336 (2025) lecture 10, attention layers.

    Args:
        batch: Sequences B. [1]
        context, new: S keys and T queries of each. [token]
        d_model: D = N·H. [1]

    Examples:
        >>> attention_flops(1, context=3, new=2, d_model=5)
        120.0
    """
    return 4.0 * batch * context * new * d_model


def attention_bytes(
    batch: Number, context: Number, new: Number, d_model: Number, width: Number = 2.0
) -> Number:
    """MHA with FlashAttention reads Q, K, V and writes Y: 4·B·S·D + 4·B·T·D in bf16. [B]

    Source: Stanford CS336 (2025) lecture 10, attention layers.

    Args:
        batch: Sequences B. [1]
        context, new: S keys and T queries of each. [token]
        d_model: D = N·H. [1]
        width: Bytes per element. [B]

    Examples:
        >>> attention_bytes(1, context=3, new=2, d_model=5)
        100.0
    """
    return width * (2.0 * batch * context * d_model + 2.0 * batch * new * d_model)


def attention_intensity(context: Number, new: Number, group: Number = 1.0) -> Number:
    """S·T·G / (S + T·G) in bf16: S·T/(S + T) of MHA, near G in decode. [FLOP/B]

    Independent of batch, heads and head width.

    Source: Stanford CS336 (2025) lecture 10 for MHA; How to Scale Your Model (2025),
    "Transformers", question 4, for GQA.

    Args:
        context, new: S keys and T queries. [token]
        group: Query heads per key/value head G; 1 is MHA. [1]

    Examples:
        >>> attention_intensity(4096, 4096), attention_intensity(7, 1, group=7)
        (2048.0, 3.5)
    """
    return 1.0 * context * new * group / (context + new * group)


def attention_to_matmul_flops(tokens: Number, d_model: Number, ff_multiple: Number = 4.0) -> Number:
    """Dot products beside matrices of a gated MHA block: 4·T·D / (2·(4·D² + 3·D·F)). [1]

    T/(8·D) at F = 4·D. No causal half.

    Source: How to Scale Your Model (2025), "Transformers", cost of attention.

    Args:
        tokens: Sequence length T. [token]
        d_model: D = N·H. [1]
        ff_multiple: F / D. [1]

    Examples:
        >>> attention_to_matmul_flops(8192, d_model=1024)
        1.0
    """
    return 4.0 * tokens * d_model / (2.0 * (4.0 + 3.0 * ff_multiple) * d_model**2)


def equal_flops_tokens(d_model: Number, ff_multiple: Number = 4.0) -> Number:
    """Sequence length whose dot products cost what the matrices cost: (4·D + 3·F)/2. [token]

    Source: How to Scale Your Model (2025), "Transformers", cost of attention and question 5.

    Args:
        d_model: D = N·H. [1]
        ff_multiple: F / D; 0 compares with the attention projections alone. [1]

    Examples:
        >>> equal_flops_tokens(1024), equal_flops_tokens(1024, ff_multiple=0)
        (8192.0, 2048.0)
    """
    return d_model * (4.0 + 3.0 * ff_multiple) / 2.0
