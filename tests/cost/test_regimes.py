"""Calibrated collectives: laws, and the bytes of each algorithm counted send by send."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.cost import collectives
from roofline.cost.collectives import Ranks
from roofline.cost.kernels.collective import BOUNDS, PATHS, moved, usable
from roofline.errors import InputError
from roofline.hardware.machine import Link
from tests.cost.regimes import Constants, Regime, by_regime, seconds

RATE = 450e9
RANKS = [2.0, 3.0, 4.0, 8.0, 16.0, 72.0]
EVERY = [(op, path) for op, paths in PATHS.items() for path in paths]


def within(name: str) -> st.SearchStrategy[float]:
    return st.floats(*BOUNDS[name])


@st.composite
def constants(draw: st.DrawFn) -> Constants:
    op = draw(st.sampled_from(sorted(PATHS)))
    others = [path for path in PATHS[op] if path != "in-switch"]
    paths = [draw(st.sampled_from(others)), *draw(st.lists(st.sampled_from(list(PATHS[op]))))]
    regimes = [
        Regime(path, draw(within("start")), draw(within("message")), draw(within("efficiency")))
        for path in paths[:4]
    ]
    return Constants(op, tuple(regimes), draw(within("sharpness")))


@given(constants(), st.sampled_from(RANKS), st.booleans())
def test_time_grows_with_bytes(model: Constants, ranks: float, in_switch: bool) -> None:
    sizes = np.geomspace(1.0, 1e11, 200)
    assert (np.diff(seconds(sizes, ranks, RATE, model, in_switch=in_switch)) > 0).all()


@pytest.mark.slow
@given(constants(), st.floats(1.0, 1e11), st.sampled_from(RANKS), st.booleans())
def test_the_soft_minimum_is_near_and_never_above_the_fastest_regime(
    model: Constants, size: float, ranks: float, in_switch: bool
) -> None:
    fastest = by_regime(size, ranks, RATE, model, in_switch=in_switch).min(axis=0)
    time = seconds(size, ranks, RATE, model, in_switch=in_switch)
    assert time <= fastest * (1 + 1e-12)
    assert time >= fastest * len(model.regimes) ** (-1 / model.sharpness) * (1 - 1e-12)


@given(constants(), st.floats(1.0, 1e11), st.sampled_from(RANKS))
def test_one_more_way_is_never_slower(model: Constants, size: float, ranks: float) -> None:
    without = seconds(size, ranks, RATE, model) * (1 + 1e-12)
    assert seconds(size, ranks, RATE, model, in_switch=True) <= without
    assert seconds(size, ranks, 2 * RATE, model) <= without


@pytest.mark.slow
@given(constants(), st.lists(st.sampled_from(RANKS), min_size=1, max_size=5))
def test_a_column_prices_like_its_rows(model: Constants, ranks: list[float]) -> None:
    sizes = [1000.0 * (i + 1) for i in range(len(ranks))]
    column = seconds(np.array(sizes), np.array(ranks), RATE, model, in_switch=True)
    pairs = zip(sizes, ranks, strict=True)
    rows = [float(seconds(size, n, RATE, model, in_switch=True)) for size, n in pairs]
    np.testing.assert_allclose(np.asarray(column), rows, rtol=1e-12)


@given(constants())
def test_one_rank_talks_to_nobody(model: Constants) -> None:
    assert seconds(1e6, 1.0, RATE, model, in_switch=True) == 0


def test_a_ring_moves_what_the_uncalibrated_model_moves() -> None:
    for ranks in (2, 4, 8):
        for op, formula in (
            ("all_reduce", collectives.all_reduce),
            ("all_gather", collectives.all_gather),
        ):
            messages, share = moved(op, "ring", float(ranks))
            work = formula(1.0, Ranks(ranks, ranks, Link("pcie", 1.0, topology="host"))).work
            assert (float(messages), float(share)) == (work.messages, work.wire_bytes)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_bytes_are_those_counted_send_by_send(ranks: int) -> None:
    """Parts that are sent of a tensor of n parts, by the busiest rank in its busier direction."""
    others = ranks - 1
    sent = {
        ("all_reduce", "one-shot"): others * ranks,
        ("all_reduce", "two-shot"): others * 1 + others * 1,
        ("all_reduce", "ring"): sum(1 for _ in range(others)) + sum(1 for _ in range(others)),
        # The switch reads each of the n parts once; each rank stores the one sum it owns.
        ("all_reduce", "in-switch"): ranks + 1,
        ("all_gather", "ring"): others,
        ("reduce_scatter", "ring"): others,
        ("all_to_all", "direct"): others,
        ("send_recv", "direct"): ranks,
    }
    for (op, path), parts in sent.items():
        assert float(moved(op, path, float(ranks))[1]) * ranks == pytest.approx(parts)
    # The chain is bound by latency: the whole tensor at each of its hops, up and down.
    messages, share = moved("all_reduce", "chain", float(ranks))
    assert messages == share == 2 * others


@pytest.mark.parametrize(("op", "path"), EVERY)
def test_more_ranks_never_mean_fewer_messages_or_less_of_the_tensor(op: str, path: str) -> None:
    messages, share = moved(op, path, np.array(RANKS))
    assert (np.diff(messages) >= 0).all()
    assert path == "in-switch" or (np.diff(share) >= 0).all()


def test_the_switch_can_pass_the_bound_of_a_ring_and_not_that_of_the_link() -> None:
    ranks = 8.0
    best = Constants(
        "all_reduce", (Regime("ring", 1e-7, 1e-8, 1.0), Regime("in-switch", 1e-7, 1e-8, 1.0))
    )
    size = 1e12
    ring = size / seconds(size, ranks, RATE, best)
    switch = size / by_regime(size, ranks, RATE, best, in_switch=True)[1]
    assert ring == pytest.approx(RATE * ranks / (2 * (ranks - 1)), rel=1e-3)
    assert ring < switch < RATE
    assert not usable("in-switch", 2.0, True)


@pytest.mark.parametrize("name", list(BOUNDS))
@pytest.mark.parametrize("factor", [0.99, 1.01, float("nan")])
def test_a_constant_that_is_not_physical_is_refused(name: str, factor: float) -> None:
    given = {"start": 1e-5, "message": 1e-6, "efficiency": 0.5, "sharpness": 8.0}
    given[name] = factor * BOUNDS[name][factor > 1]
    regime = Regime("ring", given["start"], given["message"], given["efficiency"])
    with pytest.raises(InputError, match=f"{name} = "):
        Constants("all_reduce", (regime,), given["sharpness"])


@pytest.mark.parametrize(
    ("op", "paths"), [("all_reduce", []), ("all_reduce", ["direct"]), ("broadcast", ["ring"])]
)
def test_an_algorithm_that_an_operation_does_not_have_is_refused(op: str, paths: list[str]) -> None:
    with pytest.raises(InputError, match="no collective known here") as caught:
        Constants(op, tuple(Regime(path, 1e-5, 1e-6, 0.5) for path in paths))
    assert "send_recv: direct" in caught.value.hint
