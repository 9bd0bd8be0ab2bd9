"""Work of everything that treats tokens one by one: matrices, norms, activations, lookups.

Convention: one multiply-add is 2 FLOP; every operand crosses device memory once.
"""

from typing import Final

from roofline.cost.work import Formula, Number, Work, by


def gemm(m: Number, n: Number, k: Number, *, weight_width: float, width: float) -> Work:
    """Linear layer ``Y[m, n] = X[m, k] · W[k, n]``.

    Source: Stanford CS336 (2025) lecture 10, intensity of a matrix product.

    Args:
        m: Tokens. [token]
        n, k: Output and input width. [1]
        weight_width: Bytes per weight, scales and zero points included. [B]
        width: Bytes per activation. [B]

    Examples:
        A square product of side n has intensity n/3 at two bytes an element:

        >>> gemm(3072, 3072, 3072, weight_width=2, width=2).intensity
        1024.0
    """
    return Work(
        flops=(2.0 * n * k) * m,
        weight_bytes=n * k * weight_width,
        activation_bytes=((n + k) * width) * m,
        made=by(GEMM, locals()),
    )


GEMM: Final = Formula(
    flops="2 · m · n · k",
    weight_bytes="n · k · weight_width",
    activation_bytes="m · (n + k) · width",
)


def pointwise(
    m: Number, *, reads: Number, writes: Number, width: float, parameters: Number = 0.0
) -> Work:
    """One pass over the activations: norm, residual, rotary embedding, activation function.

    A few vector FLOP per element are left out. Source: every operand crosses memory once.

    Args:
        m: Tokens. [token]
        reads, writes: Elements per token that are read and written. [1]
        width: Bytes per element, parameters included. [B]
        parameters: Weights of the norm. [parameter]

    Examples:
        SiLU(gate)·up on a width of 4 reads 8 elements and writes 4, of 2 bytes:

        >>> pointwise(1.0, reads=8, writes=4, width=2).hbm_bytes
        24.0
    """
    moved = ((reads + writes) * width) * m
    return Work(
        weight_bytes=parameters * width, activation_bytes=moved, made=by(POINTWISE, locals())
    )


POINTWISE: Final = Formula(
    weight_bytes="parameters · width", activation_bytes="m · (reads + writes) · width"
)


def lookup(
    m: Number, d: float, *, weight_width: float, width: float, positions: float = 0.0
) -> Work:
    """Embedding: read a row for each token, write it.

    The matrix itself is not read. Source: definition of an embedding lookup; published closed
    forms that read the whole matrix are in `roofline.cost.textbook`.

    Args:
        m: Tokens. [token]
        d: Width of a row. [1]
        weight_width, width: Bytes per table element and per activation. [B]
        positions: Width of the row of a learned position embedding that is added; 0 without one.
            [1]

    Examples:
        >>> lookup(10, 4096, weight_width=2, width=2).hbm_bytes == 10 * 4096 * 4
        True
    """
    return Work(
        weight_bytes=((d + positions) * weight_width) * m,
        activation_bytes=(d * width) * m,
        made=by(LOOKUP, locals()),
    )


LOOKUP: Final = Formula(
    weight_bytes="m · (d[ + positions]) · weight_width", activation_bytes="m · d · width"
)
