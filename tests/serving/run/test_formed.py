"""Sentences on the closed form beside a run."""

import re

import numpy as np

from roofline.records import replace
from roofline.serving.run.result import formed, result_of
from roofline.serving.simulate.steady import ERRORS
from tests.serving.run.test_intervals import alone, crowd


def test_it_is_near_what_was_simulated_and_says_how_near_it_usually_is() -> None:
    run = crowd(rate=10.0, count=2000)
    said = formed(run)
    ttft, tpot = (float(share) for share in re.findall(r"\(([+-]\d+)%", said))
    stated = [100 * ERRORS["open to 70 %"][name].p90 for name in ("ttft_s", "tpot_s")]
    assert abs(ttft) <= stated[0]
    assert abs(tpot) <= stated[1]
    assert all(f"± {each:.0f}%" in said for each in stated)
    assert said in result_of(run).notes


def test_nothing_is_said_where_it_does_not_hold() -> None:
    run = crowd(rate=10.0)
    assert not formed(alone())
    assert not formed(crowd(rate=10 * run.saturation))
    batches = replace(run.fleet, server=replace(run.fleet.server, policy="packed", token_budget=0))
    assert not formed(replace(run, fleet=batches))
    blocks = replace(run.requests, hashes=np.zeros(1, np.int64))
    shared = replace(run.fleet, server=replace(run.fleet.server, sharing=True))
    assert not formed(replace(run, requests=blocks, fleet=shared))
    assert formed(replace(run, fleet=shared))
    server = run.fleet.server
    for other in (replace(server, recv_interval=10), replace(server, hold_steps=60)):
        assert not formed(replace(run, fleet=replace(run.fleet, server=other)))
