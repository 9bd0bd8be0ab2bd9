"""The closed form against the simulator, within the error that it states."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from roofline.cost.engine_costs import EngineCosts
from roofline.cost.layout import Layout
from roofline.cost.work import Array
from roofline.errors import InfeasibleError, InputError
from roofline.records import replace
from roofline.serving.requests import Requests
from roofline.serving.simulate.prices import StepPrices, step_prices
from roofline.serving.simulate.run import simulate
from roofline.serving.simulate.served import ServedRequests
from roofline.serving.simulate.server import BATCHED, Server
from roofline.serving.simulate.steady import ERRORS, RequestMeans, arriving, closed, share_of
from roofline.serving.simulate.steady.errors import CLOSED, OPEN, open_sd
from roofline.serving.simulate.steady.pace import HALVINGS, halved
from roofline.serving.static import CENTRAL
from tests.serving.deployments import on
from tests.serving.simulate.cases import prices, requests, some_engine
from tests.serving.simulate.cases import server as some_server

COUNT = 8000
SERVERS = {
    "chunked": Server(max_sequences=64, token_budget=2048),
    "whole prompts": Server(policy="continuous", max_sequences=64, token_budget=8192),
    "prefill first": Server(policy="continuous", first="prefill", max_sequences=64),
    "chunks first": Server(first="prefill", max_sequences=64, token_budget=2048),
}
COSTS = EngineCosts(step_s=1e-3, sequence_s=1e-5, prefill_s=2e-3, front_end_s=5e-5, request_s=0.03)
TABLES = {
    "ideal": step_prices(on(), sequences=65),
    "engine": step_prices(on(), sequences=65, engine=COSTS),
}
BOUND = {
    # A step with prompts takes 5 to 100 ms; 2,500 tokens a second, and 50 ms a token of each of 128
    "launches": replace(TABLES["engine"], engine=replace(COSTS, launch_s=1e-2)),
    "front end": replace(TABLES["engine"], engine=replace(COSTS, front_end_s=4e-4)),
}
# Means and coefficients of variation of prompts and of answers.
MIXES = {
    "chat": (400, 1.2, 200, 0.9),
    "short answers": (2000, 0.3, 8, 0.5),
    "documents": (6000, 0.5, 50, 0.5),
    "essays": (500, 0.5, 1000, 0.5),
    "equal": (1024, 0.0, 128, 0.0),
    "one token": (1000, 0.5, 1, 0.0),
    "tiny": (60, 0.5, 12, 0.5),
}


@cache
def mix(name: str) -> Requests:
    """Requests of one a second."""
    random = np.random.default_rng(1)

    def lengths(mean: float, cv: float) -> Any:
        sigma = np.sqrt(np.log1p(cv * cv))
        drawn = random.lognormal(np.log(mean) - sigma**2 / 2, sigma, COUNT)
        return np.maximum(drawn.astype(int), 1)

    prompt, prompts, output, outputs = MIXES[name]
    gaps = random.exponential(1.0, COUNT)
    return requests(np.cumsum(gaps), lengths(prompt, prompts), lengths(output, outputs))


@cache
def shared(name: str, machine: str, policy: str) -> RequestMeans:
    return share_of(mix(name), TABLES[machine], SERVERS[policy])


def saturated(name: str, machine: str, policy: str) -> float:
    """Requests a second of a queue that is never empty, as simulated."""
    given = replace(mix(name), arrival=np.zeros(COUNT))
    ends = np.sort(simulate(given, TABLES[machine], SERVERS[policy], concurrency=256).finish)
    low, high = COUNT // 10, COUNT * 9 // 10
    return float((high - low) / (ends[high] - ends[low]))


def closed_errors(kind: str, tables: dict[str, StepPrices]) -> dict[str, list[float]]:
    """Error of each figure of the closed form, loop by loop."""
    errors: dict[str, list[float]] = {name: [] for name in ERRORS[kind]}
    for name, machine, policy in product(MIXES, tables, SERVERS):
        given = replace(mix(name), arrival=np.zeros(COUNT))
        for clients in (1, 4, 16, 64, 256):
            served = simulate(given, tables[machine], SERVERS[policy], concurrency=clients)
            # Neither the burst at the start nor the end, when clients are out of requests.
            true = figures(served, slice(COUNT // 20, -COUNT // 20))
            ends = np.sort(served.finish)
            low, high = COUNT // 10, COUNT * 9 // 10
            true["requests_per_s"] = float((high - low) / (ends[high] - ends[low]))
            share = share_of(mix(name), tables[machine], SERVERS[policy])
            found = told(closed(share, clients), ERRORS[kind])
            for figure in ERRORS[kind]:
                if figure in true:
                    errors[figure].append(found[figure] / true[figure] - 1.0)
    return errors


def cases() -> Iterator[tuple[str, str, str]]:
    for name in MIXES:
        for machine in TABLES:
            for policy in SERVERS:
                yield name, machine, policy


def figures(served: ServedRequests, inside: slice = slice(None)) -> dict[str, float]:
    """Figures of the closed form, as simulated."""
    out = {}
    for metric in ("ttft", "tpot"):
        seconds = getattr(served, f"{metric}_s")[inside]
        seconds = seconds[~np.isnan(seconds)]
        if len(seconds):
            out[f"{metric}_s"] = float(seconds.mean())
            for percent in (50, 90, 99):
                out[f"{metric}_p{percent}_s"] = float(np.percentile(seconds, percent))
    return {**out, "latency_s": float(served.latency_s[inside].mean())}


def told(steady: Any, names: Any) -> dict[str, float]:
    out = {}
    for name in names:
        if "_p" in name and "per" not in name:
            metric, percent = name.removesuffix("_s").split("_p")
            out[name] = float(getattr(steady, f"{metric}_percentile")(float(percent))[0])
        else:
            out[name] = float(getattr(steady, name)[0])
    return out


def check(kind: str, errors: dict[str, list[float]]) -> None:
    """Hold errors to what is stated, and say them."""
    for name, stated in ERRORS[kind].items():
        off = np.abs(errors[name])
        median, p90 = float(np.median(off)), float(np.quantile(off, 0.9))
        print(f"\n  {kind}, {name}: {median:.2%}, {p90:.1%}, at most {off.max():.0%}", end="")
        assert median <= stated.median
        assert p90 <= stated.p90


@pytest.mark.slow
def test_saturation_is_what_a_queue_that_is_never_empty_reaches() -> None:
    errors = [
        float(arriving(shared(*case), 1e-6).saturation_per_s[0]) / saturated(*case) - 1.0
        for case in cases()
    ]
    check("saturation", {"requests_per_s": errors})
    assert np.abs(errors).max() < 0.08


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["open to 70 %", "open to 85 %"])
def test_an_open_loop_is_as_far_off_as_is_stated(kind: str) -> None:
    errors: dict[str, list[float]] = {name: [] for name in ERRORS[kind]}
    inside: dict[str, list[bool]] = {name: [] for name in OPEN}
    for case in cases():
        most = float(arriving(shared(*case), 1e-6).saturation_per_s[0])
        for load in (0.05, 0.3, 0.5, 0.7) if "70" in kind else (0.85,):
            given, rate = mix(case[0]), load * most
            given = replace(given, arrival=given.arrival / rate)
            served = simulate(given, TABLES[case[1]], SERVERS[case[2]])
            busy = served.totals.busy_s / served.totals.makespan_s
            true = {**figures(served), "utilisation": busy}
            found = told(arriving(shared(*case), rate), ERRORS[kind])
            for name in ERRORS[kind]:
                if name == "utilisation":
                    errors[name].append(found[name] - true[name])
                elif name in true:
                    errors[name].append(found[name] / true[name] - 1.0)
                    if name in OPEN:
                        sd = float(open_sd(name, np.array(load)))
                        off = abs(np.log(true[name] / found[name]))
                        inside[name].append(bool(off <= CENTRAL * sd))
    check(kind, errors)
    for name, met in inside.items():
        assert 0.74 <= np.mean(met) <= 0.90, name


@pytest.mark.slow
def test_a_closed_loop_is_as_far_off_as_is_stated() -> None:
    errors = closed_errors("closed", TABLES)
    check("closed", errors)
    for name, half in CLOSED.items():
        within = np.abs(np.log1p(errors[name])) <= half
        assert 0.78 <= within.mean() <= 0.92, name


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUND)
def test_a_closed_loop_that_software_binds_is_as_far_off_as_is_stated(name: str) -> None:
    check(
        f"closed, bound by {name}", closed_errors(f"closed, bound by {name}", {name: BOUND[name]})
    )


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 4])
def test_a_pipeline_is_as_far_off_as_one_server(stages: int) -> None:
    table = step_prices(on(layout=Layout(pp=stages)), sequences=65, engine=COSTS)
    for name in ("chat", "documents", "one token", "tiny"):
        share = share_of(mix(name), table, SERVERS["chunked"])
        most = float(arriving(share, 1e-6).saturation_per_s[0])
        for load in (0.1, 0.5):
            given = replace(mix(name), arrival=mix(name).arrival / (load * most))
            true = figures(simulate(given, table, SERVERS["chunked"]))
            found = float(arriving(share, load * most).ttft_s[0])
            assert found == pytest.approx(true["ttft_s"], rel=0.05), (name, load)
        for clients in (1, 16):
            given = replace(mix(name), arrival=np.zeros(COUNT))
            served = simulate(given, table, SERVERS["chunked"], concurrency=clients)
            ends = np.sort(served.finish)
            low, high = COUNT // 10, COUNT * 9 // 10
            rate = (high - low) / (ends[high] - ends[low])
            # Little's law: clients wait for tokens that are in the pipeline still.
            took = served.latency_s[COUNT // 20 : -COUNT // 20].mean()
            assert rate * took == pytest.approx(clients, rel=0.01)
            assert float(closed(share, clients).requests_per_s[0]) == pytest.approx(rate, rel=0.04)


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("busy", [0.05, 0.5, 0.8])
def test_prompts_queue_as_at_stages_in_a_row(stages: int, busy: float) -> None:
    """Against a tandem queue: each prompt takes a share of its time at each stage in turn."""
    table = step_prices(on(layout=Layout(pp=stages)), sequences=65)
    server = Server(max_sequences=64, token_budget=8192)
    alone = simulate(requests([0.0], 4000, 1), table, server)
    each = float(alone.ttft_s[0]) / stages
    arrival = np.cumsum(np.random.default_rng(3).exponential(each / busy, COUNT))
    free, left = np.zeros(stages), np.empty(COUNT)
    for place, came in enumerate(arrival):
        at = came
        for stage in range(stages):
            at = free[stage] = max(at, free[stage]) + each
        left[place] = at - came
    served = simulate(requests(arrival, 4000, 1), table, server)
    assert served.ttft_s.mean() == pytest.approx(left.mean(), rel=0.06)


def test_short_answers_saturate_where_steps_are_full_of_prompts() -> None:
    # By hand: a step of 2,048 tokens takes x prompts of 2,000 and 7·x tokens of answers.
    given = requests(0.0, [2000] * 100, 8)
    table = TABLES["ideal"]
    x = 2048 / 2007
    share = share_of(given, table, SERVERS["chunked"])
    found = float(arriving(share, 1e-3).saturation_per_s[0])
    step = share.prefill(np.array(7 * x), np.array(2000 * x), np.array(x))
    assert found == pytest.approx(x / float(step), rel=1e-4)


@pytest.mark.parametrize("policy", SERVERS)
def test_loads_of_one_call_are_those_of_many(policy: str) -> None:
    share = shared("chat", "engine", policy)
    most = float(arriving(share, 1e-3).saturation_per_s[0])
    rates, clients = np.linspace(0.1, 0.9, 5) * most, np.array([1.0, 3.0, 64.0, 100.0])
    for many, one, loads in (
        (arriving(share, rates), arriving, rates),
        (closed(share, clients), closed, clients),
    ):
        for at, load in enumerate(loads):
            alone = one(share, float(load))
            for name in ("requests_per_s", "ttft_s", "tpot_s", "utilisation", "present"):
                assert getattr(many, name)[at] == pytest.approx(getattr(alone, name)[0])
            assert many.ttft_percentile(99)[at] == pytest.approx(alone.ttft_percentile(99)[0])


def test_little_holds_and_percentiles_rise() -> None:
    share = shared("chat", "engine", "chunked")
    steady = closed(share, np.array([1.0, 10.0, 100.0]))
    np.testing.assert_allclose(steady.present, [1, 10, 100], rtol=0.02)
    for made in (steady.ttft_percentile, steady.tpot_percentile):
        for low, high in ((50, 90), (90, 99)):
            assert (made(low) <= made(high)).all()


def test_more_load_is_never_faster() -> None:
    for policy in SERVERS:
        share = shared("chat", "ideal", policy)
        most = float(arriving(share, 1e-3).saturation_per_s[0])
        steady = arriving(share, np.linspace(0.05, 0.95, 40) * most)
        for name in ("ttft_s", "tpot_s", "sequences"):
            assert (np.diff(getattr(steady, name)) >= -1e-9).all(), (policy, name)


@pytest.mark.parametrize("policy", SERVERS)
@pytest.mark.parametrize("name", ["chat", "documents"])
def test_a_limit_that_no_load_reaches_changes_nothing(name: str, policy: str) -> None:
    """An engine's default is often a thousand sequences and more."""
    table, rates = step_prices(on(), sequences=2049), np.array([0.02, 0.1, 0.3])
    few, many = (
        arriving(share_of(mix(name), table, replace(SERVERS[policy], max_sequences=most)), rates)
        for most in (64, 2048)
    )
    assert many.tpot_s == pytest.approx(few.tpot_s, rel=0.02)
    assert many.ttft_s == pytest.approx(few.ttft_s, rel=0.02)


def test_an_overloaded_server_is_not_called_stable() -> None:
    share = shared("chat", "ideal", "chunked")
    most = float(arriving(share, 1e-3).saturation_per_s[0])
    with pytest.raises(InfeasibleError, match=f"at most {most:.4g}") as said:
        arriving(share, 1.001 * most)
    assert f"{most:.4g} per second" in said.value.hint
    several = arriving(share, np.array([0.999, 1.001]) * most)
    assert several.stable.tolist() == [True, False]
    assert np.isfinite(several.ttft_s).tolist() == [True, False]
    assert several.ttft_percentile(50)[1] == several.tpot_percentile(50)[1] == np.inf
    assert several.requests_per_s[1] == pytest.approx(most)


def test_memory_bounds_how_many_run() -> None:
    given = requests(0.0, [1000] * 100, 201)
    tight = replace(SERVERS["chunked"], kv_tokens=8 * 1200 + 600, reservation=1.0, page=1)
    share = share_of(given, TABLES["ideal"], tight)
    assert share.most == 8
    short = closed(share, 64)
    assert float(short.queue_s[0]) > 0
    served = simulate(requests(0.0, [1000] * 4000, 201), TABLES["ideal"], tight, concurrency=64)
    measured = len(served) / served.totals.makespan_s
    assert float(short.requests_per_s[0]) == pytest.approx(measured, rel=0.03)


@pytest.mark.parametrize("policy", ["static", "packed", "dynamic"])
def test_batches_have_no_closed_form(policy: str) -> None:
    with pytest.raises(InputError, match="no closed form"):
        share_of(mix("chat"), TABLES["ideal"], Server(policy=policy))  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.inf, np.nan])
def test_loads_that_make_no_sense_are_refused(wrong: float) -> None:
    share = shared("chat", "ideal", "chunked")
    with pytest.raises(InputError, match="rate"):
        arriving(share, wrong)
    with pytest.raises(InputError, match="clients"):
        closed(share, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_any_server_has_a_long_run(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 50))
    given = requests(np.zeros(count), random.integers(1, 40, count), random.integers(1, 30, count))
    server = replace(some_server(random, 2), recv_interval=1, hold_steps=0)
    if server.policy in BATCHED:
        server = replace(server, policy="chunked", token_budget=max(server.token_budget, 40))
    share = share_of(given, prices(random, some_engine(random)), server)
    most = float(arriving(share, 1e-9).saturation_per_s[0])
    assert 0 < most < np.inf
    for steady in (
        arriving(share, np.array([1e-6, 0.3, 0.9, 0.999]) * most),
        closed(share, np.array([1.0, 2.0, 50.0, 5000.0])),
    ):
        assert steady.stable.all()
        for name in ("ttft_s", "tpot_s", "latency_s", "queue_s", "present"):
            values = getattr(steady, name)
            assert np.isfinite(values).all(), name
            assert (values >= 0).all(), name
        assert (steady.requests_per_s <= most * (1 + 1e-9)).all()
        assert ((steady.utilisation >= 0) & (steady.utilisation <= 1)).all()
        # Both are searched for, to nine digits.
        assert (steady.ttft_percentile(50) <= steady.ttft_percentile(99) * (1 + 1e-9)).all()
        assert np.isfinite(steady.tpot_percentile(99)).all()


@pytest.mark.parametrize("loads", [1, 2, 9, 200])
def test_halvings_at_once_are_those_one_by_one(loads: int) -> None:
    """Bit by bit, wherever the end is in the range, also where it is at one of its own."""
    ends = np.concatenate([[0.0, 7.0, 1e-9], np.geomspace(1e-12, 6.9, loads)])[-loads:]
    low, high = np.zeros(loads), np.full(loads, 7.0)
    looks: list[int] = []

    def below(x: Array) -> NDArray[np.bool_]:
        looks.append(x.size)
        held: NDArray[np.bool_] = x**3 < ends**3
        return held

    found = halved(below, low, high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (
            np.where(middle**3 < ends**3, middle, low),
            np.where(middle**3 < ends**3, high, middle),
        )
    assert found.tolist() == ((low + high) / 2.0).tolist()
    assert len(looks) <= HALVINGS
    assert max(looks) <= max(64, loads)
