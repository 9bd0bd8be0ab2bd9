"""Choosing the next token: passes over the logits, counted by hand and by a loop."""

import sys
from collections import Counter
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.bench.calibrations import calibration_of
from roofline.cost.deployment import Options
from roofline.cost.sampling import (
    PASSES,
    Sampling,
    beam_copies,
    beam_page_copies,
    beams_held,
    expected_parents,
    over_logits,
    own_tokens,
    samples_held,
)
from roofline.cost.step import decode, step
from roofline.cost.work import Op
from roofline.errors import InputError
from roofline.hardware.serving_engine import Sampler
from roofline.records import replace
from tests.pricing import seconds
from tests.serving.deployments import on

CHOICES = [
    Sampling(),
    Sampling(1.0),
    Sampling(0.7),
    Sampling(0.7, top_k=40),
    Sampling(0.7, top_p=0.9),
    Sampling(0.7, 40, 0.9),
]
VOCAB = 128_256.0


def moved(sampling: Sampling, sampler: Sampler = "sort", rows: float = 8.0) -> float:
    """Bytes of all passes. [B]"""
    passes = sampling.passes(sampler)
    return sum(float(over_logits(rows, VOCAB, name).hbm_bytes) for name in passes)


def sampled(sampling: Sampling, engine: str = "ideal", calibrated: bool = False) -> dict[str, Op]:
    """Operators of a decode step of 16 sequences that no step without a choice has."""
    host = on("llama-3.1-8b", engine=engine, sampling=sampling)
    if calibrated:
        host = replace(host, calibration=calibration_of("auto", host.node.gpu, engine))
    plain = step(replace(host, options=Options()), decode(16.0, 1000.0))
    ops = step(host, decode(16.0, 1000.0))
    assert {name: op.work.hbm_bytes for name, op in ops.items() if name in plain} == {
        name: op.work.hbm_bytes for name, op in plain.items()
    }
    return {name: op for name, op in ops.items() if name not in plain}


def test_greedy_reads_the_logits_twice_and_writes_them_once() -> None:
    # 2 bytes read, 4 written, 4 read again.
    assert moved(Sampling(), rows=1.0) == 10 * VOCAB


def test_what_is_done_grows_with_what_is_asked() -> None:
    each = [moved(choice) for choice in CHOICES]
    assert each == sorted(each)
    assert len(set(each)) == len(each)
    assert each[-1] > moved(CHOICES[-1], "rejection") > each[0]


def test_passes_by_hand() -> None:
    """Sorted top-p: 4 radix passes of 28 B, 12 + 8 + 12 + 16 of the cut, 12 + 16 + 4 to draw."""
    assert moved(Sampling(1.0, top_p=0.9), rows=1.0) == (6 + 112 + 48 + 12 + 16 + 4) * VOCAB
    # Without sorting: probabilities, then two draws that read them twice.
    assert moved(Sampling(1.0, top_p=0.9), "rejection", 1.0) == (6 + 12 + 2 * 8) * VOCAB


@given(st.sampled_from(sorted(PASSES)), st.integers(1, 999), st.integers(1, 999))
def test_passes_are_proportional_to_rows_and_to_the_vocabulary(
    name: str, rows: int, vocab: int
) -> None:
    whole, one = over_logits(float(rows), float(vocab), name), over_logits(1.0, 1.0, name)
    assert whole.hbm_bytes == one.hbm_bytes * rows * vocab


def test_what_nobody_asks_for_is_no_operator() -> None:
    assert sampled(Sampling()) == {}
    assert sampled(Sampling(beams=1)) == {}


def test_without_an_engine_every_pass_is_an_operator() -> None:
    ops = sampled(Sampling(0.7))
    assert list(ops) == [
        *("sampling-convert", "sampling-temperature", "sampling-softmax"),
        *("sampling-race", "sampling-argmax"),
    ]
    # 6 + 8 + 12 + 16 + 4 B of each of 16 · 128,256 logits
    assert sum(float(op.work.hbm_bytes) for op in ops.values()) == 46 * 16 * VOCAB


def test_greedy_choice_is_in_the_constants_of_an_engine_and_counted_once() -> None:
    assert sampled(Sampling(0.0), "vllm", calibrated=True) == {}
    assert list(sampled(Sampling(0.7), "vllm", calibrated=True)) == [
        *("sampling-temperature", "sampling-softmax", "sampling-race")
    ]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_engines_that_are_documented_to_do_so_draw_without_sorting(engine: str) -> None:
    assert "sampling-rejection" in sampled(Sampling(top_p=0.9), engine)
    assert "sampling-sort" in sampled(Sampling(top_p=0.9), "vllm-2024")


def test_sampling_is_small_beside_a_step_but_not_nothing() -> None:
    deployment = on("llama-3.1-8b", engine="ideal")
    greedy = float(seconds(sampled(Sampling(0.0)), deployment))
    # 16 · 128,256 · 10 B at 3.35 TB/s
    assert greedy == pytest.approx(16 * 128_256 * 10 / 3.35e12, rel=1e-6)


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"temperature": -1.0}, "temperature is -1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": 1.0, "top_k": -1}, "top-k is -1"),
        ({"temperature": 1.0, "top_p": 0.0}, "top-p is 0"),
        ({"temperature": 1.0, "top_p": 1.1}, "top-p is 1.1"),
        ({"temperature": 0.0, "top_p": 0.9}, "greedy choice with"),
        ({"beams": 0}, "0 beams"),
        ({"beams": 2, "top_k": 4}, "beam search with sampling"),
    ],
)
def test_choices_that_mean_nothing_are_refused(given_: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Sampling(**given_)


def test_no_more_tokens_than_the_vocabulary_has_are_the_likeliest() -> None:
    on("llama-3.1-8b", sampling=Sampling(top_k=128_256))
    with pytest.raises(InputError, match="vocabulary of 128,256"):
        on("llama-3.1-8b", sampling=Sampling(top_k=128_257))


# --- several answers


@pytest.mark.slow
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
    held = samples_held(float(samples), float(prompt), float(output), page=float(page))
    assert held == len(pages) * page


def test_one_sample_is_a_single_answer() -> None:
    assert samples_held(1.0, 100.0, 10.0, page=1.0) == 110


def test_parents_are_counted_over_all_ways_to_descend() -> None:
    for beams in (1, 2, 3, 4):
        ways = list(product(range(beams), repeat=beams))
        mean = sum(len(set(way)) for way in ways) / len(ways)
        assert expected_parents(float(beams)) == pytest.approx(mean)


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
    assert beams_held(beams, 100, output) == pytest.approx(100 + total_tokens / ways)


@given(st.integers(1, 12), st.integers(1, 200))
def test_beams_hold_less_than_copies_and_more_than_one_answer(beams: int, output: int) -> None:
    held = beams_held(beams, 50, output)
    assert 50 + output <= held <= 50 + beams * output + 1e-9
    more = beams_held(beams, 50, output + 1)
    # One token more is a token of each beam; what is further back has fewer ancestors.
    assert 1 - 1e-9 <= more - held <= beams + 1e-9


def test_long_answers_of_beams_have_one_trunk() -> None:
    steps = [beams_held(4, 0, t + 1) - beams_held(4, 0, t) for t in (0, 5, 400)]
    assert steps[0] == 4
    assert steps[0] > steps[1] > steps[2]
    assert steps[2] == pytest.approx(1.0)


def test_copying_whole_caches_grows_with_the_context_and_copying_pages_does_not() -> None:
    whole = beam_copies(1.0, 4.0, np.array([100.0, 1000.0]), token_bytes=131_072.0)
    assert np.asarray(whole.kv_bytes).tolist() == [2 * 4 * 100 * 131_072, 2 * 4 * 1000 * 131_072]
    parents = expected_parents(4.0)
    paged = beam_page_copies(1.0, 4.0, parents, page=16.0, token_bytes=131_072.0)
    assert np.all(np.asarray(whole.kv_bytes) > 10 * float(paged.kv_bytes))
    alone = beam_page_copies(1.0, 1.0, 1.0, page=16.0, token_bytes=1.0)
    assert alone.kv_bytes == 0


@pytest.mark.parametrize(("beams", "published"), [(2, 0.376), (4, 0.531), (6, 0.552)])
def test_the_memory_that_sharing_saves_beams_is_near_what_was_published(
    beams: int, published: float, capsys: pytest.CaptureFixture[str]
) -> None:
    # Kwon et al. 2023, figure 15 (b): Alpaca, mean 19 tokens in and 58 out, pages of 16. A claim
    # about a data set of other lengths than its mean: printed, and held only in its order.
    held = sum(float(beams_held(beams, 19, t, page=16)) for t in range(1, 59))
    apart = sum(beams * 16.0 * -(-(19 + t) // 16) for t in range(1, 59))
    saved = 1 - held / apart
    with capsys.disabled():
        sys.stdout.write(f"\n{beams} beams: {saved:.1%} saved, published {published:.1%}\n")
    assert saved == pytest.approx(published, rel=0.2)


@given(st.integers(1, 6), st.integers(0, 60), st.integers(0, 60), st.sampled_from([2, 16]))
def test_larger_pages_hold_more_and_no_more_than_a_page_for_each_beam(
    beams: int, prompt: int, output: int, page: int
) -> None:
    fine = beams_held(beams, prompt, output)
    coarse = beams_held(beams, prompt, output, page=page)
    assert fine <= coarse + 1e-9
    if output:
        assert coarse <= samples_held(beams, prompt, output, page=page) + 1e-9


def test_beams_beyond_measure_are_refused() -> None:
    for beams, output, page in ((0, 1, 1), (129, 1, 1), (2, -1, 1), (2, 1, 0)):
        with pytest.raises(InputError, match="beams of"):
            beams_held(beams, 1, output, page=page)


def test_choosing_among_beams_reads_all_of_their_logits() -> None:
    # 16 sequences in 4 beams are 4 prompts: 24 B of each logit, and copies of what diverges.
    ops = sampled(Sampling(beams=4))
    assert ops["sampling-beams"].work.hbm_bytes == 24 * 16 * VOCAB
    # Pages of one token are never shared by two that write to them.
    assert "copy-on-write" not in ops
    paged = sampled(Sampling(beams=4), "vllm")["copy-on-write"].work
    assert paged.kv_bytes == pytest.approx(2 * 4 * (4 - 4 * (1 - 0.75**4)) * 15 * 131_072)


def searched(beams: int, prompt: int, steps: int, page: int, draw: Random) -> tuple[int, list[int]]:
    """Pages that are copied, and pages held after each step, of beams with a table of pages each.

    Every new beam comes from any of the old ones alike, and shares all of its parent's pages. Who
    writes to a page that others have too copies it first.
    """
    tables = [[object() for _ in range(-(-prompt // page))] for _ in range(1)] * beams
    copied, held = 0, []
    for place in range(prompt, prompt + steps):
        if place > prompt:
            tables = [draw.choice(tables) for _ in range(beams)]
        tables = [list(table) for table in tables]
        owners = Counter(id(page_) for table in tables for page_ in table)
        for table in tables:
            if place == len(table) * page:
                table.append(object())
            elif owners[id(table[-1])] > 1:
                owners[id(table[-1])] -= 1
                table[-1] = object()
                copied += place > prompt  # the prompt's own last page is copied once
        held.append(len({id(page_) for table in tables for page_ in table}))
    return copied, held


@pytest.mark.parametrize(("beams", "prompt", "page"), [(2, 7, 4), (4, 16, 4), (3, 21, 8)])
def test_pages_of_beams_are_held_and_copied_as_on_page_tables(
    beams: int, prompt: int, page: int
) -> None:
    draw, runs, steps = Random(beams), 400, 24
    found = [searched(beams, prompt, steps, page, draw) for _ in range(runs)]
    held = np.mean([each for _, each in found], axis=0) * page
    expected = beams_held(beams, prompt, np.arange(1.0, steps + 1), page=page)
    assert held == pytest.approx(np.asarray(expected), rel=0.04)
    # One step of g writes to new pages, which nobody has to copy.
    full = sum((prompt + step) % page > 0 for step in range(1, steps))
    parents = expected_parents(float(beams))
    assert np.mean([copied for copied, _ in found]) == pytest.approx(
        full * (beams - parents), rel=0.05
    )


@given(st.integers(1, 8), st.integers(1, 300), st.integers(1, 100), st.sampled_from([1, 16]))
def test_answers_of_their_own_and_shared_pages_are_all_that_is_held(
    branches: int, prompt: int, output: int, page: int
) -> None:
    one = -(-(prompt + output) // page) * page
    apart = own_tokens(branches, 1, prompt, output, page=page)
    held = samples_held(branches, prompt, output, page=page)
    assert one + (branches - 1) * apart == pytest.approx(held)
    beams = own_tokens(1, branches, prompt, output, page=page)
    assert one + (branches - 1) * beams == pytest.approx(
        float(beams_held(branches, prompt, output, page=page)) if branches > 1 else one
    )
    assert beams <= apart + 1e-6
