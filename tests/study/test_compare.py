"""Variants side by side: their figures are those of an analysis, their reasons are computed."""

import csv
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline import api
from roofline.cost.textbook.training import calibration_flops, distillation_flops, training_flops
from roofline.errors import InputError, LayoutError, MissingRateError, RooflineError
from roofline.hardware.catalog import gpu
from roofline.model import catalog, parameters
from roofline.study.figures import cause
from roofline.table import Result
from tests.cases import examples

GOLDEN: Final = Path(__file__).parent.parent / "golden" / "golden.csv"
LECTURE: Final[dict[str, Any]] = {
    "convention": "textbook",
    "prompt": 1024,
    "output": 1,
    "weights": "bf16",
}


def rows(result: Result) -> list[dict[str, Any]]:
    return list(result.tables["variants"].rows())


def why(result: Result, number: int = 0) -> str:
    text = result.tables["why"]["why"][number]
    assert isinstance(text, str)
    return text


def lecture_points() -> dict[str, float]:
    with GOLDEN.open(encoding="utf-8", newline="") as file:
        return {
            row["id"].removeprefix("cs336-l10-13b-"): float(row["usable_value"])
            for row in csv.DictReader(file)
            if row["id"].startswith("cs336-l10-13b-")
        }


POINTS: Final = lecture_points()


@pytest.mark.parametrize(("batch", "heads"), [(1, 40), (64, 40), (256, 40), (64, 8)], ids=str)
def test_the_lectures_numbers_come_out_for_mha_and_gqa(batch: int, heads: int) -> None:
    """Stanford CS336 (2025) lecture 10: Llama-2-13B on an H100, S = 1024, bf16."""
    point = f"B{batch}-K{heads}"
    found = rows(api.compare("llama-2-13b", [f"gqa={heads}"], batch=batch, **LECTURE))
    base, variant = found
    assert variant["memory_bytes"] == pytest.approx(POINTS[f"{point}-mem"], rel=1e-9)
    assert variant["tpot_s"] == pytest.approx(POINTS[f"{point}-lat"], rel=1e-9)
    assert variant["throughput_tok_s"] == pytest.approx(POINTS[f"{point}-thr"], rel=1e-9)
    assert variant["parameters"] == POINTS[f"K{heads}-params"]
    assert base["parameters"] == POINTS["K40-params"]
    assert base["kv_bytes_per_token"] * 1024 == POINTS["kvseq"]


def test_the_lecture_compares_mha_and_gqa_at_one_batch() -> None:
    result = api.compare("llama-2-13b", ["gqa=8"], batch=64, **LECTURE)
    said = why(result)
    assert said.startswith("KV cache per token 819,200 → 163,840 B")
    assert "8 of 40 key/value heads" in said
    assert "TPOT × 0.42 because decode was bound by reading the KV cache" in said


SAME: Final = ("ttft_s", "tpot_s", "throughput_tok_s", "usd_per_mtok")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "asked"),
    [
        ("batch=32", {"batch": 32}),
        ("weights=int4-awq", {"weights": "int4-awq"}),
        ("kv=fp8", {"kv": "fp8"}),
        ("tp=2", {"tp": 2}),
        ("gpu=a100-sxm", {"gpu": "a100-sxm"}),
        ("student=llama-2-7b", {"model": "llama-2-7b"}),
        ("weights=fp16-2:4", {"weights": "fp16-2:4"}),
        ("weights=fp8,kv=fp8,tp=2,batch=8", {"weights": "fp8", "kv": "fp8", "tp": 2, "batch": 8}),
    ],
)
def test_base_and_variant_are_what_an_analysis_of_each_gives(
    change: str, asked: dict[str, Any]
) -> None:
    result = api.compare("llama-2-13b", [change], prompt=512, output=64)
    alone = {"model": "llama-2-13b", "prompt": 512, "output": 64}
    for row, question in zip(rows(result), (alone, {**alone, **asked}), strict=True):
        analysed = api.analyze(**question)
        metrics, lasting = (
            {entry["metric"]: entry["value"] for entry in analysed.tables[name].rows()}
            for name in ("static_batch", "headline")
        )
        assert {name: row[name] for name in SAME} == {name: metrics[name] for name in SAME}
        assert row["ttft_idle_s"] == lasting["ttft_idle_s"]
        assert row["tpot_steady_s"] == lasting["tpot_steady_s"]
        assert row["steady_tok_s"] == pytest.approx(lasting["throughput_tok_s"])
        assert row["steady_usd_per_mtok"] == pytest.approx(lasting["usd_per_mtok"])
        held = {entry["part"]: entry["bytes"] for entry in analysed.tables["memory"].rows()}
        assert (row["weight_bytes"], row["kv_bytes"]) == (held["weights"], held["KV cache"])
        assert row["largest_batch"] == analysed.tables["capacity"]["value"][0]
        assert row["fits"] == analysed.metadata["fits"]


@pytest.mark.slow
@pytest.mark.parametrize("rates", ["none", "auto"])
@settings(deadline=None, max_examples=examples(25))
@given(size=st.integers(320, 10_000))
def test_a_window_as_long_as_the_context_changes_no_figure(rates: str, size: int) -> None:
    result = api.compare(
        "llama-3.1-8b", [f"window={size}"], prompt=300, output=20, calibration=rates
    )
    base, variant = rows(result)
    for name in (*SAME, "kv_bytes", "weight_bytes", "largest_batch"):
        assert variant[name] == pytest.approx(base[name], rel=1e-12)


SIZES: Final = [f"window={2**power}" for power in range(4, 14)]


@pytest.mark.slow
def test_a_larger_window_never_keeps_less() -> None:
    kept = [row["kv_bytes"] for row in rows(api.compare("llama-3.1-8b", SIZES, prompt=4096))[1:]]
    assert kept == sorted(kept)
    assert kept[0] < kept[-1]


def test_shared_caches_are_read_as_often_as_own_ones() -> None:
    result = api.compare("llama-2-13b", ["cla=2", "gqa=20"], calibration="none")
    base, shared, grouped = rows(result)
    assert shared["kv_bytes"] == grouped["kv_bytes"] == base["kv_bytes"] / 2
    assert shared["tpot_s"] > 1.2 * grouped["tpot_s"]
    assert "the cache is read as much as before" in why(result)
    assert "the cache is read" not in why(result, 1)


def test_half_the_weights_and_places_are_read_and_twice_the_rate_is_used() -> None:
    changes = ["sparsity=2:4", "sparsity=0.5"]
    result = api.compare("llama-2-13b", changes, batch=1, prompt=2048, engine="ideal")
    base, pattern, scattered = rows(result)
    matrices = 40 * (4 * 5120**2 + 3 * 5120 * 13824)
    saved = matrices * (2 - 9 / 8)
    assert base["weight_bytes"] - pattern["weight_bytes"] == saved
    assert scattered["weight_bytes"] == pattern["weight_bytes"]
    assert scattered["ttft_s"] == pytest.approx(base["ttft_s"], rel=0.05)
    assert pattern["ttft_s"] < 0.65 * base["ttft_s"]
    assert "9 bits" in why(result)


def test_what_does_not_fit_is_a_row_and_not_an_error() -> None:
    result = api.compare("llama-3.1-70b", ["weights=int4", "tp=4"])
    assert [row["fits"] for row in rows(result)] == [False, True, True]
    assert "now it fits" in why(result)
    assert result.metadata["fits"]
    assert not api.compare("llama-3.1-70b", ["kv=fp8"]).metadata["fits"]


@pytest.mark.slow
def test_replicas_count_for_all_devices() -> None:
    result = api.compare("llama-3.1-8b", ["tp=1", "tp=2"], gpus=4)
    four, one, two = rows(result)
    assert [row["gpus"] for row in (four, one, two)] == [4, 4, 4]
    single = rows(api.compare("llama-3.1-8b", ["tp=1"]))[0]
    assert one["throughput_tok_s"] == pytest.approx(4 * single["throughput_tok_s"])
    assert one["usd_per_mtok"] == pytest.approx(single["usd_per_mtok"])
    with pytest.raises(LayoutError, match="`changes` tp=8"):
        api.compare("llama-3.1-8b", ["tp=8"], gpus=4)


def test_factors_are_new_over_old() -> None:
    result = api.compare("llama-3.1-8b", ["batch=64", "weights=fp8"])
    base, *others = rows(result)
    for row, factor in zip(others, result.tables["factors"].rows(), strict=True):
        for name in SAME:
            assert factor[name] == row[name] / base[name]


def test_a_single_token_has_no_time_between_tokens() -> None:
    result = api.compare("llama-3.1-8b", ["weights=fp8"], output=1)
    assert "TPOT" not in why(result)
    assert result.tables["factors"]["tpot_s"] == (1.0,)


def test_the_cause_is_what_moved_most_the_way_the_whole_did() -> None:
    before = {"weights": 4.0, "KV cache": 5.0, "arithmetic": 1.0}
    after = {"weights": 1.0, "KV cache": 4.0, "arithmetic": 3.0}
    found = cause(before, after)
    assert found is not None
    assert (found.part, found.share, found.seconds, found.leading) == ("weights", 0.4, -3.0, False)
    slower = cause(after, before)
    assert slower is not None
    assert (slower.part, slower.seconds) == ("weights", 3.0)
    assert cause(before, before) is None
    assert cause({}, {}) is None


def test_a_reason_never_contradicts_its_factor() -> None:
    changes = ["gqa=1", "weights=int4", "batch=128", "gpu=a100-sxm", "gpu=b200-sxm", "mla=2048"]
    result = api.compare(
        "llama-3.1-8b", [*changes, "experts=4/2", "layers=8", "kv=fp8"], rank="static"
    )
    for row, factor in zip(
        result.tables["why"].rows(), result.tables["factors"].rows(), strict=True
    ):
        for name, key in (("TPOT", "tpot_s"), ("TTFT", "ttft_s")):
            _, found, rest = row["why"].partition(f"{name} × ")
            if not found:
                assert factor[key] == pytest.approx(1, abs=0.005)
                continue
            clause = rest.partition(";")[0].rstrip(".")
            assert clause.startswith(f"{factor[key]:.2f} because ")
            assert clause.endswith("more" if factor[key] > 1 else "less")


@pytest.mark.slow
def test_training_is_by_closed_form_and_only_for_what_needs_it() -> None:
    changes = ["gqa=8", "layers=20", "weights=int4", "sparsity=2:4", "batch=32", "kv=fp8"]
    result = api.compare("llama-2-13b", changes, training_tokens=1e9)
    found = list(result.tables["training"].rows())
    assert [row["variant"] for row in found] == [
        "gqa=8",
        "layers=20",
        *["weights=int4"] * 2,
        *["sparsity=2:4"] * 2,
    ]
    whole = parameters.total(catalog.architecture("llama-2-13b"))
    half = whole - 20 * (4 * 5120**2 + 3 * 5120 * 13824 + 2 * 5120)
    flops = {(row["variant"], row["method"]): row["flops"] for row in found}
    assert flops["layers=20", "distillation from the base"] == 6e9 * half + 2e9 * whole
    assert flops["weights=int4", "post-training quantisation"] == 2 * whole * 128 * 2048
    assert flops["weights=int4", "quantisation-aware training"] == 6e9 * whole
    assert "training" not in api.compare("llama-2-13b", ["gqa=8"]).tables


def test_a_mixture_trains_the_experts_a_token_meets() -> None:
    result = api.compare("mixtral-8x7b-v0.1", ["gqa=4"], tp=2, training_tokens=1e9)
    network = catalog.architecture("mixtral-8x7b-v0.1")
    fewer = 32 * 2 * 4096 * 4 * 128
    active = parameters.active(network)["all"] - fewer
    assert result.tables["training"]["flops"] == (6e9 * active,)


@given(*[st.integers(1, 10**12)] * 3)
def test_distillation_is_training_the_student_and_reading_the_teacher(
    student: int, teacher: int, tokens: int
) -> None:
    exact = 6 * student * tokens + 2 * teacher * tokens
    assert distillation_flops(student, teacher, tokens) == pytest.approx(exact, rel=1e-12)
    assert training_flops(student, tokens) == pytest.approx(6 * student * tokens, rel=1e-12)
    assert calibration_flops(teacher, tokens) == pytest.approx(2 * teacher * tokens, rel=1e-12)


def test_the_output_says_that_accuracy_is_not_its_subject() -> None:
    result = api.compare("llama-2-13b", ["mqa"])
    assert result.notes[0].startswith("Accuracy is out of scope")
    assert result.metadata["accuracy"] == "out of scope"
    assert not any("second figure" in note for note in result.notes)


@pytest.mark.slow
def test_a_variant_is_compared_with_the_base_and_not_with_the_one_before() -> None:
    alone = rows(api.compare("llama-2-13b", ["mqa"]))[1]
    after_others = rows(api.compare("llama-2-13b", ["window=64", "batch=1", "mqa"]))[3]
    assert alone == after_others


def test_the_base_may_be_compressed_already() -> None:
    base, student = rows(api.compare("llama-2-13b", ["student=llama-2-7b"], weights="fp8"))
    assert base["weight_bytes"] < 14e9
    assert student["weight_bytes"] < 8e9


@pytest.mark.parametrize("change", ["mla=512", "cla=2", "window=64", "local=64/2", "sparsity=2:4"])
def test_closed_forms_refuse_what_they_do_not_see(change: str) -> None:
    with pytest.raises(InputError, match="textbook forms do not see"):
        api.compare("llama-2-13b", [change], **LECTURE)


@pytest.mark.parametrize(
    ("change", "kind"),
    [("gqa=7", InputError), ("sparsity=2:4,gpu=v100-sxm", MissingRateError), ("tp=3", LayoutError)],
)
def test_an_error_names_the_variant_and_keeps_its_kind(
    change: str, kind: type[RooflineError]
) -> None:
    with pytest.raises(kind) as caught:
        api.compare("llama-2-13b", ["mqa", change])
    assert caught.value.message.startswith(f"`changes` {change}: ")
    assert caught.value.hint


def test_one_change_may_be_given_by_itself() -> None:
    one = api.compare("llama-3.1-8b", "gqa=4", calibration="none")
    assert rows(one) == rows(api.compare("llama-3.1-8b", ["gqa=4"], calibration="none"))


def test_nothing_to_compare_with_is_an_error() -> None:
    with pytest.raises(InputError, match="nothing to compare"):
        api.compare("llama-2-13b", [])


@pytest.mark.parametrize("tokens", [0.0, -1.0, float("nan"), float("inf"), 1e300])
def test_tokens_that_cannot_be_are_refused(tokens: float) -> None:
    with pytest.raises(InputError, match="training tokens"):
        api.compare("llama-2-13b", ["mqa"], training_tokens=tokens)


def test_patched_networks_can_be_base_and_student() -> None:
    base, student = rows(api.compare("llama-3-70b-mla", ["student=llama-3-70b"], tp=4))
    assert base["kv_bytes_per_token"] == 80 * 2 * (512 + 64)
    assert student["kv_bytes_per_token"] == 80 * 2 * 2 * 8 * 128


def test_a_gpu_of_ones_own_is_a_base_too() -> None:
    result = api.compare(catalog.architecture("llama-2-7b"), ["mqa"], gpu("a100-sxm"))
    assert result.metadata["gpu"] == "a100-sxm"


@pytest.mark.slow
def test_a_measured_device_and_one_that_is_not_are_compared_at_published_rates() -> None:
    """A forecast for one and the least that is possible for the other would be no comparison."""
    mixed = api.compare("llama-3.1-8b", ["gpu=gaudi3", "weights=fp8"], gpu="h100-sxm")
    bare = api.compare(
        "llama-3.1-8b", ["gpu=gaudi3", "weights=fp8"], gpu="h100-sxm", calibration="none"
    )
    assert [row["tpot_s"] for row in rows(mixed)] == [row["tpot_s"] for row in rows(bare)]
    assert mixed.metadata["basis"] == "datasheet"
    assert any("Gaudi 3" in note and "published rates" in note for note in mixed.notes)
    alike = api.compare("llama-3.1-8b", ["gpu=a100-sxm"], gpu="h100-sxm")
    assert alike.metadata["basis"] == "calibrated"


def test_a_device_without_a_price_has_no_cost_and_no_factor_of_it() -> None:
    made = api.compare("llama-3.1-8b", ["gpu=mi325x", "batch=32"], gpu="h100-sxm")
    base, unpriced, priced = rows(made)
    named = [name for name in base if "usd_per_mtok" in name]
    assert named
    assert all(unpriced[name] is None for name in named)
    assert all(base[name] > 0 and priced[name] > 0 for name in named)
    assert made.tables["factors"]["usd_per_mtok"][0] is None
