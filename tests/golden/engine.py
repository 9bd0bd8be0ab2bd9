"""The engine's own cost model, asked by the name of a network."""

from functools import cache
from itertools import cycle, islice

from roofline.cost.attention import attention, naive_attention
from roofline.cost.deployment import Deployment, Options
from roofline.cost.step import SequenceGroup, decode, prefill, step
from roofline.cost.work import Number, Work
from roofline.hardware.machine import Gpu, Node
from roofline.hardware.serving_engine import DeviceDefault, Engine
from roofline.model import parameters
from roofline.model.architecture import Architecture, Attention, Block, Mixer, Mla
from roofline.model.catalog import architecture
from roofline.model.precision import named, resolve
from roofline.records import replace


def total_parameters(model: str) -> int:
    return parameters.total(architecture(model))


def element_bits(name: str) -> int:
    """Bits of one value, without what groups share."""
    return named(name).element_bits


def stored_width(name: str) -> float:
    """Bytes per value, with what groups share."""
    return named(name).width


def active_parameters(model: str) -> int:
    """Parameters that a token meets, embeddings included."""
    return parameters.active(architecture(model))["all"]


def kv_bytes_per_token(model: str) -> int:
    return parameters.kv_bytes_per_token(architecture(model))


def kv_elements(model: str) -> int:
    """Cached per token."""
    return parameters.kv_elements_per_token(architecture(model))


def latent_elements(layers: float, latent: float, rope_dim: float) -> int:
    """Cached per token by layers with latent attention."""
    mixer = Mla(1, 0, int(latent), 1, int(rope_dim), 1)
    return parameters.kv_elements_per_token(_stack((mixer,), layers))


def shared_elements(layers: float, kv_heads: float, head_dim: float, share: float) -> int:
    """Cached per token where so many layers in a row read the cache of the first of them."""
    first = Attention(int(kv_heads), int(kv_heads), int(head_dim))
    later = [replace(first, reuses_kv=True) for _ in range(1, int(share))]
    return parameters.kv_elements_per_token(_stack((first, *later), layers))


def _stack(mixers: tuple[Mixer, ...], layers: float) -> Architecture:
    """A network of nothing but these mixers, over and over."""
    blocks = cycle([Block(mixer, None, 0, 0) for mixer in mixers])
    return Architecture("", "", 1, 1, tuple(islice(blocks, int(layers))), True, 1)


def prefill_flops(model: str, batch: float, context: float) -> Number:
    """As FLOP counters count: the whole square of pairs, logits of every token."""
    return _flops(model, prefill(batch, context))


def decode_flops(model: str, batch: float, past: float) -> Number:
    return _flops(model, decode(batch, past))


def flash_bytes(batch: float, context: float, heads: float, head_dim: float) -> Number:
    """Forward pass of MHA in 16 bits."""
    work = attention(
        batch,
        context,
        context,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        width=2.0,
        kv_width=2.0,
    )
    return work.hbm_bytes


def naive_bytes(batch: float, context: float, heads: float, head_dim: float) -> Number:
    """Forward pass of MHA in 16 bits, scores in device memory."""
    work = naive_attention(
        batch,
        context,
        context,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        width=2.0,
        kv_width=2.0,
    )
    return work.hbm_bytes


def _flops(model: str, group: SequenceGroup) -> Number:
    deployment = Deployment(
        architecture(model),
        _node(),
        resolve("bf16", "auto", _node().gpu),
        Engine("none", "", DeviceDefault(1.0), 0.0, 0.0, DeviceDefault(0.0), 1.0),
        options=Options(mask="square", logits="all"),
    )
    return sum((op.total for op in step(deployment, group).values()), start=Work()).flops


@cache
def _node() -> Node:
    """A machine for counting on: FLOPs do not depend on it."""
    gpu = Gpu(
        name="counter",
        title="",
        vendor="",
        architecture="",
        flops_per_s={"bf16": 1.0},
        memory_bytes=1.0,
        nominal_bytes=1.0,
        hbm_bytes_per_s=1.0,
        l2_bytes=0.0,
        l2_bytes_per_s=0.0,
        multiprocessors=1.0,
        shared_bytes=0.0,
        shared_bytes_per_s=0.0,
        clock_hz=1.0,
        links={},
        tdp_w=0.0,
        usd_per_hour=0.0,
    )
    return Node("counter", "", gpu, 1, None)
