"""Rows that are remembered are the same whoever asks meanwhile."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from roofline.cost.kernels import residual
from roofline.cost.kernels.residual import Hull, Residual, located, outside, value
from roofline.cost.work import Array

HULL = Hull(np.zeros(1), np.full(1, 4.0), np.arange(5.0)[:, None], 1.0)


@pytest.mark.slow
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
    look_up = residual.outside

    def counted(hull: Hull, at: Array) -> Array:
        rows.append(len(at))
        return look_up(hull, at)

    monkeypatch.setattr(residual, "outside", counted)
    hull = HULL._replace(radius=2.0)
    some = np.array([[1.0], [2.0], [1.0], [7.0]])
    first = located(None, hull, some)
    again = located(None, hull, np.append(some[::-1], [[8.0]], axis=0))
    assert rows == [3, 1]
    assert again[1].tolist() == [*first[1][::-1], 4.0]


def test_tables_of_the_same_points_are_each_as_they_are_alone() -> None:
    """Another table, a row that another asked for, a table that comes late, and another width."""
    random = np.random.default_rng(0)
    points = random.uniform(0.0, 4.0, (40, 2))
    hull = Hull(np.zeros(2), np.full(2, 4.0), points, 1.0)
    tables = [Residual(random.normal(size=40), reach) for reach in (3.0, 3.0, 3.0, 1.5)]
    at = random.uniform(-1.0, 5.0, (300, 2))
    few = np.append(at[::2], at[:40], axis=0)
    for table, some in ((0, few), (1, at), (0, at), (2, few), (3, at)):
        same = hull._replace(points=points.copy())
        found, beyond = located(tables[table], same, some)
        assert found.tolist() == value(tables[table], hull, some).tolist()
        assert np.allclose(beyond, outside(hull, some), atol=1e-6)


def test_tables_of_the_same_points_share_their_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    look_up = residual._surfaces

    def counted(
        tables: Sequence[Residual], points: Array, at: Array, waves: Array | None
    ) -> tuple[Array, Array]:
        rows.append(len(at))
        return look_up(tables, points, at, waves)

    monkeypatch.setattr(residual, "_surfaces", counted)
    hull = HULL._replace(radius=3.0)
    one, other = Residual(np.ones(5), 3.0), Residual(np.arange(5.0), 3.0)
    for table, many in ((one, 10), (other, 20), (one, 20), (one, 30), (other, 30)):
        located(table, hull, np.arange(float(many))[:, None])
    assert rows == [10, 20, 10]
