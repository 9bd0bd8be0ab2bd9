"""Counts of a network: parameters by part, cached elements, stored bytes. All exact integers."""

from collections.abc import Iterator
from fractions import Fraction
from math import ceil
from typing import Final

from roofline.model.architecture import Architecture, Block
from roofline.model.precision import named

PARTS: Final = (
    "embedding",
    "position_embedding",
    "attention_qkv",
    "attention_out",
    "indexer",
    "recurrent",
    "mlp",
    "router",
    "shared_experts",
    "experts",
    "norms",
    "lm_head",
    "other",
)
"""Parts in the order a token meets them. ``other``: projections in and out of the embedding, and
whatever mixes residual streams."""

_PART_OF: Final = {
    "qkv": "attention_qkv",
    "latent-down": "attention_qkv",
    "q": "attention_qkv",
    "q-up": "attention_qkv",
    "kv-up": "attention_qkv",
    "attn-gate": "attention_qkv",
    "compress-kv": "attention_qkv",
    "attn-out-down": "attention_out",
    "attn-out-up": "attention_out",
    "attn-out": "attention_out",
    "cross-out": "attention_out",
    "index-q": "indexer",
    "index-k": "indexer",
    "index-weights": "indexer",
    "gate-up": "mlp",
    "up": "mlp",
    "down": "mlp",
    "router": "router",
    "latent-in": "router",
    "latent-out": "router",
    "shared-gate": "shared_experts",
    "shared-gate-up": "shared_experts",
    "shared-up": "shared_experts",
    "shared-down": "shared_experts",
}
"""Part that a matrix is counted in, by its role; others of a mixer are ``attention_qkv``, others of
a feed-forward part ``mlp``."""


def parts(architecture: Architecture) -> dict[str, int]:
    """Parameters of the text decoder by part, biases with their matrix. [parameter]

    Examples:
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
    out["other"] = sum(linear.parameters for linear in a.projections)
    for block, layers in a.owned:
        for name, number in _of_layer(block, a.d_model):
            out[name] += layers * number
    return out


def _of_layer(block: Block, d_model: int) -> Iterator[tuple[str, int]]:
    """Parts of one layer with their parameters."""
    if block.mixer:
        recurrent = block.mixer.keeps_state
        for linear in block.mixer.linears(d_model):
            part = "recurrent" if recurrent else _PART_OF.get(linear.name, "attention_qkv")
            yield part, linear.parameters
        index = block.mixer.index
        norm = 0 if index is None else index.other_parameters
        yield "indexer", norm
        yield "recurrent" if recurrent else "norms", block.mixer.other_parameters - norm
    if block.feedforward:
        for linear in block.feedforward.linears(d_model):
            yield _PART_OF.get(linear.name, "mlp"), linear.parameters
        yield "norms", block.feedforward.other_parameters
        yield "experts", block.expert_parameters(d_model)
    yield "norms", block.norm_parameters
    yield "other", block.extra_parameters + sum(linear.parameters for linear in block.extra)


def total(architecture: Architecture) -> int:
    """Parameters of the text decoder, tied matrices once. [parameter]"""
    return sum(parts(architecture).values())


def active(architecture: Architecture) -> dict[str, int]:
    """Parameters that compute a token, in the three conventions in use. [parameter]

    ``all``; ``minus_input_embedding``, without the token embedding (even where the LM head is the
    same matrix); ``minus_embeddings``, without token embedding and LM head. Of routed experts, k of
    E count.
    """
    by_part = parts(architecture)
    every = sum(by_part.values()) - _idle(architecture)
    inner = every - by_part["embedding"]
    return {
        "all": every,
        "minus_input_embedding": inner,
        "minus_embeddings": inner - by_part["lm_head"],
    }


def _idle(architecture: Architecture) -> int:
    """Parameters of the routed experts that do not compute a token. [parameter]"""
    return sum(
        layers
        * (part.experts - part.active)
        * (block.expert_parameters(architecture.d_model) // part.experts)
        for block, layers in architecture.kinds.items()
        if (part := block.feedforward) is not None and part.experts
    )


def kv_elements_per_token(architecture: Architecture, *, beyond_window: bool = False) -> int:
    """Keys and values a token leaves in the cache, over all layers. [1]

    Args:
        architecture: The network.
        beyond_window: Count only layers that keep growing once the context is longer than every
            window.
    """
    return sum(
        layers * (block.mixer.lasting_elements if beyond_window else block.mixer.kv_elements)
        for block, layers in architecture.kinds.items()
        if block.mixer
    )


def kv_bytes_per_token(architecture: Architecture, bytes_per_element: int = 2) -> int:
    """Cache growth per token while the context is shorter than every window. [B]"""
    return kv_elements_per_token(architecture) * bytes_per_element


def state_elements_per_sequence(architecture: Architecture) -> int:
    """Recurrent state of a sequence, whatever its length. [1]"""
    return sum(
        layers * block.mixer.state_elements
        for block, layers in architecture.kinds.items()
        if block.mixer
    )


def state_bytes_per_sequence(architecture: Architecture) -> float:
    """Recurrent state of a sequence: matrices in their own format, convolutions in 16 bits. [B]"""
    return sum(
        layers * block.mixer.state_bytes(named("bf16").width)
        for block, layers in architecture.kinds.items()
        if block.mixer and block.mixer.keeps_state
    )


def index_bytes_per_token(architecture: Architecture) -> int:
    """Cache growth per token of the index of sparse attention. [B]"""
    return sum(
        layers * index.bytes_per_token
        for block, layers in architecture.kinds.items()
        if block.mixer and (index := block.mixer.index) is not None
    )


def weight_bytes(architecture: Architecture) -> int:
    """Size of the checkpoint of the text decoder. [B]

    Each matrix is in the format of its role, ``weight_format`` unless its block says otherwise,
    scales and zero points included as `roofline.model.precision` states them. Embeddings, norms,
    biases and an LM head without a format of its own are in ``plain_format``.
    """
    matrices, size = 0, Fraction(0)
    for name, linear, count in architecture.stored_matrices():
        matrices += count * linear.n * linear.k
        size += count * named(name).matrix_bytes(linear.n, linear.k)
    if architecture.head_format:
        rows, width = architecture.vocab, architecture.embedding_width
        matrices += rows * width
        size += named(architecture.head_format).matrix_bytes(rows, width)
    plain = Fraction(named(architecture.plain_format).width)
    return ceil(size + plain * (total(architecture) - matrices))
