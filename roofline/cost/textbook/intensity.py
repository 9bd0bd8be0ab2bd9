"""FLOPs, bytes and arithmetic intensity of matrices and vectors, as published.

Symbols: B batch, T new tokens, D model width, F feed-forward width.
"""

from roofline.cost.work import Number


def matmul_flops(batch: Number, d_in: Number, d_out: Number) -> Number:
    """Y[B, F] = X[B, D]·W[D, F]: 2·B·D·F. [FLOP]

    Source: Stanford CS336 (2025) lecture 10, "arithmetic intensity".

    Args:
        batch: Rows B. [token]
        d_in, d_out: D and F. [1]

    Examples:
        >>> matmul_flops(2, 3, 5)
        60.0
    """
    return 2.0 * batch * d_in * d_out


def matmul_bytes(batch: Number, d_in: Number, d_out: Number, width: Number = 2.0) -> Number:
    """Read X and W, write Y: width·(B·D + D·F + B·F). [B]

    Source: Stanford CS336 (2025) lecture 10, "arithmetic intensity".

    Args:
        batch: Rows B. [token]
        d_in, d_out: D and F. [1]
        width: Bytes per element. [B]

    Examples:
        >>> matmul_bytes(2, 3, 5)
        62.0
    """
    return width * (batch * d_in + d_in * d_out + batch * d_out)


def matmul_intensity(batch: Number, d_in: Number, d_out: Number, width: Number = 2.0) -> Number:
    """2·B·D·F / (width·(B·D + D·F + B·F)); tends to B in bf16 when B is much the smallest. [FLOP/B]

    Source: Stanford CS336 (2025) lecture 10, "arithmetic intensity".

    Args:
        batch: Rows B. [token]
        d_in, d_out: D and F. [1]
        width: Bytes per element. [B]

    Examples:
        >>> matmul_intensity(3, 3, 3)
        1.0
    """
    return matmul_flops(batch, d_in, d_out) / matmul_bytes(batch, d_in, d_out, width)


def per_example_matmul_intensity(d_in: Number, d_out: Number, width: Number) -> Number:
    """Each row has a matrix of its own: 2·D·F / (width·(D + D·F + F)), whatever the batch. [FLOP/B]

    Source: How to Scale Your Model (2025), "Rooflines", question on batched weights.

    Args:
        d_in, d_out: D and F. [1]
        width: Bytes per element. [B]

    Examples:
        >>> per_example_matmul_intensity(4, 4, width=1)
        1.3333333333333333
    """
    return 2.0 * d_in * d_out / (width * (d_in + d_in * d_out + d_out))


def mlp_flops(batch: Number, tokens: Number, d_model: Number, d_ff: Number) -> Number:
    """Gated MLP, three matrices: 6·B·T·D·F. [FLOP]

    Source: Stanford CS336 (2025) lecture 10, MLP layers.

    Args:
        batch: Sequences B. [1]
        tokens: New tokens T of each. [token]
        d_model, d_ff: D and F. [1]

    Examples:
        >>> mlp_flops(1, 1, d_model=2, d_ff=5)
        60.0
    """
    return 6.0 * batch * tokens * d_model * d_ff


def mlp_bytes(
    batch: Number, tokens: Number, d_model: Number, d_ff: Number, width: Number = 2.0
) -> Number:
    """Gated MLP: 4·B·T·D + 4·B·T·F + 6·D·F in bf16. [B]

    X and three matrices are read; U, G and Y are written. Reading U and G again is left out, as
    in the lecture.

    Source: Stanford CS336 (2025) lecture 10, MLP layers.

    Args:
        batch: Sequences B. [1]
        tokens: New tokens T of each. [token]
        d_model, d_ff: D and F. [1]
        width: Bytes per element. [B]

    Examples:
        >>> mlp_bytes(1, 1, d_model=2, d_ff=5)
        88.0
    """
    moved = 2.0 * batch * tokens * d_model + 2.0 * batch * tokens * d_ff + 3.0 * d_model * d_ff
    return width * moved


def mlp_intensity(
    batch: Number, tokens: Number, d_model: Number, d_ff: Number, width: Number = 2.0
) -> Number:
    """Gated MLP; tends to B·T in bf16 when B·T is much smaller than D and F. [FLOP/B]

    Source: Stanford CS336 (2025) lecture 10, MLP layers.

    Args:
        batch: Sequences B. [1]
        tokens: New tokens T of each. [token]
        d_model, d_ff: D and F. [1]
        width: Bytes per element. [B]

    Examples:
        >>> mlp_intensity(1, 1, d_model=1, d_ff=1)
        0.42857142857142855
    """
    flops = mlp_flops(batch, tokens, d_model, d_ff)
    return flops / mlp_bytes(batch, tokens, d_model, d_ff, width)


def dot_product_intensity(n: Number, width: Number = 2.0) -> Number:
    """Two vectors in, a number out: (2·n − 1) / (width·(2·n + 1)). [FLOP/B]

    Source: How to Scale Your Model (2025), "Rooflines", dot product.

    Args:
        n: Elements of a vector. [1]
        width: Bytes per element. [B]

    Examples:
        >>> dot_product_intensity(2)
        0.3
    """
    return (2.0 * n - 1.0) / (width * (2.0 * n + 1.0))


def vector_add_bytes(n: Number, width: Number = 4.0) -> Number:
    """Two vectors read, one written: 3·n·width. [B]

    Source: How to Scale Your Model (2025), "GPUs", quiz 1.

    Args:
        n: Elements of a vector. [1]
        width: Bytes per element. [B]

    Examples:
        >>> vector_add_bytes(10)
        120.0
    """
    return 3.0 * n * width


def vector_add_intensity(width: Number = 4.0) -> Number:
    """One addition per two reads and a write: 1 / (3·width). [FLOP/B]

    Source: How to Scale Your Model (2025), "GPUs", quiz 1.

    Args:
        width: Bytes per element. [B]

    Examples:
        >>> vector_add_intensity(2) == 1 / 6
        True
    """
    return 1.0 / (3.0 * width)
