"""Readings of clients: a row says it, else the harness of its source or its engine."""

from typing import Any

import numpy as np
import pytest

from roofline.bench.end_to_end import driving
from roofline.bench.end_to_end.cases import Row
from roofline.bench.end_to_end.driving import driver, reading, traffic_of, unsure, waiting_clients
from roofline.bench.end_to_end.replay import known
from roofline.cost.engine_costs import NO_ENGINE
from roofline.records import replace
from roofline.serving.traffic.lengths import ConstantLength, Uniform
from roofline.serving.traffic.traffic import Bursty, Closed, Even, Poisson
from tests.bench.end_to_end.synthetic import CASE, lawful, row

SILENT: dict[str, Any] = {"lengths": None}
LATER = replace(CASE, engine="trtllm")


def said(asked: Row) -> tuple[float, float, float]:
    how = reading(asked)
    return how.rounds, how.shortest, how.longest


def test_lengths_are_drawn_as_the_source_draws_them_and_always_alike() -> None:
    one = row(isl=1000.0, osl=500.0, batch=400.0, family="inferencemax", **SILENT)
    given = known(one).requests
    assert len(given) == 4000
    assert (given.prompt.min(), given.prompt.max()) == (800, 1000)
    assert given.output.mean() == pytest.approx(450, rel=0.01)
    assert np.array_equal(known(one).requests.prompt, given.prompt)


def test_equal_lengths_are_the_nominal_ones_and_never_empty() -> None:
    traffic = traffic_of(row(isl=7.0, osl=1.0, lengths=(0.2, 0.2)))
    assert (traffic.prompt, traffic.output) == (ConstantLength(1), ConstantLength(1))
    traffic = traffic_of(row(isl=1000.0, osl=10.0, lengths=(0.5, 1.5)))
    assert (traffic.prompt, traffic.output) == (Uniform(500, 1500), Uniform(5, 15))


def test_a_source_decides_how_clients_are_driven_before_the_engine_does() -> None:
    assert said(row(family="inferencemax", **SILENT)) == (10.0, 0.8, 1.0)
    assert said(row(family="elsewhere", **SILENT)) == (10.0, 0.97, 1.03)
    stranger = replace(CASE, engine="unknown")
    assert reading(row(case=stranger, **SILENT)) == reading(row(**SILENT))


def test_a_row_decides_before_its_source_does() -> None:
    how = reading(row(batch=4.0, requests=20.0, spread=0.3, **SILENT))
    assert (how.rounds, how.shortest, how.longest) == (5.0, 0.7, 1.3)
    assert reading(row(spread=7.0, **SILENT)).shortest > 0
    source = row(family="inferencemax", batch=4.0, requests=20.0)
    assert said(replace(source, lengths=None)) == (5.0, 0.8, 1.0)
    assert said(replace(source, spread=0.3, lengths=None)) == (5.0, 0.7, 1.3)
    assert said(replace(source, lengths=(0.5, 0.9))) == (5.0, 0.5, 0.9)


def test_a_harness_that_changed_is_read_by_the_day() -> None:
    asked = row(family="inferencemax", **SILENT)
    assert driver(asked).name == driver(replace(asked, date="2026-01-21")).name == "inferencex"
    before = driver(replace(asked, date="2026-01-20"))
    assert before.name == "inferencemax"
    assert (before.warmup_requests, driver(asked).warmup_rounds) == (1, 2.0)


def test_prompts_of_the_labs_template_come_again() -> None:
    asked = row(isl=2000.0, osl=100.0, batch=16.0, family="nvidia-dynamo-lab", **SILENT)
    traffic = traffic_of(asked)
    assert (traffic.pool, traffic.requests) == (100, 320)
    assert (traffic.prompt, traffic.output) == (ConstantLength(2000), ConstantLength(100))
    older = replace(asked, isl=2048.0)
    assert (unsure(asked), unsure(older), unsure(replace(asked, mode="static_batch"))) == (
        True, False, False,
    )  # fmt: skip
    assert (traffic_of(older).pool, traffic_of(older).prompt) == (0, ConstantLength(2048))
    assert traffic_of(replace(asked, requests=32.0)).requests == 32
    again = known(asked).served(known(asked).prices(NO_ENGINE))
    assert np.median(again.ttft_s[160:]) < 0.5 * np.median(
        known(older).served(known(older).prices(NO_ENGINE)).ttft_s
    )


def test_one_file_of_the_lab_has_a_client_more_than_slots() -> None:
    lab: dict[str, Any] = {
        "family": "nvidia-dynamo-lab",
        "case": replace(LATER, engine="trtllm-1.0"),
    }
    assert waiting_clients(row(**lab)) == 1
    assert waiting_clients(row(**lab | {"case": LATER})) == 0
    other = replace(lab["case"], network="qwen3-32b")
    assert waiting_clients(row(**lab | {"case": other})) == 0
    assert waiting_clients(row(**lab | {"family": "inferencemax"})) == 0
    assert waiting_clients(row("static_batch", **lab)) == 0


def test_clients_start_over_the_ramp_of_their_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = row(isl=4000.0, osl=200.0, batch=4.0, requests=4.0, **SILENT)
    assert not known(asked).served(known(asked).prices(NO_ENGINE)).arrival.any()
    how = replace(driving.driver(asked), ramp_s=0.4)
    monkeypatch.setattr(driving, "driver", lambda _: how)
    served = known(asked).served(known(asked).prices(NO_ENGINE))
    assert list(served.arrival) == pytest.approx([0.0, 0.1, 0.2, 0.3])


def test_many_rounds_are_as_good_as_more_of_them() -> None:
    assert len(known(row(batch=2.0, requests=1000.0)).requests) == 40


def test_a_burst_is_a_loop_of_one_round() -> None:
    """As many clients as requests: all of them come together, and the last to end ends the run."""
    burst = lawful(batch=30.0, requests=30.0)
    assert reading(burst.row).rounds == 1.0
    served = burst.served(burst.prices(NO_ENGINE))
    assert len(served) == 30
    assert served.totals.makespan_s == pytest.approx(served.latency_s.max())


@pytest.mark.parametrize(
    ("cv", "arrivals"), [(0.0, Even(6.0)), (1.0, Poisson(6.0)), (2.0, Bursty(6.0, 2.0))]
)
def test_requests_of_all_replicas_come_at_their_rate_together(cv: float, arrivals: object) -> None:
    traffic = traffic_of(row("steady_rate", rate=3.0, cv=cv, requests=50.0, replicas=2.0))
    assert traffic.arrivals == arrivals
    assert traffic.requests == 100


def test_a_batch_comes_at_once() -> None:
    traffic = traffic_of(row("static_batch", batch=8.0, replicas=2.0))
    assert traffic.arrivals == Closed(16)
    assert traffic.requests == 16
