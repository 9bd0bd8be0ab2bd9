"""Parameter counts as lectures and books write them: matrices only, no norms, no biases.

Symbols: D model width, F feed-forward width, N query heads, K key/value heads, H head width,
L layers, V vocabulary.
"""

from roofline.cost.work import Number


def ffn_parameters(d_model: Number, d_ff: Number, layers: Number) -> Number:
    """Gated feed-forward parts: up, gate and down, 3·D·F·L. [parameter]

    Source: How to Scale Your Model (2025), "Transformers", table of parameters.

    Args:
        d_model, d_ff: D and F. [1]
        layers: L. [1]

    Examples:
        >>> ffn_parameters(2, 5, layers=10)
        300.0
    """
    return 3.0 * d_model * d_ff * layers


def attention_parameters(
    d_model: Number, heads: Number, kv_heads: Number, head_dim: Number, layers: Number
) -> Number:
    """Projections of queries, keys, values and outputs: (2·D·N·H + 2·D·K·H)·L. [parameter]

    Source: How to Scale Your Model (2025), "Transformers", table of parameters.

    Args:
        d_model: D. [1]
        heads, kv_heads, head_dim: N, K and H. [1]
        layers: L. [1]

    Examples:
        >>> attention_parameters(10, heads=4, kv_heads=1, head_dim=2, layers=1)
        200.0
    """
    return (2.0 * d_model * heads * head_dim + 2.0 * d_model * kv_heads * head_dim) * layers


def vocabulary_parameters(d_model: Number, vocab: Number, *, tied: bool = False) -> Number:
    """Input embedding and LM head: 2·V·D, once if they are the same matrix. [parameter]

    Source: How to Scale Your Model (2025), "Transformers", table of parameters.

    Args:
        d_model: D. [1]
        vocab: V. [1]
        tied: Whether both are one matrix.

    Examples:
        >>> vocabulary_parameters(10, 50), vocabulary_parameters(10, 50, tied=True)
        (1000.0, 500.0)
    """
    return (1.0 if tied else 2.0) * vocab * d_model


def lecture_parameters(
    d_model: Number,
    d_ff: Number,
    layers: Number,
    heads: Number,
    kv_heads: Number,
    head_dim: Number,
    vocab: Number,
    *,
    tied: bool = False,
) -> Number:
    """Parameters of a gated transformer: L·(3·D·F + 2·D·N·H + 2·D·K·H) + 2·V·D. [parameter]

    Norms and biases are left out; both embeddings are counted.

    Source: Stanford CS336 (2025) lecture 10, latency and throughput of Llama-2-13B.

    Args:
        d_model, d_ff: D and F. [1]
        layers: L. [1]
        heads, kv_heads, head_dim: N, K and H. [1]
        vocab: V. [1]
        tied: Whether input embedding and LM head are one matrix.

    Examples:
        >>> lecture_parameters(10, 20, layers=1, heads=2, kv_heads=2, head_dim=5, vocab=100)
        3000.0
    """
    return (
        ffn_parameters(d_model, d_ff, layers)
        + attention_parameters(d_model, heads, kv_heads, head_dim, layers)
        + vocabulary_parameters(d_model, vocab, tied=tied)
    )


def gpt_parameters(d_model: Number, layers: Number, vocab: Number) -> Number:
    """Parameters of a GPT (F = 4·D, no gate, N·H = D, tied): 12·L·D² + V·D. [parameter]

    Source: kipply (2022), Transformer Inference Arithmetic, "capacity".

    Args:
        d_model: D. [1]
        layers: L. [1]
        vocab: V. [1]

    Examples:
        The 52B model of the article:

        >>> gpt_parameters(8192, layers=64, vocab=65536)
        52076478464.0
    """
    return 12.0 * layers * d_model**2 + vocab * d_model


def attention_share(ff_multiple: Number) -> Number:
    """Part of a gated MHA block's parameters that is attention: 4·D² / (4·D² + 3·D·F). [1]

    Source: How to Scale Your Model (2025), "Transformers", question 1.

    Args:
        ff_multiple: F / D; N·H = D. [1]

    Examples:
        >>> attention_share(4)
        0.25
    """
    return 4.0 / (4.0 + 3.0 * ff_multiple)
