"""Passes over activations that are kernels of their own, counted by hand, and what fusing saves."""

from typing import Literal

import pytest

import roofline
from roofline.cost.roof import roof
from roofline.cost.step import decode, step
from tests.serving.deployments import on

TOKENS = 16.0
LAYERS, D, Q, KV, F = 32, 4096, 4096, 1024, 14336
PASSES = ("pointwise", "gemm")


def moved(fusion: Literal["engine", "none", "all"], weights: str) -> float:
    """Bytes of activations and cache that a layer's passes and products move."""
    ops = step(on(weights=weights, fusion=fusion), decode(TOKENS, 100.0)).values()
    each = (op for op in ops if op.kind in PASSES and op.repeat >= LAYERS)
    return float(sum(op.repeat * (op.work.activation_bytes + op.work.kv_bytes) for op in each))


@pytest.mark.parametrize("weights", ["bf16", "fp8"])
def test_bytes_are_those_of_the_kernels_one_by_one(weights: str) -> None:
    """Elements of two bytes that a token moves in a layer."""
    products = (D + Q + 2 * KV) + (Q + D) + (D + 2 * F) + (F + D)
    narrowed = 1.5 * (D + Q + D + F) if weights == "fp8" else 0.0  # two bytes read, one written
    store, turned = 2 * (2 * KV), Q + KV
    by_hand = {
        "engine": products + narrowed + 2 * 4 * D + 2 * turned + store + 3 * F,
        # Add, norm; x·cos, halves·sin, −x₂, the halves joined, the sum; SiLU and product apart.
        "none": products + narrowed + 2 * 5 * D + (2 + 2 + 1 + 2 + 3) * turned + store + 5 * F,
        # Keys are turned on their way to the cache; the gate's product leaves its kernel as F.
        "all": products - F + 2 * 4 * D + (turned + Q) + (KV + 2 * KV),
    }
    assert moved("engine", weights) == pytest.approx(2 * LAYERS * TOKENS * by_hand["engine"])
    assert moved("none", weights) == pytest.approx(2 * LAYERS * TOKENS * by_hand["none"])
    assert moved("all", weights) == pytest.approx(2 * LAYERS * TOKENS * by_hand["all"])


@pytest.mark.parametrize(
    "model", ["llama-3.1-8b", "gpt-oss-120b", "deepseek-v3", "gemma-3-12b", "qwen3-next-80b-a3b"]
)
def test_fusing_never_takes_longer(model: str) -> None:
    def seconds(fusion: Literal["engine", "none", "all"]) -> float:
        deployment = on(model, tp=8, fusion=fusion)
        ops = step(deployment, decode(TOKENS, 1000.0)).values()
        return sum(float(roof(op, deployment).seconds) * op.repeat for op in ops)

    assert seconds("all") < seconds("engine") < seconds("none")


@pytest.mark.slow
def test_kernels_apart_have_starts_of_their_own() -> None:
    """Seven more kernels of a layer start, and none as one that is fused."""
    engine, none, every = (
        roofline.analyze(batch=1, prompt=128, output=16, fusion=fusion).tpot.value
        for fusion in ("engine", "none", "all")
    )
    assert every < engine
    assert none - engine > LAYERS * 7 * 0.5e-6
