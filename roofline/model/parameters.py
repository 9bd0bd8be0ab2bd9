"""Counts of a network: parameters by part, cached elements, stored bytes. All exact integers."""

from fractions import Fraction
from math import ceil
from typing import Final

from roofline.model.architecture import Architecture, Linear
from roofline.model.precision import named

PARTS: Final = (
    "embedding",
    "position_embedding",
    "attention_qkv",
    "attention_out",
    "mlp",
    "norms",
    "lm_head",
    "other",
)
"""Parts in the order a token meets them; ``other`` are projections in and out of the embedding."""

_PART_OF: Final = {
    "qkv": "attention_qkv",
    "attn-out": "attention_out",
    "gate-up": "mlp",
    "up": "mlp",
    "down": "mlp",
}


def projections(architecture: Architecture) -> tuple[Linear, ...]:
    """Matrices between the embedding's width and the model's, where the two differ (OPT-350M)."""
    d_model, width = architecture.d_model, architecture.embedding_width
    if width == d_model:
        return ()
    return (Linear("project-in", d_model, width), Linear("project-out", width, d_model))


def parts(architecture: Architecture) -> dict[str, int]:
    """Parameters of the text decoder by part, biases with their matrix. [parameter]

    Examples
    --------
    >>> from roofline.model.architecture import Architecture, Attention, Block, Mlp
    >>> block = Block(Attention(1, 1, 4), Mlp(8, gated=True), norms=2, norm_parameters=8)
    >>> tiny = Architecture("tiny", "llama", 4, 10, (block,), True, 4, final_norm_parameters=4)
    >>> parts(tiny)["mlp"]  # gate, up and down: 3 · 4 · 8
    96
    """
    a = architecture
    out = dict.fromkeys(PARTS, 0)
    out["embedding"] = a.vocab * a.embedding_width
    out["position_embedding"] = a.position_rows * a.d_model
    out["norms"] = a.embedding_norm_parameters + a.final_norm_parameters
    out["lm_head"] = (0 if a.tied_embeddings else a.vocab * a.embedding_width) + (
        a.vocab if a.head_bias else 0
    )
    out["other"] = sum(linear.parameters for linear in projections(a))
    for block, layers in a.kinds.items():
        for linear in block.linears(a.d_model):
            out[_PART_OF.get(linear.name, "other")] += layers * linear.parameters
        out["norms"] += layers * block.norm_parameters
        if block.mixer:
            out["norms"] += layers * block.mixer.norm_parameters
    return out


def total(architecture: Architecture) -> int:
    """Parameters of the text decoder, tied matrices once. [parameter]"""
    return sum(parts(architecture).values())


def active(architecture: Architecture) -> dict[str, int]:
    """Parameters a token meets, in the three conventions in use. [parameter]

    ``all``; ``minus_input_embedding``, without the token embedding (even where the LM head is the
    same matrix); ``minus_embeddings``, without token embedding and LM head.
    """
    by_part = parts(architecture)
    every = sum(by_part.values())
    inner = every - by_part["embedding"]
    return {
        "all": every,
        "minus_input_embedding": inner,
        "minus_embeddings": inner - by_part["lm_head"],
    }


def matmul_parameters(architecture: Architecture) -> int:
    """Weights every token is multiplied with, LM head included, biases and norms not. [parameter]

    Twice this is the FLOPs of a token outside attention.
    """
    a = architecture
    layers = sum(
        count * linear.n * linear.k
        for block, count in a.kinds.items()
        for linear in block.linears(a.d_model)
    )
    around = sum(linear.n * linear.k for linear in projections(a))
    return layers + around + a.vocab * a.embedding_width


def kv_elements_per_token(architecture: Architecture, *, beyond_window: bool = False) -> int:
    """Keys and values a token leaves in the cache, over all layers. [1]

    Parameters
    ----------
    architecture
        The network.
    beyond_window
        Count only layers that keep growing once the context is longer than every window.
    """
    return sum(
        layers * block.mixer.kv_elements
        for block, layers in architecture.kinds.items()
        if block.mixer and not (beyond_window and block.mixer.window is not None)
    )


def kv_bytes_per_token(architecture: Architecture, bytes_per_element: int = 2) -> int:
    """Cache growth per token while the context is shorter than every window. [B]"""
    return kv_elements_per_token(architecture) * bytes_per_element


def kv_bytes_per_token_beyond_window(architecture: Architecture, bytes_per_element: int = 2) -> int:
    """Cache growth per token once the context is longer than every window. [B]"""
    return kv_elements_per_token(architecture, beyond_window=True) * bytes_per_element


def state_elements_per_sequence(architecture: Architecture) -> int:
    """Recurrent state of a sequence, whatever its length: 0, all layers attend. [1]"""
    return 0


def index_bytes_per_token(architecture: Architecture) -> int:
    """Cache of a sparse-attention index: 0, none of the layer kinds has one. [B]"""
    return 0


def weight_bytes(architecture: Architecture) -> int:
    """Size of the checkpoint of the text decoder. [B]

    Linear layers are in ``weight_format``, scales and zero points included as
    `roofline.model.precision` states them; embeddings, LM head, norms and biases are in
    ``plain_format``.
    """
    linear = matmul_parameters(architecture) - architecture.vocab * architecture.embedding_width
    stored = Fraction(named(architecture.weight_format).width) * linear
    plain = Fraction(named(architecture.plain_format).width)
    return ceil(stored + plain * (total(architecture) - linear))
