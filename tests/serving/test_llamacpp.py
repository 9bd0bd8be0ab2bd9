"""llama.cpp: micro-batches, fp32 between operators, products of integers, scores in memory."""

import numpy as np
import pandas as pd
import pytest

from roofline.api.setting import make_deployment
from roofline.bench.end_to_end.making import made
from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.cost.memory import budget
from roofline.cost.step import SequenceGroup
from roofline.cost.work import Op
from roofline.errors import InputError
from roofline.hardware.catalog import gpu
from roofline.hardware.engine import engine
from roofline.model.catalog import architecture
from roofline.records import replace
from roofline.serving.simulate.kernels import chunk_part
from roofline.serving.simulate.prices import StepPrices, step_prices
from roofline.serving.stages import laid_out

WIDTHS = {"q4-k": 144 / 256, "bf16": 2.0}


def on(
    name: str = "llamacpp", weights: str = "q4-k", device: str = "rtx-4090", pp: int = 1
) -> Deployment:
    return make_deployment(
        architecture("llama-3-8b"),
        gpu(device),
        None,
        Layout(pp=pp),
        weights=weights,
        kv="auto",
        engine=name,
        calibration="none",
    )


def operators(deployment: Deployment, tokens: float) -> dict[str, Op]:
    laid = laid_out(deployment, SequenceGroup(1.0, tokens, tokens))
    return {name: op for stage in laid.stages for name, op in stage.ops.items()}


@pytest.mark.parametrize(
    ("name", "device", "arithmetic"),
    [
        ("llamacpp", "rtx-4090", "int8"),
        ("llamacpp", "v100-sxm", "fp16"),  # no int8 units
        ("llama.cpp-2024", "rtx-4090", "bf16"),  # before pull request 8075
        ("vllm", "rtx-4090", "bf16"),
    ],
)
def test_blocks_are_multiplied_as_integers_where_there_are_units(
    name: str, device: str, arithmetic: str
) -> None:
    made_of = on(name, device=device).precision.product("q4-k")
    assert made_of.arithmetic == arithmetic
    assert (made_of.quantised is not None) == (arithmetic == "int8")


def test_formats_without_a_kernel_of_integers_are_converted() -> None:
    assert on(weights="iq1-m").precision.linear_arithmetic == "bf16"
    assert on(weights="int8").precision.product("int8").multiplied.name == "int8"


def test_scales_take_three_instructions_for_each_output_and_block() -> None:
    ops = operators(on(), 512.0)
    scale = ops["scale-up" if "scale-up" in ops else "scale-gate-up"]
    n = 2 * 14336
    counted = sum(2.0 * 3 for _ in range(4096 // 32)) * 512 * n
    assert scale.work.flops == counted
    assert scale.arithmetic == "fp32"


def test_weights_are_copied_for_prompts_and_not_for_a_few_tokens() -> None:
    old = on("llama.cpp-2024")
    few, many = operators(old, 32.0), operators(old, 33.0)
    name = "dequantise-attn-out"
    assert few[name].work.weight_bytes == 0.0
    assert many[name].work.weight_bytes == 4096 * 4096 * (WIDTHS["q4-k"] + 2.0)
    assert name not in operators(on(), 512.0)


def test_operators_hand_on_fp32() -> None:
    wide, narrow = operators(on(weights="bf16"), 512.0), operators(on("vllm", "bf16"), 512.0)
    name = next(name for name in narrow if "norm" in name and name in wide)
    moved, before = wide[name].work.activation_bytes, narrow[name].work.activation_bytes
    assert moved == 2.0 * before
    both = (4096 + 4096) * (4.0 + 2.0) * 512
    assert wide["convert-attn-out"].work.activation_bytes == both


def test_scores_go_through_memory_where_there_is_no_flash_attention() -> None:
    old, new = (on(name, "bf16") for name in ("llama.cpp-2024", "llamacpp"))
    assert (old.naive, new.naive) == (True, False)
    scores = 4 * 32 * 512 * 512 * 4.0  # four passes, 32 heads, fp32
    ends = 32 * (128 + 128) * 4.0 * 512
    found = next(op for name, op in operators(old, 512.0).items() if name.startswith("attention"))
    assert found.work.activation_bytes == scores + ends


def test_latent_attention_has_no_scores_in_memory() -> None:
    deployment = replace(on("llama.cpp-2024"), architecture=architecture("deepseek-v3"))
    assert not deployment.naive


def test_a_lone_micro_batch_is_no_faster_on_a_pipeline() -> None:
    one, four = (step_prices(on(pp=stages)) for stages in (1, 4))

    def took(prices: StepPrices, tokens: float) -> float:
        return float(np.interp(tokens, prices.tokens, prices.others_s[0]))

    # But for wires, and the embedding and head at the ends.
    assert took(four, 512) == pytest.approx(took(one, 512), rel=0.03)
    # Four micro-batches through four stages: 4 + 3 turns instead of 4 · 4.
    assert took(one, 2048) == pytest.approx(4 * took(one, 512), rel=0.01)
    assert took(four, 2048) == pytest.approx(7 / 16 * took(one, 2048), rel=0.08)


def test_a_chunk_sees_what_its_micro_batches_see_one_after_the_other() -> None:
    before, chunk, micro = 1000.0, 2048, 512
    group = chunk_part(on(), np.array([float(chunk)]), np.array([before])).group
    counted = sum(before + micro * (each + 1) for each in range(chunk // micro))
    assert float(np.ravel(group.new)[0]) == micro
    assert float(np.ravel(group.context)[0]) * (chunk // micro) == counted


def test_memory_holds_activations_of_a_micro_batch() -> None:
    def held(tokens: float) -> float:
        found = budget(on(), batch=1, context=2048, step_tokens=tokens, step_rows=1)
        return found.activations

    assert held(256) < held(512) == held(2048)


@pytest.mark.slow
def test_prompts_take_what_was_published_of_a_4090() -> None:
    """10,358.75 tokens a second: llama 8B Q4_0, pp512 in one micro-batch.

    Source: llama.cpp, pull request 7676, table of the RTX 4090. The front end of a server, which
    llama-bench has not, is in the figure as well: 5 ms.
    """
    found = make_deployment(
        architecture("llama-3-8b"),
        gpu("rtx-4090"),
        None,
        Layout(),
        weights="q4-0",
        kv="auto",
        engine="llamacpp",
        calibration="auto",
    )
    prices = step_prices(found)
    cost = prices.engine
    kernels = np.interp(512, prices.tokens, prices.others_s[0])
    kernels += 512 * np.interp(512, prices.chunks, prices.attention_s[:, 0])
    took = float(cost.prefill_step(kernels))
    assert took == pytest.approx(512 / 10358.75, rel=0.25)


def test_a_profile_alone_is_only_of_engines_that_share_nothing() -> None:
    row = {
        "engine": "vllm",
        "version": "0.15.1",
        "gpu": "h100_sxm",
        "model": "meta-llama/Meta-Llama-3-8B",
        "mode": "bs1_decode",
        "batch": 1,
        "isl": 128,
        "osl": 128,
        "tpot_s": 0.007,
        "quality": "ok",
    }
    with pytest.raises(InputError, match="shares constants"):
        made(pd.DataFrame([row]), "a row", "vllm")


def test_defaults_are_those_of_the_server() -> None:
    known = engine("llamacpp")
    device = gpu("rtx-4090")
    assert known.sequences_on(device) == 4  # -np
    assert known.step_tokens_on(device) == 2048  # -b
    assert known.micro_batch_tokens == 512  # -ub
    left = known.memory_utilization_on(device) * device.memory_bytes
    assert device.memory_bytes - left == pytest.approx(2**30)  # -fitt
