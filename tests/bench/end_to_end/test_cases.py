"""Rows become deployments: defaults for what is blank, a reason for what cannot be."""

from typing import Any

import pandas as pd
import pytest

from roofline.bench.end_to_end.cases import Row, contradicted, read
from roofline.bench.end_to_end.deploying import deployment
from roofline.cost.layout import Layout
from roofline.errors import InputError
from tests.bench.end_to_end.synthetic import row

GOOD: dict[str, Any] = {
    "engine": "vllm",
    "gpu": "h100_sxm",
    "model": "meta-llama/Llama-3.1-70B",
    "mode": "steady_concurrency",
    "n_gpus": 4,
    "tp": 4,
    "batch": 16,
    "isl": 1024,
    "osl": 128,
    "tpot_s": 0.01,
}


def one(**changes: Any) -> Row:
    (found,), unread = read(pd.DataFrame([{**GOOD, **changes}]))
    assert not unread
    return found


def test_blank_columns_take_their_defaults() -> None:
    nan = float("nan")
    found = one(tp=nan, pp=nan, ep=0, attn_dp=nan, w_dtype=nan, kv_dtype=None)
    assert found.case.layout == Layout(tp=4)
    assert found.case.weights == "checkpoint"
    assert deployment(found.case).precision.kv.name == "bf16"
    assert (found.counts, found.scope, found.replicas) == ("output", "total", 1.0)


def test_a_table_of_the_needed_columns_alone_is_enough() -> None:
    needed = ("engine", "gpu", "model", "mode", "tpot_s")
    (found,), _ = read(pd.DataFrame([{key: GOOD[key] for key in needed}]))
    assert (found.isl, found.osl, found.batch, found.devices) == (32.0, 128.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("model", "w_dtype", "moe_dtype", "engine", "linear", "expert", "kv"),
    [
        ("nvidia/Llama-3.1-8B-Instruct-FP8", None, None, "vllm", "fp8", None, "fp8"),
        (
            "meta-llama/Llama-3.1-8B-Instruct",
            "fp8_block",
            None,
            "sglang",
            "fp8-block",
            None,
            "bf16",
        ),
        ("LLaMA v3 70B", "fp8", None, "trtllm", "fp8", None, "fp8"),
        ("openai/gpt-oss-120b", None, None, "vllm", "bf16", "mxfp4", "bf16"),
        ("openai/gpt-oss-120b", "bf16", "w4a16_mxfp4", "vllm", "bf16", "mxfp4-w4a16", "bf16"),
        ("Qwen3 30B A3B", "fp8", "nvfp4", "vllm", "fp8", "nvfp4", "fp8"),
        ("LLaMA v3 70B", "fp16", None, "trtllm", "fp16", None, "fp16"),
        ("deepseek-ai/DeepSeek-R1", "fp8", "fp8_block", "sglang", "fp8-block", "fp8-block", "fp8"),
        ("nvidia/DeepSeek-R1-NVFP4", None, None, "trtllm", "bf16", "nvfp4", "fp8"),
        ("moonshotai/Kimi-K2.5", "int4_wo", "int4_wo", "vllm", "bf16", "int4-g32-sym", "fp8"),
        ("moonshotai/Kimi-K2.5", "nvfp4", "nvfp4", "vllm", "bf16", "nvfp4", "fp8"),
        ("Qwen/Qwen3.5-397B-A17B", "fp8", "fp8_block", "sglang", "fp8-block", "fp8-block", "bf16"),
    ],
)
def test_formats_come_from_the_row_the_name_or_the_checkpoint(
    model: str,
    w_dtype: str | None,
    moe_dtype: str | None,
    engine: str,
    linear: str,
    expert: str | None,
    kv: str,
) -> None:
    columns = {"model": model, "w_dtype": w_dtype, "moe_dtype": moe_dtype, "engine": engine}
    found = deployment(one(**columns, gpu="b200_sxm").case)
    block = found.architecture.layers[-1]
    assert found.stored(block, "attn-out") == linear
    if expert is not None:
        assert found.stored(block, "experts-down") == expert
    assert found.precision.kv.name == kv


def test_servers_of_the_lab_take_one_prompt_a_step() -> None:
    lab: dict[str, Any] = {"family": "nvidia-dynamo-lab", "isl": 1024, "batch": 16}
    assert one(**lab, engine="trtllm").token_budget == 16 + 1024
    assert one(**lab, engine="vllm").token_budget == 16 + 1024
    assert one(**lab, engine="vllm", max_batched_tokens=4096).token_budget == 4096
    assert one(**lab, engine="sglang").token_budget == 0
    assert one(**lab | {"family": "elsewhere"}, engine="vllm").token_budget == 0


@pytest.mark.parametrize(
    ("columns", "layout", "replicas"),
    [
        ({"n_gpus": 8, "tp": 4}, Layout(tp=4), 2.0),
        ({"engine": "llama.cpp", "n_gpus": 4, "tp": 4}, Layout(pp=4), 1.0),
        ({"model": "DeepSeek R1", "gpu": "gb200", "n_gpus": 36, "tp": 36}, Layout(dp=36, ep=36), 1),
        ({"model": "Qwen3 235B A22B", "n_gpus": 8, "tp": 8, "ep": 8, "attn_dp": 8}, None, 1.0),
        ({"ep": 4, "attn_dp": 4}, Layout(tp=4), 1.0),
    ],
)
def test_degrees_become_a_layout(
    columns: dict[str, Any], layout: Layout | None, replicas: float
) -> None:
    found = one(**columns)
    assert found.case.layout == (layout or Layout(tp=1, dp=8, ep=8))
    assert found.replicas == replicas
    assert found.batch == 16 / replicas


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gpu": "h999"}, "no GPU is called 'h999'"),
        ({"model": "GPT-5"}, "no network of the catalog"),
        ({"mode": "chat"}, "no mode is called 'chat'"),
        ({"w_dtype": "fp9"}, "no number format 'fp9'"),
        ({"tpot_s": float("nan")}, "no metric is measured"),
        ({"batch": -1}, "batch is -1"),
        ({"isl": 0}, "isl is 0"),
        ({"tp": 1.5}, "tp is 1.5"),
        ({"isl": float("inf")}, "isl is inf"),
        ({"isl": "long"}, "could not convert"),
        ({"model": "GPTJ 6B", "isl": 2048}, "2176 tokens are more than the 2048"),
        ({"thr_counts": "words"}, "thr_counts is 'words'"),
        ({"thr_scope": "rack"}, "thr_scope is 'rack'"),
        ({"length_low": 1.2, "length_high": 0.8}, "lengths from 1.2 to 0.8"),
        ({"length_low": 0}, "lengths from 0"),
        ({"gpu_memory_fraction": 1.1}, "gpu_memory_fraction is 1.1"),
        ({"max_num_seqs": -8}, "max_num_seqs is -8"),
    ],
)
def test_a_row_that_cannot_be_read_says_why_and_the_others_are(
    changes: dict[str, Any], said: str
) -> None:
    frame = pd.DataFrame([GOOD, {**GOOD, **changes}])
    rows, unread = read(frame)
    assert [each.place for each in rows] == [0]
    assert [each.place for each in unread] == [1]
    assert said in unread[0].why


def test_settings_of_the_server_and_lengths_are_read_where_a_source_has_them() -> None:
    silent = one(length_low=float("nan"), max_num_seqs=None, gpu_memory_fraction=float("nan"))
    assert silent.lengths is None
    assert (silent.max_sequences, silent.token_budget, silent.memory_share) == (0, 0, None)
    told = one(
        length_low=0.8,
        length_high=1.0,
        max_num_seqs=128,
        max_batched_tokens=4096,
        gpu_memory_fraction=0.85,
    )
    assert told.lengths == (0.8, 1.0)
    assert (told.max_sequences, told.token_budget, told.memory_share) == (128, 4096, 0.85)
    assert one(length_low=0.5).lengths == (0.5, 1.0)


def test_a_limit_below_the_clients_is_another_servers_where_the_day_is_not_known() -> None:
    guessed = "undated: what the configurations with this image agree on"
    told = {"mode": "steady_concurrency", "batch": 256, "max_num_seqs": 128}
    assert one(**told).max_sequences == 128
    assert one(**told, settings_match=guessed).max_sequences == 0
    assert one(**{**told, "batch": 128}, settings_match=guessed).max_sequences == 128


def test_an_engine_that_does_not_cut_answers_may_go_beyond_the_context() -> None:
    assert one(model="GPTJ 6B", engine="trtllm", isl=2048).isl == 2048


def test_a_needed_column_that_is_missing_is_named() -> None:
    with pytest.raises(InputError, match="no column model"):
        read(pd.DataFrame([GOOD]).drop(columns="model"))


def test_a_latency_that_its_row_contradicts_is_found() -> None:
    told = {"ttft_s": 1.0, "tpot_s": 0.01}
    assert contradicted(row(osl=101.0, measured={**told, "latency_s": 2.1})) == ""
    assert contradicted(row(osl=101.0, measured={**told, "latency_s": 20.0})) == "latency_s"
    assert contradicted(row(osl=101.0, measured={"latency_s": 20.0, "ttft_s": 1.0})) == ""


def test_fp8_of_a_network_that_its_makers_store_in_blocks_is_in_blocks() -> None:
    lab = one(family="nvidia-dynamo-lab", model="Qwen/Qwen3-32B", engine="trtllm", w_dtype="fp8")
    assert (lab.case.weights, lab.case.kv) == ("fp8-block", "fp8")
    elsewhere = one(model="Qwen/Qwen3-32B", engine="trtllm", w_dtype="fp8")
    assert elsewhere.case.weights == "fp8"
