"""Tiles of experts whose rows are only known together."""

import numpy as np
import pytest

from roofline.cost.kernels.experts import HEIGHTS
from roofline.cost.kernels.routing import padding


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [4, 64, 1000, 20_000])
@pytest.mark.parametrize(("experts", "active"), [(8, 2), (128, 8), (256, 8)])
def test_tiles_are_those_of_tokens_that_choose_at_random(
    tokens: int, experts: int, active: int
) -> None:
    random = np.random.default_rng(3)
    rows, touched = [], []
    tiles: dict[int, list[float]] = {height: [] for height in HEIGHTS}
    for _ in range(60 if tokens < 20_000 else 6):  # of many tokens any draw is near the mean
        chosen = random.random((tokens, experts)).argpartition(active, axis=1)[:, :active]
        loads = np.bincount(chosen.ravel(), minlength=experts)
        rows.append(loads.sum())
        touched.append((loads > 0).sum())
        for height, each in tiles.items():
            each.append(float(np.ceil(loads / height).sum()))
    found = padding(np.array(float(np.mean(rows))), np.array(float(np.mean(touched))))
    # Loads of experts are binomial; Poisson spreads them a little more where k/E is large.
    for height, each in tiles.items():
        assert float(found[height]) == pytest.approx(np.mean(each), rel=0.06)


def test_tiles_hold_all_rows_and_every_expert_has_one() -> None:
    rows = np.geomspace(8.0, 1e7, 50)
    for height, tiles in padding(rows, np.full_like(rows, 8.0)).items():
        assert np.all(tiles >= 8.0 - 1e-9)
        assert np.all(height * tiles >= rows * (1.0 - 1e-9))
        assert np.all(np.diff(tiles) >= -1e-9)
