"""Places of values among the nodes that an axis is priced at."""

import numpy as np
import pytest

from roofline.study.sweep.points import LISTED, Axis, AxisPlaces, Points
from tests.study.sweep.lanes import lane, numbers


def test_an_axis_of_few_values_is_priced_at_each_of_them() -> None:
    axis = Axis.of([7, 3, 3, 100])
    assert axis.nodes.tolist() == [3.0, 7.0, 100.0]
    assert AxisPlaces.of(axis, np.array([7.0, 100.0, 3.0])).below.tolist() == [1, 2, 0]
    assert AxisPlaces.of(axis, np.array([7.0, 100.0])).share is None


def test_an_axis_of_many_values_is_priced_at_some_of_them() -> None:
    axis = Axis.of(range(1, 100_001))
    assert len(axis.nodes) < LISTED
    values = np.array([1.0, 17.0, 12_345.0, 100_000.0])
    place = AxisPlaces.of(axis, values)
    assert place.at(lambda rows: axis.nodes[rows]) == pytest.approx(values, rel=1e-12)


def test_tables_between_nodes_are_straight() -> None:
    where = lane("llama-3.1-8b")
    axes = where.axes
    asked = numbers(where)
    points = Points.of(axes, asked["batch"], asked["prompt"], asked["output"])
    plane = axes.batch.nodes[:, None] * 2.0 + axes.prompt.nodes[None, :] * 3.0
    expected = asked["batch"] * 2.0 + asked["prompt"] * 3.0
    assert points.each(points.on(plane)) == pytest.approx(expected)
    halfway = Points.of(axes, np.array([2.0]), np.array([50.5]), np.array([1.0]))
    assert halfway.on(plane) == pytest.approx([2.0 * 2.0 + 50.5 * 3.0])


def test_other_points_are_not_taken_for_those_before() -> None:
    axes = lane("llama-3.1-8b").axes
    batch, prompt, output = np.array([1.0]), np.array([100.0]), np.array([2.0])
    first = Points.of(axes, batch, prompt, output)
    assert Points.of(axes, batch.copy(), prompt, output) is first
    batch[0] = 32.0
    assert Points.of(axes, batch, prompt, output).batches.below.item() == 2
