"""Shapes that come again are looked up once, and change nothing."""

import numpy as np
import pytest

from roofline.api.setting import machine_of, make_deployment, network_of
from roofline.cost.kernels.form import FEW, distinct
from roofline.cost.step import SequenceGroup, decode, prefill
from roofline.serving.stages import price_step
from tests.cases import cases


@pytest.mark.parametrize("seed", range(20))
def test_every_row_is_the_distinct_row_it_points_at(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 60))
    dims = {name: rng.integers(1, 4, rows).astype(float) for name in ("m", "n", "k")}
    first, place = distinct(dims)
    whole = np.stack(list(dims.values()), axis=1)
    assert np.array_equal(whole[first][place], whole)
    assert len(first) == len({tuple(row) for row in whole.tolist()})


@pytest.mark.slow
@pytest.mark.parametrize("group", [decode, lambda b, c: prefill(b, c)])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "deepseek-v2-lite"])
def test_a_grid_is_priced_as_its_rows_are(model: str, group: object) -> None:
    assert callable(group)
    gpu, node = machine_of("h100-sxm", None, None)
    deployment = make_deployment(network_of(model), gpu, node, calibration="auto")
    batches, contexts = np.meshgrid([1.0, 7.0, 64.0], np.linspace(16, 4000, 3 * FEW).round())

    def price(some: slice) -> tuple[np.ndarray, np.ndarray]:
        asked: SequenceGroup = group(batches.ravel()[some], contexts.ravel()[some])
        (stage,) = price_step(deployment, asked)
        return np.asarray(stage.seconds()), np.asarray(stage.parts.log_sd)

    seconds, spread = price(slice(None))
    for row in range(0, batches.size, 97 * cases(3, 1)):
        alone, its_spread = price(slice(row, row + 1))
        assert seconds[row] == pytest.approx(alone[0], rel=1e-12)
        assert spread[row] == pytest.approx(its_spread[0], rel=1e-12)
