"""Rows that are remembered are the same whoever asks meanwhile."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from roofline.cost.kernels import residual
from roofline.cost.kernels.residual import Hull, Residual, located
from roofline.cost.work import Array

HULL = Hull(np.zeros(1), np.full(1, 4.0), np.arange(5.0)[:, None], 1.0)


def test_threads_that_ask_at_once_are_told_what_one_would_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Queries for more than is remembered, so that each makes room while others look."""
    monkeypatch.setattr(residual, "MOST_ROWS", 8)
    asked = [np.full((1, 1), number / 16.0) for number in range(128)] * 20
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda at: float(located(None, HULL, at)[1][0]), asked))
    assert found == [float(located(None, HULL, at)[1][0]) for at in asked]


def test_a_row_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever rows it is asked for with, and if it is asked for twice at once."""
    rows: list[int] = []
    look_up = residual._located

    def counted(
        table: Residual | None, hull: Hull, at: Array, waves: Array | None
    ) -> tuple[Array, Array]:
        rows.append(len(at))
        return look_up(table, hull, at, waves)

    monkeypatch.setattr(residual, "_located", counted)
    hull = HULL._replace()
    some = np.array([[1.0], [2.0], [1.0], [7.0]])
    first = located(None, hull, some)
    again = located(None, hull, np.append(some[::-1], [[8.0]], axis=0))
    assert rows == [3, 1]
    assert again[1].tolist() == [*first[1][::-1], 4.0]
