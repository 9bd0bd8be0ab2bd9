"""Tiles of experts whose rows are only known together."""

import numpy as np
import pytest

from roofline.cost.kernels.loads import padding
from roofline.cost.kernels.routing import LEAST, TILE


@pytest.mark.parametrize("tokens", [4, 64, 1000, 20_000])
@pytest.mark.parametrize(("experts", "active"), [(8, 2), (128, 8), (256, 8)])
def test_tiles_are_those_of_tokens_that_choose_at_random(
    tokens: int, experts: int, active: int
) -> None:
    random = np.random.default_rng(3)
    tiles, padded, rows, touched = [], [], [], []
    for _ in range(60):
        chosen = random.random((tokens, experts)).argpartition(active, axis=1)[:, :active]
        loads = np.bincount(chosen.ravel(), minlength=experts)
        rows.append(loads.sum())
        touched.append((loads > 0).sum())
        tiles.append(np.ceil(loads / TILE).sum())
        padded.append(LEAST * np.ceil(loads / LEAST).sum())
    found = padding(np.array(float(np.mean(rows))), np.array(float(np.mean(touched))))
    # Loads of experts are binomial; Poisson spreads them a little more where k/E is large.
    assert float(found[0]) == pytest.approx(np.mean(tiles), rel=0.06)
    assert float(found[1]) == pytest.approx(np.mean(padded), rel=0.06)


def test_tiles_hold_all_rows_and_every_expert_has_one() -> None:
    rows = np.geomspace(8.0, 1e7, 50)
    tiles, padded = padding(rows, np.full_like(rows, 8.0))
    assert np.all(tiles >= 8.0 - 1e-9)
    assert np.all(padded >= rows * (1.0 - 1e-9))
    assert np.all(np.diff(tiles) >= -1e-9)
