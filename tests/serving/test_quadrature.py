"""The mean over a growing context against the sum over every integer."""

from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.cost.deployment import Deployment
from roofline.cost.step import SequenceGroup, step
from roofline.serving.quadrature import Answers, ContextSums, context_nodes, mean, nodes
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from tests.cases import examples
from tests.cost.networks import BARE, dense, deployed
from tests.pricing import seconds
from tests.serving.deployments import on

ALLOWED: Final = 1e-4


def by_brute_force(deployment: Deployment, work: Workload) -> float:
    """Mean decode step over every context of the answer, each one priced."""
    contexts = np.arange(work.prompt + 1, work.longest + 1, dtype=float)
    total = 0.0
    for part in np.array_split(contexts, max(1, len(contexts) // 8192)):
        new = 1.0 if work.kv_cache else part
        priced = seconds(step(deployment, SequenceGroup(float(work.batch), new, part)), deployment)
        total += float(np.sum(np.broadcast_to(np.asarray(priced), part.shape)))
    return total / len(contexts)


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.floats(-5, 5), st.floats(-5, 5))
def test_a_line_has_its_exact_mean(first: int, more: int, slope: float, offset: float) -> None:
    last = first + more
    ours = mean(lambda x: slope * x + offset, first, last)
    assert ours == pytest.approx(slope * (first + last) / 2 + offset, rel=1e-11, abs=1e-9)


@given(st.integers(1, 10**9), st.integers(0, 64))
def test_a_short_range_is_summed_term_by_term(first: int, more: int) -> None:
    points, weights = nodes(first, first + more)
    assert list(points) == list(range(first, first + more + 1))
    assert list(weights) == [1 / (more + 1)] * (more + 1)


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(2, 200))
def test_nodes_are_integers_of_the_range_with_both_ends(first: int, more: int, most: int) -> None:
    points, weights = nodes(first, first + more, most)
    assert points[0] == first
    assert points[-1] == first + more
    assert len(points) == min(most, more + 1)
    assert all(point == int(point) for point in points)
    assert weights.sum() == pytest.approx(1.0, rel=1e-12)
    assert min(weights) > 0


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.integers(1, 25), min_size=2, max_size=6, unique=True).map(sorted))
def test_means_of_straight_lines_are_those_of_every_context(nodes: list[int]) -> None:
    at = np.array(nodes, float)
    values = np.random.default_rng(len(nodes)).random((2, len(nodes)))
    sums = ContextSums.of(at, values)
    for prompt in range(nodes[0], nodes[-1]):
        for last in range(prompt + 1, nodes[-1] + 1):
            output = np.array([last - prompt + 1.0])
            answer = Answers.of(at, np.array([float(prompt)]), output)
            between = np.interp(np.arange(prompt + 1, last + 1), at, values[1]).mean()
            found = sums.mean(answer, np.array([1]))[0]
            assert found == pytest.approx(between, rel=1e-12, abs=1e-12)
            assert answer.weights(at) @ values[1] == pytest.approx(between, rel=1e-12)


@given(st.integers(1, 10**7), st.integers(1, 10**6), st.integers(0, 10**5))
def test_contexts_do_not_depend_on_what_else_is_priced(low: int, more: int, beside: int) -> None:
    network = dense(window=4000)
    alone = context_nodes(network, low, low + more)
    wide = context_nodes(network, max(low - beside, 1), low + more + beside)
    assert alone[0] <= low
    assert alone[-1] >= low + more
    assert np.array_equal(alone, wide[(wide >= alone[0]) & (wide <= alone[-1])])


CASES: Final = [
    # A window that fills within the answer, at its start, and in its last steps.
    pytest.param("gemma-2-9b", Workload(1, 3000, 3000), id="across the window"),
    pytest.param("gemma-2-9b", Workload(64, 100, 8000), id="far across the window"),
    pytest.param("gemma-2-9b", Workload(64, 4090, 100), id="just across the window"),
    pytest.param("gemma-3-12b", Workload(128, 100, 100_000), id="a short window in a long answer"),
    pytest.param("mistral-7b-v0.1", Workload(512, 1, 30_000), id="all layers windowed"),
    # Small and large batches, the two bounds, short and long answers.
    pytest.param("llama-3.1-8b", Workload(1, 1, 2), id="two tokens"),
    pytest.param("llama-3.1-8b", Workload(16, 2048, 256), id="the default"),
    pytest.param("llama-3.1-8b", Workload(1, 1, 100_000), id="a long answer"),
    pytest.param("llama-3.1-8b", Workload(4096, 1, 100_000), id="a long answer of many"),
    pytest.param("llama-2-7b", Workload(295, 1, 4000), id="at the ridge"),
    # Without a cache every token computes its context again: quadratic in the context.
    pytest.param("llama-3.1-8b", Workload(1, 1, 500, kv_cache=False), id="no cache, short"),
    pytest.param("llama-3.1-8b", Workload(1, 1, 20_000, kv_cache=False), id="no cache"),
    pytest.param("llama-3.1-8b", Workload(1, 1, 100_000, kv_cache=False), id="no cache, long"),
    pytest.param("gemma-2-9b", Workload(2, 1, 8000, kv_cache=False), id="no cache, windowed"),
]


@pytest.mark.parametrize(("model", "work"), CASES)
def test_the_time_between_tokens_is_the_mean_over_every_context(model: str, work: Workload) -> None:
    deployment = on(model, engine="ideal")
    exact = by_brute_force(deployment, work)
    assert static_batch(deployment, work).tpot_s == pytest.approx(exact, rel=ALLOWED)


@settings(max_examples=examples(25), deadline=None)
@given(
    window=st.none() | st.integers(1, 4000),
    batch=st.integers(1, 100_000),
    prompt=st.integers(1, 3000),
    output=st.integers(2, 5000),
    cached=st.booleans(),
)
def test_the_mean_holds_for_any_network_and_length(
    window: int | None, batch: int, prompt: int, output: int, cached: bool
) -> None:
    # Attention outweighs everything else in a network this narrow: the hardest case for a mean.
    deployment = deployed(dense(window=window), engine=BARE)
    work = Workload(batch, prompt, output, kv_cache=cached)
    exact = by_brute_force(deployment, work)
    assert static_batch(deployment, work).tpot_s == pytest.approx(exact, rel=ALLOWED)
