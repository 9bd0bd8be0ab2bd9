"""Recurrent states by flash-linear-attention, whose kernels vLLM and SGLang have copies of.

The gated delta rule of Qwen3-Next, and the short convolution before it: a token for each sequence,
or prompts. Queries and keys are normalised in the kernels, as engines have it; gates are ready.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from roofline.bench.elements import bf16
from roofline.bench.gpu.device import Sku
from roofline.bench.gpu.launch import Call
from roofline.bench.gpu.torch_steps import step
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.recurrent import chunked_scan, recurrent_steps
from roofline.cost.work import Work

NEEDS: Final = ("torch", "fla")
LIBRARY: Final = "flash-linear-attention"
LAYER: Final = "key_heads heads key_dim value_dim"
HEADS: Final = ((16, 32, 128, 128), (8, 16, 128, 128), (4, 8, 128, 128), (2, 4, 128, 128))
"""Key heads, value heads and their widths: Qwen3-Next's, and on one of two, four, eight devices."""
CONVOLVED: Final = tuple((*each, 2 * each[0] * each[2] + each[1] * each[3]) for each in HEADS)
"""The same with the channels of the convolution: their queries, keys and values."""
TAPS: Final = 4
BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Sequences of a decode step. [sequence]"""
PROMPTS: Final = (
    *((1, new) for new in (64, 128, 256, 512, 1024, 2048, 4096, 8192)),
    *((4, new) for new in (64, 256, 1024, 2048)),
)
"""Sequences and new tokens: at most what an engine fills a step with, 8,192 tokens."""
CHUNK: Final = 64
"""Tokens of a chunk. [token]"""
WIDTH: Final = 2.0
STATE: Final = 4.0
"""Bytes of an activation, and of an element of a state. [B]"""
FEW: Final = 16
"""Sequences up to which launches weigh. [sequence]"""
SHORT: Final = 512
"""New tokens up to which launches weigh. [token]"""
TUNING_S: Final = {"scan": 60.0, "convolution": 10.0, "step": 3.0}
"""Time in which Triton compiles and tunes the kernels for one number of heads; assumed. [s]"""
SLOWEST: Final = 0.2
"""Largest decay of a token: the state shrinks by its exponential."""


@cache
def decays(batch: int, new: int, heads: int) -> NDArray[np.float32]:
    """Logarithms of the decays of the state, [batch, new, heads]."""
    drawn = np.random.default_rng(1).random((batch, new, heads), dtype=np.float32)
    return -np.float32(SLOWEST) * drawn


@cache
def strengths(batch: int, new: int, heads: int) -> NDArray[np.uint16]:
    """Shares of the old values that are replaced, in bfloat16, [batch, new, heads]."""
    return bf16(np.random.default_rng(2).random((batch, new, heads), dtype=np.float32))


def delta_step(name: str) -> Probe:
    """Probe of one token for each sequence on a state by the gated delta rule.

    New states are written elsewhere, as many bytes as in place.
    """
    return _probe(
        name,
        axes={"batch": BATCHES, "new": (1,), LAYER: HEADS},
        arguments=lambda make, at: {
            **_operands(make, at),
            "state": make.normal(at["batch"], *_state(at)),
        },
        kernels=_stepping,
        work=lambda at: recurrent_steps(float(at["batch"]), 1.0, **_layer(at)),
        streamed=("state",),
        states=("cold",),
        regime=_by_batch,
        form="recurrent-step",
        build_s=TUNING_S["step"],
        builds=lambda at: at["heads"],
    )


def delta_scan(name: str) -> Probe:
    """Probe of prompts by the gated delta rule, chunk after chunk."""
    return _probe(
        name,
        axes={"batch new": PROMPTS, LAYER: HEADS, "chunk": (CHUNK,)},
        arguments=lambda make, at: {
            **_operands(make, at),
            "state": make.normal(at["batch"], *_state(at)),
        },
        kernels=_scanning,
        work=lambda at: chunked_scan(
            float(at["batch"]), float(at["new"]), chunk=float(at["chunk"]), **_layer(at)
        ),
        regime=_by_length,
        form="scan",
        build_s=TUNING_S["scan"],
        builds=lambda at: at["heads"],
    )


def convolution_step(name: str) -> Probe:
    """Probe of the short convolution with the last inputs of each sequence.

    They are updated in place, as many of them as there are taps; engines keep one less.
    """
    return _probe(
        name,
        axes={"batch": BATCHES, "new": (1,), f"{LAYER} channels": CONVOLVED, "taps": (TAPS,)},
        arguments=lambda make, at: {
            "values": make.normal(at["batch"], at["channels"], of="bf16"),
            "weight": make.normal(at["channels"], at["taps"], of="bf16"),
            "state": make.empty(at["batch"], at["channels"], at["taps"], of="bf16"),
        },
        kernels=_shifting,
        work=_convolution_work,
        streamed=("state",),
        states=("cold",),
        regime=_by_batch,
        form="convolution-step",
        build_s=TUNING_S["convolution"],
        builds=lambda at: at["channels"],
    )


def convolution(name: str) -> Probe:
    """Probe of the short convolution over prompts, which keeps their last inputs."""
    return _probe(
        name,
        axes={"batch new": PROMPTS, f"{LAYER} channels": CONVOLVED, "taps": (TAPS,)},
        arguments=lambda make, at: {
            "values": make.normal(at["batch"], at["new"], at["channels"], of="bf16"),
            "weight": make.normal(at["channels"], at["taps"], of="bf16"),
        },
        kernels=_convolving,
        work=_convolution_work,
        regime=_by_length,
        form="convolution",
        build_s=TUNING_S["convolution"],
        builds=lambda at: at["channels"],
    )


def _probe(name: str, **what: Any) -> Probe:
    return Probe(
        name=name,
        version=1,
        kind="linear-attention",
        arithmetic="bf16",
        provider=LIBRARY,
        backends=("cupy",),
        needs=NEEDS,
        **what,
    )


def _by_batch(at: Shape) -> str:
    return "few" if at["batch"] <= FEW else "many"


def _by_length(at: Shape) -> str:
    return "short" if at["new"] <= SHORT else "long"


def _state(at: Shape) -> tuple[int, int, int]:
    return at["heads"], at["key_dim"], at["value_dim"]


def _layer(at: Shape) -> Mapping[str, Any]:
    """Layer as the cost model takes it."""
    shape = {name: float(at[name]) for name in LAYER.split()}
    return {**shape, "rule": "delta", "width": WIDTH, "state_width": STATE}


def _operands(make: Maker, at: Shape) -> Mapping[str, object]:
    """Queries, keys and values of new tokens, and both gates."""
    batch, new, heads = at["batch"], at["new"], at["heads"]
    keys = (batch, new, at["key_heads"], at["key_dim"])
    return {
        "query": make.normal(*keys, of="bf16"),
        "key": make.normal(*keys, of="bf16"),
        "value": make.normal(batch, new, heads, at["value_dim"], of="bf16"),
        "decay": make.constant(decays, batch, new, heads),
        "strength": make.constant(strengths, batch, new, heads),
    }


def _stepping(gpu: Sku, **arrays: Any) -> Sequence[Call]:
    return (step(LIBRARY, stepped, *arrays.values()),)


def _scanning(gpu: Sku, **arrays: Any) -> Sequence[Call]:
    return (step(LIBRARY, scanned, *arrays.values()),)


def _shifting(gpu: Sku, values: Any, weight: Any, state: Any) -> Sequence[Call]:
    return (step(LIBRARY, shifted, values, weight, state),)


def _convolving(gpu: Sku, values: Any, weight: Any) -> Sequence[Call]:
    return (step(LIBRARY, convolved, values, weight),)


def stepped(query: Any, key: Any, value: Any, decay: Any, strength: Any, state: Any) -> Any:
    """Outputs [batch, new, heads, value width] and new states, token after token.

    Args:
        query, key: Of shape [batch, new, key heads, key width].
        value: Of shape [batch, new, heads, value width].
        decay, strength: Of shape [batch, new, heads].
        state: Of shape [batch, heads, key width, value width].
    """
    from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule

    return fused_recurrent_gated_delta_rule(
        *(query, key, value),
        g=decay,
        beta=strength,
        initial_state=state,
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
    )


def scanned(query: Any, key: Any, value: Any, decay: Any, strength: Any, state: Any) -> Any:
    """The same as `stepped`, chunk after chunk."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    return chunk_gated_delta_rule(
        *(query, key, value),
        g=decay,
        beta=strength,
        initial_state=state,
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
    )


def shifted(values: Any, weight: Any, state: Any) -> Any:
    """Activated outputs [batch, channels] of one token each; the state has it last afterwards.

    Args:
        values: Of shape [batch, channels].
        weight: Of shape [channels, taps].
        state: Last inputs, [batch, channels, taps].
    """
    from fla.modules.causal_conv1d import causal_conv1d_update

    return causal_conv1d_update(values, state, weight=weight, activation="silu")[0]


def convolved(values: Any, weight: Any) -> Any:
    """Activated outputs [batch, new, channels] of prompts, and their last inputs."""
    from fla.modules.causal_conv1d import causal_conv1d

    return causal_conv1d(values, weight, output_final_state=True, activation="silu")


def _convolution_work(at: Shape) -> Work:
    """Multiply-adds of the taps; inputs, outputs, and the last inputs."""
    batch, new, channels, taps = (float(at[name]) for name in ("batch", "new", "channels", "taps"))
    passes = 2.0 if new == 1.0 else 1.0
    return Work(
        flops=2.0 * taps * batch * new * channels,
        activation_bytes=2.0 * WIDTH * batch * new * channels,
        kv_bytes=passes * WIDTH * batch * channels * taps,
    )
