"""RWKV-7: a generalised delta rule instead of attention.

Shapes are those of the configs of flash-linear-attention; the count is that of Peng et al. (2025),
"RWKV-7 Goose" (arXiv 2503.14456), which also gives the totals of the published networks.
"""

from typing import Final

from roofline.model.architecture import Architecture, Block, Linear, Recurrent
from roofline.model.huggingface.common import Geometry, family, neutral, stack, ungated
from roofline.model.huggingface.fields import MOST_LAYERS, Fields
from roofline.model.huggingface.kimi import low_rank
from roofline.model.huggingface.layers import divides

_SEEN: Final = """
    attn_mode hidden_ratio norm_eps fuse_norm fuse_cross_entropy num_heads value_dim
    max_position_embeddings
"""
SEEN: Final = frozenset(_SEEN.split())
"""Fields that follow from others, or choose a kernel; there is no longest context."""

RANKS: Final = {
    "decay": "decay_low_rank_dim",
    "rate": "a_low_rank_dim",
    "value": "v_low_rank_dim",
    "gate": "gate_low_rank_dim",
}
"""Keys of the ranks of the paths that make decays, rates of learning, values and gates."""
SHIFTED: Final = 2
"""Tokens that each shift reads: the last one and its own."""


@family("rwkv7")
def rwkv7(fields: Fields) -> Architecture:
    """RWKV-7: the first layer has no path of values, which later ones mix with its own."""
    fields.seen |= SEEN
    neutral(fields, attn=None, norm_first=True, norm_bias=True)
    width = fields.integer("d_model", "hidden_size")
    layers = fields.integer("layers", "num_hidden_layers", high=MOST_LAYERS)
    head = fields.integer("head_dim", "head_dim", default=64)
    divides(fields, "head_dim", width, head, "channels")
    ranks = {name: fields.integer(f"{name}_rank", key) for name, key in RANKS.items()}
    mlp = ungated(fields, "sqrelu", bias=False, default=4 * width)

    def block(first: bool) -> Block:
        paths = [name for name in RANKS if not (first and name == "value")]
        mixer = Recurrent(
            kind="rwkv7",
            heads=width // head,
            key_dim=head,
            value_dim=head,
            key_heads=width // head,
            projections=(
                Linear("linear-qkv", 3 * width, width),
                *(
                    matrix
                    for name in paths
                    for matrix in low_rank(f"linear-{name}", width, ranks[name], width)
                ),
                Linear("linear-out", width, width, split="row"),
            ),
            # Six mixtures with the last token, two scales of keys, a bonus, biases of the paths
            # but that of the gate, and a norm of the heads with biases.
            other_parameters=(9 + len(paths) - 1 + 2) * width,
            # The last input of both parts.
            conv_width=2 * width,
            conv_kernel=SHIFTED,
            rule="delta",
            state_format="fp32",
        )
        return Block(mixer, mlp, 2, 4 * width, extra_parameters=width)

    shape = Geometry(width, layers, 1, 1, 1, fields.integer("vocab", "vocab_size"), None)
    return stack(
        fields,
        shape,
        [block(first=i == 0) for i in range(layers)],
        embedding_norm_parameters=2 * width,
        final_norm_parameters=2 * width,
    )
