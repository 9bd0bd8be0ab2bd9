"""Instances that prefill and decode get of a number of devices."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.serving.pools import PoolSplit, PoolTimes, divide
from tests.cases import examples
from tests.serving.pooled import PHASES, SECONDS, phases

SEVERAL = settings(max_examples=examples(40), deadline=None)


@SEVERAL
@given(PHASES, st.integers(1, 9), st.integers(1, 9), st.integers(18, 90))
def test_no_other_instances_on_these_devices_serve_more(
    times: PoolTimes, prefill: int, decode: int, gpus: int
) -> None:
    split = divide(times, prefill, decode, gpus)
    assert split.prefill * prefill + split.decode * decode <= gpus
    served = split.requests_per_s(times)
    for n in range(1, gpus // prefill + 1):
        if rest := (gpus - n * prefill) // decode:
            assert PoolSplit(n, rest).requests_per_s(times) <= served
    for fewer in (
        PoolSplit(split.prefill - 1, split.decode),
        PoolSplit(split.prefill, split.decode - 1),
    ):
        if fewer.prefill and fewer.decode:
            assert fewer.requests_per_s(times) < served
    # Devices that could be divided at will would serve this much.
    ideal = gpus / (prefill / times.prompts_per_s + decode / times.answers_per_s)
    assert served <= ideal * (1 + 1e-12)


@SEVERAL
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 8), st.integers(1, 8), SECONDS)
def test_the_balanced_ratio_leaves_neither_pool_idle(
    prefill: int, decode: int, wide: int, deep: int, second: float
) -> None:
    times = phases(prompt_s=prefill * second, answer_s=decode * second)
    assert times.ratio == pytest.approx(prefill / decode)
    split = divide(times, wide, deep, prefill * wide + decode * deep)
    assert (split.prefill, split.decode) == (prefill, decode)
    assert split.idle(times) == pytest.approx((0.0, 0.0), abs=1e-12)


@SEVERAL
@given(PHASES)
def test_without_a_number_of_devices_one_kind_has_a_single_instance(times: PoolTimes) -> None:
    split = divide(times, 4, 8, None)
    assert min(split.prefill, split.decode) == 1
    assert abs(split.prefill / split.decode - times.ratio) <= max(times.ratio, 1.0)
    if times.ratio >= 1:
        assert split.prefill in (int(times.ratio), int(times.ratio) + 1)


@SEVERAL
@given(PHASES, st.integers(1, 20), st.integers(1, 20))
def test_wires_that_are_asked_for_too_much_set_the_pace(
    times: PoolTimes, prefill: int, decode: int
) -> None:
    split = PoolSplit(prefill, decode)
    share = split.utilisation(times)
    served = split.requests_per_s(times)
    assert served == pytest.approx(split.demand(times) / max(share, 1.0), rel=1e-12)
    assert all(-1e-12 <= idle < 1 for idle in split.idle(times))
