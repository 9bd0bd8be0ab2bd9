"""LoRA adapters in batches and in traffic: with and without them, and those that are loaded."""

from typing import Any

import numpy as np
import pytest

import roofline
from roofline.cost.adapters import Lora, hit_rate
from roofline.cost.step import outside_bytes_per_s
from roofline.errors import InputError
from roofline.hardware.catalog import gpu
from roofline.serving.adapters import load_s
from roofline.serving.run.serve import chosen, missed
from roofline.table import Result
from tests.serving.deployments import on

ONE = 2 * 41_943_040
"""An adapter of llama-3.1-8b of rank 16. [B]"""


def figures(result: Result, name: str = "adapters") -> dict[str, dict[str, Any]]:
    return {row["metric"]: row for row in result.tables[name].rows()}


@pytest.mark.slow
@pytest.mark.parametrize("calibration", ["auto", "none"])
def test_no_adapters_are_the_answer_that_there_was(calibration: str) -> None:
    asked: dict[str, Any] = {"batch": 4, "prompt": 500, "output": 20, "calibration": calibration}
    plain, none = roofline.analyze(**asked), roofline.analyze(**asked, adapters=0)
    assert plain.tables == none.tables
    assert plain.metadata == none.metadata
    assert plain.notes == none.notes
    assert "adapters" not in plain.tables


@pytest.mark.slow
def test_figures_without_adapters_are_those_of_the_network_alone() -> None:
    asked: dict[str, Any] = {"batch": 8, "prompt": 500, "output": 50}
    plain, some = roofline.analyze(**asked), roofline.analyze(**asked, adapters=6)
    with_, static = figures(some), figures(plain, "static_batch")
    for name in ("ttft_s", "tpot_s", "throughput_tok_s"):
        assert with_[name]["without"] == static[name]["value"]
        assert with_[name]["value"] == figures(some, "static_batch")[name]["value"]
    assert with_["tpot_s"]["value"] > with_["tpot_s"]["without"]
    ops = [row for row in some.tables["ops"].rows() if row["kind"] == "adapter"]
    added = sum(row["seconds"] for row in ops if row["phase"] == "decode")
    assert some.derivations["adapters_tpot"].value == pytest.approx(added)
    assert added == pytest.approx(with_["tpot_s"]["value"] - with_["tpot_s"]["without"], rel=1e-6)
    assert {row["basis"] for row in ops} == {"assumed"}
    # Twice the width of a kernel that was measured, at least.
    assert all(row["high_s"] / row["low_s"] > 3 for row in ops)


@pytest.mark.slow
def test_as_many_adapters_as_are_said_to_fit_do() -> None:
    asked: dict[str, Any] = {"batch": 32, "prompt": 2000, "output": 100}
    rows = roofline.analyze(**asked, adapters=3).tables["capacity"].rows()
    most = next(row["value"] for row in rows if "adapters" in row["limit"])
    assert roofline.analyze(**asked, adapters=most).metadata["fits"]
    over = roofline.analyze(**asked, adapters=most + 1).metadata
    assert not over["fits"]
    assert f"(`max_loras={most}`)" in over["summary"][0]
    assert roofline.analyze(**asked, adapters=most + 1, max_loras=most).metadata["fits"]


def test_a_miss_waits_for_the_bytes_of_an_adapter_over_the_wires_to_the_host() -> None:
    wire = gpu("h100-sxm").links["pcie"].bytes_per_s
    answer = roofline.analyze(batch=8, adapters=40, max_loras=10, adapter_skew=1.0)
    found, idle = figures(answer), figures(answer, "headline")["ttft_idle_s"]["value"]
    assert found["adapter_load_s"]["value"] == pytest.approx(ONE / wire)
    assert found["ttft_of_a_miss_s"]["value"] - idle == pytest.approx(ONE / wire)
    hit = hit_rate(40, 1.0, 10)
    assert found["adapter_hit_share"]["value"] == hit
    assert found["ttft_added_s"]["value"] == pytest.approx((1 - hit) * ONE / wire)
    # Devices load their parts side by side.
    shared = on("llama-3.1-70b", tp=4, lora=Lora(9, max_loras=2))
    alone = on("llama-3.1-70b", tp=2, lora=Lora(9, max_loras=2))
    assert load_s(alone) / 2 < load_s(shared) < load_s(alone)
    assert outside_bytes_per_s(alone) == wire


def test_requests_miss_what_a_list_of_the_last_adapters_has_not() -> None:
    lora = Lora(30, max_loras=6, adapter_skew=0.8)
    asked = np.asarray(np.random.default_rng(5).integers(0, 30, 400))
    there: list[int] = []
    for each in chosen(lora, 8 * 30, before=True).tolist():
        there = [each, *(other for other in there if other != each)][:6]
    by_hand = []
    for each in asked.tolist():
        by_hand.append(each not in there)
        there = [each, *(other for other in there if other != each)][:6]
    assert missed(lora, asked).tolist() == by_hand


def test_requests_of_a_run_miss_as_often_as_is_expected() -> None:
    """Requests before a run tell nothing of those in it."""
    lora = Lora(1000, max_loras=500)
    away = missed(lora, chosen(lora, 500))
    assert 1.0 - away.mean() == pytest.approx(hit_rate(1000, 0.0, 500), abs=0.06)


def test_choices_are_as_popular_as_zipf_says() -> None:
    drawn = np.bincount(chosen(Lora(4, adapter_skew=1.0), 50_000), minlength=4) / 50_000
    harmonic = 1 + 1 / 2 + 1 / 3 + 1 / 4
    assert drawn == pytest.approx([1 / n / harmonic for n in (1, 2, 3, 4)], abs=0.01)


@pytest.mark.slow
def test_traffic_waits_for_adapters_that_are_away_and_is_served_alike() -> None:
    """A load shifts a request; the steps of half as many requests stay."""
    asked: dict[str, Any] = {
        "rate": 4.0,
        "requests": 400,
        "prompt": 500,
        "output": 40,
        "with_intervals": False,
        "with_requests": True,
        "adapters": 40,
        "adapter_skew": 1.0,
        "max_sequences": 16,
    }
    all_there = roofline.simulate(**asked)
    some = roofline.simulate(**asked, max_loras=39)
    few = roofline.simulate(**asked, max_loras=10)
    shared = figures(some, "server")["adapter_loads"]["value"] / 400
    away = figures(few, "server")["adapter_loads"]["value"] / 400
    assert shared < away == pytest.approx(1 - hit_rate(40, 1.0, 10), abs=0.08)
    assert "adapter_loads" not in figures(all_there, "server")
    # One adapter less in memory, and no step that touches all of them: what differs are loads.
    before, after = (np.array(each.tables["requests"]["ttft_s"]) for each in (all_there, some))
    wire = gpu("h100-sxm").links["pcie"].bytes_per_s
    late = np.unique(np.round((after - before) / (ONE / wire), 3))
    assert set(late.tolist()) <= {0.0, 1.0}
    tpot = [np.array(each.tables["requests"]["tpot_s"]) for each in (all_there, some)]
    assert tpot[0] == pytest.approx(tpot[1])


@pytest.mark.slow
def test_a_batch_and_clients_that_ask_again_agree_on_what_adapters_cost() -> None:
    lengths: dict[str, Any] = {"prompt": 16, "output": 2000}
    asked: dict[str, Any] = {"adapters": 64, "lora_rank": 64}
    batch = roofline.analyze(batch=32, **lengths, **asked)
    clients = roofline.simulate(
        concurrency=32, requests=64, length_spread=0.0, with_intervals=False, **lengths, **asked
    )
    tpot = figures(clients, "headline")["tpot_s"]["mean"]
    assert tpot == pytest.approx(figures(batch, "static_batch")["tpot_s"]["value"], rel=0.01)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"samples": 2}, "`samples`"),
        ({"convention": "textbook"}, "`adapters`"),
    ],
)
def test_what_adapters_are_not_priced_with_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        roofline.analyze(adapters=4, **asked)


def test_drafts_beside_adapters_are_refused() -> None:
    with pytest.raises(InputError, match="drafts beside"):
        roofline.simulate(rate=1.0, adapters=4, draft="eagle", acceptance=0.7)
