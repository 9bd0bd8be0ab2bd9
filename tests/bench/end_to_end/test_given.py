"""A few runs of a deployment are given, and its others predicted by what these tell."""

from typing import Any

import numpy as np
import pytest

from roofline.bench.end_to_end.given import GivenRuns, given_runs, table
from roofline.bench.end_to_end.replay import PreparedRow
from roofline.errors import InputError
from tests.bench.end_to_end.test_learning import LOADS, at, planted

SLOW = {"step_s": 3.0, "decode_gain": 1.2}
"""Constants of a host and of kernels that are slower than those shipped."""
DRAWN: dict[str, Any] = {"isl": 1000, "osl": 100, "length_low": 0.9, "length_high": 1.1}


@pytest.fixture(scope="module")
def rows() -> list[PreparedRow]:
    return planted(SLOW, at(LOADS, **DRAWN))


@pytest.fixture(scope="module")
def found(rows: list[PreparedRow]) -> GivenRuns:
    (only,) = given_runs(rows)
    return only


@pytest.mark.slow
def test_three_runs_tell_most_of_what_others_of_a_deployment_take(found: GivenRuns) -> None:
    assert found.runs == len(LOADS) - 3
    tpot = [np.median(errors["tpot_s"]) for errors in (found.shipped, found.learnt)]
    assert tpot[0] > 0.15
    assert tpot[1] < tpot[0] / 5


@pytest.mark.slow
def test_what_is_given_is_not_scored(rows: list[PreparedRow], found: GivenRuns) -> None:
    """Five of eight are left whichever come first, and those with fewer are left out."""
    (again,) = given_runs(rows[::-1])
    assert np.array_equal(again.learnt["tpot_s"], found.learnt["tpot_s"])
    assert given_runs(rows[:-1]) == []
    assert given_runs(rows, 4) == []


@pytest.mark.slow
def test_other_releases_are_other_deployments(rows: list[PreparedRow]) -> None:
    new = planted(SLOW, at(LOADS[:5], **DRAWN, version="0.12.1"))
    assert [each.runs for each in given_runs([*rows, *new])] == [5]


@pytest.mark.slow
def test_the_table_names_deployments_and_has_a_line_of_all(found: GivenRuns) -> None:
    lines = table([found])
    assert found.name.startswith("h100-sxm vllm llama-3.1-8b")
    assert lines[2].startswith(f"| {found.name} | 5 |")
    assert lines[-1].startswith("| all | 5 |")
    assert any(line.startswith("| clients inferred or assumed | 5 |") for line in lines)
    assert not any("as a source says" in line for line in lines)


def test_two_runs_are_too_few(rows: list[PreparedRow]) -> None:
    with pytest.raises(InputError, match="too few"):
        given_runs(rows, 2)
