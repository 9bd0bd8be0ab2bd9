"""LoRA adapters: weights, FLOPs and bytes by hand; popularity against counts over all draws."""

from itertools import product
from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.cost.adapters import Lora, distinct, hit_rate, popularity
from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout, pipeline
from roofline.cost.memory import adapter_bytes, budget, weight_bytes
from roofline.cost.step import decode, prefill, step
from roofline.cost.work import Op
from roofline.errors import InputError
from roofline.records import replace
from tests.pricing import seconds
from tests.serving.deployments import on

LAYERS, D, KV, F, R = 32, 4096, 1024, 14336, 16
"""Widths of llama-3.1-8b, and the usual rank."""


def adapted(deployment: Deployment, batch: float = 8.0) -> dict[str, Op]:
    """Operators of adapters in a decode step."""
    ops = step(deployment, decode(batch, 1000.0))
    return {name: op for name, op in ops.items() if op.kind == "adapter"}


def whole(deployment: Deployment) -> float:
    """One adapter of the network on one device. [B]"""
    return float(adapter_bytes(deployment, deployment.architecture.kinds.items()))


@pytest.mark.parametrize(
    ("model", "published"),
    [("llama-2-7b", 39_976_960), ("llama-3.1-8b", 41_943_040)],
)
def test_an_adapter_of_all_linear_layers_has_the_parameters_that_trainers_print(
    model: str, published: int
) -> None:
    """Trainable parameters at rank 16 on q, k, v, o, gate, up and down, as PEFT counts them."""
    assert whole(on(model, lora=Lora(1, R))) == 2 * published


def test_one_layer_by_hand() -> None:
    """Both products of 400 tokens, of so many sequences that all three adapters are touched."""
    tokens, three = 400.0, 3.0
    ops = adapted(on(lora=Lora(3, R)), tokens)
    inputs = {"qkv": D, "attn-out": D, "gate-up": D, "down": F}
    outputs = {"qkv": D + 2 * KV, "attn-out": D, "gate-up": 2 * F, "down": D}
    joined = {"qkv": 3, "attn-out": 1, "gate-up": 2, "down": 1}
    assert set(ops) == {f"lora-{way}-{name}" for way in ("shrink", "expand") for name in joined}
    for name, parts in joined.items():
        first, second = ops[f"lora-shrink-{name}"], ops[f"lora-expand-{name}"]
        assert first.repeat == second.repeat == LAYERS
        # x·A for each layer that is joined, then B for each of its own outputs.
        assert first.work.flops == 2 * tokens * R * parts * inputs[name]
        assert second.work.flops == 2 * tokens * R * outputs[name]
        assert first.work.weight_bytes == pytest.approx(three * 2 * R * parts * inputs[name])
        assert second.work.weight_bytes == pytest.approx(three * 2 * R * outputs[name])
        between = 4 * parts * R  # single precision
        assert first.work.activation_bytes == tokens * (2 * inputs[name] + between)
        assert second.work.activation_bytes == tokens * (between + 2 * 2 * outputs[name])


@pytest.mark.parametrize("skew", [0.0, 0.7, 2.0])
@pytest.mark.parametrize(("adapters", "sequences"), [(1, 3), (2, 5), (3, 4), (5, 3)])
def test_expected_different_adapters_are_the_mean_over_all_draws(
    adapters: int, sequences: int, skew: float
) -> None:
    chances = [
        each / sum(n**-skew for n in range(1, adapters + 1))
        for each in (n**-skew for n in range(1, adapters + 1))
    ]
    counted = sum(
        prod(chances[each] for each in draw) * len(set(draw))
        for draw in product(range(adapters), repeat=sequences)
    )
    assert float(distinct(adapters, skew, float(sequences))) == pytest.approx(counted)
    column = distinct(adapters, skew, np.array([[1.0], [float(sequences)]]))
    assert np.asarray(column).ravel() == pytest.approx([1.0, counted])


@given(st.integers(1, 300), st.integers(1, 500), st.floats(0, 3))
def test_no_step_touches_more_adapters_than_it_has_sequences_or_there_are(
    adapters: int, sequences: int, skew: float
) -> None:
    found = float(distinct(adapters, skew, float(sequences)))
    assert 1 - 1e-9 <= found <= min(adapters, sequences) + 1e-9
    assert found <= float(distinct(adapters, 0.0, float(sequences))) + 1e-9  # alike is most spread


def hits_of_a_list(adapters: int, skew: float, kept: int, requests: int) -> float:
    """Share of hits of a list of adapters, the last one used in front."""
    random, there, hits = Random(1), list(range(kept)), 0
    chances = popularity(adapters, skew).tolist()
    drawn = random.choices(range(adapters), chances, k=2 * requests)
    for place, each in enumerate(drawn):
        if each in there:
            there.remove(each)
            hits += place >= requests
        there.insert(0, each)
        del there[kept:]
    return hits / requests


@pytest.mark.parametrize(
    ("adapters", "skew", "kept"),
    [(100, 0.0, 20), (100, 1.0, 20), (100, 1.0, 80), (40, 0.6, 4), (200, 1.5, 10), (8, 1.0, 2)],
)
def test_ches_approximation_is_what_a_cache_does(adapters: int, skew: float, kept: int) -> None:
    counted = hits_of_a_list(adapters, skew, kept, 20_000)
    assert hit_rate(adapters, skew, kept) == pytest.approx(counted, abs=0.015)


def test_the_more_is_kept_the_more_is_found() -> None:
    rates = [hit_rate(50, 0.9, kept) for kept in range(1, 51)]
    assert rates == sorted(rates)
    assert rates[-1] == 1.0


@pytest.mark.parametrize(
    "model",
    [
        *("llama-3.1-70b", "gemma-3-27b-it", "mixtral-8x7b-v0.1", "deepseek-v3", "qwen3-32b"),
        *("qwen3-next-80b-a3b-instruct", "kimi-linear-48b-a3b-base", "granite-4.0-h-small"),
        *("falcon-7b", "gpt2", "deepseek-v2-lite", "dots.llm1.base"),
    ],
)
def test_a_device_reads_of_one_adapter_what_it_keeps_of_it(model: str) -> None:
    for tp in (1, 2):
        try:
            deployment = on(model, "h200-sxm", tp=tp, lora=Lora(1, R), node="hgx-h200-8")
        except InputError:  # heads that cannot be shared
            continue
        read = sum(float(op.total.weight_bytes) for op in adapted(deployment).values())
        assert read == pytest.approx(whole(deployment)), tp


def test_devices_that_share_a_layer_repeat_one_side_of_it_and_split_the_other() -> None:
    """Columns: A whole, B split; rows: A split, B whole. No key/value heads are repeated."""
    alone, eight = (whole(on("llama-3.1-70b", tp=tp, lora=Lora(1, R))) for tp in (1, 8))
    layers, d, kv, f = 80, 8192, 1024, 28672
    repeated = (3 * d) + d + (2 * d) + d  # A of qkv, B of attn-out, A of gate-up, B of down
    shared = (d + 2 * kv) + d + 2 * f + f
    assert alone == 2 * R * layers * (repeated + shared)
    assert 8 * eight == alone + 7 * 2 * R * layers * repeated


def test_stages_of_a_pipeline_have_an_adapter_between_them() -> None:
    deployment = on("llama-3.1-70b", layout=Layout(tp=2, pp=4), lora=Lora(1, R))
    stages = pipeline(deployment.architecture, deployment.layout, deployment.node)
    parts = sum(float(adapter_bytes(deployment, stage.layers)) for stage in stages)
    assert parts == pytest.approx(whole(replace(deployment, layout=Layout(tp=2))))


def test_heads_that_are_repeated_have_their_outputs_repeated() -> None:
    """Each of 16 devices has one of 8 key/value heads: B of k and v is there twice."""
    sixteen = on("llama-3.1-70b", tp=16, lora=Lora(1, R, "qkv"))
    per_device = 2 * R * 80 * (3 * 8192 + 8192 / 16 + 2 * 128)
    assert whole(sixteen) == per_device


def test_adapters_take_their_place_from_the_cache() -> None:
    asked: dict[str, Any] = {
        "batch": 4.0,
        "context": 1000.0,
        "step_tokens": 512.0,
        "step_rows": 4.0,
    }
    plain = budget(on(), **asked)
    for lora, kept in ((Lora(10, R), 10), (Lora(10, R, max_loras=4), 4), (Lora(2, 64), 8)):
        some = budget(on(lora=lora), **asked)
        assert some.adapters == kept * 2 * 41_943_040
        assert plain.pool - some.pool == pytest.approx(some.adapters)


def test_without_adapters_nothing_is_another_and_with_them_no_other_operator_is() -> None:
    groups = [prefill(2.0, 300.0), decode(8.0, 1000.0)]
    for model in ("llama-3.1-8b", "deepseek-v2-lite"):
        plain, none = step(on(model), groups), step(on(model, lora=Lora()), groups)
        some = step(on(model, lora=Lora(5)), groups)
        assert plain == none
        assert {name: some[name] for name in plain} == plain
        assert all(op.kind == "adapter" for name, op in some.items() if name not in plain)
        assert weight_bytes(on(model)) == weight_bytes(on(model, lora=Lora(5)))


def test_more_rank_more_adapters_and_more_layers_never_take_less() -> None:
    def took(lora: Lora) -> float:
        deployment = on(lora=lora)
        return float(seconds(step(deployment, decode(64.0, 1000.0)), deployment))

    assert took(Lora()) < took(Lora(1, 8)) < took(Lora(1, 16)) < took(Lora(1, 64))
    many = [took(Lora(n)) for n in (1, 2, 8, 64, 1000)]
    assert many == sorted(many)
    assert len(set(many)) == len(many)
    assert took(Lora(1000, max_loras=4)) < took(Lora(1000)) > took(Lora(1000, adapter_skew=2.0))
    assert took(Lora(8, lora_targets="qkv")) < took(Lora(8, lora_targets="qkv, down")) < many[2]


@pytest.mark.parametrize(
    ("asked", "said", "hint"),
    [
        ({"adapters": -1}, "adapters is -1", "0 to"),
        ({"adapters": 4, "lora_rank": 0}, "lora rank is 0", "1 to"),
        ({"adapters": 4, "adapter_skew": -1.0}, "skew is -1", "Zipf"),
        ({"lora_rank": 8}, "no adapters", "`adapters=100`"),
        ({"adapters": 2.5}, "2.5", "whole"),
    ],
)
def test_what_has_no_meaning_is_refused(asked: dict[str, Any], said: str, hint: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        Lora(**asked)
    assert hint in str(raised.value.hint)


def test_a_layer_that_the_network_does_not_have_is_named_with_those_that_it_has() -> None:
    with pytest.raises(InputError, match="'q_proj'") as raised:
        on(lora=Lora(4, lora_targets="q_proj,down"))
    assert raised.value.hint.endswith("qkv, attn-out, gate-up, down")
