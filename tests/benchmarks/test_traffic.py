"""Rates at which traffic is drawn and traces are read: printed, not held."""

import time
from pathlib import Path

import numpy as np

from roofline.interop.traces import stream_trace
from roofline.records import replace
from roofline.serving.objectives import FinishedRequests, parse_slo
from roofline.serving.objectives import good as within
from roofline.serving.traffic.draw import stream
from roofline.serving.traffic.presets import preset_names, traffic_named
from tests.benchmarks.reference import reference
from tests.cases import cases


def test_drawing_workloads() -> None:
    rates = {}
    with reference() as loop:
        for name in preset_names():
            traffic = replace(traffic_named(name), requests=cases(10_000, 25_000))
            start = time.process_time()
            made = sum(len(part) for part in stream(traffic, chunk=8192))
            rates[name] = made / (time.process_time() - start)
    for name, rate in rates.items():
        print(f"{name}: {rate:,.0f} requests/s drawn {loop.rate(rate)}")


def test_reading_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    with path.open("w", encoding="utf-8") as file:
        file.write("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n")
        file.writelines(f"{i},ChatGPT,{i % 900 + 1},{i % 300},0,API log\n" for i in range(500_000))
    with reference() as loop:
        start = time.process_time()
        read = sum(len(part) for part in stream_trace(path))
        rate = read / (time.process_time() - start)
    print(f"{rate:,.0f} requests/s read {loop.rate(rate)}")


def test_judging_requests() -> None:
    number = 1_000_000
    rng = np.random.default_rng(1)
    arrival = np.cumsum(rng.exponential(0.1, number))
    first = arrival + rng.exponential(0.2, number)
    output = rng.integers(1, 500, number)
    finish = first + output * 0.01
    served = FinishedRequests(arrival, arrival, first, finish, output, output)
    with reference() as loop:
        start = time.process_time()
        share = within(served, parse_slo("ttft=500ms,tpot=50ms")).mean()
        rate = number / (time.process_time() - start)
    print(f"{rate:,.0f} requests/s judged {loop.rate(rate)}, {share:.1%} within")
