"""Small random networks, a machine with round rates, and totals of a step."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from roofline.cost.collectives import Ranks, Transfer, exchange
from roofline.cost.deployment import Deployment, Options
from roofline.cost.layout import Layout
from roofline.cost.step import SequenceGroup
from roofline.cost.work import COUNTS, Number, Op, Work
from roofline.hardware.machine import Gpu, Link, Node
from roofline.hardware.serving_engine import DeviceDefault, Engine
from roofline.model.architecture import Architecture, Attention, Block, Mlp
from roofline.model.precision import resolve
from roofline.records import replace
from tests.cost.reference import Sequences, Setting


def wires(bytes_per_s: float, latency_s: float = 0.0, **more: Any) -> Link:
    """Wires of a device, in one place for all tests."""
    return Link("nvlink", bytes_per_s=bytes_per_s, latency_s=latency_s, **more)


def all_to_all(payload: Number, ranks: Ranks) -> Transfer:
    """Every rank sends a different part of its tensor to every other. [B]"""
    near, far = ranks.inside - 1.0, ranks.size - ranks.inside
    return exchange(payload * (near / ranks.size), payload * (far / ranks.size), ranks)


LINK = wires(100.0, 0.25)
NETWORK = wires(20.0, 1.0)
GPU = Gpu(
    name="round",
    title="A device with round rates",
    vendor="",
    architecture="",
    flops_per_s={"bf16": 4096.0, "fp8": 8192.0},
    memory_bytes=2.0**30,
    nominal_bytes=2.0**30,
    hbm_bytes_per_s=256.0,
    l2_bytes=0.0,
    l2_bytes_per_s=0.0,
    multiprocessors=1.0,
    shared_bytes=227 * 1024.0,
    shared_bytes_per_s=0.0,
    clock_hz=1.0,
    links={"nvlink": LINK},
    tdp_w=700.0,
    usd_per_hour=3.6,
)
WEIGHTS = ("bf16", "fp8", "int4")
BARE = Engine("bare", "", DeviceDefault(1.0), 0.0, 0.0, DeviceDefault(0.0), 1.0)
NODE = Node("box", "", GPU, 64, LINK)
BOXES = replace(NODE, gpus=8, network=NETWORK)


def deployed(
    network: Architecture,
    *,
    weights: str = "bf16",
    kv: str = "auto",
    tp: int = 1,
    node: Node = NODE,
    engine: Engine = BARE,
    **options: Any,
) -> Deployment:
    """The network on the round machine."""
    formats = resolve(weights, kv, node.gpu)
    return Deployment(network, node, formats, engine, Layout(tp=tp), Options(**options))


def with_rates(deployment: Deployment, **factors: float) -> Deployment:
    """The same deployment with rates of arithmetic, memory, link or network times a factor."""
    node = deployment.node
    gpu = replace(
        node.gpu,
        flops_per_s={k: v * factors.get("compute", 1.0) for k, v in node.gpu.flops_per_s.items()},
        hbm_bytes_per_s=node.gpu.hbm_bytes_per_s * factors.get("memory", 1.0),
    )
    link, network = (
        None if wired is None else _faster(wired, factors.get(level, 1.0))
        for level, wired in (("link", node.link), ("network", node.network))
    )
    return replace(deployment, node=replace(node, gpu=gpu, link=link, network=network))


def _faster(link: Link, factor: float) -> Link:
    rate, latency = link.bytes_per_s * factor, link.latency_s / factor
    return replace(link, bytes_per_s=rate, latency_s=latency)


def setting(deployment: Deployment) -> Setting:
    """Facts of a deployment that the slow reference needs."""
    formats, options = deployment.precision, deployment.options
    narrow = formats.product().quantised
    assert narrow is None or not narrow.row_bits, "scales of rows are not counted here"
    return Setting(
        weights=Fraction(formats.weights.width),
        plain=Fraction(formats.activations.width),
        cache=Fraction(formats.kv.width),
        tp=int(deployment.tp),
        square=options.mask == "square" or not deployment.architecture.causal,
        naive=options.attention == "naive",
        logits_of_all=options.logits == "all",
        converted=None if narrow is None else Fraction(narrow.width),
        absorbed=options.mla == "absorbed",
    )


def group(one: Sequences, name: str = "") -> SequenceGroup:
    """The same sequences as the engine takes them."""
    return SequenceGroup(float(one.number), float(one.new), float(one.context), name)


def groups(some: Sequence[Sequences]) -> list[SequenceGroup]:
    """A mixed step: each group has a name."""
    return [group(one, str(number)) for number, one in enumerate(some)]


def total(ops: Mapping[str, Op]) -> Work:
    """Work of a whole step."""
    return sum((op.total for op in ops.values()), start=Work())


def flops(ops: Mapping[str, Op]) -> Number:
    """FLOPs of a whole step."""
    return total(ops).flops


def dense(
    *,
    layers: int = 2,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 8,
    d_model: int = 24,
    width: int = 40,
    vocab: int = 56,
    window: int | None = None,
    max_context: int | None = None,
) -> Architecture:
    """A plain network of equal layers."""
    part = Attention(heads, kv_heads, head_dim, window)
    block = Block(part, Mlp(width, gated=True), norms=2, norm_parameters=2 * d_model)
    return Architecture(
        "plain",
        "llama",
        d_model,
        vocab,
        (block,) * layers,
        tied_embeddings=False,
        embedding_width=d_model,
        final_norm_parameters=d_model,
        max_context=max_context,
    )


@st.composite
def networks(draw: st.DrawFn, tp: int = 1) -> Architecture:
    """Any mix of a few kinds of layers that ``tp`` devices can share."""
    d_model = draw(st.sampled_from([6, 8, 20]))
    kinds = draw(st.lists(_blocks(d_model, tp), min_size=1, max_size=2))
    layers = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
    windowed = any(isinstance(k.mixer, Attention) and k.mixer.window for k in layers)
    return Architecture(
        "random",
        "llama",
        d_model,
        draw(st.integers(1, 6)) * tp,
        tuple(layers),
        tied_embeddings=draw(st.booleans()),
        embedding_width=d_model,
        position_rows=draw(st.sampled_from([0, 32])),
        embedding_norm_parameters=draw(st.sampled_from([0, d_model])),
        final_norm_parameters=draw(st.sampled_from([0, d_model, 2 * d_model])),
        head_bias=draw(st.booleans()),
        causal=windowed or draw(st.booleans()),
    )


@st.composite
def _blocks(draw: st.DrawFn, d_model: int, tp: int) -> Block:
    norms = draw(st.integers(1, 4))
    mixer, feedforward = draw(_attentions(tp)), draw(_mlps(tp))
    return Block(mixer, feedforward, norms, norms * d_model, parallel=draw(st.booleans()))


@st.composite
def _attentions(draw: st.DrawFn, tp: int) -> Attention:
    heads = draw(st.sampled_from([1, 2, 3, 4])) * tp
    kv_heads = draw(st.sampled_from([k for k in range(1, heads + 1) if _shares(heads, k, tp)]))
    head_dim = draw(st.sampled_from([2, 4, 6]))
    rows = (heads + 2 * kv_heads) * head_dim
    return Attention(
        heads,
        kv_heads,
        head_dim,
        window=draw(st.none() | st.integers(1, 12)),
        qkv_biased=draw(st.sampled_from([0, rows])),
        out_bias=draw(st.booleans()),
        norm_parameters=draw(st.sampled_from([0, 2 * head_dim])),
        rotary=draw(st.booleans()),
    )


def _shares(heads: int, kv_heads: int, tp: int) -> bool:
    return heads % kv_heads == 0 and (kv_heads % tp == 0 or tp % kv_heads == 0)


@st.composite
def _mlps(draw: st.DrawFn, tp: int) -> Mlp:
    return Mlp(
        draw(st.integers(1, 5)) * tp,
        gated=draw(st.booleans()),
        up_bias=draw(st.booleans()),
        down_bias=draw(st.booleans()),
    )


@st.composite
def sequences(draw: st.DrawFn) -> Sequences:
    """A group: prefill, decode, chunk, or a draft to verify."""
    new = draw(st.integers(1, 9))
    return Sequences(draw(st.integers(1, 3)), new, new + draw(st.integers(0, 14)))


GROUPS = st.lists(sequences(), min_size=1, max_size=3)


@st.composite
def deployments(draw: st.DrawFn) -> Deployment:
    """Any network in any formats, layout and way of counting."""
    tp = draw(st.sampled_from([1, 1, 2, 3, 4]))
    return deployed(
        draw(networks(tp)),
        weights=draw(st.sampled_from(WEIGHTS)),
        kv=draw(st.sampled_from(["auto", "fp8"])),
        tp=tp,
        mask=draw(st.sampled_from(["causal", "square"])),
        attention=draw(st.sampled_from(["flash", "naive"])),
        logits=draw(st.sampled_from(["last", "all"])),
    )


def row_of(work: Work, row: int, rows: int) -> list[float]:
    """All counts of one row of a column."""
    values = (np.asarray(getattr(work, name)) for name in COUNTS)
    return [float(np.broadcast_to(value, rows)[row]) for value in values]
