"""Operators of each kind of layer, as one device sees them, and of towers before the layers.

A kind of mixer or feed-forward part is one module here with a function that yields its operators;
`MIXERS` and `FEEDFORWARDS` say which. Pictures and sound of a prompt pass towers once, before it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from roofline.cost import collectives
from roofline.cost.collectives import Ranks, Transfer
from roofline.cost.deployment import KEPT
from roofline.cost.layers import attention, compressed, feedforward, latent, recurrent
from roofline.cost.layers.common import ForwardPass, collective, is_one, norm, often, product, split
from roofline.cost.layout import Layout, padded
from roofline.cost.memory import kv_bytes_per_sequence
from roofline.cost.sampling import (
    GREEDY,
    LIKELIEST,
    beam_page_copies,
    expected_parents,
    over_logits,
)
from roofline.cost.work import LOOKUP, Number, Op, anywhere, lookup, times
from roofline.model.architecture import (
    STREAMS,
    Attention,
    Block,
    CompressedAttention,
    CrossAttention,
    Mla,
    Mlp,
    Moe,
    Recurrent,
)
from roofline.model.tower import TEXT_ALONE, Tower
from roofline.part import Part
from roofline.records import replace

__all__ = ["ForwardPass", "block", "embedding", "handover", "head"]

Operators = Callable[[ForwardPass, Any, float, int], Iterator[Op]]

MIXERS: Final[Mapping[type, Operators]] = {
    Attention: attention.operators,
    Mla: latent.operators,
    CompressedAttention: compressed.operators,
    CrossAttention: attention.cross_operators,
    Recurrent: recurrent.operators,
}
FEEDFORWARDS: Final[Mapping[type, Operators]] = {Mlp: feedforward.dense, Moe: feedforward.experts}


def embedding(p: ForwardPass) -> Iterator[Op]:
    """Token (and position) lookup, its norm, its projection."""
    network = p.deployment.architecture
    d = float(network.embedding_width)
    work = lookup(
        p.tokens,
        d,
        weight_width=p.deployment.precision.head.width,
        width=p.width,
        positions=float(network.d_model) if network.position_rows else 0.0,
    )
    dims = {"m": p.tokens, "n": d, "reads": d, "writes": d}
    yield Op("embedding", "lookup", work, dims=dims, kernel=LOOKUP)
    parallel = p.deployment.layout.sequence_parallel
    after = "reduce-scatter" if parallel else "all-reduce"
    for op in _combined(p, d, 1, after=after):
        yield replace(op, name=f"{after}-embedding")
    if network.embedding_norm_parameters:
        yield from norm(p, "embedding-norm", network.embedding_norm_parameters, 1)
    if d != network.d_model:
        yield from product(p, "project-in", network.d_model, d, 1)


def block(p: ForwardPass, layer: Block, layers: int) -> Iterator[Op]:
    """Operators of one kind of layer, repeated over the layers of that kind."""
    d = float(p.deployment.architecture.d_model)
    p = replace(p, block=layer)
    if layer.norms:
        each = layer.norm_parameters / layer.norms
        yield from norm(p, "norm", each, layer.norms * layers, layer.streams)
    for matrix in layer.extra:
        yield from split(p, matrix, layers, STREAMS if matrix.name == STREAMS else "")
    if layer.mixer is not None:
        yield from MIXERS[type(layer.mixer)](p, layer.mixer, d, layers)
    if layer.feedforward is not None:
        yield from FEEDFORWARDS[type(layer.feedforward)](p, layer.feedforward, d, layers)
    if layer.parts:
        yield from _tensor_parallel(p, layer, d, layers)


def _tensor_parallel(p: ForwardPass, layer: Block, d: float, layers: int) -> Iterator[Op]:
    """Collectives of a layer, by which all devices see what each of them computed.

    Each part ends in a sum over the group: an all-reduce, or under sequence parallelism an
    all-gather before and a reduce-scatter after. Experts that are sent their tokens take and leave
    them split by tokens: the part before them ends in a reduce-scatter, they in an all-gather.
    """
    layout = p.deployment.layout
    sums = 1 if layer.parallel else len(layer.parts)
    routed = layer.experts > 0
    if layout.sequence_parallel:
        apart = layout.apart if routed and not layer.parallel else 0.0
        inside = sums - apart
        yield from _combined(p, d, layers, after="all-gather", times=inside)
        yield from _combined(p, d, layers, after="reduce-scatter", times=inside)
        if anywhere(apart) and anywhere(p.copies > 1):
            # Each device has its part of a t-th of the tokens; those with the others lie t apart.
            share, ranks = (d * p.width) * p.tokens / p.tp, p.deployment.ranks(p.copies, p.tp)
            moved = collectives.all_gather(share, ranks)
            whole = _stream(share, p.tokens / p.tp, d, p)
            op = collective(
                "all-gather-copies", moved, whole, ranks, layers, operation="all_gather"
            )
            yield often(op, apart)
        return
    apart = layout.apart if routed else 0.0
    yield from _combined(p, d, layers, after="all-reduce", times=sums - apart * sums)
    if anywhere(apart):
        before = apart * (layer.mixer is not None)
        yield from _combined(p, d, layers, after="reduce-scatter", times=before)
        everywhere = p.tp * p.copies
        yield from _combined(p, d, layers, after="all-gather", times=apart, size=everywhere)


_COLLECTIVES: Final[Mapping[str, tuple[str, Callable[[Number, Ranks], Transfer]]]] = {
    "all-reduce": ("all_reduce", collectives.all_reduce),
    "reduce-scatter": ("reduce_scatter", collectives.reduce_scatter),
    "all-gather": ("all_gather", collectives.all_gather),
}


def _combined(
    p: ForwardPass,
    d: float,
    layers: int,
    *,
    after: str,
    times: Number = 1.0,
    size: Number | None = None,
) -> Iterator[Op]:
    """A collective of a tensor as wide as given, over the tensor-parallel group if not said."""
    group = p.tp if size is None else size
    if not anywhere(group > 1) or not anywhere(times):
        return
    ranks, payload = p.deployment.ranks(group), (d * p.width) * p.tokens
    whole = _stream(payload, p.tokens, d, p)
    operation, move = _COLLECTIVES[after]
    op = collective(after, move(payload, ranks), whole, ranks, layers, operation=operation)
    if isinstance(times, np.ndarray):  # differs along the scenario axis
        yield often(op, times)
    else:
        yield replace(op, repeat=layers * int(times))


def _stream(value: Number, tokens: Number, d: float, p: ForwardPass) -> Part:
    """Part of the residual stream of some tokens, as it goes between devices."""
    symbols = {"tokens": tokens, "D": d, "width": p.width}
    return Part("M", value, "tokens · D · width", symbols)


def head(p: ForwardPass) -> Iterator[Op]:
    """Final norm and LM head, over the last token of each sequence or over all tokens."""
    network, tp = p.deployment.architecture, p.tp
    d = float(network.embedding_width)
    rows = p.tokens if p.deployment.options.logits == "all" else p.rows
    if network.final_norm_parameters:
        yield from norm(p, "final-norm", network.final_norm_parameters, 1)
    if d != network.d_model:
        yield from product(p, "project-out", d, network.d_model, 1)
    if p.deployment.layout.sequence_parallel:
        yield from _combined(replace(p, tokens=rows), d, 1, after="all-gather")
    n = padded(network.vocab, tp)
    biased = n if network.head_bias else 0.0
    yield from product(p, "lm-head", n, d, 1, biased=biased, tokens=rows)
    if anywhere(tp > 1):
        payload, ranks = (network.vocab * p.width) * rows, p.deployment.ranks(tp)
        gathered = collectives.all_gather(payload, ranks)
        symbols = {"rows": rows, "V": network.vocab, "width": p.width}
        whole = Part("M", payload, "rows · V · width", symbols)
        yield collective("all-gather-logits", gathered, whole, ranks, 1, operation="all_gather")
    if p.deployment.options.sampling != LIKELIEST:
        yield from sampled(p)


def sampled(p: ForwardPass) -> Iterator[Op]:
    """Choice of the next tokens as far as no constant of the engine has it; copies of beams."""
    deployment, sampling = p.deployment, p.deployment.options.sampling
    fitted = GREEDY if deployment.engine_costs.step_s else ()
    dims = {"rows": p.rows}
    for name in sampling.passes(deployment.engine.sampler):
        if name not in fitted:
            work = over_logits(p.rows, float(deployment.architecture.vocab), name)
            yield Op(f"sampling-{name}", "pointwise", work, dims=dims)
    if sampling.beams == 1 or not all(is_one(new) for _, _, new, _ in p.groups):
        return
    beams, page = float(sampling.beams), max(deployment.engine.block_tokens, 1.0)
    state = kv_bytes_per_sequence(deployment, 0.0)
    work = beam_page_copies(
        p.rows / beams,
        beams,
        expected_parents(beams),
        page=page,
        token_bytes=(kv_bytes_per_sequence(deployment, page) - state) / page,
        state_bytes=state,
    )
    if anywhere(work.hbm_bytes):
        yield Op("copy-on-write", "pointwise", work, dims=dims)


def handover(p: ForwardPass, crosses: Number) -> Iterator[Op]:
    """Handover to the next stage: each device sends its share of the stream, gathered there.

    The residual is added before; engines that send it beside the update send twice as much.
    """
    d = float(p.deployment.architecture.d_model)
    payload = (d * p.width) * p.tokens
    ranks = p.deployment.ranks(p.tp)
    share = payload / p.tp
    pair = replace(ranks, size=2.0)
    whole = _stream(share, p.tokens / p.tp, d, p)
    moved = collectives.send(share, ranks, crosses)
    op = collective("send", moved, whole, pair, 1, operation="send_recv")
    yield replace(op, dims={**op.dims, "nodes": 1.0 + crosses})
    if not p.deployment.layout.sequence_parallel:
        yield from _combined(p, d, 1, after="all-gather")


def tower_operators(p: ForwardPass) -> Iterator[Op]:
    """Towers and projectors over the pictures and recordings of prompts that begin.

    Devices of a tensor-parallel group share a tower where its heads divide over them; else each
    runs it whole. Matrices are in the format of the embedding, as quantised checkpoints leave them.
    """
    deployment = p.deployment
    for tower in deployment.architecture.towers_of(deployment.options.media):
        yield from _encoded(p, tower)


def _encoded(p: ForwardPass, tower: Tower) -> Iterator[Op]:
    """Operators of one tower."""
    deployment, media = p.deployment, p.deployment.options.media
    each, outputs = float(tower.positions(media)), float(tower.outputs(media))
    plain = deployment.precision.head.name
    network = replace(
        deployment.architecture, d_model=tower.width, layers=tower.layers, causal=False, towers=()
    )
    shared = tower.devices(p.tp)
    alone = replace(deployment.options, media=TEXT_ALONE)
    inside = replace(
        deployment, architecture=network, options=alone, layout=Layout(tp=shared), offload=KEPT
    )
    for name, count, new, context in p.groups:
        if np.any(np.asarray(new) != context):
            continue  # what was encoded is in the cache
        number = times(count, float(tower.passes(media)))
        of_group = replace(
            p,
            deployment=inside,
            groups=((name, number, each, each),),
            tokens=times(number, each),
            rows=number,
            everyone=times(number, each),
            tp=shared,
            copies=1.0,
        )
        apart = of_group
        if tower.squares and tower.squares < each:
            # Neighbours see each other only: as many sequences as there are squares of them.
            among = float(tower.squares)
            apart = replace(of_group, groups=((name, times(number, each / among), among, among),))
        for layer, layers in network.kinds.items():
            whole = min(tower.whole, layers) if layer == tower.layers[-1] else 0
            for own, repeat, told in ((apart, layers - whole, ""), (of_group, whole, "-of-all")):
                for op in block(own, _plain(layer, tower.width, plain), repeat):
                    ending = told if op.kind == "prefill-attention" else ""
                    if repeat:
                        yield _encoding(op, tower, ending)
        last = replace(
            of_group,
            tokens=times(count, outputs),
            block=Block(None, None, 0, 0, formats=tuple((m.name, plain) for m in tower.projector)),
        )
        for matrix in tower.projector:
            for op in split(last, matrix, 1):
                yield _encoding(op, tower)


def prompt_operators(p: ForwardPass) -> tuple[Iterator[Op], ForwardPass]:
    """Encoder over the prompts of a step, and the decoder's own pass: one token of each of them.

    What the decoder attends to, in one kernel here, is the prompt and its own tokens, which are as
    many together as in a network that reads its prompts itself. Source: Raffel et al. 2019 (arXiv
    1910.10683), section 2.1.
    """
    prompted = not all(is_one(new) for _, _, new, _ in p.groups)
    if not (prompted and p.deployment.architecture.encoder):
        return iter(()), p
    first = tuple((name, count, 1.0, context) for name, count, _, context in p.groups)
    own = replace(p, groups=first, tokens=p.rows, everyone=p.everyone * (p.rows / p.tokens))
    return _read(p), own


def _read(p: ForwardPass) -> Iterator[Op]:
    """Operators of an encoder of prompts, and of keys and values of what it puts out."""
    network = p.deployment.architecture
    inside = replace(
        network, layers=network.encoder, causal=False, encoder=(), encoder_projector=()
    )
    of_prompts = replace(p, deployment=replace(p.deployment, architecture=inside))
    for layer, layers in inside.kinds.items():
        for op in block(of_prompts, layer, layers):
            yield replace(op, name=f"encoder-{op.name}")
    for matrix in network.encoder_projector:
        yield from split(replace(p, block=None), matrix, 1)


def _encoding(op: Op, tower: Tower, ending: str = "") -> Op:
    """An operator of the tower, under a name that says so."""
    return replace(op, name=f"{tower.medium}-{op.name}{ending}", encodes=True)


def _plain(layer: Block, width: int, plain: str) -> Block:
    """The layer with all its matrices in one format."""
    return replace(layer, formats=tuple((role, plain) for role in layer.roles(width)))
