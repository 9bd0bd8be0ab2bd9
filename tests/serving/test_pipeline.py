"""Pipelines: closed forms against batches that pass through stages event by event."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost.layout import parts
from roofline.serving.stages import fill, finish, finish_with, pace, period
from tests.cases import examples
from tests.cost.reference.pipelining import completions

SEVERAL = settings(max_examples=examples(150), deadline=None)
STAGES = st.lists(st.integers(1, 12), min_size=1, max_size=5)


@SEVERAL
@given(STAGES, st.integers(1, 9))
def test_equal_batches_are_done_when_the_events_say(stages: list[int], number: int) -> None:
    (ends,) = completions([stages] * number)
    floats = [float(each) for each in stages]
    assert fill(floats) == ends[0]
    assert finish(floats, number) == ends[-1]
    assert all(late - early == pace(floats) for early, late in pairwise(ends))


@SEVERAL
@given(st.data(), STAGES, st.integers(0, 6))
def test_a_last_batch_of_another_size_is_done_when_the_events_say(
    data: st.DataObject, stages: list[int], number: int
) -> None:
    last = [data.draw(st.integers(1, each)) for each in stages]
    (ends,) = completions([stages] * number + [last])
    ours = finish_with([float(each) for each in stages], number, [float(each) for each in last])
    assert ours == ends[-1]


@SEVERAL
@given(STAGES, st.integers(1, 6))
def test_batches_that_take_turns_come_around_as_often_as_the_events_say(
    stages: list[int], number: int
) -> None:
    # Once the first rounds are over the same happens again and again.
    rounds = completions([stages] * number, rounds=40)
    steady = Fraction(rounds[39][-1] - rounds[19][-1], 20)
    assert period([float(each) for each in stages], number) == pytest.approx(float(steady))


@SEVERAL
@given(STAGES, st.integers(1, 9))
def test_a_bubble_is_what_stages_wait_beside_their_work(stages: list[int], number: int) -> None:
    floats = [float(each) for each in stages]
    whole = finish(floats, number)
    assert whole >= number * pace(floats)
    assert whole <= number * fill(floats)
    assert finish(floats, 1) == fill(floats)


@pytest.mark.parametrize(("stages", "number"), [(4, 8), (8, 8), (2, 1), (1, 5)])
def test_equal_stages_have_the_bubble_of_the_textbook(stages: int, number: int) -> None:
    ideal = number * 1.0
    assert finish([1.0] * stages, number) / ideal - 1 == pytest.approx((stages - 1) / number)


@SEVERAL
@given(st.lists(STAGES.filter(lambda s: len(s) == 3), min_size=2, max_size=4), st.integers(1, 5))
def test_a_column_of_pipelines_passes_like_its_rows(rows: list[list[int]], number: int) -> None:
    stages = [np.array(column, float) for column in zip(*rows, strict=True)]
    half = [each / 2 for each in stages]
    together = [f(stages, number) for f in (finish, period)] + [finish_with(stages, number, half)]
    for i, row in enumerate(rows):
        alone = [float(each) for each in row]
        halved = [each / 2 for each in alone]
        one = [finish(alone, number), period(alone, number), finish_with(alone, number, halved)]
        assert [np.asarray(many)[i] for many in together] == one


@given(st.integers(1, 130), st.integers(1, 20))
def test_layers_are_spread_evenly_and_the_last_stage_never_has_more(layers: int, pp: int) -> None:
    each = parts(layers, pp)
    assert (len(each), sum(each)) == (pp, layers)
    assert max(each) - min(each) <= 1
    assert each[-1] == min(each)
