"""Choosing the next token: passes over the logits, counted by hand and by a loop."""

import sys
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofline.serving.sampling import Sampling, sampling_ops

from roofline.cost import branching
from roofline.cost.roof import seconds
from roofline.cost.sampling import over_logits
from roofline.cost.work import Work
from roofline.errors import InputError
from tests.serving.deployments import on

CHOICES = [
    Sampling(),
    Sampling(1.0),
    Sampling(0.7),
    Sampling(0.7, top_k=40),
    Sampling(0.7, top_p=0.9),
    Sampling(0.7, 40, 0.9),
    Sampling(0.7, 40, 0.9, "rejection"),
]


def total(sampling: Sampling, rows: float = 8.0, vocab: float = 128_256.0) -> Work:
    out = Work()
    for op in sampling_ops(sampling, rows, vocab).values():
        out = out + op.total
    return out


def test_greedy_reads_the_logits_twice_and_writes_them_once() -> None:
    # 2 bytes read, 4 written, 4 read again; a comparison each.
    work = total(Sampling(), 1.0, 1000.0)
    assert (work.hbm_bytes, work.flops) == (10_000.0, 1000.0)


def test_what_is_done_grows_with_what_is_asked() -> None:
    moved = [float(total(each).hbm_bytes) for each in CHOICES[:6]]
    assert moved == sorted(moved)
    assert len(set(moved)) == len(moved)
    assert moved[-1] > total(CHOICES[-1]).hbm_bytes


@pytest.mark.parametrize("sampling", CHOICES)
@pytest.mark.parametrize("factor", [2.0, 7.0])
def test_passes_are_proportional_to_rows_and_to_the_vocabulary(
    sampling: Sampling, factor: float
) -> None:
    one = total(sampling)
    for other in (total(sampling, 8 * factor), total(sampling, vocab=128_256 * factor)):
        assert other.hbm_bytes == pytest.approx(one.hbm_bytes * factor)
        assert other.flops == pytest.approx(one.flops * factor)


def test_rows_on_an_axis_are_the_rows_one_by_one() -> None:
    axis = np.array([1.0, 4.0, 256.0])
    for sampling in CHOICES:
        whole = sampling_ops(sampling, axis, 32_000.0)
        for place, rows in enumerate(axis):
            each = sampling_ops(sampling, float(rows), 32_000.0)
            assert list(each) == list(whole)
            for name, op in each.items():
                assert np.broadcast_to(whole[name].work.hbm_bytes, 3)[place] == op.work.hbm_bytes


def test_an_online_softmax_touches_each_element_three_times() -> None:
    assert over_logits(1.0, 1.0, "softmax").hbm_bytes == 3 * 4


def test_sorting_costs_more_than_all_else_of_top_p() -> None:
    ops = sampling_ops(Sampling(0.7, top_p=0.9), 1.0, 1.0)
    rest = sum(float(op.work.hbm_bytes) for name, op in ops.items() if name != "sort")
    assert over_logits(1.0, 1.0, "sort").hbm_bytes > rest * 0.5
    assert max(ops, key=lambda name: float(ops[name].work.hbm_bytes)) == "sort"


def test_sampling_is_small_beside_a_step_but_not_nothing() -> None:
    deployment = on("llama-3.1-8b")
    vocab = float(deployment.architecture.vocab)
    greedy = float(seconds(sampling_ops(Sampling(), 1.0, vocab), deployment))
    # 128,256 · 10 B at 3.35 TB/s
    assert greedy == pytest.approx(128_256 * 10 / 3.35e12, rel=1e-6)
    full = float(seconds(sampling_ops(Sampling(0.7, 40, 0.9), 256.0, vocab), deployment))
    assert full > 1e-3


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"temperature": -1.0}, "temperature is -1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": 1.0, "top_k": -1}, "top-k is -1"),
        ({"temperature": 1.0, "top_p": 0.0}, "top-p is 0"),
        ({"temperature": 1.0, "top_p": 1.1}, "top-p is 1.1"),
        ({"temperature": 1.0, "rounds": 0.0}, "0 rounds"),
        ({"top_p": 0.9}, "greedy choice with"),
    ],
)
def test_choices_that_mean_nothing_are_refused(given_: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Sampling(**given_)


def test_more_rounds_of_rejection_read_more() -> None:
    once, twice = (over_logits(1.0, 100.0, "draw-and-check", times=n) for n in (1.0, 2.0))
    assert twice.hbm_bytes == 2 * once.hbm_bytes
    greedy, sampled = (over_logits(1.0, 100.0, name) for name in ("argmax", "draw"))
    assert greedy.hbm_bytes < once.hbm_bytes < sampled.hbm_bytes


# --- several answers


@settings(deadline=None)
@given(st.integers(1, 64), st.integers(1, 5000), st.integers(0, 3000), st.sampled_from([1, 16, 64]))
def test_pages_of_samples_hold_what_a_list_of_them_holds(
    samples: int, prompt: int, output: int, page: int
) -> None:
    pages = set()
    for sample in range(samples):
        for token in range(prompt + output):
            place = token // page
            shared = (place + 1) * page <= prompt
            pages.add((None if shared else sample, place))
    held = branching.samples_held(float(samples), float(prompt), float(output), page=float(page))
    assert held == len(pages) * page


def test_one_sample_is_a_single_answer() -> None:
    assert branching.samples_held(1.0, 100.0, 10.0, page=1.0) == 110
    for together in (True, False):
        assert branching.samples_read(1, 100, 10, together=together) == 110


@given(st.integers(1, 64), st.integers(0, 5000), st.integers(0, 3000))
def test_reading_a_prompt_once_saves_all_its_other_readings(n: int, p: int, t: int) -> None:
    apart = branching.samples_read(n, p, t, together=False)
    assert apart - branching.samples_read(n, p, t, together=True) == (n - 1) * p


def test_parents_are_counted_over_all_ways_to_descend() -> None:
    for beams in (1, 2, 3, 4):
        ways = list(product(range(beams), repeat=beams))
        mean = sum(len(set(way)) for way in ways) / len(ways)
        assert branching.expected_parents(float(beams)) == pytest.approx(mean)


@pytest.mark.parametrize(("beams", "output"), [(1, 5), (2, 4), (3, 3), (3, 1), (2, 0)])
def test_tokens_of_beams_are_counted_over_all_family_trees(beams: int, output: int) -> None:
    generations = max(output - 1, 0)
    total_tokens, ways = 0, 0
    for tree in product(product(range(beams), repeat=beams), repeat=generations):
        ways += 1
        alive = set(range(beams))
        for parents in [*tree[::-1], None]:
            total_tokens += len(alive) if output else 0
            if parents is not None:
                alive = {parents[beam] for beam in alive}
    assert branching.beams_held(beams, 100, output) == pytest.approx(100 + total_tokens / ways)


@given(st.integers(1, 12), st.integers(1, 200))
def test_beams_hold_less_than_copies_and_more_than_one_answer(beams: int, output: int) -> None:
    held = branching.beams_held(beams, 50, output)
    assert 50 + output <= held <= 50 + beams * output + 1e-9
    more = branching.beams_held(beams, 50, output + 1)
    # One token more is a token of each beam; what is further back has fewer ancestors.
    assert 1 - 1e-9 <= more - held <= beams + 1e-9


def test_long_answers_of_beams_have_one_trunk() -> None:
    steps = [branching.beams_held(4, 0, t + 1) - branching.beams_held(4, 0, t) for t in (0, 5, 400)]
    assert steps[0] == 4
    assert steps[0] > steps[1] > steps[2]
    assert steps[2] == pytest.approx(1.0)


def test_copying_whole_caches_grows_with_the_context_and_copying_pages_does_not() -> None:
    whole = branching.beam_copies(1.0, 4.0, np.array([100.0, 1000.0]), token_bytes=131_072.0)
    assert np.asarray(whole.kv_bytes).tolist() == [2 * 4 * 100 * 131_072, 2 * 4 * 1000 * 131_072]
    parents = branching.expected_parents(4.0)
    paged = branching.beam_page_copies(1.0, 4.0, parents, page=16.0, token_bytes=131_072.0)
    assert np.all(np.asarray(whole.kv_bytes) > 10 * float(paged.kv_bytes))
    alone = branching.beam_page_copies(1.0, 1.0, 1.0, page=16.0, token_bytes=1.0)
    assert alone.kv_bytes == 0


@pytest.mark.parametrize(("beams", "published"), [(2, 0.376), (4, 0.531), (6, 0.552)])
def test_the_memory_that_sharing_saves_beams_is_near_what_was_published(
    beams: int, published: float, capsys: pytest.CaptureFixture[str]
) -> None:
    # Kwon et al. 2023, figure 15 (b): Alpaca, mean 19 tokens in and 58 out, pages of 16. A claim
    # about a data set of other lengths than its mean: printed, and held only in its order.
    held = sum(float(branching.beams_held(beams, 19, t, page=16)) for t in range(1, 59))
    apart = sum(beams * 16.0 * -(-(19 + t) // 16) for t in range(1, 59))
    saved = 1 - held / apart
    with capsys.disabled():
        sys.stdout.write(f"\n{beams} beams: {saved:.1%} saved, published {published:.1%}\n")
    assert saved == pytest.approx(published, rel=0.2)


@given(st.integers(1, 6), st.integers(0, 60), st.integers(0, 60), st.sampled_from([2, 16]))
def test_larger_pages_hold_more_and_no_more_than_a_page_for_each_beam(
    beams: int, prompt: int, output: int, page: int
) -> None:
    fine = branching.beams_held(beams, prompt, output)
    coarse = branching.beams_held(beams, prompt, output, page=page)
    assert fine <= coarse + 1e-9
    if output:
        assert coarse <= branching.samples_held(beams, prompt, output, page=page) + 1e-9


def test_beams_beyond_measure_are_refused() -> None:
    for beams, output, page in ((0, 1, 1), (129, 1, 1), (2, -1, 1), (2, 1, 0)):
        with pytest.raises(InputError, match="beams of"):
            branching.beams_held(beams, 1, output, page=page)


def test_choosing_among_beams_reads_all_of_their_logits() -> None:
    one, four = (branching.beam_choice(3.0, beams, 1000.0) for beams in (1.0, 4.0))
    assert four.hbm_bytes == 4 * one.hbm_bytes
    assert one.hbm_bytes == 3 * 1000 * 24
