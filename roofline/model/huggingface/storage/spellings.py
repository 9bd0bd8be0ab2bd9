"""Names in checkpoints of the modules that make up a matrix.

A matrix of ours may be several modules that engines fuse: each entry is one way to name all of
them, below ``layers.N.``. ``@`` stands for the names of the part they are in.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final

MIXERS: Final = ("self_attn", "attn", "attention", "self_attention", "mixer", "linear_attn",
                 "mamba", "ssm", "temporal_block")  # fmt: skip
FEEDFORWARDS: Final = ("mlp", "feed_forward", "ffn", "block_sparse_moe", "mixer", "moe")
_UP, _DOWN = ("up_proj", "w3", "fc1", "c_fc", "dense_h_to_4h"), ("down_proj", "w2", "fc2",
              "c_proj", "dense_4h_to_h", "proj")  # fmt: skip
_GATE_UP = ("gate_proj up_proj", "gate_up_proj", "w1 w3", "w1 w2_up", "gate_linear up_linear")


def _below(holder: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(" ".join(f"@{holder}.{name}" for name in words.split()) for words in names)


_OF_MIXERS: Final[Mapping[str, tuple[str, ...]]] = {
    "qkv": ("@.q_proj @.k_proj @.v_proj", "@.q_proj @.k_proj", "@.q_proj", "@.qkv_proj",
            "@.query_key_value", "@.wq @.wk @.wv", "@.wqkv", "@.c_attn", "@.W_pack"),
    "attn-out": ("@.o_proj", "@.out_proj", "@.wo", "@.dense", "@.c_proj", "@.wo_b"),
    "attn-out-down": ("@.o_a_proj", "@.wo_a"),
    "attn-out-up": ("@.o_b_proj", "@.wo_b"),
    "attn-gate": ("@.g_proj", "@.gate_proj"),
    "latent-down": ("@.q_a_proj @.kv_a_proj_with_mqa", "@.kv_a_proj_with_mqa",
                    "@.fused_qkv_a_proj", "@.wq_a @.wkv", "@.wq_a @.wkv_a"),
    "q": ("@.q_proj", "@.wq"),
    "q-up": ("@.q_b_proj", "@.wq_b"),
    "kv-up": ("@.kv_b_proj", "@.wkv_b"),
    "compress-kv": ("@.compressor.wkv @.compressor.wgate", "@.compressor.kv_proj"),
    "index-q": ("@.indexer.wq_b", "@.indexer.q_b_proj"),
    "index-k": ("@.indexer.wk", "@.indexer.k_proj", "@.indexer.compressor.wkv"),
    "index-weights": ("@.indexer.weights_proj", "@.indexers_proj"),
    "linear-qkvz": ("@.in_proj_qkv @.in_proj_z", "@.in_proj_qkvz"),
    "linear-ba": ("@.in_proj_b @.in_proj_a", "@.in_proj_ba"),
    "linear-qkv": ("@.qkv_proj", "@.q_proj @.k_proj @.v_proj"),
    "linear-gate": ("@.output_gate", "@.g_proj"),
    "linear-out": ("@.out_proj", "@.o_proj"),
    "conv-in": ("conv.in_proj",),
    "conv-out": ("conv.out_proj",),
    # Attention may stand beside a state space in one layer, so that its name is not for both.
    **{
        f"ssm-{role}": tuple(f"{holder}.{name}" for holder in ("mamba", "mixer", "ssm"))
        for role, name in (
            ("in", "in_proj"),
            ("select", "x_proj"),
            ("step", "dt_proj"),
            ("out", "out_proj"),
        )
    },
}  # fmt: skip
_OF_FEEDFORWARDS: Final[Mapping[str, tuple[str, ...]]] = {
    "gate-up": _below("", _GATE_UP),
    "up": (*_below("", _UP), "fc1"),
    "down": (*_below("", _DOWN), "fc2"),
    "router": ("@.gate", "@.router", "@.router.layer", "@.router.proj", "@.gate.wg"),
    "latent-in": ("@.fc1_latent_proj", "@.latent_in"),
    "latent-out": ("@.fc2_latent_proj", "@.latent_out"),
    "shared-gate": ("@.shared_expert_gate",),
    **{
        f"shared-{role}": (
            *_below(".shared_experts", names),
            *_below(".shared_expert", names),
            *_below(".shared_mlp", names),
        )
        for role, names in (("gate-up", _GATE_UP), ("up", _UP), ("down", _DOWN))
    },
    **{
        f"experts-{role}": (*_below(".experts.0", names), *_below(".experts", names))
        for role, names in (("gate-up", _GATE_UP), ("up", _UP), ("down", _DOWN))
    },
}
_BESIDE: Final[Mapping[str, tuple[str, ...]]] = {
    # A dense part and experts stand side by side: what we count as shared is called mlp.
    **{
        f"shared-{role}": _below("", names)
        for role, names in (("gate-up", _GATE_UP), ("up", _UP), ("down", _DOWN))
    },
    **{
        f"experts-{role}": tuple(
            words.replace("@.", "") for words in _OF_FEEDFORWARDS[f"experts-{role}"]
        )
        for role in ("gate-up", "up", "down")
    },
    "router": ("router", "router.proj"),
}
BESIDE_TYPES: Final = frozenset({"gemma4", "gemma4_text", "gemma4_unified"})


@cache
def spellings(
    role: str, model_type: str, words: frozenset[str] = frozenset()
) -> tuple[tuple[str, ...], ...]:
    """Ways to name the modules of a matrix, below its layer.

    Args:
        role: Name of the matrix. One that is not known is taken to be below any mixer, by its own
            name.
        model_type: Of the network: some name the parts otherwise.
        words: Names of parts to consider beside the most common one.

    Examples:
        >>> spellings("index-k", "")[0]
        ('self_attn.indexer.wk',)
    """
    own = _BESIDE.get(role) if model_type in BESIDE_TYPES else None
    if own is None and role in _OF_FEEDFORWARDS:
        own = _OF_FEEDFORWARDS[role]
    first, *others = FEEDFORWARDS if own is not None else MIXERS
    meant = [word for word in words if len(word) > 2]
    holders = (first, *(holder for holder in others if any(word in holder for word in meant)))
    templates = own or _OF_MIXERS.get(role, (f"@.{role}",))
    return tuple(
        tuple(words.replace("@", holder).split())
        for words in templates
        for holder in (holders if "@" in words else ("",))
    )


@cache
def vocabulary(model_type: str, words: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Every module of a layer that has a name here."""
    roles = (*_OF_MIXERS, *_OF_FEEDFORWARDS)
    return tuple(
        dict.fromkeys(
            module for role in roles for way in spellings(role, model_type, words) for module in way
        )
    )
