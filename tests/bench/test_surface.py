"""Residual tables against the equations they solve, written out."""

import numpy as np
import pytest

from roofline.bench.rows import SEED, families_of
from roofline.bench.surface import (
    ERROR_SCALE,
    FAMILIES,
    JITTER,
    LEAF_NOISE,
    OCTAVE_DIGITS,
    PART,
    PASSES,
    SHARE,
    STEP_NOISE,
    branches,
    cover,
    steps,
    surface,
)
from roofline.cost.kernels.gemm import TREES
from roofline.cost.kernels.residual import (
    FINEST,
    DecisionTrees,
    Hull,
    asked,
    beyond,
    branched,
    distances,
    jumps,
    located,
    matern,
    outside,
    separation,
    tabled,
    value,
    with_waves,
)
from roofline.cost.work import Array

RANDOM = np.random.default_rng(4)
AT = np.log2(
    np.stack([RANDOM.integers(1, 40, 300), *(2.0 ** RANDOM.integers(6, 12, (2, 300)))], axis=-1)
)
FAMILY = families_of(dict(zip("nk", AT[:, 1:].T, strict=True)), ("n", "k"))
VALUES = 0.2 * np.sin(AT[:, 0]) + 0.05 * AT[:, 1] + RANDOM.normal(0, 0.02, 300)


def farthest_first(at: Array, points: int) -> Array:
    """Gonzalez, by measuring everything each time."""
    every = np.unique(at, axis=0)
    centre = (at.min(axis=0) + at.max(axis=0)) / 2
    chosen = [every[np.linalg.norm(every - centre, axis=1).argmin()]]
    while len(chosen) < min(points, len(every)):
        apart = np.linalg.norm(every[:, None] - np.stack(chosen)[None], axis=2).min(axis=1)
        chosen.append(every[apart.argmax()])
    return np.stack(chosen)


def test_points_cover_the_rows() -> None:
    hull = cover(AT, 40)
    np.testing.assert_array_equal(hull.points, farthest_first(AT, 40))
    assert outside(hull, AT).max() == 0.0


def test_what_tables_of_a_hull_share_changes_nothing() -> None:
    hull = cover(AT, 40)
    table, there = surface(separation(hull, AT), VALUES, separation(hull, hull.points), 3.0)
    np.testing.assert_allclose(there, value(table, hull, AT), rtol=1e-12, atol=1e-15)
    with_steps = table._replace(steps=steps(AT, VALUES - there, 3.0))
    far = AT + np.array([0.0, 4.0, -3.0])
    apart = separation(hull, far)
    off = beyond(hull, far, apart)
    np.testing.assert_array_equal(off, outside(hull, far))
    for one in (table, with_steps):
        found = tabled(one, hull, far, apart, off)
        np.testing.assert_allclose(found, value(one, hull, far), rtol=1e-12, atol=1e-15)


def test_waves_are_coordinates_of_the_surface_but_not_of_the_hull() -> None:
    hull = cover(AT, 40)
    rng = np.random.default_rng(1)
    waves, at_points = rng.random((len(AT), 2)), rng.random((len(hull.points), 2))
    # Distances in all columns together, by the definition.
    wide = np.concatenate([AT, waves], axis=1)[:, None]
    points = np.concatenate([hull.points, at_points], axis=1)
    whole = np.linalg.norm(wide - points, axis=2)
    apart = with_waves(separation(hull, AT), waves, at_points)
    np.testing.assert_allclose(apart, whole, rtol=1e-9)
    among = with_waves(separation(hull, hull.points), at_points, at_points)
    made, there = surface(apart, VALUES, among, 3.0)
    table = made._replace(waves=at_points)
    found, far = located(table, hull, AT, waves)
    np.testing.assert_allclose(found, there, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(far, outside(hull, AT))
    assert np.abs(value(table, hull, AT, 1.0 - waves) - there).max() > 1e-3


def test_a_surface_is_close_to_what_it_was_made_of() -> None:
    hull = cover(AT)
    _, there = surface(separation(hull, AT), VALUES, separation(hull, hull.points), 3.0)
    assert np.abs(there - VALUES).mean() < 0.5 * np.abs(VALUES - VALUES.mean()).mean()


def node_by_node(at: Array, values: Array, reach: float) -> Array:
    """Each node is a ridge regression of the rows that touch it, weighed by nearness and fit."""
    nodes = np.unique(at[:, 0])
    families = cover(at[:, 1:], FAMILIES).points
    near = matern(distances(at[:, 1:], families) / reach)
    prior = STEP_NOISE * matern(distances(families, families) / reach)
    weights = []
    for i, node in enumerate(nodes):
        hat = np.zeros(len(at))
        for other in (i - 1, i + 1):
            if 0 <= other < len(nodes):
                way = (at[:, 0] - nodes[other]) / (node - nodes[other])
                hat = np.where((way > 0) & (way <= 1), way, hat)
        rows = hat > 0
        share, found = hat[rows], np.asarray(np.zeros(len(families)), dtype=np.float64)
        for _ in range(PASSES):
            normal = near[rows].T @ np.diag(share) @ near[rows]
            normal += prior + JITTER * rows.sum() * np.eye(len(families))
            found = np.asarray(
                np.linalg.solve(normal, near[rows].T @ (share * values[rows])), dtype=np.float64
            )
            off = (values[rows] - near[rows] @ found) / ERROR_SCALE
            share = hat[rows] / np.sqrt(1 + off**2)
        weights.append(found)
    return np.stack(weights)


def test_steps_are_a_regression_at_each_node() -> None:
    found = steps(AT, VALUES, 3.0)
    assert found is not None
    np.testing.assert_allclose(found.weights, node_by_node(AT, VALUES, 3.0), rtol=1e-6, atol=1e-9)


def test_a_jump_is_in_the_steps() -> None:
    odd = np.where(np.round(2.0 ** AT[:, 0]) % 2 == 1, 0.3, 0.0)
    found = steps(AT, odd, 3.0)
    assert found is not None
    there = jumps(found, 3.0, AT)
    assert there[odd > 0].mean() > 0.2
    assert np.abs(there[odd == 0]).mean() < 0.05


def test_branches_are_asked_about_coordinates_products_and_waves() -> None:
    at, waves = np.log2([[2.0, 3.0, 5.0], [1.0, 4.0, 2.0]]), np.array([[0.1], [0.7]])
    products = [[6.0, 10.0, 15.0, 30.0], [4.0, 2.0, 8.0, 8.0]]
    np.testing.assert_allclose(asked(at, waves), np.hstack([at, np.log2(products), waves]))
    np.testing.assert_array_equal(asked(at[:, :1], None), at[:, :1])


def walked(trees: DecisionTrees, row: Array) -> float:
    """Question by question, each answer halving what is left of a tree's leaves."""
    out = 0.0
    for columns, bounds, leaves in zip(trees.columns, trees.bounds, trees.values, strict=True):
        left = leaves.tolist()
        for column, bound in zip(columns.tolist(), bounds.tolist(), strict=True):
            half = len(left) // 2
            left = left[half:] if row[column] > bound else left[:half]
        out += left[0]
    return out


@pytest.mark.slow  # it compiles the trees, as do those below
def test_a_row_gets_what_its_answers_lead_to() -> None:
    found = branches(asked(AT, None), VALUES, FAMILY, TREES)
    rows = asked(AT[:20] + 0.3, None)
    walks = [walked(found, row) for row in rows]
    np.testing.assert_array_equal(branched(found, rows), walks)
    np.testing.assert_array_equal([branched(found, row[None])[0] for row in rows], walks)


@pytest.mark.slow
def test_trees_are_the_same_each_time() -> None:
    one, other = (branches(asked(AT, None), VALUES, FAMILY, TREES) for _ in range(2))
    for first, second in zip(one, other, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.slow
def test_a_tree_is_made_of_a_part_of_the_families() -> None:
    """A family that stands out alone does not decide the first question of every tree."""
    columns = asked(AT, None)
    found = branches(columns, np.where(FAMILY == 0, 0.3, 0.0), FAMILY, TREES)
    untouched = np.abs(found.values[:20]).max(axis=1) < FINEST
    assert 0 < untouched.sum() < 20


def first_question(columns: Array, values: Array, weight: Array) -> tuple[int, float]:
    """Column and bound after which two leaves explain most, by trying all."""
    best: tuple[float, int, float] = (-1.0, 0, 0.0)
    for place, column in enumerate(columns.T):
        every = np.unique(np.round(column, OCTAVE_DIGITS))
        for bound in ((every[1:] + every[:-1]) / 2.0).tolist():
            sides = [column > bound, column <= bound]
            gain = sum(
                (weight[side] @ values[side]) ** 2 / (weight[side].sum() + LEAF_NOISE)
                for side in sides
            )
            if gain > best[0] * (1.0 + 1e-12):
                best = (float(gain), place, bound)
    return best[1], best[2]


@pytest.mark.slow
def test_the_first_question_explains_most() -> None:
    few = slice(0, 40)
    columns, values = asked(AT[few, :2], None), VALUES[few]
    family = np.zeros(40, np.int64)
    found = branches(columns, values, family, TREES)
    tree = int(np.abs(found.values).any(axis=1).argmax())
    weight = 1.0 / np.sqrt(1.0 + (values / ERROR_SCALE) ** 2)
    asked_ = (int(found.columns[tree, 0]), float(found.bounds[tree, 0]))
    assert asked_ == pytest.approx(first_question(columns, values, weight))


@pytest.mark.slow
def test_a_kernel_that_is_taken_above_a_product_of_sizes_is_in_the_branches() -> None:
    columns = asked(AT, None)
    above = columns[:, 5] > 16.0
    found = branches(columns, np.where(above, 0.4, 0.0), FAMILY, TREES)
    assert found.columns.shape == (TREES.number, TREES.levels)
    assert (found.columns[0, 0], found.bounds[0, 0]) == (5, 16.5)
    np.testing.assert_allclose(branched(found, columns)[above], 0.4, atol=0.01)
    np.testing.assert_allclose(branched(found, columns)[~above], 0.0, atol=0.01)
    # The first tree takes its share of what is left, drawn to none, and stores it roughly.
    part = np.random.default_rng(SEED).random((TREES.number, len(np.unique(FAMILY)))) < PART
    weight = (above & part[0, FAMILY]).sum() / np.sqrt(1.0 + (0.4 / ERROR_SCALE) ** 2)
    most = SHARE * 0.4 * weight / (weight + LEAF_NOISE)
    assert 0.5 * most < found.values[0].max() <= most + FINEST


@pytest.mark.parametrize("at", [np.zeros((5, 2)), np.arange(5.0)[:, None]])
def test_there_is_nothing_to_step_along(at: Array) -> None:
    assert steps(at, np.zeros(5), 3.0) is None


def test_a_hull_of_one_row_is_that_row() -> None:
    hull = cover(np.array([[1.0, 2.0]]))
    assert isinstance(hull, Hull)
    assert outside(hull, np.array([[2.0, 2.0]])).tolist() == pytest.approx([1.0], abs=1e-6)
