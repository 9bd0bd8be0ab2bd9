"""Intervals of runs: laws, figures by hand, and how often they hold what comes."""

from math import exp, log
from typing import Any

import numpy as np
import pytest

from roofline.bench.calibrations import calibration_of
from roofline.cost.step import SequenceGroup
from roofline.records import replace
from roofline.serving.objectives import parse_slo
from roofline.serving.requests import requests
from roofline.serving.run import intervals as module
from roofline.serving.run.intervals import (
    StepUncertainty,
    figures,
    intervals,
    noise_of,
    step_uncertainty,
)
from roofline.serving.run.result import Run, ServiceLoad, result_of
from roofline.serving.run.serve import Fleet, saturation, serve
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.server import Server
from roofline.serving.stages import price_step, slowest
from roofline.serving.static import CENTRAL
from tests.serving.deployments import on
from tests.serving.simulate.reference_prices import step_s

DEPLOYMENT = on("llama-3.1-8b")
MEASURED = replace(
    DEPLOYMENT, calibration=calibration_of("auto", DEPLOYMENT.node.gpu, DEPLOYMENT.engine.name)
)
PRICES = step_prices(DEPLOYMENT, sequences=32, longest=4096)
SERVER = Server(token_budget=2048, max_sequences=32, kv_tokens=200_000)
LOAD = ServiceLoad("mine", "Mine", "some", "some", "Poisson", 0.0, 0)
LATENCY, TTFT = ("latency_s", "mean"), ("ttft_s", "mean")


def alike(one: float = 0.2, misses: Any = None) -> StepUncertainty:
    """All steps off by the same factor."""
    return StepUncertainty(one, one, 1.0, misses or {})


def alone(count: int = 4, slo: str = "") -> Run:
    """One client: nothing waits, so that every time is proportional to prices."""
    made = requests(np.zeros(count), 500, 50)
    fleet = Fleet(PRICES, SERVER)
    served = serve(fleet, made, concurrency=1)
    load = replace(LOAD, concurrency=1)
    return Run(DEPLOYMENT, fleet, load, made, served, 0.0, parse_slo(slo))


def crowd(rate: float = 8.0, count: int = 400, slo: str = "", seed: int = 3) -> Run:
    random = np.random.default_rng(seed)
    made = requests(
        np.cumsum(random.exponential(1 / rate, count)),
        random.integers(100, 900, count),
        random.integers(1, 120, count),
    )
    fleet = Fleet(PRICES, SERVER)
    limit = saturation(fleet, made)
    load = replace(LOAD, rate=rate)
    return Run(DEPLOYMENT, fleet, load, made, serve(fleet, made), limit, parse_slo(slo))


def test_where_nothing_waits_times_are_as_unsure_as_prices() -> None:
    run = alone()
    low, high = intervals(run, alike(0.2)).bounds[LATENCY]
    value = figures(run)[LATENCY]
    assert low == pytest.approx(value * exp(-CENTRAL * 0.2), rel=0.01)
    assert high == pytest.approx(value * exp(CENTRAL * 0.2), rel=0.01)
    # Throughput is one over it.
    rate = figures(run)["throughput_tok_s", "value"]
    low, high = intervals(run, alike(0.2)).bounds["throughput_tok_s", "value"]
    assert low == pytest.approx(rate * exp(-CENTRAL * 0.2), rel=0.01)
    assert high == pytest.approx(rate * exp(CENTRAL * 0.2), rel=0.01)


def test_prefill_and_decode_are_off_by_what_each_is() -> None:
    made = intervals(alone(), StepUncertainty(0.1, 0.3, 0.0, {})).bounds
    for name, sd in ((TTFT, 0.3), (("tpot_s", "mean"), 0.1)):
        low, high = made[name]
        assert log(high / low) / (2 * CENTRAL) == pytest.approx(sd, rel=0.02)


def test_without_doubt_and_noise_nothing_is_unsure() -> None:
    run = alone()
    for name, (low, high) in intervals(run, alike(0.0)).bounds.items():
        assert low == pytest.approx(figures(run)[name], rel=1e-12)
        assert high == pytest.approx(low, rel=1e-12)


def test_a_step_is_off_by_the_factors_of_its_parts() -> None:
    scaled = StepUncertainty(0.1, 0.2, 0.5, {}).scaled(PRICES, 1.0, -1.0)
    decode, prefill = exp(0.1), exp(0.2 * (0.5 - np.sqrt(0.75)))
    alone_s = step_s(PRICES, 8, 8000.0, [])
    assert step_s(scaled, 8, 8000.0, []) == pytest.approx(decode * alone_s)
    more = step_s(PRICES, 8, 8000.0, [(500, 0)]) - alone_s
    mixed = step_s(scaled, 8, 8000.0, [(500, 0)])
    assert mixed == pytest.approx(decode * alone_s + prefill * more)


def test_more_doubt_is_a_wider_interval() -> None:
    run = crowd()
    widths = []
    for sd in (0.0, 0.05, 0.2):
        bounds = intervals(run, alike(sd)).bounds
        widths.append([log(high / low) for low, high in (bounds[TTFT], bounds[LATENCY])])
    assert widths[0] < widths[1] < widths[2]


def test_ttft_is_no_surer_than_predictions_were() -> None:
    run = alone()
    low, high = intervals(run, alike(0.1, {"ttft_s": 0.4})).bounds[TTFT]
    assert log(high / low) / (2 * CENTRAL) == pytest.approx(0.4, rel=0.02)
    # And what prices are unsure by is not added to what contains it.
    low, high = intervals(run, alike(0.4, {"ttft_s": 0.3})).bounds[TTFT]
    assert log(high / low) / (2 * CENTRAL) == pytest.approx(0.4, rel=0.02)


@pytest.mark.slow
def test_intervals_hold_four_of_five_runs_at_prices_drawn_at_random(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "noise_of", lambda _: {})  # the requests are the same
    run, doubt = crowd(rate=10.0), StepUncertainty(0.15, 0.25, 0.6, {})
    found = intervals(run, doubt)
    random = np.random.default_rng(5)
    inside: dict[Any, list[bool]] = {TTFT: [], LATENCY: [], ("tpot_s", "p99"): []}
    for _ in range(150):
        fleet = replace(run.fleet, prices=doubt.scaled(PRICES, *random.standard_normal(2)))
        again = figures(replace(run, fleet=fleet, served=serve(fleet, run.requests)))
        for name, held in inside.items():
            low, high = found.bounds[name]
            held.append(low <= again[name] <= high)
    shares = {name: np.mean(held) for name, held in inside.items()}
    # Three standard deviations of 150 draws around 80 %.
    assert all(0.70 <= share <= 0.90 for share in shares.values()), shares


def test_chances_are_those_of_prices() -> None:
    # By hand: P(value · exp(0.2 z) ≤ limit) = Φ(log(limit / value) / 0.2).
    value = figures(alone())["ttft_s", "p99"]
    for factor, chance in ((1.0, 0.5), (exp(0.2), 0.841), (exp(-0.2), 0.159), (9.0, 1.0)):
        run = alone(slo=f"ttft={value * factor:.12f}s")
        assert intervals(run, alike(0.2)).chances["ttft_p99"] == pytest.approx(chance, abs=0.03)


def test_a_load_near_saturation_may_not_be_served() -> None:
    most = crowd().saturation
    chances = [
        intervals(crowd(share * most, slo="ttft=100s"), alike(0.1)) for share in (0.5, 1.0, 2.0)
    ]
    assert chances[0].stable == chances[0].chances["ttft_p99"] == 1.0
    assert chances[1].stable == pytest.approx(0.5, abs=0.05)
    assert chances[2].stable == chances[2].chances["ttft_p99"] == 0.0


def test_long_runs_are_repeated_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    run, doubt = crowd(), alike(0.1)
    whole = intervals(run, doubt).bounds[LATENCY]
    monkeypatch.setattr(module, "MOST", 200)
    some = intervals(run, doubt).bounds[LATENCY]
    assert some != whole
    np.testing.assert_allclose(some, whole, rtol=0.05)


def test_noise_is_that_of_other_requests() -> None:
    said = noise_of(crowd(count=2000))[LATENCY]
    means = [figures(crowd(count=2000, seed=seed))[LATENCY] for seed in range(100, 130)]
    # A standard deviation of 30 is known within a quarter, one of twenty parts within a third.
    assert 0.5 * np.std(means) <= said <= 2.0 * np.std(means)


@pytest.mark.slow
def test_answers_that_all_end_together_have_a_rate_too() -> None:
    run = crowd()
    whole = replace(run.fleet, server=replace(run.fleet.server, policy="static", max_sequences=32))
    made = replace(run.requests, arrival=np.zeros(len(run.requests)))
    once = replace(run, requests=made, served=serve(whole, made))
    for given in (once, replace(once, served=replace(once.served, finish=np.full(400, 9.0)))):
        assert np.isfinite(noise_of(given)["throughput_tok_s", "value"])


def test_errors_of_kernels_of_one_kind_go_together() -> None:
    doubt = step_uncertainty(MEASURED, batch=16.0, context=1000.0, prompt=800.0, misses={})
    decode = slowest(price_step(MEASURED, SequenceGroup(np.array(16.0), 1.0, 1000.0))).parts
    prefill = slowest(price_step(MEASURED, SequenceGroup(1.0, 800.0, 800.0))).parts
    assert doubt.decode_sd == pytest.approx(float(np.mean(decode.log_sd)))
    assert doubt.prefill_sd == pytest.approx(float(np.mean(prefill.log_sd)))
    assert 0 < doubt.correlation < 1  # both have products, and attention each of its own


def test_what_an_engine_misses_beyond_its_kernels_is_common_to_all_steps() -> None:
    own = step_uncertainty(MEASURED, batch=16.0, context=1000.0, prompt=800.0, misses={})
    misses = {"tpot_s": 2 * own.decode_sd}
    both = step_uncertainty(MEASURED, batch=16.0, context=1000.0, prompt=800.0, misses=misses)
    assert both.decode_sd == pytest.approx(2 * own.decode_sd)
    assert both.prefill_sd > own.prefill_sd
    assert both.correlation > own.correlation
    small = {"tpot_s": own.decode_sd / 2}
    same = step_uncertainty(MEASURED, batch=16.0, context=1000.0, prompt=800.0, misses=small)
    assert same.decode_sd == own.decode_sd


def test_tables_have_intervals_where_prices_were_measured() -> None:
    run = crowd(slo="ttft=1s")
    bare = result_of(run)
    assert not any("low" in name for name in bare.tables["headline"].columns)
    assert bare.metadata["chance_stable"] is None
    told = result_of(replace(run, deployment=MEASURED, sure=intervals(run, alike(0.1))))
    for row in told.tables["headline"].rows():
        assert row["low"] <= row["reported"] <= row["high"]
        assert row["p99_low"] <= row["p99"] <= row["p99_high"]
    rates = {row["metric"]: row for row in told.tables["throughput"].rows()}
    assert rates["saturation_requests_per_s"]["low"] < run.saturation
    (objective,) = told.tables["objectives"].rows()
    assert objective["value_low"] < objective["value_s"] < objective["value_high"]
    assert 0 <= objective["attainment_low"] <= objective["attainment_high"] <= 1
    assert any("4 of 5" in note for note in told.notes)
