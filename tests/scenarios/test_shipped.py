"""Every scenario that ships runs, and finds what is known of it."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from roofline.api import sweep
from roofline.study.scenario.reading import scenario_named, scenario_names
from roofline.study.sweep_result import BestRows, Sweep

pytestmark = pytest.mark.slow


@cache
def found(name: str) -> Sweep:
    """All configurations of a scenario."""
    return sweep(name, keep="all", workers=1)


def frame(name: str, **where: Any) -> Any:
    """Rows of a scenario, some of them."""
    out: Any = found(name).to_pandas()
    for column in out.select_dtypes("category").columns:
        out[column] = out[column].astype(str)
    for column, value in where.items():
        out = out[out[column] == value]
    assert len(out)
    return out


def across(rows: Any, column: str, figure: str) -> Any:
    """A figure with a column for each value of one of the names or numbers, other things equal."""
    others = ["model", "gpu", "layout", "weights", "kv", "engine", "technique", "patch"]
    others += ["batch", "prompt", "output", "workload", "policy", "rate_per_s", "concurrency"]
    index = [name for name in others if name in rows and name != column]
    return rows.pivot(index=index, columns=column, values=figure)


@pytest.mark.parametrize("name", scenario_names())
def test_a_scenario_is_called_as_its_file_and_counts_to_its_size(name: str) -> None:
    every = found(name)
    assert every.scenario.name == name
    assert sum(every.counts.values()) == every.configurations == len(every.table)
    assert every.feasible == int(np.sum(every.table["feasible"].to_numpy()))
    assert every.feasible


@pytest.mark.parametrize("name", scenario_names())
def test_along_the_frontier_one_objective_is_paid_for_with_the_other(name: str) -> None:
    wanted = scenario_named(name).objectives
    good = frame(name, feasible=True)
    kept = BestRows("pareto", wanted)(found(name).table).to_pandas()
    every, front = (
        np.stack([rows[each.column] * (-1.0 if each.largest else 1.0) for each in wanted], axis=1)
        for rows in (good, kept)
    )
    assert len(front)
    no_worse = (every[:, None, :] <= front[None, :, :]).all(axis=2)
    better = (every[:, None, :] < front[None, :, :]).any(axis=2)
    assert not (no_worse & better).any()
    order = np.lexsort(front.T[::-1])
    if len(wanted) == 2:
        assert (np.diff(front[order, 0]) >= 0).all()
        assert (np.diff(front[order, 1]) <= 0).all()


def test_chat_costs_less_and_waits_longer_as_more_comes() -> None:
    rows = frame("chat")
    served = rows[rows.limit != "saturation"]
    for _, lane in served.groupby(["gpu", "weights"]):
        assert lane.usd_per_mtok.is_monotonic_decreasing
        assert lane.ttft_s.is_monotonic_increasing
        assert lane.tpot_s.is_monotonic_increasing
    most = served.groupby(["gpu", "weights"]).saturation_per_s.first().unstack()
    assert most.loc["h100-sxm", "fp8"] > most.loc["h100-sxm", "bf16"]
    assert most.loc["h100-sxm", "bf16"] > most.loc["a100-sxm", "bf16"] > most.loc["l40s", "bf16"]


def test_one_in_a_hundred_waits_longer_than_the_mean() -> None:
    for name in ("chat", "clients"):
        rows = frame(name)
        served = rows[rows.limit != "saturation"]
        assert (served.ttft_p99_s >= served.ttft_s).all()
        assert (served.tpot_p99_s >= served.tpot_s * (1 - 1e-9)).all()
        assert (rows.saturation_per_s > 0).all()


def test_clients_share_what_a_replica_serves() -> None:
    rows = frame("clients")
    # Little's law.
    assert (rows.requests_per_s * rows.latency_s / rows.concurrency - 1.0).abs().max() < 1e-9
    for _, lane in rows.groupby(["gpu", "engine"]):
        assert lane.tpot_s.iloc[1:].is_monotonic_increasing  # of one client it is within a percent
        assert lane.output_tok_s.is_monotonic_increasing
    tpot = across(rows, "gpu", "tpot_s")
    assert (tpot["h100-sxm"] < tpot["a100-sxm"]).all()


def test_completions_gain_by_cached_prefixes_first_and_drafts_then() -> None:
    rows = frame("code-completion")
    ttft, tpot = across(rows, "technique", "ttft_s"), across(rows, "technique", "tpot_s")
    gain = ttft["plain"] / ttft["cached prefix"]
    # The front end of an engine takes as long for one prompt whatever is cached.
    assert (gain.drop(1, level="batch") > 3).all()
    assert (gain.xs(1, level="batch") > 1.8).all()
    assert (tpot["cached prefix, n-grams"] < tpot["plain"] / 1.5).all()
    assert (tpot["cached prefix"] == tpot["plain"]).all()


def test_retrieval_gains_what_is_cached() -> None:
    ttft = across(frame("rag"), "technique", "ttft_s")
    assert (ttft["prefix 0.9"] < ttft["prefix 0.5"]).all()
    assert (ttft["prefix 0.5"] < ttft["plain"]).all()


def test_long_contexts_fit_where_a_network_keeps_little() -> None:
    rows = frame("long-context")
    memory = across(rows[rows.layout == "tp1"], "model", "memory_bytes")
    grown = memory.xs(8, level="batch") - memory.xs(1, level="batch")
    assert (grown["nvidia-nemotron-nano-9b-v2"] < grown["llama-3.1-8b"] / 2).all()
    assert (grown["gemma-3-12b"] < grown["llama-3.1-8b"]).all()
    kv = across(rows[rows.model == "llama-3.1-8b"], "kv", "memory_bytes")
    assert (kv["fp8"] < kv["bf16"]).all()
    assert set(
        rows[(rows.model == "nvidia-nemotron-nano-9b-v2") & (rows.layout == "cp2")].limit
    ) == {"layout"}


def test_reasoning_is_faster_on_more_bandwidth() -> None:
    rows = frame("reasoning")
    tpot = across(rows[rows.limit != "memory"], "gpu", "tpot_s").dropna()
    assert (tpot["b200-sxm"] < tpot["h200-sxm"]).all()
    for _, lane in rows.groupby(["model", "gpu", "layout"]):
        assert lane.throughput_tok_s.is_monotonic_increasing


def test_a_nightly_batch_is_cheapest_in_a_layout_that_fits_much() -> None:
    rows = frame("batch")
    tpot = across(rows[rows.limit == ""], "gpu", "tpot_s").dropna()
    assert (tpot["h100-sxm"] < tpot["a100-sxm"]).all()
    kept = sweep("batch", workers=1)
    least = rows[rows.feasible].usd_per_mtok.min()
    assert len(kept.table) == 20
    assert kept.best().usd_per_mtok.iloc[0] == least
    assert set(rows.gpus) == {2, 4, 8}


def test_rollouts_gain_by_larger_batches_until_memory_is_full() -> None:
    rows = frame("rl-rollouts")
    fitting = rows[rows.feasible]
    for _, lane in fitting.groupby(["model", "layout", "kv", "prompt"]):
        assert lane.throughput_per_gpu_tok_s.is_monotonic_increasing
    fits = across(rows[rows.limit != "layout"], "kv", "feasible")
    assert (fits["fp8"] >= fits["bf16"]).all()
    assert (fits["fp8"] > fits["bf16"]).any()
    assert set(zip(rows.prompt, rows.output, strict=True)) == {(512, 2048), (1024, 4096)}


def test_a_mixture_is_fast_in_small_batches_and_reads_more_in_larger_ones() -> None:
    tpot = across(frame("moe-vs-dense"), "model", "tpot_s").droplevel(
        ["gpu", "layout", "weights", "kv", "engine", "technique", "prompt", "output"]
    )
    assert tpot.loc[1, "qwen3-30b-a3b"] < tpot.loc[1, "qwen3-32b"] / 3
    growth = tpot.loc[16] / tpot.loc[1] - 1.0
    assert growth["qwen3-30b-a3b"] > 5 * growth["qwen3-32b"]
    assert growth["mixtral-8x7b-v0.1"] > 5 * growth["yi-34b"]


def test_smaller_weights_are_read_faster_but_not_always_multiplied_faster() -> None:
    rows = frame("quantisation")
    tpot = across(rows[rows.gpu == "h100-sxm"], "weights", "tpot_s")
    assert (tpot["fp8"] <= tpot["bf16"]).all()
    assert (tpot["int4"].xs(1, level="batch") < tpot["fp8"].xs(1, level="batch")).all()
    ttft = across(rows, "weights", "ttft_s")
    fast, slow = (ttft.xs(gpu, level="gpu") for gpu in ("h100-sxm", "a100-sxm"))
    assert (fast["fp8"] < fast["bf16"]).all()
    assert (slow["fp8"] >= 0.95 * slow["bf16"]).all(), "an A100 multiplies them in 16 bits"
    memory = across(rows, "weights", "memory_bytes")
    assert (memory["int4"] < memory["fp8"]).all()
    assert (memory["fp8"] < memory["bf16"]).all()


def test_ways_to_shrink_a_cache_shrink_it() -> None:
    rows = frame("attention")
    memory = across(rows, "model", "memory_bytes")
    for small, large in (
        ("MQA", "GQA 8"),
        ("GQA 8", "MHA"),
        ("MLA 512", "MHA"),
        ("CLA 2", "MHA"),
        ("CLA 2 with GQA 8", "GQA 8"),
    ):
        assert (memory[small] < memory[large]).all()
    long = memory.xs(3584, level="prompt")
    assert (long["window 1024"] < long["local 1024 of 6"]).all()
    assert (long["local 1024 of 6"] < long["MHA"]).all()
    # A window that is longer than the context is no window.
    tpot = across(rows, "model", "tpot_s")
    short = tpot.xs(512, level="prompt")
    assert (short["window 1024"] == short["MHA"]).all()
    far = tpot.xs(3584, level="prompt")
    assert (far["window 1024"].xs(64, level="batch") < far["MHA"].xs(64, level="batch")).all()


def test_newer_gpus_are_faster_and_larger_ones_hold_more() -> None:
    rows = frame("gpus")
    tpot = across(rows, "gpu", "tpot_s")
    assert (tpot["h200-sxm"] < tpot["h100-sxm"]).all()
    assert (tpot["h100-sxm"] < tpot["a100-sxm"]).all()
    two = across(rows[(rows.layout == "tp2") & (rows.batch == 256)], "gpu", "fits").iloc[0]
    assert two.to_dict() == {"a100-sxm": False, "h100-sxm": False, "h200-sxm": True}


def test_pools_of_their_own_keep_first_tokens_fast() -> None:
    rows = frame("disaggregation")
    ttft = across(rows, "technique", "ttft_s")
    assert (ttft["prefill on H100 tp4"] < ttft["together"]).all()
    pools = rows[rows.technique != "together"]
    one = across(pools, "batch", "ttft_s")
    step = across(pools, "batch", "tpot_s")
    # A first token leaves the decode instance at the end of its first step, long as the mean one.
    waited = (one[64] - one[16]) - (step[64] - step[16])
    assert (waited.abs() < 0.002 * step[64]).all(), "prompts wait for those that decode"
    tpot = across(rows, "technique", "tpot_s")
    # The prefill's token and that of the first decode step reach the client at once: of 511 gaps
    # between 512 tokens, 510 take a step.
    assert np.allclose(tpot["prefill on H100 tp4"] / tpot["together"], 510 / 511, rtol=1e-4)
    assert (rows[rows.technique == "prefill on H100 tp8"].gpus > 8).all()


def test_drafts_gain_less_and_less_as_batches_grow() -> None:
    rows = frame("speculation")
    tpot = across(rows, "technique", "tpot_s").reset_index("batch")
    gain = tpot["plain"] / tpot["EAGLE × 3"]
    assert gain.iloc[0] > 1.5
    assert gain.iloc[-1] < gain.iloc[0]
    assert (tpot["EAGLE × 3"].iloc[:4] < tpot["EAGLE × 1"].iloc[:4]).all()
    assert (tpot["EAGLE × 3"] < tpot["llama-3.2-1b × 3"]).all()


def test_memory_buys_batch_and_a_price_buys_nothing_else() -> None:
    rows = frame("what-if-gpu")
    fits = rows[rows.fits].groupby("patch").batch.max()
    assert fits["141 GB"] > fits["base"]
    assert fits["fp8 cache"] >= fits["base"]
    assert fits["at 1.50 $/h"] == fits["base"]
    plain = rows[rows.kv == "bf16"]
    tpot = across(plain, "patch", "tpot_s")
    assert (tpot["141 GB"] == tpot["base"]).all()
    usd = across(plain, "patch", "usd_per_mtok")
    ratio = usd["at 1.50 $/h"] / usd["base"]
    assert np.allclose(ratio, ratio.iloc[0])


def test_every_layout_on_eight_gpus_is_tried_once() -> None:
    rows = frame("layouts")
    assert set(rows.gpus) == {8}
    assert (rows.tp * rows.cp * rows.dp * rows.pp == 8).all()
    assert not rows.duplicated(["layout", "batch"]).any()
    assert {"tp8-ep8", "dp8-ep8", "tp4-dp2-ep8", "pp8", "tp8-ep4"} <= set(rows.layout)
