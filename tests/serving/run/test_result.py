"""A run as tables: figures by hand, Little's law, what is said of a load."""

from typing import Any

import numpy as np
import pytest

import roofline
from roofline.records import replace
from roofline.serving.objectives import parse_slo
from roofline.serving.run.result import Run, ServiceLoad, result_of
from roofline.serving.run.serve import Fleet, saturation, serve
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.server import Server
from roofline.serving.traffic.draw import draw
from roofline.serving.traffic.lengths import Uniform
from roofline.serving.traffic.traffic import Poisson, SharedPrefixes, Traffic
from roofline.table import Table
from tests.serving.deployments import on

DEPLOYMENT = on("llama-3.1-8b")
PRICES = step_prices(DEPLOYMENT, sequences=32, longest=4096)
SERVER = Server(token_budget=2048, max_sequences=32, kv_tokens=200_000, sharing=True)
TRAFFIC = Traffic(Uniform(100, 900), Uniform(1, 120), Poisson(10.0), 400, SharedPrefixes(320))
LOAD = ServiceLoad("mine", "Mine", "some", "some", "Poisson", 10.0, 0)


def run(
    rate: float = 10.0, *, slo: str = "", warmup: int = 0, replicas: int = 1, clients: int = 0
) -> Run:
    made = draw(replace(TRAFFIC, arrivals=Poisson(rate)), 4)
    fleet = Fleet(PRICES, SERVER, replicas)
    if clients:
        made = replace(made, arrival=np.zeros(400))
    served = serve(fleet, made, concurrency=clients)
    limit = 0.0 if clients else saturation(fleet, made)
    load = replace(LOAD, rate=0.0 if clients else rate, concurrency=clients, warmup=warmup)
    return Run(DEPLOYMENT, fleet, load, made, served, limit, parse_slo(slo))


def named(table: Table, key: str = "metric") -> dict[str, dict[str, Any]]:
    return {row[key]: row for row in table.rows()}


@pytest.mark.slow
def test_latencies_are_those_of_the_requests() -> None:
    made = run()
    rows = named(result_of(made).tables["headline"])
    served = made.served
    assert rows["ttft_s"]["p90"] == pytest.approx(np.percentile(served.ttft_s, 90))
    assert rows["latency_s"]["mean"] == pytest.approx(served.latency_s.mean())
    several = served.output > 1
    tpot = (served.finish - served.first_token)[several] / (served.output - 1)[several]
    assert rows["tpot_s"]["requests"] == several.sum() < 400
    assert rows["tpot_s"]["p50"] == pytest.approx(np.median(tpot))
    assert rows["queueing_s"]["mean"] <= rows["ttft_s"]["mean"]
    assert rows["ttft_s"]["reported"] == rows["ttft_s"]["mean"]
    median = replace(made, load=replace(LOAD, statistic="median"))
    rows = named(result_of(median).tables["headline"])
    assert rows["ttft_s"]["reported"] == rows["ttft_s"]["p50"]


def test_warm_up_is_left_out_of_latencies_and_rates_but_not_of_the_server() -> None:
    all_, late = run(), run(warmup=100)
    assert late.finished.arrival[0] == all_.served.arrival[100]
    both = [result_of(each) for each in (all_, late)]
    assert both[1].metadata["counted"] == 300
    assert named(both[1].tables["headline"])["ttft_s"]["requests"] == 300
    steps = [named(each.tables["server"])["steps"]["value"] for each in both]
    assert steps[0] == steps[1]


def test_what_is_paid_for_is_time_times_devices() -> None:
    made = run(replicas=2)
    rows = named(result_of(made).tables["throughput"])
    seconds = made.served.finish.max() - made.served.arrival.min()
    tokens = made.served.output.sum()
    gpu = DEPLOYMENT.node.gpu
    dollars = 2 * gpu.usd_per_hour * seconds / 3600
    assert rows["usd_per_mtok"]["value"] == pytest.approx(dollars / tokens * 1e6)
    assert rows["tokens_per_usd"]["value"] == pytest.approx(tokens / dollars)
    busy = made.served.totals.busy_s
    joule = gpu.tdp_w * (0.15 * (2 * seconds - busy) + busy)
    assert rows["joule_per_token"]["value"] == pytest.approx(joule / tokens)
    each = rows["throughput_tok_s_per_gpu"]["value"]
    assert rows["throughput_tok_s"]["value"] == pytest.approx(2 * each)


def test_little_s_law_holds_between_the_tables() -> None:
    made = run()
    result = result_of(made)
    server, rates = named(result.tables["server"]), named(result.tables["throughput"])
    latency = named(result.tables["headline"])["latency_s"]["mean"]
    there = server["running"]["value"] + server["queue"]["value"]
    # Both are means over nearly the same time: from arrival or from the first step on.
    assert there == pytest.approx(rates["requests_per_s"]["value"] * latency, rel=2e-3)


def test_every_token_is_computed_once_or_found() -> None:
    made = run()
    server = named(result_of(made).tables["server"])
    prompts = int(made.served.prompt.sum())
    found = int(made.served.cached.sum())
    assert found >= 320 * 300
    assert server["prefilled_tokens"]["value"] == prompts - found
    assert server["prefix_hits"]["value"] == pytest.approx(found / prompts)
    assert server["decoded_tokens"]["value"] == int((made.served.output - 1).sum())


def test_the_parts_of_the_cache_add_up() -> None:
    rows = named(result_of(run()).tables["cache"], "part")
    parts = sum(rows[part]["tokens"] for part in ("filled", "reserved", "internal waste"))
    assert parts == pytest.approx(rows["given out"]["tokens"], rel=1e-6)
    assert rows["given out"]["tokens"] <= rows["peak"]["tokens"] <= rows["room"]["tokens"]


def test_a_load_is_held_near_its_limit_or_too_much() -> None:
    limit = run().saturation
    said = [result_of(run(share * limit)) for share in (0.3, 0.95, 1.2)]
    assert [each.metadata["stable"] for each in said] == [True, True, False]
    first = [each.metadata["summary"][0] for each in said]
    assert first[0].startswith("Holds the load") and "long" not in first[0]  # noqa: PT018
    assert "queues are long" in first[1]
    assert first[2].startswith("Overloaded")
    assert (
        said[2].metadata["saturation_requests_per_s"] < said[2].metadata["offered_requests_per_s"]
    )


def test_a_closed_loop_is_never_called_stable_or_overloaded() -> None:
    result = result_of(run(clients=8))
    assert result.metadata["stable"] is None
    assert result.metadata["saturation_requests_per_s"] is None
    assert "cannot overload it" in result.metadata["summary"][0]
    assert "offered_requests_per_s" not in named(result.tables["throughput"])


def test_objectives_are_told_as_kept_or_broken() -> None:
    kept = result_of(run(slo="ttft=10s,tpot=1s"))
    assert kept.metadata["met"] is True
    rates = named(kept.tables["throughput"])
    assert rates["goodput_requests_per_s"]["value"] == rates["requests_per_s"]["value"]
    broken = result_of(run(slo="ttft=10s,tpot_p50=1us"))
    assert broken.metadata["met"] is False
    assert "The SLO is missed: tpot_p50" in broken.metadata["summary"][2]
    assert result_of(run()).metadata["met"] is None
    assert len(result_of(run()).tables["objectives"]) == 0


def test_every_request_is_told_where_asked_for() -> None:
    made = run()
    assert "requests" not in result_of(made).tables
    table = result_of(made, with_requests=True).tables["requests"]
    frame = table.to_pandas()
    assert len(frame) == 400
    assert (frame["finish_s"] >= frame["first_token_s"]).all()
    assert frame["tpot_s"].isna().sum() == (frame["output"] == 1).sum()
    assert np.allclose(frame["ttft_s"], frame["first_token_s"] - frame["arrival_s"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "calibration", "stages"),
    [("ideal", "none", 2), ("ideal", "none", 4), ("vllm", "auto", 1), ("vllm", "auto", 4)],
)
def test_a_prompt_alone_passes_a_pipeline_stage_after_stage(
    engine: str, calibration: str, stages: int
) -> None:
    given: dict[str, Any] = {
        "layout": f"pp{stages}", "calibration": calibration, "engine": engine,
    }  # fmt: skip
    told = roofline.analyze("llama-3.1-8b", **given, batch=1, prompt=2000, output=64)
    result = roofline.simulate(
        "llama-3.1-8b", **given, prompt=2000, output=64, requests=1, rate=1.0, warmup=0
    )
    assert result.ttft.value == pytest.approx(told.ttft.value, rel=0.005)
    assert result.tpot.value == pytest.approx(told.tpot.value, rel=0.005)
