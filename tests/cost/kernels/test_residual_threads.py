"""Rows that are remembered are the same whoever asks meanwhile."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from roofline.cost.kernels import residual
from roofline.cost.kernels.residual import Hull, located

HULL = Hull(np.zeros(1), np.full(1, 4.0), np.arange(5.0)[:, None], 1.0)


def test_threads_that_ask_at_once_are_told_what_one_would_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Queries for more than is remembered, so that each makes room while others look."""
    monkeypatch.setattr(residual, "MOST_KNOWN", 8)
    asked = [np.full((1, 1), number / 16.0) for number in range(128)] * 20
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda at: float(located(None, HULL, at)[1][0]), asked))
    assert found == [float(located(None, HULL, at)[1][0]) for at in asked]
