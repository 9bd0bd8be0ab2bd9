"""External fragmentation by a map of slots, beside the list of regions."""

import numpy as np
import pytest

from roofline.errors import InputError
from roofline.serving.paged import TURNS, external_share, lengths_around


def by_slots(pool: int, mean: float, spread: float, seed: int) -> float:
    """The same requests and departures on an array that says which slot is whose."""
    owner = np.full(pool, -1)
    lengths = lengths_around(mean, spread, 9000, seed).astype(int)
    leaving = np.random.default_rng(seed + 1)
    asked, wasted, turns = 0, 0.0, 0
    while turns < TURNS:
        size = int(lengths[asked])
        free = np.concatenate([[0], np.cumsum(owner < 0)])
        fits = np.flatnonzero(free[size:] - free[:-size] == size)
        if len(fits):
            owner[fits[0] : fits[0] + size] = asked
            asked += 1
            continue
        wasted += free[-1] if free[-1] >= size else 0
        turns += 1
        present = owner[owner >= 0]
        order = present[np.sort(np.unique(present, return_index=True)[1])]
        owner[owner == order[leaving.integers(len(order))]] = -1
    return wasted / (pool * TURNS)


@pytest.mark.slow
@pytest.mark.parametrize(("pool", "mean", "spread"), [(400, 40.0, 0.5), (300, 30.0, 0.9)])
def test_first_fit_loses_what_a_map_of_slots_loses(pool: int, mean: float, spread: float) -> None:
    assert external_share(pool, mean, spread, seed=7) == pytest.approx(
        by_slots(pool, mean, spread, 7)
    )


@pytest.mark.slow
def test_equal_lengths_leave_nothing_between_them_and_wider_spreads_more() -> None:
    shares = [external_share(20_000, 200.0, spread) for spread in (0.0, 0.1, 0.5, 0.9)]
    assert shares[0] == 0.0
    assert 0.0 < shares[1] < shares[2]
    assert shares[3] < 1.0
    assert external_share(100, 200.0, 0.5) == 0.0  # not even one fits


@pytest.mark.parametrize("spread", [-0.1, 1.0, float("nan")])
def test_spreads_without_a_meaning_are_refused(spread: float) -> None:
    with pytest.raises(InputError, match="spread"):
        lengths_around(100.0, spread, 4, 0)
