"""The closed form against the simulator, within the error that it states."""

from dataclasses import replace

import numpy as np
import pytest

from roofline.errors import InfeasibleError, InputError
from roofline.serving.simulate.engine_costs import EngineCosts
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.run import simulate
from roofline.serving.simulate.server import Server
from roofline.serving.simulate.steady import arriving, closed
from tests.serving.deployments import on
from tests.serving.simulate.cases import chat, requests

LATENCY, TTFT = 0.03, 0.15
COUNT = 20_000
SERVERS = {
    "chunked": Server(max_sequences=64, token_budget=2048),
    "whole prompts": Server(policy="continuous", max_sequences=64, token_budget=8192),
    "prefill first": Server(policy="continuous", first="prefill", max_sequences=64),
}
TABLES = {
    "ideal": step_prices(on(), sequences=64),
    "engine": step_prices(on(), sequences=64, engine=EngineCosts(1e-3, 1e-5, 2e-3, 5e-5, 0.03)),
    "large": step_prices(on("llama-3.1-70b", tp=8), sequences=64),
}


def apart(found: float, expected: float) -> float:
    return found / expected - 1.0


@pytest.mark.parametrize("machine", TABLES)
@pytest.mark.parametrize("name", SERVERS)
def test_the_closed_form_agrees_with_the_simulator_below_saturation(
    name: str, machine: str
) -> None:
    server, table = SERVERS[name], TABLES[machine]
    given = chat(COUNT, 1.0)
    most = arriving(given, table, server, 1e-3).saturation_per_s
    for load in (0.01, 0.3, 0.5, 0.7):
        rate = load * most
        found = arriving(given, table, server, rate)
        served = simulate(replace(given, arrival=given.arrival / rate), table, server)
        latency = apart(found.latency_s, float(served.latency_s.mean()))
        ttft = apart(found.ttft_s, float(served.ttft_s.mean()))
        print(
            f"\n  {machine}, {name}, {load:.0%}: latency {latency:+.1%}, TTFT {ttft:+.1%}", end=""
        )
        assert abs(latency) < LATENCY
        assert abs(ttft) < TTFT
        assert found.utilisation == pytest.approx(served.totals.utilisation, rel=0.02)


@pytest.mark.parametrize("machine", TABLES)
@pytest.mark.parametrize("name", SERVERS)
def test_the_closed_form_agrees_with_the_simulator_at_a_concurrency(
    name: str, machine: str
) -> None:
    server, table = SERVERS[name], TABLES[machine]
    given = chat(COUNT, 1.0)
    given = replace(given, arrival=np.zeros(COUNT))
    for clients in (1, 8, 64, 100):
        found = closed(given, table, server, clients)
        served = simulate(given, table, server, concurrency=clients)
        # Neither the burst at the start nor the end, when clients are out of requests.
        inside = slice(COUNT // 20, -COUNT // 20)
        latency = apart(found.latency_s, float(served.latency_s[inside].mean()))
        ttft = apart(found.ttft_s, float(served.ttft_s[inside].mean()))
        print(f"\n  {machine}, {name}, {clients}: latency {latency:+.1%}, TTFT {ttft:+.1%}", end="")
        assert abs(latency) < LATENCY
        assert abs(ttft) < TTFT


@pytest.mark.parametrize("name", SERVERS)
def test_an_overloaded_server_serves_as_much_as_saturation_says(name: str) -> None:
    server, table = SERVERS[name], TABLES["ideal"]
    given = chat(COUNT, 1000.0)
    most = arriving(given, table, server, 1e-3).saturation_per_s
    ends = np.sort(simulate(given, table, server).finish)
    low, high = COUNT // 10, COUNT * 9 // 10
    assert (high - low) / (ends[high] - ends[low]) == pytest.approx(most, rel=LATENCY)


def test_an_overloaded_server_is_not_called_stable() -> None:
    given = chat(1000, 1.0)
    most = arriving(given, TABLES["ideal"], SERVERS["chunked"], 1e-3).saturation_per_s
    with pytest.raises(InfeasibleError, match=f"at most {most:.4g}") as told:
        arriving(given, TABLES["ideal"], SERVERS["chunked"], 1.001 * most)
    assert f"{most:.4g} per second" in told.value.hint
    assert arriving(given, TABLES["ideal"], SERVERS["chunked"], 0.999 * most).queue_s > 0


def test_memory_bounds_how_many_run() -> None:
    given = requests(0.0, [1000] * 100, 201)
    free = SERVERS["chunked"]
    tight = replace(free, kv_tokens=8 * 1200, reservation=1.0, page=1)
    short = closed(given, TABLES["ideal"], tight, 64)
    assert short.queue_s > 0
    assert short.requests_per_s == closed(given, TABLES["ideal"], tight, 8).requests_per_s
    served = simulate(requests(0.0, [1000] * 4000, 201), TABLES["ideal"], tight, concurrency=64)
    measured = len(served) / served.totals.makespan_s
    assert short.requests_per_s == pytest.approx(measured, rel=LATENCY)


@pytest.mark.parametrize("policy", ["static", "packed", "dynamic"])
def test_batches_have_no_closed_form(policy: str) -> None:
    with pytest.raises(InputError, match="no closed form"):
        closed(chat(10, 1.0), TABLES["ideal"], Server(policy=policy), 4)  # type: ignore[arg-type]
