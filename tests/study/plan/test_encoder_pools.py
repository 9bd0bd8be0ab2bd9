"""Pictures on GPUs of their own: instances one prompt at a time, and what comes after them."""

import heapq

import numpy as np
import pytest

import roofline
from roofline.errors import InputError, LayoutError
from roofline.model.tower import TEXT_ALONE, Media
from roofline.records import replace
from roofline.serving.encoders import encode_step
from roofline.serving.objectives import parse_slo
from roofline.serving.requests import requests
from roofline.serving.run.serve import serve
from roofline.serving.workload import Workload
from roofline.study.plan.candidate import DeploymentKind
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.encoder_pools import (
    encoder_pools,
    enough,
    left,
    ready_at,
    said,
    tabulated,
)
from roofline.study.plan.plan import plan
from tests.serving.deployments import on

GOAL = Goal(parse_slo("ttft_p99=1s,tpot_p99=50ms"), 8)


def counted_ready(
    arrivals: list[float], instances: int, encode_s: float, send_s: float
) -> list[float]:
    """A queue of prompts before instances: whoever is free first takes the first one."""
    free, out = [0.0] * instances, []
    for arrival in arrivals:
        start = max(arrival, heapq.heappop(free))
        out.append(start + encode_s + send_s)
        heapq.heappush(free, start + max(encode_s, send_s))
    return out


@pytest.mark.parametrize("seed", range(200))
def test_prompts_are_encoded_as_by_a_queue_before_instances(seed: int) -> None:
    random = np.random.default_rng(seed)
    arrivals = np.sort(random.uniform(0.0, 50.0, int(random.integers(1, 80))))
    instances = int(random.integers(1, 6))
    encode_s, send_s = random.uniform(0.01, 3.0, 2).tolist()
    expected = counted_ready(arrivals.tolist(), instances, encode_s, send_s)
    assert ready_at(arrivals, instances, encode_s, send_s).tolist() == pytest.approx(expected)


def test_prompts_that_come_at_once_are_ready_in_order() -> None:
    arrivals = np.repeat(np.arange(50) * 0.7 + 0.1, 2)
    for encode_s in np.linspace(0.1, 3.0, 30).tolist():
        ready = ready_at(arrivals, 3, encode_s, 0.01)
        assert (np.diff(ready) >= 0).all()
        expected = counted_ready(arrivals.tolist(), 3, encode_s, 0.01)
        assert ready.tolist() == pytest.approx(expected)


def kinds() -> tuple[DeploymentKind, DeploymentKind]:
    """The same network with two pictures in each prompt, and with none."""
    seen = on("qwen2.5-vl-7b-instruct", node="hgx-h100-8", media=Media(2, 1024))
    text = replace(seen, options=replace(seen.options, media=TEXT_ALONE))
    return DeploymentKind(seen, 3.0), DeploymentKind(text, 3.0)


def demand(rate: float, number: int = 400) -> Demand:
    random = np.random.default_rng(11)
    arrival = np.cumsum(random.exponential(0.1, number))
    made = requests(arrival - arrival[0], 3250, random.integers(20, 100, number))
    return Demand(made, 10.0, rate, name="pictured")


def test_enough_instances_keep_up_and_wait_no_longer_than_they_work() -> None:
    coming = demand(20.0)
    for encode_s in (0.01, 0.1, 0.5):
        number = enough(coming, GOAL, encode_s, 0.002)
        for instances, fine in ((number, True), (number - 1, False)):
            if not instances:
                continue
            arrival = coming.at(20.0).arrival
            late = np.array(counted_ready(arrival.tolist(), instances, encode_s, 0.002)) - arrival
            slow = np.percentile(late, 99.0) > 2 * encode_s + 0.002
            assert fine != (slow or instances < 20.0 * encode_s)
        spared = enough(coming, replace(GOAL, spares=2), encode_s, 0.002)
        assert spared == number + 2


def test_limits_on_first_tokens_are_what_pictures_leave() -> None:
    late = np.linspace(0.0, 1.0, 101)
    ttft, tpot = GOAL.objectives
    assert left(ttft, late).limit_s == pytest.approx(1.0 - 0.99)
    assert left(tpot, late) == tpot
    assert left(replace(ttft, percentile=None), late).limit_s == pytest.approx(0.5)


def test_what_is_told_is_a_run_of_one_behind_the_other() -> None:
    whole, text = kinds()
    coming = demand(20.0)
    (found,) = encoder_pools([whole], [text], coming, GOAL, pools=False)
    workload = Workload(1, 3250, 1)
    assert found.encode_s == encode_step(whole.base, workload)[0]
    assert found.rest.best is not None
    assert found.gpus == found.instances + found.rest.best.option.gpus
    (pool,) = found.rest.best.option.pools
    arrival = coming.at(20.0).arrival
    ready = counted_ready(arrival.tolist(), found.instances, found.encode_s, found.send_s)
    late = replace(coming.requests, arrival=np.array(ready) - ready[0])
    served = serve(pool.replica.fleet(pool.server, coming, number=pool.instances), late)
    ttft = served.first_token + ready[0] - arrival
    for each in found.reached:
        seconds = ttft if each.objective.metric == "ttft" else served.tpot_s
        assert each.value_s == pytest.approx(float(np.nanpercentile(seconds, 99.0)))
        assert each.met == (each.value_s <= each.objective.limit_s)
    alone = plan([whole], coming, GOAL, pools=False, least=1, kept=0)
    rows = list(tabulated([found], alone).rows())
    assert rows[0]["usd_per_hour"] == pytest.approx(3.0 * found.gpus)
    assert rows[1]["encode_gpu"] is None
    assert ("does not pay" in said([found], alone)) == (found.cost >= 3.0 * rows[1]["gpus"])


def test_sessions_and_limits_shorter_than_a_picture_have_no_pool() -> None:
    whole, text = kinds()
    short = replace(GOAL, objectives=parse_slo("ttft_p99=1ms"))
    assert encoder_pools([whole], [text], demand(5.0), short) == ()
    assert "No encode pool" in said((), plan([text], demand(5.0), GOAL, pools=False, kept=0))
    made = demand(5.0)
    after = np.full(len(made.requests), -1)
    after[1] = 0
    chats = replace(made, requests=replace(made.requests, after=after))
    with pytest.raises(InputError, match="sessions"):
        encoder_pools([whole], [text], chats, GOAL)
    with pytest.raises(InputError, match="sessions"):
        roofline.plan("qwen2.5-vl-7b-instruct", images=2, encoder_pools=True, workload="multi-turn")


def test_pictures_that_no_network_sends_are_refused_before_a_search() -> None:
    told: list[str] = []
    model, tell = "qwen2.5-vl-7b-instruct", told.append
    with pytest.raises(LayoutError, match="rtx-4090-pcie-8 has no network to send"):
        roofline.plan(model, "rtx-4090", images=2, encoder_pools=True, rate=2.0, progress=tell)
    assert not told
