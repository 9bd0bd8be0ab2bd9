"""Operators of each kind of layer, as one device of a tensor-parallel group sees them.

A kind of mixer or feed-forward part is one module here with a function that yields its operators;
`MIXERS` and `FEEDFORWARDS` say which.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from roofline.cost import collectives, linear
from roofline.cost.layers import attention, compressed, feedforward, latent, recurrent
from roofline.cost.layers.common import Pass, all_reduce, norm, product, split
from roofline.cost.work import Op
from roofline.model.architecture import (
    Attention,
    Block,
    CompressedAttention,
    Mla,
    Mlp,
    Moe,
    Recurrent,
)

__all__ = ["Pass", "block", "embedding", "head"]

Operators = Callable[[Pass, Any, float, int], Iterator[Op]]

MIXERS: Final[Mapping[type, Operators]] = {
    Attention: attention.operators,
    Mla: latent.operators,
    CompressedAttention: compressed.operators,
    Recurrent: recurrent.operators,
}
FEEDFORWARDS: Final[Mapping[type, Operators]] = {
    Mlp: feedforward.dense,
    Moe: feedforward.experts,
}


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
        yield all_reduce(p, "all-reduce-embedding", d, 1)
    if network.embedding_norm_parameters:
        yield norm(p, "embedding-norm", network.embedding_norm_parameters, 1)
    if d != network.d_model:
        yield from product(p, "project-in", network.d_model, d, 1)


def block(p: Pass, layer: Block, layers: int) -> Iterator[Op]:
    """Operators of one kind of layer, repeated over the layers of that kind."""
    d = float(p.deployment.architecture.d_model)
    p = replace(p, block=layer)
    if layer.norms:
        each = layer.norm_parameters / layer.norms
        yield norm(p, "norm", each, layer.norms * layers, layer.streams)
    for matrix in layer.extra:
        yield from split(p, matrix, layers)
    if layer.mixer is not None:
        yield from MIXERS[type(layer.mixer)](p, layer.mixer, d, layers)
    if layer.feedforward is not None:
        yield from FEEDFORWARDS[type(layer.feedforward)](p, layer.feedforward, d, layers)
    if p.deployment.tp > 1 and layer.parts:
        yield all_reduce(p, "all-reduce", d, layers * (1 if layer.parallel else len(layer.parts)))


def head(p: Pass) -> Iterator[Op]:
    """Final norm and LM head, over the last token of each sequence or over all tokens."""
    network, tp = p.deployment.architecture, p.deployment.tp
    d = float(network.embedding_width)
    rows = p.tokens if p.deployment.options.logits == "all" else p.rows
    if network.final_norm_parameters:
        yield norm(p, "final-norm", network.final_norm_parameters, 1)
    if d != network.d_model:
        yield from product(p, "project-out", d, network.d_model, 1)
    n = network.vocab / tp
    biased = n if network.head_bias else 0.0
    yield from product(p, "lm-head", n, d, 1, biased=biased, tokens=rows)
    if tp > 1:
        payload = (network.vocab * p.width) * rows
        work = collectives.all_gather(payload, tp)
        dims = {"bytes": payload, "ranks": float(tp)}
        yield Op("all-gather-logits", "collective", work, dims=dims)
