"""Room of caches: against page tables that are filled token by token, and against counting."""

from collections import Counter
from math import ceil, floor
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.cost.layout import Layout
from roofline.cost.memory import kv_bytes_per_sequence
from roofline.cost.sampling import beams_held, samples_held
from roofline.cost.textbook.memory import slots_never_used, token_state_share
from roofline.errors import InputError
from roofline.serving.paged import (
    PagingSchemes,
    copied_pages,
    paged,
    paged_slots,
    power_of_two,
)
from roofline.serving.paged_result import explain_all, notes, result_of, sentences
from roofline.serving.room import largest_batch
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from tests.formulas import evaluated
from tests.serving.deployments import on

WORK: Final = Workload(64, 161, 338)
PAGE = st.integers(1, 40)
TOKENS = st.integers(1, 300)


# --- formulas


def tables(samples: int, prompt: int, answer: int, page: int) -> tuple[int, int]:
    """Pages in use and pages copied, after answers have been written token by token in turns."""
    prompt_pages = [object() for _ in range(ceil(prompt / page))]
    held = [list(prompt_pages) for _ in range(samples)]
    owners = Counter({id(entry): samples for entry in prompt_pages})
    keep = list(prompt_pages)  # so that no id is used twice
    copied = 0
    for place in range(prompt, prompt + answer):
        for table in held:
            if place == len(table) * page:
                table.append(object())
                owners[id(table[-1])] = 1
            elif owners[id(table[place // page])] > 1:
                owners[id(table[place // page])] -= 1
                table[place // page] = object()
                owners[id(table[place // page])] = 1
                copied += 1
            keep.append(table[place // page])
    return len({id(entry) for table in held for entry in table}), copied


@given(samples=st.integers(1, 6), prompt=TOKENS, answer=st.integers(1, 60), page=PAGE)
def test_answers_that_share_a_prompt_hold_what_their_page_tables_do(
    samples: int, prompt: int, answer: int, page: int
) -> None:
    pages, copied = tables(samples, prompt, answer, page)
    assert samples_held(samples, prompt, answer, page=page) == pages * page
    assert copied_pages(samples, prompt, page) == copied


@given(samples=st.integers(1, 8), prompt=TOKENS, answer=TOKENS, page=PAGE)
def test_sharing_never_takes_more_and_paging_never_less_than_the_tokens(
    samples: int, prompt: int, answer: int, page: int
) -> None:
    apart = samples * paged_slots(prompt + answer, page)
    shared = samples_held(samples, prompt, answer, page=page)
    assert prompt + samples * answer <= shared <= apart
    assert samples_held(1, prompt, answer, page=page) == paged_slots(prompt + answer, page)
    assert samples_held(samples, prompt, answer, page=1) == prompt + samples * answer


@pytest.mark.parametrize(("tokens", "slots"), [(1, 1), (2, 2), (3, 4), (25, 32), (1024, 1024)])
def test_a_power_of_two_is_the_next_one(tokens: int, slots: int) -> None:
    assert power_of_two(tokens) == slots


# --- schemes


def compared(
    samples: int = 1, page: int = 16, work: Workload = WORK, beams: int = 1
) -> PagingSchemes:
    host = on("llama-2-13b", "a100-sxm", weights="fp16")
    return paged(host, work, samples=samples, beams=beams, page=page, reserved=2048)


def test_as_many_fit_as_there_is_room_for() -> None:
    made = compared(samples=3)
    for scheme in made.schemes:
        for slots, fitting in ((scheme.slots, scheme.requests), (scheme.mean_slots, scheme.steady)):
            each = slots * 819_200  # 2 · 40 heads · 128 · 40 layers · 2 B
            assert fitting == floor(made.memory.pool / each)


def test_parts_of_the_room_are_those_of_sequences_at_every_age() -> None:
    """Simulated: answers that are anywhere in their growth, each with its reservation."""
    made = compared()
    ages = np.arange(162.0, 499.0)
    used = ages.mean()
    rows = {row["scheme"]: row for row in result_of(made).tables["schemes"].rows()}
    for name, slots in {"reserved": 2048, "power-of-two": 161 + 512, "exact": 498}.items():
        row = rows[name]
        future = (498 - ages).mean()
        never = float(np.mean(slots_never_used(slots, 161, ages - 161, 498 - ages)))
        assert row["token_share"] == pytest.approx(used / slots)
        assert row["waiting_share"] == pytest.approx(future / slots)
        assert row["unused_share"] == pytest.approx(never / slots, abs=1e-12)
        share = token_state_share(future / slots, never / slots, 0.0)
        assert row["token_share"] == pytest.approx(share)
    pages = np.ceil(ages / 16) * 16
    assert rows["paged"]["token_share"] == pytest.approx(used / pages.mean())
    assert rows["paged"]["waiting_share"] == 0.0


def test_every_way_is_roomier_than_the_one_before() -> None:
    made = compared(samples=4)
    fitting = [scheme.steady for scheme in made.schemes]
    assert fitting == sorted(fitting)
    assert made.schemes[-1].requests >= made.schemes[-2].requests
    assert fitting[-1] > fitting[-2] > fitting[0]


def test_a_page_of_one_token_is_exact() -> None:
    made = compared(page=1)
    by_name = {scheme.name: scheme for scheme in made.schemes}
    assert by_name["paged"].slots == by_name["exact"].slots
    assert made.states(by_name["paged"]) == 1.0


def test_different_tokens_of_shared_pages_are_counted_once() -> None:
    """161 = 10 · 16 + 1: ten pages are shared, one token of each answer is its own copy."""
    made = compared(samples=4)
    grown = np.mean(np.arange(1, 338))
    assert made.mean_tokens == pytest.approx(160 + 4 * (1 + grown))
    held = 160 + 4 * np.mean(np.ceil(np.arange(2, 339) / 16) * 16)
    assert made.schemes[-1].mean_slots == pytest.approx(held)
    assert made.states(made.schemes[-1]) == pytest.approx(made.mean_tokens / held)
    assert made.copied == 3


@pytest.mark.slow
def test_beams_are_copied_whole_or_a_page_where_two_would_write() -> None:
    made, token = compared(beams=4), 819_200
    assert made.moved_apart == 2 * 4 * (161 + 169) * token  # 330 tokens on average, read, written
    assert made.moved_shared == pytest.approx(2 * 4 * 0.75**4 * 15 * token)
    held = [float(beams_held(4, 161, t, page=16)) for t in range(1, 338)]
    shared = made.schemes[-1]
    assert shared.mean_slots == pytest.approx(np.mean(held))
    assert shared.slots == pytest.approx(held[-1])
    assert shared.slots * token <= made.memory.pool / shared.requests
    # Four answers go apart for good; four beams soon have one past.
    assert shared.mean_slots < compared(samples=4).schemes[-1].mean_slots
    assert shared.tok_s > made.schemes[-2].tok_s


@pytest.mark.slow
def test_one_beam_is_a_single_answer() -> None:
    one, plain = compared(beams=1), compared()
    assert one.schemes == plain.schemes
    assert one.moved_apart == one.moved_shared == 0


def test_beams_of_several_answers_are_refused() -> None:
    with pytest.raises(InputError, match="2 samples of 3 beams"):
        compared(samples=2, beams=3)


@pytest.mark.slow
def test_alone_there_is_nobody_to_share_with() -> None:
    assert [scheme.name for scheme in compared().schemes][-1] == "paged"
    assert compared(samples=2).schemes[-1].name == "shared"


def test_throughput_is_that_of_a_batch_of_as_many() -> None:
    made = compared()
    steady = made.schemes[3].steady
    batch = static_batch(made.deployment, Workload(steady, 161, 338, prefill_batch=1))
    assert made.schemes[3].tok_s == batch.decode_tok_s


@pytest.mark.slow
def test_groups_with_sequences_of_their_own_hold_as_many_each() -> None:
    host = on("deepseek-v3", layout=Layout(dp=8, ep=8), node="hgx-h200-8", weights="fp8")
    made = paged(host, WORK)
    each = float(kv_bytes_per_sequence(host, made.schemes[3].slots))
    assert made.schemes[3].requests == 8 * floor(made.memory.pool / each)


@pytest.mark.slow
def test_a_state_is_kept_by_each_answer_and_not_in_pages() -> None:
    host = on("nemotron-h-8b-base-8k")
    made = paged(host, Workload(16, 1000, 100), samples=4)
    assert made.state_bytes == float(kv_bytes_per_sequence(host, 0.0)) > 0
    shared = made.schemes[-1]
    each = shared.slots * made.token_bytes + 4 * made.state_bytes
    assert shared.requests == floor(made.memory.pool / each)
    assert any("beside its tokens" in note for note in notes(made))


def test_layers_with_a_window_keep_what_is_inside_it() -> None:
    """Forty of 48 layers keep 1,024 tokens: as many sequences as `analyze` says fit."""
    host, work = on("gemma-3-12b"), Workload(16, 8192, 100)
    made = paged(host, work, samples=2)
    by_name = {scheme.name: scheme for scheme in made.schemes}
    one = float(kv_bytes_per_sequence(host, 8291))
    assert by_name["exact"].held == 2 * one
    assert one < 0.3 * 8291 * made.token_bytes
    assert largest_batch(host, work, None) == floor(made.memory.pool / one)
    # Two answers share 512 pages: windowed layers of each keep its own 99 tokens, and 925 of these.
    own = float(kv_bytes_per_sequence(host, 8304 - 8192))
    assert by_name["shared"].held == float(kv_bytes_per_sequence(host, 8304)) + own
    lengths = np.arange(8193, 8292)
    slots = np.ceil(lengths / 16) * 16
    mean = 2 * np.mean([float(kv_bytes_per_sequence(host, each)) for each in slots])
    assert by_name["paged"].mean_held == pytest.approx(mean, rel=1e-12)


def test_figures_are_explained() -> None:
    made = compared(samples=4)
    every = explain_all(made)
    for scheme in made.schemes:
        entry = every[scheme.name]
        assert entry.value == scheme.slots
        assert evaluated(entry.substituted) == pytest.approx(entry.value), entry
        assert entry.source


def test_sentences_say_what_pages_and_sharing_save() -> None:
    said = " ".join(sentences(compared(samples=4)))
    assert "With 2,048 tokens reserved, 16.1% of the room holds tokens" in said
    assert "97.8%" in said
    assert "A prompt shared by its 4 answers takes 36% less room" in said
    full = paged(on("llama-3.1-70b"), WORK)
    assert "Not even one prompt fits" in sentences(full)[0]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"samples": 0}, "samples is 0"),
        ({"page": -1}, "page is -1"),
        ({"reserved": 100}, "100 tokens reserved, a sequence grows to 498"),
    ],
)
def test_numbers_without_a_meaning_are_refused(asked: dict[str, int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        paged(on(), WORK, **asked)


@pytest.mark.parametrize("model", ["bert-base-uncased", "deepseek-v4-flash"])
def test_caches_that_do_not_grow_by_tokens_are_refused(model: str) -> None:
    with pytest.raises(InputError, match="does not keep a token"):
        paged(on(model, "b200-sxm"), Workload(1, 64, 8))


def test_a_step_reads_an_entry_for_every_page_in_every_layer() -> None:
    made = compared()
    assert made.table_bytes == 4 * -(-WORK.longest // 16)
    pages = made.schemes[3].mean_slots / 16
    layers = len(made.deployment.architecture.layers)
    assert made.tables_read == pytest.approx(4 * pages * made.schemes[3].steady * layers)
    # Of the cache that it reads: 4 bytes for a page of one layer.
    cache = made.schemes[3].mean_slots * made.token_bytes * made.schemes[3].steady
    assert made.tables_read / cache == pytest.approx(4 / (16 * made.token_bytes / layers))
    assert made.external == 0.0
