"""Work of layers with a constant state: state-space models and linear attention.

Symbols: h heads with a state of R × P (key by value width), T new tokens, Q tokens in a chunk.
"""

from typing import Final

from roofline.cost.attention import pairs
from roofline.cost.work import Formula, Number, Work, by, times

MULTIPLY_ADDS = {"decay": 3.0, "delta": 4.0}
"""Multiply-adds per state element and token: decay, add k·vᵀ, read with q; the delta rule reads
with k first to take the old value out."""


def recurrent_steps(
    count: Number,
    new: Number,
    *,
    heads: Number,
    key_dim: Number,
    value_dim: Number,
    key_heads: Number,
    rule: str,
    width: Number,
    state_width: Number,
) -> Work:
    """Token after token: the form of decoding, and of a scan.

    The state is read and written once per call: on chip in between. Source: Gu and Dao 2023 (arXiv
    2312.00752), hardware-aware scan; Yang et al. 2024 (arXiv 2412.06464) for the delta rule.

    Args:
        count: Sequences. [1]
        new: New tokens T of each. [token]
        heads, key_dim, value_dim, key_heads: h, R, P, and heads that q and k are made for. [1]
        rule: ``"decay"`` or ``"delta"``.
        width, state_width: Bytes per activation and per element of the state. [B]

    Examples:
        A head of 2 × 3 does three multiply-adds on each of 6 elements:

        >>> recurrent_steps(
        ...     1.0, 1.0, heads=1, key_dim=2, value_dim=3, key_heads=1, rule="decay", width=2,
        ...     state_width=4,
        ... ).flops
        36.0
    """
    matrix, multiply_adds = heads * key_dim * value_dim, MULTIPLY_ADDS[rule]
    moved = 2.0 * key_heads * key_dim + 2.0 * heads * value_dim + heads
    return Work(
        flops=(2.0 * multiply_adds * matrix) * times(count, new),
        activation_bytes=(moved * width) * times(count, new),
        kv_bytes=(2.0 * matrix * state_width) * count,
        made=by(STEPS, locals()),
    )


_MOVED = "(2 · key_heads · key_dim + 2 · heads · value_dim + heads) · width · count · new"
_STATE = "2 · heads · key_dim · value_dim · state_width · count"
STEPS: Final = Formula(
    flops="2 · multiply_adds · heads · key_dim · value_dim · count · new",
    activation_bytes=_MOVED,
    kv_bytes=_STATE,
    meanings=(("multiply_adds", "of a token on an element of the state, by the layer's rule"),),
)


def chunked_scan(
    count: Number,
    new: Number,
    *,
    heads: Number,
    key_dim: Number,
    value_dim: Number,
    key_heads: Number,
    rule: str,
    chunk: float,
    width: Number,
    state_width: Number,
) -> Work:
    """Chunk after chunk as matrix products: the form of prefill.

    Inside its chunk each token meets those before it and itself: 2·R for the score, per head that
    keys are made for, and 2·P for the value; twice that with the delta rule, whose values are first
    solved for. Between chunks 2·R·P to read the state and 2·R·P to update it; the delta rule reads
    it with keys too. The last chunk may be shorter. Source: Dao and Gu 2024 (arXiv 2405.21060),
    section 6; Yang et al. 2024 (arXiv 2406.06484) for the delta rule.

    Args:
        count, new, heads, key_dim, value_dim, key_heads: As in `recurrent_steps`.
        rule, width, state_width: As in `recurrent_steps`.
        chunk: Q. [token]

    Examples:
        With Q = 1 a token meets itself, and its state work is two multiply-adds an element:

        >>> work = chunked_scan(
        ...     1.0, 1.0, heads=1, key_dim=2, value_dim=3, key_heads=1, rule="decay", chunk=1,
        ...     width=2, state_width=4,
        ... )
        >>> float(work.flops)
        34.0
    """
    solves, reads = (2.0, 3.0) if rule == "delta" else (1.0, 2.0)
    each = 2.0 * solves * (key_heads * key_dim + heads * value_dim)
    pairs_met = pairs(new, new, chunk=chunk)
    matrix = heads * key_dim * value_dim
    moved = 2.0 * key_heads * key_dim + 2.0 * heads * value_dim + heads
    return Work(
        flops=times(count, each * pairs_met + (2.0 * reads * matrix) * new),
        activation_bytes=(moved * width) * times(count, new),
        kv_bytes=(2.0 * matrix * state_width) * count,
        made=by(CHUNKS, locals()),
    )


CHUNKS: Final = Formula(
    flops="2 · (solves · (key_heads · key_dim + heads · value_dim) · pairs_met"
    " + reads · heads · key_dim · value_dim · new) · count",
    activation_bytes=_MOVED,
    kv_bytes=_STATE,
    meanings=(
        ("pairs_met", "tokens with themselves and those before them in their chunk"),
        ("solves", "products of a chunk with itself: 2 where the delta rule solves for values"),
        ("reads", "products with the state: read, update, and by the delta rule read with keys"),
    ),
)
