"""Requests simulated in a second. Printed, never asserted."""

import resource
import time
from collections.abc import Iterator

import numpy as np
import pytest

from roofline.records import replace
from roofline.serving.requests import Requests
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.run import simulate, stream
from roofline.serving.simulate.server import Server
from tests.benchmarks.reference import reference
from tests.serving.deployments import on
from tests.serving.simulate.cases import chat

COUNT = 500_000
SERVER = Server(max_sequences=256, token_budget=2048, kv_tokens=450_000)


def test_prices_of_a_deployment_are_tabulated() -> None:
    for model, device, tp in (("llama-3.1-8b", "h100-sxm", 1), ("deepseek-v3", "h200-sxm", 8)):
        deployment = on(model, device, tp=tp, weights="bf16" if tp == 1 else "fp8")
        with reference() as loop:
            began = time.process_time()
            step_prices(deployment, sequences=1024)
            took = time.process_time() - began
        print(f"\n  {model}: {took:.2f} s {loop.time(took)}", end="")
    print()


@pytest.mark.parametrize("rate", [1.0, 10.0, 20.0, 40.0])
def test_requests_simulated_per_second(rate: float) -> None:
    table = step_prices(on(), sequences=256)
    given = chat(COUNT, rate)
    simulate(chat(100, rate), table, SERVER)  # compiled before the clock starts
    runs = []
    with reference() as loop:
        for _ in range(3):
            began = time.process_time()
            totals = simulate(given, table, SERVER).totals
            runs.append((time.process_time() - began, totals))
    best, totals = min(runs, key=lambda run: run[0])
    steps = totals.steps
    print(
        f"\n  {rate:g}/s Poisson chat, utilisation {totals.busy_s / totals.makespan_s:.0%}: "
        f"{COUNT / best:,.0f} requests {loop.rate(COUNT / best)} and "
        f"{steps / best:,.0f} steps a second of one core",
        end="",
    )


def test_shared_prefixes_simulated_per_second() -> None:
    table = step_prices(on(), sequences=256)
    given = chat(COUNT // 5, 20.0)
    random = np.random.default_rng(0)
    sizes = given.prompt // 16
    ends = np.cumsum(sizes)
    hashes = np.arange(ends[-1]) + 10**9
    for start, size, system in zip(
        ends - sizes, sizes, random.integers(0, 50, len(given)), strict=True
    ):
        common = min(int(size), 20)
        hashes[start : start + common] = int(system) * 1000 + np.arange(common)
    prefix = np.concatenate([[0], ends])
    given = replace(given, prefix=prefix, hashes=hashes, block=16)
    sharing = replace(SERVER, sharing=True)
    simulate(chat(100, 1.0), table, sharing)
    with reference() as loop:
        began = time.process_time()
        served = simulate(given, table, sharing)
        took = time.process_time() - began
    share = served.cached.sum() / served.prompt.sum()
    rate = len(given) / took
    print(f"\n  {rate:,.0f} requests a second {loop.rate(rate)} with {share:.0%} of prompts shared")


def test_memory_of_a_stream() -> None:
    table = step_prices(on(), sequences=256)
    random = np.random.default_rng(0)

    def parts(count: int) -> Iterator[Requests]:
        clock = 0.0
        for _ in range(count):
            part = chat(20_000, 20.0, int(random.integers(2**31)))
            part = replace(part, arrival=part.arrival + clock)
            clock = float(part.arrival[-1])
            yield part

    for count in (5, 25, 50):
        served = sum(len(part) for part in stream(parts(count), table, SERVER))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"\n  {served:,} requests: {peak / 1024:.0f} MiB at most", end="")
    print()
