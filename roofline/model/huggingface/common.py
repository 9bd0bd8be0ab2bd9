"""Parts that most decoders share: geometry, attention, and putting layers together."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from roofline.model.architecture import Architecture, Attention, Block, FeedForward, Mixer, Mlp
from roofline.model.huggingface.fields import MOST_LAYERS, Fields
from roofline.model.huggingface.layers import no_windows
from roofline.model.huggingface.storage import plain_format


class GeometryKeys(Struct, frozen=True):
    """Keys of the geometry in a family of configs."""

    width: tuple[str, ...] = ("hidden_size",)
    layers: tuple[str, ...] = ("num_hidden_layers",)
    heads: tuple[str, ...] = ("num_attention_heads",)
    kv_heads: tuple[str, ...] = ("num_key_value_heads",)
    context: tuple[str, ...] = ("max_position_embeddings",)
    vocab: tuple[str, ...] = ("vocab_size",)


Builder: TypeAlias = Callable[[Fields], Architecture]
"""Reads the fields it understands; whatever it leaves unread is checked afterwards."""

BUILDERS: Final[dict[str, Builder]] = {}
"""Builder of each model type that can be costed; `family` adds them."""


def family(*model_types: str) -> Callable[[Builder], Builder]:
    """Decorator that makes a function the builder of some model types."""

    def register(builder: Builder) -> Builder:
        BUILDERS.update(dict.fromkeys(model_types, builder))
        return builder

    return register


LLAMA_NAMES: Final = GeometryKeys()
GPT_NAMES: Final = GeometryKeys(
    width=("n_embd", "hidden_size"),
    layers=("n_layer", "num_hidden_layers"),
    heads=("n_head", "num_attention_heads"),
    kv_heads=(),
    context=("n_positions", "max_position_embeddings"),
)


class Geometry(Struct, frozen=True):
    """Width D, layers L, heads N and K, head width H, vocabulary V, longest context."""

    d_model: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    context: int | None

    @property
    def qkv_width(self) -> int:
        """Outputs of the q, k and v projections together. [1]"""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def qk_width(self) -> int:
        """Outputs of the q and k projections together. [1]"""
        return (self.heads + self.kv_heads) * self.head_dim


def geometry(
    fields: Fields,
    names: GeometryKeys = LLAMA_NAMES,
    *,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    explicit_head_dim: bool = True,
    defaults: dict[str, int] | None = None,
) -> Geometry:
    """Read the sizes every decoder has.

    Args:
        fields: The config.
        names: How it spells them.
        kv_heads: K where its key is absent; None means as many as query heads (MHA). Null always
            means MHA.
        head_dim: H where its key is absent; None means D / N.
        explicit_head_dim: True if the model type reads ``head_dim`` at all.
        defaults: Values of ``d_model``, ``layers``, ``heads``, ``vocab``, ``context`` where a
            config may leave them out.

    Raises:
        UnsupportedModelError: A number is missing, out of range, or does not divide what it must.
    """
    known = defaults or {}
    d_model = fields.integer("d_model", *names.width, default=known.get("d_model"))
    layers = fields.integer("layers", *names.layers, default=known.get("layers"), high=MOST_LAYERS)
    heads = fields.integer("heads", *names.heads, default=known.get("heads"))
    vocab = fields.integer("vocab", *names.vocab, default=known.get("vocab"))
    context = fields.optional("max_context", *names.context)
    if context is None and "context" in known:
        context = fields.integer("max_context", *names.context, default=known["context"])

    keys = names.kv_heads
    absent = not any(key in fields.data for key in keys)
    shared = (kv_heads or heads) if absent else heads
    if keys:
        why = "" if absent and kv_heads else "one per query head when absent"
        shared = fields.integer("kv_heads", *keys, default=shared, why=why)
    check_groups(fields, keys[0] if keys else names.heads[0], heads, shared, hint=DIVISOR)

    def even() -> int:
        if d_model % heads:
            fields.refuse(
                next((key for key in names.heads if key in fields.data), names.heads[0]),
                f"a width of {d_model} does not divide over {heads} heads",
                "give head_dim, or a number of heads that divides the width",
            )
        return d_model // heads

    if explicit_head_dim and fields.data.get("head_dim") is not None:
        width = fields.integer("head_dim", "head_dim")
    elif head_dim is not None and "head_dim" not in fields.data:
        width = head_dim
        fields.say("head_dim", "head_dim", head_dim)
    else:
        width = even()
        fields.seen.update({"head_dim"} if explicit_head_dim else ())
        fields.say("head_dim", "head_dim", width, f"width {d_model} over {heads} heads")
    return Geometry(d_model, layers, heads, shared, width, vocab, context)


def outline(
    fields: Fields, width: str, key: str, *, default: int, context: tuple[str, ...] = ()
) -> Geometry:
    """Read the sizes of a decoder whose heads share one key, or the latent of all.

    Args:
        fields: The config.
        width, key, default: Width of a head: its name, its key and its default.
        context: Keys of the longest context beside the usual one.
    """
    layers = fields.integer("layers", "num_hidden_layers", high=MOST_LAYERS)
    return Geometry(
        d_model=fields.integer("d_model", "hidden_size"),
        layers=layers,
        heads=fields.integer("heads", "num_attention_heads"),
        kv_heads=1,
        head_dim=fields.integer(width, key, default=default),
        vocab=fields.integer("vocab", "vocab_size"),
        context=fields.optional("max_context", "max_position_embeddings", *context),
    )


DIVISOR: Final = "give a number of key/value heads that divides the number of query heads"


def check_groups(fields: Fields, key: str, heads: int, kv_heads: int, hint: str = "") -> None:
    """Refuse key/value heads that the query heads do not divide over.

    Raises:
        UnsupportedModelError: They do not.
    """
    if heads % kv_heads:
        problem = f"{heads} query heads do not divide over {kv_heads} key/value heads"
        fields.refuse(key, problem, hint)


def neutral(fields: Fields, **allowed: Any) -> None:
    """Accept switches of a family only in the position that changes nothing."""
    for key, value in allowed.items():
        values = value if isinstance(value, tuple) else (value,)
        fields.only(key, *values, reason="it may change the network's shape")


def activation(fields: Fields, default: str = "silu") -> str:
    """Name of the activation function; it never changes the cost."""
    for key in ("hidden_act", "hidden_activation", "activation_function", "activation"):
        if isinstance(value := fields.data.get(key), str):
            return value
    return default


def gated(fields: Fields, *, bias: bool = False, default: int | None = None) -> Mlp:
    """Gate, up and down of width ``intermediate_size``."""
    width = fields.integer("mlp_width", "intermediate_size", default=default)
    return Mlp(width, True, bias, bias, activation(fields))


def ungated(
    fields: Fields,
    function: str,
    key: str = "intermediate_size",
    *,
    bias: bool = True,
    default: int | None = None,
) -> Mlp:
    """Up and down of a width.

    Args:
        fields, function: The config; the activation function where it names none.
        key: Of the width.
        bias: Whether both matrices have biases.
        default: Width where the key is absent, four times that of the model. [1]
    """
    width = fields.integer("mlp_width", key, default=default, why="4·D when absent or null")
    return Mlp(width, False, bias, bias, activation(fields, function))


def attention(
    shape: Geometry,
    spans: Sequence[int | None],
    *,
    qkv_bias: bool = False,
    out_bias: bool = False,
    norm: int = 0,
    rotary: bool | Sequence[bool] = True,
) -> list[Attention]:
    """Attention of each layer, alike but for the window and, in some, the rotation."""
    rotated = [rotary] * len(spans) if isinstance(rotary, bool) else rotary
    return [
        Attention(
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            window=span,
            qkv_biased=shape.qkv_width if qkv_bias else 0,
            out_bias=out_bias,
            norm_parameters=norm,
            rotary=turns,
        )
        for span, turns in zip(spans, rotated, strict=True)
    ]


def biases(fields: Fields, key: str = "attention_bias", *, default: bool = False) -> dict[str, Any]:
    """Arguments of `attention` by one switch, for the projections in and the one out."""
    bias = fields.flag("attention_bias", key, default=default)
    return {"qkv_bias": bias, "out_bias": bias}


def stack(
    fields: Fields, shape: Geometry, layers: Iterable[Block], *, tied: bool = False, **more: Any
) -> Architecture:
    """A network of these layers.

    Args:
        fields, shape: The config and its sizes; of the shape, only width, vocabulary and context
            are used.
        layers: In order.
        tied: Default of ``tie_word_embeddings``.
        more: Other fields of `Architecture`; the last norm has one weight per channel unless said
            here.
    """
    known: dict[Block, Block] = {}
    blocks = tuple(known.setdefault(block, block) for block in layers)
    plain = plain_format(fields)
    if shape.context is None:
        fields.notes.append("the config gives no longest context")
    values: dict[str, Any] = {
        "name": fields.name,
        "model_type": fields.model_type,
        "d_model": shape.d_model,
        "vocab": shape.vocab,
        "layers": blocks,
        "tied_embeddings": fields.flag("tied_embeddings", "tie_word_embeddings", default=tied),
        "embedding_width": shape.d_model,
        "final_norm_parameters": shape.d_model,
        "max_context": shape.context,
        "weight_format": plain,
        "plain_format": plain,
    }
    return Architecture(**(values | more))


def assemble(
    fields: Fields,
    shape: Geometry,
    mixers: Sequence[Mixer],
    feedforward: FeedForward | Iterable[FeedForward],
    *,
    norms: int = 2,
    norm_width: int | None = None,
    final_norm: int | None = None,
    parallel: bool = False,
    beside: int = 0,
    **more: Any,
) -> Architecture:
    """A network of layers that each have a mixer and a feed-forward part.

    Args:
        fields, shape: The config and its sizes.
        mixers: Attention of each layer.
        feedforward: Part of each layer, or one that is the same in all.
        norms: Norms over the width in a layer. [1]
        norm_width: Parameters of one norm: D for weights, 2·D with biases, 0 without either; None
            for D. [parameter]
        final_norm: Parameters of the last norm, if not one like the others. [parameter]
        parallel: True if both parts of a layer read the same input.
        beside: Parameters of a layer that are in none of its parts. [parameter]
        more: As in `stack`.
    """
    width = shape.d_model if norm_width is None else norm_width
    if not isinstance(feedforward, Iterable):
        feedforward = [feedforward] * len(mixers)
    layers = [
        Block(mixer, part, norms, norms * width, parallel, extra_parameters=beside)
        for mixer, part in zip(mixers, feedforward, strict=True)
    ]
    last = width if final_norm is None else final_norm
    return stack(fields, shape, layers, final_norm_parameters=last, **more)


def decoder(
    fields: Fields,
    shape: Geometry,
    feedforward: FeedForward | Iterable[FeedForward] | None = None,
    *,
    spans: Sequence[int | None] | None = None,
    qkv_bias: bool = False,
    out_bias: bool = False,
    norm: int = 0,
    rotary: bool | Sequence[bool] = True,
    **more: Any,
) -> Architecture:
    """A network of layers of softmax attention.

    Args:
        fields, shape: The config and its sizes.
        feedforward: As in `assemble`; `gated` if not given.
        spans: Window of each layer; those of a model type without windows if not given. [token]
        qkv_bias, out_bias, norm, rotary: As in `attention`.
        more: As in `assemble`.
    """
    windows = no_windows(fields, shape.layers) if spans is None else spans
    mixers = attention(
        shape, windows, qkv_bias=qkv_bias, out_bias=out_bias, norm=norm, rotary=rotary
    )
    parts = gated(fields) if feedforward is None else feedforward
    return assemble(fields, shape, mixers, parts, **more)
