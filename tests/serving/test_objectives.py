"""Latencies, objectives, goodput: by hand, and the laws they keep."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import InputError
from roofline.serving.objectives import (
    FinishedRequests,
    Objective,
    after_warmup,
    good,
    goodput,
    kept,
    parse_slo,
    spread,
    window,
)
from roofline.serving.price import usd_per_mtok
from roofline.serving.running_cost import joule_per_token, power


def served(rows: list[tuple[float, float, float, float, int]]) -> FinishedRequests:
    """Requests of (arrival, admitted, first token, finish, output tokens)."""
    arrival, admitted, first, finish, output = (np.array(each) for each in zip(*rows, strict=True))
    return FinishedRequests(arrival, admitted, first, finish, np.full(len(rows), 10), output)


#                  arrival admitted first finish tokens
BY_HAND = served([(0.0, 0.0, 0.5, 2.5, 5),
                  (1.0, 1.5, 2.0, 2.0, 1),
                  (1.0, 3.0, 4.0, 5.0, 3),
                  (4.0, 4.0, 4.25, 8.25, 21)])  # fmt: skip


def test_latencies_by_hand() -> None:
    assert BY_HAND.ttft_s.tolist() == [0.5, 1.0, 3.0, 0.25]
    assert BY_HAND.queue_s.tolist() == [0.0, 0.5, 2.0, 0.0]
    assert BY_HAND.latency_s.tolist() == [2.5, 1.0, 4.0, 4.25]
    # 2.0 s over 4 gaps, no gap, 1.0 s over 2, 4.0 s over 20
    assert BY_HAND.tpot_s[[0, 2, 3]].tolist() == [0.5, 0.5, 0.2]
    assert np.isnan(BY_HAND.tpot_s[1])


def test_spread_by_hand() -> None:
    made = spread(np.arange(101.0))
    assert made is not None
    assert (made.p50, made.p90, made.p95, made.p99, made.mean) == (50.0, 90.0, 95.0, 99.0, 50.0)
    tpot = spread(BY_HAND.tpot_s)
    assert tpot is not None
    assert (tpot.requests, tpot.p50) == (3, 0.5)
    assert tpot.mean == pytest.approx(0.4)
    assert spread(np.array([np.nan])) is None


def test_objectives_and_goodput_by_hand() -> None:
    objectives = parse_slo("ttft=1s,tpot=300ms")
    # Second: within, and it has no TPOT; fourth: within both; the others are too slow.
    assert good(BY_HAND, objectives).tolist() == [False, True, False, True]
    assert window(BY_HAND) == 8.25
    assert goodput(BY_HAND, objectives) == pytest.approx(2 / 8.25)
    first, second = kept(BY_HAND, objectives)
    assert (first.attainment, second.attainment) == (0.75, 0.5)
    # p99 of 0.25, 0.5, 1, 3: 0.97 of the way from the third to the fourth
    assert first.value_s == pytest.approx(1 + 0.97 * 2)
    assert not first.met
    (mean,) = kept(BY_HAND, parse_slo("ttft_mean=1.2s"))
    assert (mean.value_s, mean.met) == (1.1875, True)


def test_warm_up_leaves_out_the_first_to_arrive() -> None:
    made = after_warmup(BY_HAND, 1)
    assert made.ttft_s.tolist() == [1.0, 3.0, 0.25]
    assert window(made) == 7.25
    assert len(after_warmup(BY_HAND, 0)) == 4
    for warmup in (-1, 4, 5):
        with pytest.raises(InputError, match="warm-up takes"):
            after_warmup(BY_HAND, warmup)


ROW = st.tuples(
    st.floats(0, 10), st.floats(0, 5), st.floats(0, 5), st.floats(0, 50), st.integers(1, 30)
).map(lambda r: (r[0], r[0] + r[1], r[0] + r[1] + r[2], r[0] + r[1] + r[2] + r[3], r[4]))
RUNS = st.lists(ROW, min_size=1, max_size=30).map(served)
OBJECTIVES = st.builds(
    Objective,
    st.sampled_from(["ttft", "tpot", "e2e"]),
    st.floats(0.01, 50),
    st.sampled_from([50.0, 90.0, 99.0, None]),
)


@given(RUNS, st.lists(OBJECTIVES, max_size=3), OBJECTIVES, st.floats(1.0, 10.0))
def test_one_more_objective_is_never_easier_and_a_looser_one_never_harder(
    run: FinishedRequests, objectives: list[Objective], more: Objective, looser: float
) -> None:
    both = good(run, [*objectives, more])
    assert not (both & ~good(run, objectives)).any()
    assert not (both & ~good(run, [more])).any()
    relaxed = Objective(more.metric, more.limit_s * looser, more.percentile)
    assert not (both & ~good(run, [*objectives, relaxed])).any()
    (tight,), (loose,) = kept(run, [more]), kept(run, [relaxed])
    assert tight.attainment <= loose.attainment
    assert loose.met or not tight.met


@given(RUNS)
def test_latency_is_first_token_and_the_gaps_after_it(run: FinishedRequests) -> None:
    rest = np.where(run.output > 1, np.nan_to_num(run.tpot_s) * (run.output - 1), 0.0)
    several = run.output > 1
    assert (run.ttft_s + rest)[several] == pytest.approx(run.latency_s[several])
    assert (run.queue_s <= run.ttft_s).all()


@given(RUNS, OBJECTIVES.filter(lambda objective: objective.percentile is not None))
def test_a_percentile_within_the_limit_is_that_share_of_requests(
    run: FinishedRequests, objective: Objective
) -> None:
    (made,) = kept(run, [objective])
    assert objective.percentile is not None
    if made.met:
        # Interpolated between two requests: the share is short of one request at most.
        assert made.attainment >= objective.percentile / 100 - 1 / len(run) - 1e-9


@given(RUNS)
def test_without_objectives_goodput_is_throughput(run: FinishedRequests) -> None:
    if window(run) > 0:
        assert goodput(run, ()) == pytest.approx(len(run) / window(run))


def test_objectives_as_they_are_written() -> None:
    made = parse_slo(" TTFT = 500 ms , tpot_p90=50ms,e2e_mean=10 s,ttft_p99.9=2s ")
    assert made == (
        Objective("ttft", 0.5, 99.0),
        Objective("tpot", 0.05, 90.0),
        Objective("e2e", 10.0, None),
        Objective("ttft", 2.0, 99.9),
    )
    assert [objective.name for objective in made] == [
        "ttft_p99",
        "tpot_p90",
        "e2e_mean",
        "ttft_p99.9",
    ]
    assert parse_slo("") == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ttft", "is no objective"),
        ("ttft=", "is no time"),
        ("ttft=500", "has no unit"),
        ("ttft=500mb", "is no time"),
        ("itl=5ms", "is no objective"),
        ("ttft_p100=1s", "is no objective"),
        ("ttft_p0=1s", "p0 limits nothing"),
        ("ttft_max=1s", "is no objective"),
        ("ttft=0s", "no time to keep to"),
        ("ttft=-1s", "no time to keep to"),
        ("ttft=1s,,tpot=1s", "is no objective"),
        ("ttft=1s,ttft_p99=2s", "has two limits"),
        ("=1s", "is no objective"),
    ],
)
def test_objectives_that_mean_nothing_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        parse_slo(text)
    assert refused.value.hint


def test_power_runs_from_idle_to_busy() -> None:
    assert power(700.0, 0.0, idle=0.1) == pytest.approx(70.0)
    assert power(700.0, 1.0) == 700.0
    load = np.linspace(0, 1, 11)
    drawn = power(700.0, load)
    assert (np.diff(np.asarray(drawn)) > 0).all()


@pytest.mark.parametrize("shares", [{"idle": 1.1}, {"idle": -0.1}, {"idle": 0.6, "busy": 0.5}])
def test_shares_of_power_that_cannot_be_are_refused(shares: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="power shares"):
        power(700.0, 0.5, **shares)


@pytest.mark.parametrize(
    ("formula", "per_second"),
    [(joule_per_token, 700.0), (usd_per_mtok, 4.0)],
)
def test_a_price_falls_with_the_tokens_and_grows_with_the_time(
    formula: Callable[[float, float, float], float], per_second: float
) -> None:
    base = formula(per_second, 100.0, 1000.0)
    assert formula(per_second, 100.0, 2000.0) == pytest.approx(base / 2)
    assert formula(per_second, 200.0, 1000.0) == pytest.approx(base * 2)
    assert formula(2 * per_second, 100.0, 1000.0) == pytest.approx(base * 2)


def test_prices_by_hand() -> None:
    # 4 $/h for half an hour are 2 $; for 8 million tokens 0.25 $ a million.
    assert usd_per_mtok(4.0, 1800.0, 8e6) == pytest.approx(0.25)
