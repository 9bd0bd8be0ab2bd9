"""Rows of two pools, of speculative decoding and of MLPerf: how each is read, and laws of each."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roofline.bench.end_to_end import profiles
from roofline.bench.end_to_end.cases import row_of
from roofline.bench.end_to_end.kinds.drafted_rows import accepted, drafted_row
from roofline.bench.end_to_end.kinds.mlperf_rows import DATASETS, mlperf_row
from roofline.bench.end_to_end.kinds.pooled_rows import pooled_row, recipes
from roofline.bench.end_to_end.kinds.prediction import ApartRow, Prediction
from roofline.bench.end_to_end.kinds.row_kinds import kind_of
from roofline.bench.end_to_end.metrics import profile_of
from roofline.bench.end_to_end.predicting import end_to_end
from roofline.bench.end_to_end.replay import known
from roofline.errors import InputError
from roofline.hardware.catalog import gpu
from roofline.records import replace
from roofline.serving.traffic.lengths import Lognormal, mean

INSTANCE: Mapping[str, Any] = {
    "batch_size": 1,
    "num_workers": 1,
    "tp_size": 1,
    "pp_size": 1,
    "attention_dp_size": 1,
    "moe_tp_size": 1,
    "moe_ep_size": 1,
}
POOLED: Mapping[str, Any] = {
    "engine": "vllm",
    "gpu": "h100_sxm",
    "model": "meta-llama/Llama-3.1-8B",
    "mode": "disagg",
    "family": "inferencemax",
    "batch": 8,
    "requests": 80,
    "isl": 1024,
    "osl": 128,
    "length_low": 0.8,
    "length_high": 1.0,
    "ttft_s": 0.05,
    "tpot_s": 0.008,
    "prefill_cfg": json.dumps(INSTANCE),
    "decode_cfg": json.dumps(INSTANCE),
    "quality": "disagg",
}
DRAFTED: Mapping[str, Any] = {
    "engine": "trtllm",
    "version": "1.1",
    "gpu": "h200_sxm",
    "model": "deepseek-ai/DeepSeek-R1",
    "mode": "steady_concurrency",
    "family": "inferencemax",
    "n_gpus": 8,
    "tp": 8,
    "ep": 8,
    "batch": 4,
    "requests": 40,
    "isl": 1024,
    "osl": 256,
    "length_low": 0.8,
    "length_high": 1.0,
    "tpot_s": 0.006,
    "ttft_s": 0.2,
    "speculation": "mtp",
    "server_args": "speculative_config.num_nextn_predict_layers=3",
    "quality": "speculative",
}
MLPERF: Mapping[str, Any] = {
    "engine": "trtllm",
    "version": "mlperf-v4.1",
    "gpu": "h100_sxm",
    "model": "llama2-70b",
    "mode": "mlperf_offline",
    "n_gpus": 8,
    "throughput_tok_s": 24525,
    "thr_counts": "output",
    "thr_scope": "total",
    "quality": "mlperf_mixed_lengths",
}


def config(**changes: Any) -> str:
    return json.dumps({**INSTANCE, **changes})


def predicted(row: ApartRow) -> Prediction:
    return row.predict(*profiles.load())


# --- two pools


def test_either_spelling_of_an_instance_is_read() -> None:
    told = {**POOLED, "model": "deepseek-ai/DeepSeek-R1", "gpu": "gb200"}
    plain = config(num_workers=3, tp_size=1, attention_dp_size=8, moe_ep_size=8)
    short = json.dumps({"tp": 8, "ep": 8, "dp_attention": True, "num_workers": 3})
    one, other = (
        pooled_row(0, {**told, "prefill_cfg": text, "decode_cfg": text}) for text in (plain, short)
    )
    assert one == other
    assert one.decode.case.layout.spelled == "dp8-ep8"
    assert one.instances == (3, 3)
    assert one.gpus == 48
    apart = json.dumps({"tp": 8, "ep": 8, "dp_attention": False, "num_workers": 1})
    found = pooled_row(0, {**told, "decode_cfg": apart})
    assert found.decode.case.layout.spelled == "tp8-ep8"
    assert found.instances == (1, 1)


RECIPE: Mapping[str, Any] = {
    **POOLED,
    "engine": "trtllm",
    "gpu": "gb200",
    "model": "deepseek-ai/DeepSeek-R1",
    "isl": 8192,
    "osl": 1024,
    "batch": 333,
    "prefill_cfg": json.dumps({"tp": 8, "ep": 8, "dp_attention": True, "num_workers": 2}),
    "decode_cfg": json.dumps({"tp": 32, "ep": 32, "dp_attention": True, "num_workers": 1}),
}
"""As ``ctx2_gen1_dep32_batch8_eplb0_mtp0_333.yaml`` of InferenceX."""


def test_a_decode_pool_runs_the_sequences_of_its_recipe() -> None:
    found = pooled_row(0, dict(RECIPE))
    assert found.decode.max_sequences == 8
    assert found.pools[1].server.max_sequences == 8 * 32
    assert found.pools[0].server.max_sequences > 333
    assert str(found.decode.case.layout) == "DP 32 × EP 32"
    for other in ({"family": "nvidia-dynamo-lab"}, {"engine": "sglang"}, {"batch": 334}):
        assert pooled_row(0, {**RECIPE, **other}).decode.max_sequences == 0
    assert pooled_row(0, {**RECIPE, "max_num_seqs": 16}).decode.max_sequences == 16


def test_recipes_are_of_devices_and_sequences_that_can_be() -> None:
    every = recipes("inferencex-trtllm")
    assert len(every) > 150
    for (device, weights, prompt, answer, clients, instances, devices), columns in every.items():
        assert gpu(device).name == device
        assert weights in {"fp8", "nvfp4"}
        assert {prompt, answer} in ({1024}, {1024, 8192})
        assert columns["tp"] * columns["attn_dp"] == devices
        slots = instances * columns["attn_dp"] * columns["max_num_seqs"]
        assert clients <= 3 * slots, "some instances run no more"


def test_clients_beyond_the_sequences_of_a_pool_wait_for_their_first_token() -> None:
    """Little's law: 8 clients stay twice as long as the 4 that decode at a time."""
    told = {**POOLED, "length_low": 1.0, "requests": 400}
    free, full = (
        predicted(pooled_row(0, {**told, **more})).predicted for more in ({}, {"max_num_seqs": 4})
    )
    decode = full["tpot_s"] * (POOLED["osl"] - 1)
    assert full["latency_s"] == pytest.approx(2 * decode, rel=0.05)
    assert full["tpot_s"] < free["tpot_s"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prefill_cfg": config(num_workers=None)}, "nobody counted"),
        ({"decode_cfg": float("nan")}, "which devices prefill"),
        ({"decode_cfg": "{"}, "no JSON"),
        ({"batch": float("nan")}, "no number of clients"),
        ({"speculation": "mtp"}, "how many tokens are drafted"),
    ],
)
def test_pools_that_nobody_described_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        pooled_row(0, {**POOLED, **changes})


def test_one_client_on_two_pools_has_the_decode_of_one_server() -> None:
    """Nobody disturbs it there either; its first token passes two engines, and what is between."""
    alone = {**POOLED, "batch": 1, "requests": 10}
    pools = predicted(pooled_row(0, alone)).predicted
    plain = known(row_of(0, {**alone, "mode": "steady_concurrency", "n_gpus": 1, "tp": 1}))
    logs, _ = profiles.load()
    one = plain.predicted(profile_of(plain, logs))
    assert pools["tpot_s"] == pytest.approx(one["tpot_s"], rel=0.03)
    costs = plain.prices(profile_of(plain, logs)).engine
    second = plain.engine.handover_s + costs.request_s + one["tpot_s"] - costs.serial_s
    assert pools["ttft_s"] - one["ttft_s"] == pytest.approx(second, rel=0.05)


def test_instances_that_share_nothing_are_served_once() -> None:
    one = predicted(pooled_row(0, dict(POOLED))).predicted
    four = config(num_workers=4)
    many = {**POOLED, "batch": 32, "requests": 320, "prefill_cfg": four, "decode_cfg": four}
    found = predicted(pooled_row(0, many)).predicted
    for name in ("ttft_s", "tpot_s", "latency_s"):
        assert found[name] == pytest.approx(one[name], rel=0.05), name


@pytest.mark.slow
def test_a_rate_per_gpu_counts_the_devices_that_decode() -> None:
    told = {**POOLED, "throughput_tok_s": 100.0, "thr_counts": "output"}
    whole = predicted(pooled_row(0, {**told, "thr_scope": "total"}))
    wide = config(tp_size=2)
    each = predicted(pooled_row(0, {**told, "thr_scope": "per_gpu", "prefill_cfg": wide}))
    half = predicted(pooled_row(0, {**told, "thr_scope": "per_gpu", "decode_cfg": wide}))
    rates = [found.predicted["throughput_tok_s"] for found in (whole, each, half)]
    assert rates[1] == pytest.approx(rates[0], rel=0.1)
    assert rates[2] < 0.95 * rates[0]


# --- speculative decoding


def test_published_ends_enclose_what_is_taken() -> None:
    found = accepted("deepseek-r1", 3)
    assert 2.44 < found.tree.tokens < 1 + 0.9 + 0.9**2 + 0.9**3
    low, high = (found.tree.tokens * np.exp(side * 1.2816 * found.log_sd) for side in (-1, 1))
    assert low == pytest.approx(2.44, rel=0.03)
    assert high == pytest.approx(3.439, rel=0.03)
    assert accepted("qwen3.5-397b-a17b", 3).log_sd == pytest.approx(found.log_sd)
    with pytest.raises(InputError, match="no acceptance"):
        accepted("llama-3.1-8b", 3)


@pytest.mark.parametrize(
    "flag",
    [
        "--speculative-num-steps 2 --speculative-num-draft-tokens 3",
        "speculative_config.num_nextn_predict_layers=2",
        "--num-speculative-tokens 2",
        '{"num_speculative_tokens": 2, "method": "mtp"}',
    ],
)
def test_each_engine_says_how_many_tokens_it_drafts(flag: str) -> None:
    assert drafted_row(0, {**DRAFTED, "server_args": flag}).length == 2


def test_drafts_that_are_not_said_are_refused() -> None:
    with pytest.raises(InputError, match="how many tokens"):
        drafted_row(0, {**DRAFTED, "server_args": "--tp 8"})
    with pytest.raises(InputError, match="eagle3"):
        drafted_row(0, {**DRAFTED, "speculation": "eagle3"})


@pytest.mark.slow
def test_without_drafted_tokens_a_row_is_a_plain_one() -> None:
    row = drafted_row(0, dict(DRAFTED))
    plain = known(row.row)
    logs, _ = profiles.load()
    found = predicted(replace(row, length=0))
    assert dict(found.predicted) == dict(plain.predicted(profile_of(plain, logs)))


@pytest.mark.slow
def test_drafting_makes_a_few_sequences_faster_and_less_sure() -> None:
    row = drafted_row(0, dict(DRAFTED))
    some, none = predicted(row), predicted(replace(row, length=0))
    rounds = accepted("deepseek-r1", 3).tree.tokens
    assert none.predicted["tpot_s"] / rounds < some.predicted["tpot_s"] < none.predicted["tpot_s"]
    assert some.log_sd["tpot_s"] > none.log_sd["tpot_s"]
    assert some.log_sd["ttft_s"] == none.log_sd["ttft_s"]


# --- MLPerf


def test_lengths_have_the_published_means() -> None:
    """But for what is cut at the longest."""
    published = {"llama-2-70b": 294.45, "llama-3.1-405b": 684.68, "deepseek-r1": 3886.23}
    for network, tokens in published.items():
        assert mean(DATASETS[network].output) == pytest.approx(tokens, rel=0.1)
        prompt = DATASETS[network].prompt
        assert isinstance(prompt, Lognormal)
        assert mean(prompt) < prompt.most


@pytest.mark.slow
def test_a_replica_is_as_submissions_state_it() -> None:
    """2 H100 and 1 H200: closed/NVIDIA/configs/llama2-70b of the results of v4.1."""
    for name, spelled in (("h100_sxm", "4 x tp2"), ("h200_sxm", "8 x tp1")):
        found = predicted(mlperf_row(0, {**MLPERF, "gpu": name}))
        assert spelled in found.basis
        assert "fp8 weights" in found.basis


def test_limits_cost_throughput_and_stricter_ones_more() -> None:
    modes = ("mlperf_offline", "mlperf_server", "mlperf_interactive")
    offline, server, interactive = (
        predicted(mlperf_row(0, {**MLPERF, "gpu": "h200_sxm", "mode": mode})).predicted
        for mode in modes
    )
    rates = [each["throughput_tok_s"] for each in (offline, server, interactive)]
    assert rates == sorted(rates, reverse=True)
    assert server["tpot_s"] < 0.2
    assert interactive["tpot_s"] < 0.04
    assert interactive["ttft_s"] < 0.45


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "mixtral-8x7b"}, "is not published"),
        ({"model": "gpt-oss-120b"}, "is not published"),
        ({"model": "deepseek-r1", "mode": "mlperf_interactive"}, "may draft"),
        ({"model": "llama-3.1-70b"}, "is not described"),
        ({"n_gpus": float("nan")}, "how many devices"),
    ],
)
def test_benchmarks_that_cannot_be_described_are_refused(
    changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        mlperf_row(0, {**MLPERF, **changes})


# --- all kinds


@pytest.mark.slow
def test_kinds_stay_apart() -> None:
    plain = {**POOLED, "mode": "steady_concurrency", "n_gpus": 1, "tp": 1, "quality": "ok"}
    rows = [plain, dict(POOLED), dict(DRAFTED), dict(MLPERF), {**plain, "quality": "wip"}]
    found = end_to_end(pd.DataFrame(rows), cross_validate=False)
    assert found.row_kind == ("ok", "disagg", "speculative", "mlperf_offline", "wip")
    assert found.predicted.all()
    assert not found.refused
    alone = end_to_end(pd.DataFrame([plain]), cross_validate=False)
    ok = found.figures(found.of_kind("ok"))["metrics"]
    assert ok["tpot_s"] == alone.figures()["metrics"]["tpot_s"]


def test_a_row_has_one_kind() -> None:
    assert kind_of({"mode": "disagg", "speculation": "mtp"}) == "disagg"
    assert kind_of({"mode": "steady_rate", "quality": "speculative"}) == "speculative"
