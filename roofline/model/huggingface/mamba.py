"""State-space networks without attention: Mamba, Mamba-2, Falcon-Mamba.

Shapes and defaults are those of the ``transformers`` config classes of the same names (5.23). The
layers are also those of the hybrids.
"""

from collections.abc import Mapping
from math import ceil
from typing import Any, Final

from roofline.model.architecture import Architecture, Block, Linear, Recurrent
from roofline.model.huggingface.common import Geometry, family, stack
from roofline.model.huggingface.fields import MOST_LAYERS, Fields
from roofline.model.huggingface.layers import divides
from roofline.model.huggingface.storage import DTYPES
from roofline.records import replace

MAMBA2_SEEN: Final = frozenset(
    {"time_step_limit", "time_step_rank", "mamba_dt_limit", "expand", "mamba_expand"}
)
"""Fields that Mamba-2 does not need: its inner width is that of the heads, and it has no rank."""


def mamba1(
    d_model: int,
    *,
    inner: int,
    state: int,
    rank: int,
    kernel: int,
    bias: bool,
    conv_bias: bool,
    norms: bool = False,
) -> Recurrent:
    """Mamba-1: every channel has a state of its own, and all read with the same key.

    Args:
        d_model, inner: Width D; channels of the state space. [1]
        state, rank, kernel: Width R of the state of a channel, of the latent of its time step,
            taps. [1]
        bias, conv_bias: Whether the projections in and out, and the convolution, have biases.
        norms: Whether time step, key and query are normed with weights (Jamba).

    References:
        Gu, Dao (2023), "Mamba", section 3.4.
    """
    decay_and_skip = inner * state + inner
    return Recurrent(
        kind="mamba1",
        heads=inner,
        key_dim=state,
        value_dim=1,
        key_heads=1,
        projections=(
            Linear("ssm-in", 2 * inner, d_model, 2 * inner * bias),
            Linear("ssm-select", rank + 2 * state, inner, split="row"),
            Linear("ssm-step", inner, rank, inner),
            Linear("ssm-out", d_model, inner, d_model * bias, "row"),
        ),
        other_parameters=decay_and_skip + inner * (kernel + conv_bias) + (rank + 2 * state) * norms,
        conv_width=inner,
        conv_kernel=kernel,
        chunk=1,
    )


def mamba2(
    d_model: int,
    *,
    heads: int,
    head_dim: int,
    state: int,
    groups: int,
    kernel: int,
    chunk: int,
    bias: bool = False,
    conv_bias: bool = True,
    norm: bool = True,
) -> Recurrent:
    """Mamba-2: a matrix of state per head, keys and queries shared by groups of heads.

    Args:
        d_model: Width D. [1]
        heads, head_dim, state, groups: Heads, their width P, the width R of a key, and groups of
            heads that share keys. [1]
        kernel: Taps of the convolution over values, keys and queries. [1]
        chunk: Tokens that prefill computes together. [token]
        bias, conv_bias, norm: Whether the projections and the convolution have biases, and the
            output a norm.

    References:
        Dao, Gu (2024), "Transformers are SSMs", section 7.
    """
    inner = heads * head_dim
    conv = inner + 2 * groups * state
    steps = inner + conv + heads
    return Recurrent(
        kind="mamba2",
        heads=heads,
        key_dim=state,
        value_dim=head_dim,
        key_heads=groups,
        projections=(
            Linear("ssm-in", steps, d_model, steps * bias),
            Linear("ssm-out", d_model, inner, d_model * bias, "row"),
        ),
        # Step bias, decay and skip of each head; the convolution; the norm.
        other_parameters=3 * heads + conv * (kernel + conv_bias) + inner * norm,
        conv_width=conv,
        conv_kernel=kernel,
        chunk=chunk,
    )


def time_step_rank(fields: Fields, key: str, d_model: int) -> int:
    """Width of the latent of Mamba-1's time step: ``"auto"`` is D / 16, rounded up. [1]"""
    if fields.data.get(key, "auto") == "auto":
        fields.seen.add(key)
        rank = ceil(d_model / 16)
        fields.say("time_step_rank", key, rank, "D / 16, rounded up")
        return rank
    return fields.integer("time_step_rank", key)


def state_format(fields: Fields, *keys: str) -> str:
    """Number format that a config asks for the state to be kept in.

    Raises:
        UnsupportedModelError: It is not a type of 16 or 32 bits.
    """
    if (found := fields.get(*keys)) is None:
        return "bf16"
    key, value = found
    if not isinstance(value, str) or value not in DTYPES:
        fields.refuse(
            key, f"{key} = {value!r:.40} is not understood", f"one of {', '.join(DTYPES)}"
        )
    fields.cite("state_format", key)
    return DTYPES[value]


def _outline(fields: Fields) -> Geometry:
    """Width, number of layers and vocabulary; a state has no longest context."""
    width = fields.integer("d_model", "hidden_size", "d_model")
    layers = fields.integer("layers", "num_hidden_layers", "n_layer", high=MOST_LAYERS)
    return Geometry(width, layers, 1, 1, 1, fields.integer("vocab", "vocab_size"), None)


@family("mamba", "falcon_mamba")
def mamba(fields: Fields) -> Architecture:
    """Mamba, and Falcon-Mamba: the norms it adds to time step, key and query have no weights."""
    shape = _outline(fields)
    width = shape.d_model
    # Where a file has both, the code goes by intermediate_size: Falcon-Mamba's says expand = 16.
    expand = fields.integer("expand", "expand", default=2)
    inner = fields.integer(
        "inner", "intermediate_size", default=expand * width, why="expand times the width"
    )
    mixer = mamba1(
        width,
        inner=inner,
        state=fields.integer("state_size", "state_size", default=16),
        rank=time_step_rank(fields, "time_step_rank", width),
        kernel=fields.integer("conv_kernel", "conv_kernel", default=4),
        bias=fields.flag("bias", "use_bias", default=False),
        conv_bias=fields.flag("conv_bias", "use_conv_bias", default=True),
    )
    return stack(fields, shape, [Block(mixer, None, 1, width)] * shape.layers, tied=True)


Spelling = Mapping[str, tuple[str, int | None]]
"""Key and default of each size of a Mamba-2 layer, in the words of one family."""
MAMBA2: Final[Spelling] = {
    "heads": ("num_heads", 128),
    "head_dim": ("head_dim", 64),
    "state": ("state_size", 128),
    "groups": ("n_groups", 8),
    "kernel": ("conv_kernel", 4),
    "chunk": ("chunk_size", 256),
}


def spelled(
    fields: Fields,
    width: int,
    spelling: Spelling,
    *,
    bias: str = "mamba_proj_bias",
    conv_bias: str = "mamba_conv_bias",
    inner: int | None = None,
    norm: bool = True,
) -> Recurrent:
    """Read a Mamba-2 layer.

    Args:
        fields, width: The config; width D. [1]
        spelling: Its keys. A width of heads without a default is what the heads divide the
            channels into, unless the config has it.
        bias, conv_bias: Keys of the biases.
        inner: Channels of all heads; None for ``mamba_expand`` times the width. [1]
        norm: As in `mamba2`.

    Raises:
        UnsupportedModelError: A size is out of range, or does not divide what it must.
    """
    sizes: dict[str, Any] = {}
    for name, (key, default) in spelling.items():
        if default is None and fields.data.get(key, "auto") == "auto":
            wide = inner or width * fields.integer("expand", "mamba_expand", default=2)
            divides(fields, spelling["heads"][0], wide, sizes["heads"], "channels")
            fields.seen.add(key)
            sizes[name] = wide // sizes["heads"]
            fields.say(f"ssm_{name}", key, sizes[name], f"{wide} channels over the heads")
        else:
            sizes[name] = fields.integer(f"ssm_{name}", key, default=default)
    divides(fields, spelling["groups"][0], sizes["heads"], sizes["groups"], "heads")
    fields.seen |= MAMBA2_SEEN
    mixer = mamba2(
        width,
        **sizes,
        bias=fields.flag("bias", bias, default=False),
        conv_bias=fields.flag("conv_bias", conv_bias, default=True),
        norm=norm,
    )
    return replace(mixer, state_format=state_format(fields, "mamba_ssm_cache_dtype"))


@family("mamba2")
def mamba2_network(fields: Fields) -> Architecture:
    """Mamba-2."""
    shape = _outline(fields)
    mixer = spelled(fields, shape.d_model, MAMBA2, bias="use_bias", conv_bias="use_conv_bias")
    return stack(fields, shape, [Block(mixer, None, 1, shape.d_model)] * shape.layers)
