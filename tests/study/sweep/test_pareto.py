"""Points that no other one beats, against comparing every pair."""

import numpy as np
import pytest

from roofline.cost.work import Array
from roofline.study.sweep.keep import CoarseGrid, unbeaten


def by_pairs(values: Array) -> list[bool]:
    """Whether nothing is nowhere worse and somewhere better."""
    as_good = np.all(values[:, None] <= values[None, :], axis=2)
    better = np.any(values[:, None] < values[None, :], axis=2)
    return [not beaten for beaten in (as_good & better).any(axis=0).tolist()]


@pytest.mark.parametrize("objectives", [1, 2, 3, 4])
def test_unbeaten_points_are_those_of_comparing_every_pair(objectives: int) -> None:
    random = np.random.default_rng(objectives)
    for trial in range(60):
        count = int(random.integers(0, 40))
        # Few values make ties; both signs, as of what is wanted large.
        values = random.integers(-3, 4, (count, objectives)).astype(float)
        if trial % 2:
            values = -random.lognormal(size=(count, objectives))
        if trial % 5 == 0:
            values[random.random(values.shape) < 0.1] = np.inf
        assert unbeaten(values).tolist() == by_pairs(values), (trial, count)


@pytest.mark.slow
@pytest.mark.parametrize("objectives", [2, 3, 4])
@pytest.mark.parametrize("kind", ["cloud", "front", "ties"])
def test_grids_and_blocks_lose_nothing(objectives: int, kind: str) -> None:
    """So many points that they are thinned out by grids, and compared in blocks."""
    random = np.random.default_rng(objectives)
    values = random.lognormal(size=(1500, objectives))
    if kind == "front":  # on a sphere nothing beats anything
        values = -values / np.linalg.norm(values, axis=1, keepdims=True)
    if kind == "ties":
        values = np.floor(values * 4.0)
    assert unbeaten(values).tolist() == by_pairs(values)


def test_equals_do_not_beat_each_other() -> None:
    same = np.ones((3, 3))
    assert unbeaten(same).tolist() == [True] * 3
    assert not CoarseGrid.of(same).beat(same).any()


def test_nothing_is_unbeaten_of_nothing() -> None:
    assert unbeaten(np.empty((0, 3))).tolist() == []


def test_cells_beat_only_what_a_point_beats() -> None:
    random = np.random.default_rng(0)
    some, others = random.lognormal(size=(2, 800, 3))
    found = CoarseGrid.of(some).beat(others)
    beaten = [bool((np.all(some <= p, axis=1) & np.any(some < p, axis=1)).any()) for p in others]
    assert not (found & ~np.array(beaten)).any()
    assert found.sum() > 0.7 * sum(beaten)
