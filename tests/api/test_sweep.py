"""Sweeps: rows are what the other questions answer, and what is kept is what it should be."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roofline
from roofline.api import sweep as swept
from roofline.api.sweeps import estimate
from roofline.errors import InputError, LayoutError, UnknownNameError
from roofline.records import replace
from roofline.study.sweep_result import Sweep
from roofline.table import Result
from tests.cases import cases
from tests.study.scenario.documents import BATCH, TRAFFIC, scenario

ENDED = ("ttft_s", "tpot_s", "latency_s", "throughput_tok_s", "user_tok_s", "usd_per_mtok")


def sweep(base: dict[str, Any], keep: str = "all", **changes: Any) -> Sweep:
    return swept(scenario(base, **changes), keep=keep, workers=1)


def row(found: Sweep, **where: Any) -> Mapping[str, Any]:
    frame = found.to_pandas()
    for name, value in where.items():
        frame = frame[frame[name] == value]
    assert len(frame) == 1
    return dict(frame.iloc[0])


def static(result: Result) -> dict[str, dict[str, Any]]:
    name = "static_batch" if "static_batch" in result.tables else "headline"
    return {entry["metric"]: entry for entry in result.tables[name].rows()}


@pytest.mark.slow
@pytest.mark.parametrize("calibration", cases(["auto"], ["auto", "none"]))
@pytest.mark.parametrize(
    ("model", "gpu", "layout", "weights", "technique"),
    [
        ("llama-3.1-8b", "h100-sxm", "tp2", "fp8", {"prefix_hit": 0.5}),
        ("mixtral-8x7b-v0.1", "a100-sxm", "tp2-pp2", "auto", {"prefill_batch": 2}),
        ("qwen3-32b", "h200-sxm", "tp2", "fp8", {"temperature": 0.7, "top_k": 40}),
        ("llama-3.1-8b", "h100-sxm", "tp2", "auto", {"adapters": 9, "adapter_skew": 1.0}),
        ("llama-3.1-8b", "l40s", "tp1", "q4_k_m", {}),
    ],
)
def test_a_row_is_what_analyze_says(
    model: str, gpu: str, layout: str, weights: str, technique: dict[str, Any], calibration: str
) -> None:
    found = sweep(
        BATCH,
        models=model,
        gpus=gpu,
        layouts=layout,
        weights=weights,
        techniques=technique,
        calibration=calibration,
        batch=[3, 16],
        prompt=700,
        output=50,
    )
    for batch in (3, 16):
        answer = roofline.analyze(
            model,
            gpu,
            layout=layout,
            weights=None if weights == "auto" else weights,
            batch=batch,
            prompt=700,
            output=50,
            calibration=calibration,
            **technique,
        )
        metrics, here = static(answer), row(found, batch=batch)
        for name in ENDED:
            assert here[name] == pytest.approx(metrics[name]["value"], rel=1e-9)
            if calibration == "auto":
                assert here[f"{name}_low"] == pytest.approx(metrics[name]["low"], rel=1e-9)
                assert here[f"{name}_high"] == pytest.approx(metrics[name]["high"], rel=1e-9)
            else:
                assert np.isnan(here[f"{name}_low"])
        assert here["joule_per_mtok"] == pytest.approx(metrics["joule_per_mtok"]["value"])
        parts = {p["part"]: p["bytes"] for p in answer.tables["memory"].rows()}
        assert here["free_bytes"] == pytest.approx(parts["free"])
        assert (here["gpu"], here["layout"]) == (gpu, layout)


@pytest.mark.slow
def test_a_row_with_drafts_is_what_speculate_says() -> None:
    speculation = {"draft": "eagle", "acceptance": 0.7, "length": 3}
    found = sweep(BATCH, techniques=["plain", {"name": "s", "speculation": speculation}], batch=8)
    answer = roofline.speculate(draft="eagle", acceptance=0.7, length=3, batch=8)
    metrics, here = static(answer), row(found, technique="s")
    for name in ("tpot_s", "ttft_s", "latency_s"):
        assert here[name] == pytest.approx(metrics[name]["value"])
    assert here["tpot_s_low"] < here["tpot_s"] < here["tpot_s_high"]
    assert here["tpot_s"] < row(found, technique="plain")["tpot_s"]
    assert here["free_bytes"] < row(found, technique="plain")["free_bytes"]


@pytest.mark.slow
def test_a_row_whose_requests_differ_is_their_mean() -> None:
    drafts: dict[str, Any] = {
        "draft": "eagle",
        "acceptance": 0.7,
        "acceptance_spread": 0.15,
        "length": 3,
    }
    found = sweep(BATCH, techniques={"name": "s", "speculation": drafts}, batch=8)
    answer = roofline.speculate(**drafts, batch=8)
    requests = {row["of"]: row for row in answer.rows("by_request")}
    mean = requests["mean of requests"]["tpot_s"]
    assert row(found, technique="s")["tpot_s"] == pytest.approx(mean)
    assert mean > requests["mean acceptance"]["tpot_s"]
    assert requests["p99 of TPOT"]["tpot_s"] > 1.3 * mean


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"ffn": "tp4", "microbatches": 2},
        {"ffn": "tp4", "microbatches": 2, "over": "link"},
        {"ffn": "tp4", "microbatches": 2, "ffn_over": "link"},
    ],
    ids=["whole", "apart", "caches over links", "activations over links"],
)
def test_a_row_of_pools_is_what_disaggregate_says(more: dict[str, Any]) -> None:
    pools = {"name": "p", "disaggregation": {"prefill": "tp1", **more}}
    found = sweep(BATCH, techniques=pools, layouts="tp2", batch=32, prompt=1000, output=200)
    answer = roofline.disaggregate(
        "llama-3.1-8b", prefill="tp1", decode="tp2", batch=32, prompt=1000, output=200, **more
    )
    metrics, here = static(answer), row(found)
    for name in ("ttft_s", "tpot_s", "latency_s", "throughput_tok_s", "usd_per_mtok"):
        assert here[name] == pytest.approx(metrics[name]["value"])
    assert here["gpus"] == answer.metadata["gpus_used"]


@pytest.mark.slow
def test_an_offload_takes_the_least_that_fits() -> None:
    found = sweep(
        BATCH,
        models="llama-3.1-70b",
        techniques=["plain", {"name": "least", "offload": {"weights": "auto"}}],
        batch=4,
    )
    answer = roofline.analyze("llama-3.1-70b", batch=4, offload_weights="auto")
    here = row(found, technique="least")
    assert here["tpot_s"] == pytest.approx(static(answer)["tpot_s"]["value"])
    assert here["feasible"]
    assert row(found, technique="plain")["limit"] == "memory"
    assert found.counts == {"feasible": 1, "memory": 1}


def test_patches_change_what_they_name_and_nothing_else() -> None:
    found = sweep(
        BATCH,
        patches=[
            {"name": "cheap", "price": 0.5},
            {"name": "big", "memory": "160 GiB"},
            {"name": "fast", "bandwidth": "6.7 TB/s"},
            {"name": "windows", "with": "window=512"},
            {"name": "fp8", "weights": "fp8", "kv": "fp8"},
        ],
        prices={"h100-sxm": 2},
        batch=16,
    )
    base = row(found, patch="base")
    cheap, big = row(found, patch="cheap"), row(found, patch="big")
    assert base["usd_per_mtok"] == pytest.approx(4 * cheap["usd_per_mtok"])
    assert cheap["tpot_s"] == base["tpot_s"] == big["tpot_s"]
    assert big["memory_bytes"] == base["memory_bytes"]
    assert big["free_bytes"] > base["free_bytes"] + 60 * 2.0**30
    assert row(found, patch="fast")["tpot_s"] < base["tpot_s"]
    assert row(found, patch="windows")["memory_bytes"] < base["memory_bytes"]
    eights = row(found, patch="fp8")
    assert (eights["weights"], eights["kv"], base["weights"]) == ("fp8", "fp8", "bf16")


STUDY: dict[str, Any] = {
    "models": ["llama-3.1-8b", "llama-3.1-70b"],
    "layouts": ["tp1", "tp2"],
    "weights": ["bf16", "fp8"],
    "batch": [1, 4, 64],
    "constraints": {"tpot_s": "20 ms"},
    "objectives": ["min usd_per_mtok", "max user_tok_s"],
}


def test_the_frontier_is_what_nothing_beats() -> None:
    every = sweep(BATCH, **STUDY).to_pandas()
    good = every[every.feasible]
    pairs = [(usd, -tokens) for usd, tokens in zip(good.usd_per_mtok, good.user_tok_s, strict=True)]
    beaten = [any(a <= x and b <= y and (a < x or b < y) for a, b in pairs) for x, y in pairs]
    expected = good[~np.array(beaten)]["index"].tolist()
    assert sweep(BATCH, "pareto", **STUDY).to_pandas()["index"].tolist() == expected
    assert 1 < len(expected) < len(good)


def test_each_model_has_a_frontier_of_its_own() -> None:
    study = {**STUDY, "constraints": {"tpot_s": "40 ms"}}
    alone = [
        sweep(BATCH, "pareto", **{**study, "models": model}).to_pandas()["usd_per_mtok"].tolist()
        for model in STUDY["models"]
    ]
    frame = sweep(BATCH, "pareto", **study, each="models").to_pandas()
    for model, expected in zip(STUDY["models"], alone, strict=True):
        assert expected
        assert frame[frame.model == model]["usd_per_mtok"].tolist() == pytest.approx(expected)
    best = sweep(BATCH, "top-1", **study, each=["models", "weights"]).to_pandas()
    assert best[["model", "weights"]].astype(str).to_numpy().tolist() == [
        ["llama-3.1-8b", "bf16"],
        ["llama-3.1-8b", "fp8"],
        ["llama-3.1-70b", "bf16"],
        ["llama-3.1-70b", "fp8"],
    ]


@pytest.mark.slow
def test_every_configuration_is_counted_once_whatever_is_kept() -> None:
    every = sweep(BATCH, **STUDY)
    frame = every.to_pandas()
    assert frame["index"].tolist() == list(range(24))
    assert every.counts == {
        **frame[~frame.feasible]["limit"].astype(str).value_counts().to_dict(),
        "feasible": int(frame.feasible.sum()),
    }
    assert {"memory", "tpot_s"} <= set(every.counts)
    for keep in ("feasible", "pareto", "top-3"):
        assert sweep(BATCH, keep, **STUDY).counts == every.counts
    feasible = frame[frame.feasible]
    expected = every.table.filter(every.table["feasible"]).to_pylist()
    assert sweep(BATCH, "feasible", **STUDY).table.to_pylist() == expected
    best = feasible.nsmallest(3, "usd_per_mtok")
    assert sweep(BATCH, "top-3", **STUDY).best()["index"].tolist() == best["index"].tolist()


@pytest.mark.slow
def test_chunks_and_workers_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sweep(BATCH, "pareto", **STUDY)
    monkeypatch.setattr(sys.modules["roofline.api.sweeps"], "chunk_size", lambda *_: 5)
    one, two = (swept(scenario(BATCH, **STUDY), workers=workers) for workers in (1, 2))
    assert one.table.equals(two.table)
    assert one.counts == two.counts == whole.counts
    for name in whole.table.column_names:
        found, expected = one.table[name].to_pylist(), whole.table[name].to_pylist()
        figure = isinstance(expected[0], float)
        assert found == (pytest.approx(expected, rel=1e-14) if figure else expected)


def test_what_cannot_be_says_why() -> None:
    found = sweep(BATCH, layouts=["tp1", "tp3"], batch=1, prompt=[2048, 200_000])
    assert found.counts == {"feasible": 1, "context": 1, "layout": 2}
    (reason,) = found.reasons
    assert "heads 32 cannot be divided by a degree of 3" in reason
    frame = found.to_pandas()
    assert frame[frame.limit == "layout"]["ttft_s"].isna().all()
    assert not frame[frame.limit == "layout"]["fits"].any()


def test_a_calibration_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="there is no calibration 'nope'"):
        sweep(BATCH, calibration="nope")


def test_cost_alone_is_no_objective_where_no_device_has_a_price() -> None:
    asked = {"gpus": ["mi325x"], "layouts": ["tp1"], "batch": 1, "prompt": 512}
    with pytest.raises(InputError, match="no price is known for mi325x, and the one objective is"):
        sweep(BATCH, "top-1", objectives=["min usd_per_mtok"], **asked)
    priced = sweep(BATCH, "top-1", objectives=["min usd_per_mtok"], prices={"mi325x": 4}, **asked)
    assert priced.to_pandas()["usd_per_mtok"].notna().all()


def test_what_does_not_go_with_a_technique_says_why() -> None:
    speculation = {"name": "s", "speculation": {"draft": "eagle", "acceptance": "0.7,0.6"}}
    found = sweep(BATCH, techniques=["plain", speculation], layouts=["tp1", "pp2"], batch=4)
    assert found.counts == {"feasible": 2, "technique": 1, "layout": 1}
    known, piped = found.reasons
    assert known.startswith("acceptance is known of 2 positions, the draft has more")
    assert "PP 2" in piped


@pytest.mark.slow
def test_every_layout_is_one_that_an_engine_of_the_sweep_has() -> None:
    asked: dict[str, Any] = {"models": "mixtral-8x7b-v0.1", "layouts": {"gpus": 4}, "batch": 8}
    assert set(sweep(BATCH, **asked, engines="llamacpp").to_pandas()["layout"]) == {"tp4", "pp4"}
    both = sweep(BATCH, **asked, engines=["llamacpp", "vllm"])
    assert row(both, engine="llamacpp", layout="dp4-ep4")["limit"] == "layout"
    assert row(both, engine="vllm", layout="dp4-ep4")["limit"] != "layout"


@pytest.mark.slow
def test_layouts_are_found() -> None:
    found = sweep(BATCH, models="mixtral-8x7b-v0.1", layouts={"gpus": 4}, batch=8)
    frame = found.to_pandas()
    assert (frame["gpus"] == 4).all()
    assert {"tp4", "tp2-pp2", "tp4-ep4", "tp2-dp2-ep4"} <= set(frame["layout"])
    assert len(set(frame["layout"])) == len(frame)
    best = sweep(BATCH, layouts={"gpus": [2, 4], "choose": "latency"}, batch=8)
    assert best.to_pandas()["layout"].tolist() == ["tp2", "tp4"]
    with pytest.raises(LayoutError):
        sweep(BATCH, models="falcon-mamba-7b", layouts={"gpus": 71})


def test_traffic_waits_more_as_more_comes() -> None:
    found = sweep(TRAFFIC, rate=[0.5, 1, 2, 4, 10_000], workloads="chat")
    frame = found.to_pandas()
    assert found.counts == {"feasible": 4, "saturation": 1}
    served = frame[frame.feasible]
    for name in ("ttft_s", "tpot_s", "utilisation", "output_tok_s"):
        assert served[name].is_monotonic_increasing
    assert served["usd_per_mtok"].is_monotonic_decreasing
    assert np.allclose(served["requests_per_s"], served["rate_per_s"])
    assert frame["gpus"].tolist() == [1] * 5


def test_clients_are_served_as_littles_law_says() -> None:
    lengths = {"name": "mine", "prompt": 500, "output": 100}
    found = sweep(TRAFFIC, rate=None, concurrency=[1, 8], workloads=lengths)
    frame = found.to_pandas()
    there = frame.requests_per_s * frame.latency_s
    assert there.tolist() == pytest.approx([1.0, 8.0])


def test_rows_of_traffic_have_intervals() -> None:
    names = ("ttft_s", "tpot_s", "latency_s", "output_tok_s", "saturation_per_s", "usd_per_mtok")
    loads: list[dict[str, Any]] = [{}, {"rate": None, "concurrency": [1, 32]}]
    for load in loads:
        frame = sweep(TRAFFIC, workloads="chat", **load).to_pandas()
        for name in names:
            assert (frame[f"{name}_low"] <= frame[name]).all(), name
            assert (frame[name] <= frame[f"{name}_high"]).all(), name
        for name in ("ttft_s", "tpot_s", "latency_s", "saturation_per_s"):
            assert (frame[f"{name}_low"] < frame[f"{name}_high"]).all(), name
        assert (frame["served_chance"] == 1.0).all()


@pytest.mark.slow
def test_an_interval_of_traffic_is_about_that_of_a_simulation() -> None:
    lengths = {"name": "mine", "prompt": 1000, "output": 100}
    found = row(sweep(TRAFFIC, rate=[4], workloads=lengths, engines="vllm"))
    made = roofline.simulate(
        "llama-3.1-8b", rate=4.0, prompt=1000, output=100, requests=3000, prefix_caching=False
    )
    for name in ("ttft_s", "tpot_s", "latency_s"):
        simulated = static(made)[name]
        for end in ("low", "high"):
            assert found[f"{name}_{end}"] == pytest.approx(simulated[f"mean_{end}"], rel=0.05)


@pytest.mark.slow
def test_limits_may_be_about_the_ends_of_traffic_and_its_chance() -> None:
    every = sweep(TRAFFIC, workloads="chat", rate=[1, 8, 14], keep="all")
    high = every.to_pandas()["tpot_s_high"].tolist()
    assert high == sorted(high)
    limit = {"tpot_s_high": (high[0] + high[1]) / 2.0}
    assert sweep(TRAFFIC, workloads="chat", rate=[1, 8, 14], constraints=limit).feasible == 1
    sure = {"served_chance": 0.9}
    close = sweep(TRAFFIC, workloads="chat", rate=[1, 19.25, 60], constraints=sure)
    assert close.counts == {"feasible": 1, "served_chance": 1, "saturation": 1}


def test_traffic_at_datasheet_rates_has_no_interval() -> None:
    frame = sweep(TRAFFIC, workloads="chat", calibration="none").to_pandas()
    assert frame["ttft_s"].notna().all()
    for name in ("ttft_s_low", "ttft_s_high", "saturation_per_s_low", "served_chance"):
        assert frame[name].isna().all()


def test_a_folder_is_gone_on_with_and_not_mixed_up(tmp_path: Path) -> None:
    asked = scenario(BATCH, **STUDY)
    first = swept(asked, out=tmp_path / "out", workers=1)
    assert first.path == tmp_path / "out" / "result.parquet"
    assert swept(asked, workers=1).table.equals(first.table, check_metadata=True)
    seen: list[int] = []
    again = swept(asked, out=tmp_path / "out", progress=lambda now: seen.append(now.done))
    assert again.table.equals(first.table)
    assert seen == [1]
    with pytest.raises(InputError, match="another sweep"):
        swept(asked, out=tmp_path / "out", keep="all")
    with pytest.raises(InputError, match="another sweep"):
        swept(replace(asked, said="other"), out=tmp_path / "out")


def test_an_estimate_prices_a_few() -> None:
    found = estimate(scenario(BATCH, batch={"from": 1, "to": 10**6, "step": 1}))
    assert found.configurations == found.points == 10**6
    assert found.lanes == 1
    assert found.seconds > 0
    assert found.bytes > 0


@pytest.mark.parametrize("keep", ["best", "top-0", "top-", "Pareto"])
def test_what_is_kept_is_one_of_four(keep: str) -> None:
    with pytest.raises(InputError, match="keep is"):
        sweep(BATCH, keep)


def test_what_was_not_measured_pushes_nothing_measured_off_the_frontier() -> None:
    both = ["h100-sxm", "gaudi3"]
    asked = {"batch": [1, 8, 64], "objectives": ["min usd_per_mtok", "min tpot_s"]}
    alone = sweep(BATCH, "pareto", gpus="h100-sxm", prices={"h100-sxm": 3.0}, **asked).to_pandas()
    prices = {"h100-sxm": 3.0, "gaudi3": 0.01}
    found = sweep(BATCH, "pareto", gpus=both, prices=prices, **asked)
    rows = found.to_pandas()
    measured = rows[rows["gpu"] == "h100-sxm"]
    assert measured["usd_per_mtok"].tolist() == alone["usd_per_mtok"].tolist()
    assert "gaudi3" in set(rows["gpu"])
    assert rows["usd_per_mtok"].idxmin() in rows[rows["gpu"] == "gaudi3"].index
    assert found.best(len(alone))["gpu"].unique().tolist() == ["h100-sxm"]


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["all", "feasible", "top-100"])
def test_rows_of_several_row_groups_are_told_apart(
    keep: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("roofline.study.store.parts.ROWS", 5)
    asked = scenario(BATCH, **STUDY, gpus=["h100-sxm", "gaudi3"])
    whole, kept = swept(asked, keep=keep, workers=1), swept(asked, keep=keep, out=tmp_path / "out")
    assert whole.rows > 10
    assert whole.notes == kept.notes
    assert any("gaudi3" in note for note in kept.notes)
    for some in (0, 7):
        assert whole.best(some)["index"].tolist() == kept.best(some)["index"].tolist()
    assert whole.result().tables == kept.result().tables


def test_a_sweep_without_a_folder_writes_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("a folder that a kill would leave behind")

    expected = sweep(BATCH, "top-5", **STUDY).table
    monkeypatch.setattr(os, "mkdir", refused)
    assert sweep(BATCH, "top-5", **STUDY).table.equals(expected)
