"""Draft length by load, and the work of a round, against brute force and hand counts."""

from itertools import pairwise

import numpy as np
import pytest

from roofline.cost.memory import kv_bytes_per_sequence, weight_bytes
from roofline.serving.acceptance import parse, walltime_improvement
from roofline.serving.draft_schedule import WORTH, schedule
from roofline.serving.drafts import NGRAM
from roofline.serving.rounds import Round
from roofline.serving.speculative import speculate
from roofline.serving.workload import Workload
from tests.serving.speculating import drafted, made, target

LENGTHS = Workload(8, 512, 12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["model", "eagle"])
def test_no_length_makes_tokens_faster_than_that_of_the_batch(kind: str) -> None:
    found = schedule(target(), drafted(kind), parse("0.7"), LENGTHS, 64)
    for batch in (1, 7, 33, 64):
        one = made(kind, length=1, work=Workload(batch, 512, 12))
        times = [one.plain.tpot_s, *(choice.round.tpot_s for choice in one.choices)]
        length = int(found.lengths[batch - 1])
        # A sheet has the plain step of a static batch within a part in 1,000.
        assert times[length] <= min(times) * WORTH * 1.001
        assert found.tpot_s[batch - 1] == pytest.approx(times[length], rel=2e-3)


def test_what_is_never_right_is_not_drafted_and_what_is_free_is() -> None:
    never = schedule(target(), drafted("model"), parse("0"), LENGTHS, 16)
    assert (never.lengths == 0).all()
    assert never.loses_from == 1
    np.testing.assert_array_equal(never.speed_up, 1.0)
    free = schedule(target(), NGRAM, parse("1.0"), LENGTHS, 4)
    assert (free.lengths >= 12).all()
    assert free.loses_from is None


def test_ranges_cover_every_batch_once() -> None:
    found = schedule(target(), drafted("eagle"), parse("0.6"), LENGTHS, 200)
    ranges = found.ranges()
    assert ranges[0][0] == 1
    assert ranges[-1][1] == 200
    for (_, last, length), (first, _, other) in pairwise(ranges):
        assert first == last + 1
        assert length != other
    for first, last, length in ranges:
        assert (found.lengths[first - 1 : last] == length).all()


@pytest.mark.slow
def test_the_bound_is_that_of_leviathan_and_is_never_exceeded() -> None:
    one = made("model", length=3)
    cost = one.round.draft_s / 3 / one.round.step_s
    assert one.round.bound == pytest.approx(float(walltime_improvement(0.7, 3, cost)))
    assert all(at.round.speed_up <= at.round.bound * (1 + 1e-9) for at in one.batches)
    # 1 + 1/2 + 1/4 tokens; two passes that take a quarter of a step each.
    assert Round(1.75, 0.5, 1.0, 1.0).bound == pytest.approx(1.75 / 1.5)
    assert Round(1.75, 0.5, 1.0, 1.0).speed_up == pytest.approx(Round(1.75, 0.5, 1.0, 1.0).bound)


def test_memory_traffic_is_weights_once_and_the_cache_of_each() -> None:
    work = Workload(4, 2000, 3)
    network = target()
    one = speculate(network, NGRAM, parse("0.5"), work, length=3).operations[0]
    # The input embedding is a lookup; activations and the new cache are small.
    table = network.architecture.vocab * network.architecture.d_model * 2
    known = weight_bytes(network) - table + 4 * kv_bytes_per_sequence(network, 2001.0)
    assert one.step_bytes == pytest.approx(known, rel=0.01)
    assert one.draft_bytes == 0
    # Four tokens of each sequence read the same weights and cache once.
    assert one.verify_bytes == pytest.approx(one.step_bytes, rel=0.01)
    assert one.verify == pytest.approx(4 * one.step, rel=0.01)
    # 1 + 1/2 + 1/4 + 1/8 tokens share what one would read.
    assert one.traffic == pytest.approx(1 / 1.875, rel=0.01)
