"""Operators of each kind of layer, as one device of a tensor-parallel group sees them."""

from collections.abc import Iterator
from dataclasses import dataclass

from roofline.cost import collectives, linear
from roofline.cost.attention import Mask, attention, naive_attention
from roofline.cost.deployment import Deployment, kv_heads_per_device, qkv_biased_per_device
from roofline.cost.work import Number, Op, Work
from roofline.model.architecture import Attention, Block, Mlp
from roofline.model.precision import Format


@dataclass(frozen=True, slots=True)
class Pass:
    """What all operators of a step share.

    Attributes
    ----------
    deployment
        Network, formats, layout and options.
    groups
        Name, count [1], new tokens and context [token] of each group.
    tokens
        New tokens of all groups. [token]
    rows
        Sequences of all groups. [1]
    """

    deployment: Deployment
    groups: tuple[tuple[str, Number, Number, Number], ...]
    tokens: Number
    rows: Number

    @property
    def width(self) -> float:
        """Bytes per activation. [B]"""
        return self.deployment.precision.activations.width


def embedding(p: Pass) -> Iterator[Op]:
    """Token (and position) lookup, its norm, its projection."""
    network, tp = p.deployment.architecture, p.deployment.tp
    d = float(network.embedding_width)
    work = linear.lookup(
        p.tokens,
        d,
        weight_width=p.deployment.precision.head.width,
        width=p.width,
        positions=float(network.d_model) if network.position_rows else 0.0,
    )
    yield Op("embedding", "lookup", work, dims={"n": d})
    if tp > 1:
        yield _all_reduce(p, "all-reduce-embedding", d, 1)
    if network.embedding_norm_parameters:
        yield _norm(p, "embedding-norm", network.embedding_norm_parameters, 1)
    if d != network.d_model:
        yield _product(p, "project-in", network.d_model, d, 1, p.deployment.precision.weights)


def block(p: Pass, layer: Block, layers: int) -> Iterator[Op]:
    """Operators of one kind of layer, repeated over the layers of that kind."""
    d = float(p.deployment.architecture.d_model)
    parts = 0
    if layer.norms:
        yield _norm(p, "norm", layer.norm_parameters / layer.norms, layer.norms * layers)
    if isinstance(layer.mixer, Attention):
        parts += 1
        yield from _attention(p, layer.mixer, d, layers)
    if isinstance(layer.feedforward, Mlp):
        parts += 1
        yield from _mlp(p, layer.feedforward, d, layers)
    if p.deployment.tp > 1 and parts:
        yield _all_reduce(p, "all-reduce", d, layers * (1 if layer.parallel else parts))


def head(p: Pass) -> Iterator[Op]:
    """Final norm and LM head, over the last token of each sequence or over all tokens."""
    network, precision, tp = p.deployment.architecture, p.deployment.precision, p.deployment.tp
    d = float(network.embedding_width)
    rows = p.tokens if p.deployment.options.logits == "all" else p.rows
    if network.final_norm_parameters:
        yield _norm(p, "final-norm", network.final_norm_parameters, 1)
    if d != network.d_model:
        yield _product(p, "project-out", d, network.d_model, 1, precision.weights)
    n = network.vocab / tp
    yield _product(
        p, "lm-head", n, d, 1, precision.head, biased=n if network.head_bias else 0.0, tokens=rows
    )
    if tp > 1:
        payload = (network.vocab * p.width) * rows
        work = collectives.all_gather(payload, tp)
        dims = {"bytes": payload, "ranks": float(tp)}
        yield Op("all-gather-logits", "collective", work, dims=dims)


def _attention(p: Pass, part: Attention, d: float, layers: int) -> Iterator[Op]:
    deployment, precision = p.deployment, p.deployment.precision
    tp, h = deployment.tp, float(part.head_dim)
    heads, kv_heads = part.heads / tp, kv_heads_per_device(part, tp)
    queries, keys = heads * h, kv_heads * h
    stored = precision.weights
    biased = qkv_biased_per_device(part, tp)
    yield _product(p, "qkv", queries + 2 * keys, d, layers, stored, biased=biased)
    if part.norm_parameters:
        yield _elementwise(
            p, "qk-norm", queries + keys, queries + keys, layers, parameters=part.norm_parameters
        )
    if part.rotary:
        yield _elementwise(p, "rotary", queries + keys, queries + keys, layers)
    store = Work(
        activation_bytes=(2 * keys * p.width) * p.tokens,
        kv_bytes=(2 * keys * precision.kv.width) * p.tokens,
    )
    yield Op("kv-store", "pointwise", store, layers, dims={"reads": 2 * keys, "writes": 2 * keys})

    shape = {"heads": heads, "kv_heads": kv_heads, "head_dim": h}
    widths = {"width": p.width, "kv_width": precision.kv.width}
    window = None if part.window is None else float(part.window)
    causal = deployment.architecture.causal and deployment.options.mask == "causal"
    for name, count, new, context in p.groups:
        if deployment.options.attention == "naive":
            work = naive_attention(count, new, context, window=window, **shape, **widths)
        else:
            mask: Mask = "causal" if causal else "square"
            work = attention(count, new, context, window=window, mask=mask, **shape, **widths)
        one = isinstance(new, (int, float)) and new == 1
        yield Op(
            f"attention-{name}" if name else "attention",
            "decode-attention" if one else "prefill-attention",
            work,
            layers,
            precision.attention_arithmetic,
            dims=shape | {"count": count, "new": new, "context": context, "window": window or 0.0},
            formats={"activations": precision.activations.name, "kv": precision.kv.name},
        )
    bias = d if part.out_bias else 0.0
    yield _product(p, "attn-out", d, queries, layers, stored, biased=bias)


def _mlp(p: Pass, part: Mlp, d: float, layers: int) -> Iterator[Op]:
    inner = part.width / p.deployment.tp
    wide = inner * (2 if part.gated else 1)
    name, stored = "gate-up" if part.gated else "up", p.deployment.precision.weights
    yield _product(p, name, wide, d, layers, stored, biased=wide if part.up_bias else 0.0)
    yield _elementwise(p, "activation", wide, inner, layers)
    yield _product(p, "down", d, inner, layers, stored, biased=d if part.down_bias else 0.0)


def _product(
    p: Pass,
    name: str,
    n: float,
    k: float,
    layers: int,
    stored: Format,
    *,
    biased: float = 0.0,
    tokens: Number | None = None,
) -> Op:
    """Matrix product; its bias is read with the matrix."""
    precision = p.deployment.precision
    m = p.tokens if tokens is None else tokens
    work = linear.gemm(m, n, k, weight_width=stored.width, width=p.width)
    if biased:
        work = work + Work(weight_bytes=biased * p.width)
    native = stored is precision.weights
    return Op(
        name,
        "gemm",
        work,
        layers,
        precision.linear_arithmetic if native else precision.attention_arithmetic,
        dims={"m": m, "n": n, "k": k},
        formats={"weights": stored.name, "activations": precision.activations.name},
    )


def _elementwise(
    p: Pass, name: str, reads: float, writes: float, layers: int, *, parameters: float = 0.0
) -> Op:
    work = linear.pointwise(
        p.tokens, reads=reads, writes=writes, width=p.width, parameters=parameters
    )
    return Op(name, "pointwise", work, layers, dims={"reads": reads, "writes": writes})


def _norm(p: Pass, name: str, parameters: float, layers: int) -> Op:
    """Norm fused with the residual add: reads the stream and the update, writes both."""
    d = float(p.deployment.architecture.d_model)
    return _elementwise(p, name, 2 * d, 2 * d, layers, parameters=parameters)


def _all_reduce(p: Pass, name: str, d: float, layers: int) -> Op:
    tp = p.deployment.tp
    payload = (d * p.width) * p.tokens
    dims = {"n": d, "ranks": float(tp)}
    return Op(name, "collective", collectives.all_reduce(payload, tp), layers, dims=dims)
