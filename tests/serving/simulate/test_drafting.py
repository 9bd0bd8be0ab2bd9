"""Speculation in traffic against its closed form, and as laws."""

import numpy as np
import pytest

from roofline.errors import InfeasibleError, InputError
from roofline.records import replace
from roofline.serving.acceptance import expected_tokens, parse
from roofline.serving.draft_schedule import schedule
from roofline.serving.draft_trees import best, chain
from roofline.serving.drafts import NGRAM, Draft, eagle
from roofline.serving.requests import Requests
from roofline.serving.run.serve import Fleet, drafting_fleet, saturation, serve
from roofline.serving.simulate.drafting import RoundDraft, Rounds, ahead
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.run import UNPACED
from roofline.serving.simulate.server import Server
from roofline.serving.speculative import speculate
from roofline.serving.workload import Workload
from tests.serving.deployments import on
from tests.serving.simulate.cases import requests
from tests.serving.simulate.reference import reference

TARGET = on()
TABLE = step_prices(TARGET, sequences=64)
SERVER = Server(max_sequences=64, token_budget=8192)
PLAIN = Fleet(TABLE, SERVER)


def drafting(acceptance: str = "0.7", length: int = 4, draft: Draft = NGRAM) -> RoundDraft:
    return RoundDraft(draft, chain(parse(acceptance), length), 1)


def fleet(given: Requests, what: RoundDraft) -> Fleet:
    return drafting_fleet(PLAIN, TARGET, given, what)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("length", [1, 4])
def test_rounds_yield_what_the_closed_form_expects(alpha: float, length: int) -> None:
    given = requests(0.0, [100] * 400, 1001)
    rounds = drafting(str(alpha), length).in_rounds(given).output - 1
    expected = float(expected_tokens(alpha, length))
    # The last round is cut: by less than one of them in some hundred.
    error = 4 * np.sqrt(length**2 / rounds.sum()) / expected + length / 1000
    assert 1000 / rounds.mean() == pytest.approx(expected, rel=error)


def test_positions_and_trees_are_drawn_as_they_are_accepted() -> None:
    # 1, 2, 3 tokens: refused at once; after one; all accepted.
    np.testing.assert_allclose(drafting("0.8,0.5", 2).chances, [0.2, 0.4, 0.4])
    tree = best(parse("0.6+0.2,0.5+0.1"), 4)
    assert RoundDraft(NGRAM, tree).chances @ np.arange(1, tree.depth + 2) == pytest.approx(
        tree.tokens
    )


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 8, 32])
@pytest.mark.parametrize("draft", [NGRAM, eagle(TARGET)])
def test_time_between_tokens_is_that_of_rounds_in_closed_form(batch: int, draft: Draft) -> None:
    what = drafting("0.7", 3, draft)
    work = Workload(batch=batch, prompt=1000, output=601)
    formed = speculate(TARGET, draft, parse("0.7"), work, length=3).round.tpot_s
    # A batch that nobody joins: all begin together, and most end together.
    given = requests(0.0, [1000] * batch * 8, 601)
    alone = Fleet(TABLE, Server(policy="packed", max_sequences=batch))
    served = serve(drafting_fleet(alone, TARGET, given, what), given)
    found = float((served.finish - served.first_token).mean() / 600)
    # 8 batches of 600 tokens; the sequence that is last in a batch has it for itself.
    print(f"\n  batch {batch}, {draft.title}: {found / formed - 1.0:+.1%}", end="")
    assert found == pytest.approx(formed, rel=0.01)


def test_a_draft_that_is_never_right_is_never_faster() -> None:
    given = requests(np.zeros(60), [300, 900] * 30, [50, 80, 5] * 20)
    plain = serve(PLAIN, given)
    wrong = serve(fleet(given, drafting("0", 3)), given)
    assert wrong.totals.steps == plain.totals.steps
    assert (wrong.finish >= plain.finish * (1 - 1e-12)).all()


def test_more_acceptance_is_faster_and_more_drafting_is_not_free() -> None:
    given = requests(np.zeros(40), 500, 200)
    times = [
        serve(fleet(given, drafting(alpha, 4)), given, concurrency=8).totals.makespan_s
        for alpha in ("0.1", "0.5", "0.9", "1.0")
    ]
    assert times == sorted(times, reverse=True)
    cheap, dear = (
        serve(fleet(given, drafting("0.7", 4, draft)), given, concurrency=8).totals.makespan_s
        for draft in (NGRAM, eagle(TARGET))
    )
    assert cheap < dear


def test_answers_have_all_their_tokens_and_single_ones_are_not_drafted() -> None:
    given = requests(np.zeros(6), 100, [1, 2, 3, 50, 1, 7])
    served = serve(fleet(given, drafting("1.0", 4)), given)
    assert served.output.tolist() == [1, 2, 3, 50, 1, 7]
    assert served.totals.decoded_tokens == given.output.sum() - 6
    rounds = drafting("1.0", 4).in_rounds(given).output - 1
    assert rounds.tolist() == [0, 1, 1, 10, 0, 2]  # five at a time
    np.testing.assert_array_equal(served.finish[[0, 4]], served.first_token[[0, 4]])


def test_how_much_longer_sequences_are_than_rounds_by_hand() -> None:
    # 9 tokens in 3 rounds: 0, 2, 4 ahead as they begin.
    given = requests(0.0, [10], 10)
    assert ahead(given, replace(given, output=np.array([4]))) == pytest.approx(2.0)
    assert ahead(given, given) == 0.0


def test_the_reference_serves_rounds_too() -> None:
    given = requests(np.linspace(0, 0.5, 30), [200, 700, 50] * 10, [40, 3, 90] * 10)
    what = fleet(given, drafting("0.6", 3, eagle(TARGET)))
    served = serve(what, given)
    steps = reference(drafting("0.6", 3).in_rounds(given), what.prices, what.server)
    finish = np.array([one.finish for one in steps.requests])
    np.testing.assert_allclose(served.finish, finish, rtol=1e-9)
    assert served.totals.steps == steps.steps


def test_saturation_counts_requests_in_rounds() -> None:
    given = requests(np.zeros(100), 200, 100)
    plain, right, wrong = (
        saturation(each, given)
        for each in (PLAIN, fleet(given, drafting("0.9")), fleet(given, drafting("0")))
    )
    assert wrong < plain < right


def test_what_drafts_takes_memory() -> None:
    server, draft = replace(SERVER, kv_tokens=100_000), eagle(TARGET)
    free, taking = (
        Rounds(each, TARGET, PLAIN.prices, context=1000.0, later=0.0)
        for each in (drafting(), drafting(draft=draft))
    )
    assert free.server(server).kv_tokens == 100_000
    assert taking.server(server).kv_tokens < 100_000
    # 1,000 tokens and 4 drafted ones that the loop knows of, 1,000 that it does not.
    assert replace(free, later=1000.0).server(server).kv_tokens == int(100_000 * 1004 / 2004)
    with pytest.raises(InfeasibleError, match="no room"):
        taking.server(replace(server, kv_tokens=2000))


def following(lengths: list[int], acceptance: str = "0.6") -> RoundDraft:
    rates = parse(acceptance)
    own = np.array([0, *lengths])
    return RoundDraft(NGRAM, chain(rates, int(own.max())), 1, rates, own)


def test_one_length_at_every_batch_is_that_length() -> None:
    given = requests(np.linspace(0, 40, 400), [300, 900] * 200, [200, 350] * 200)
    fixed = serve(fleet(given, drafting("0.6", 3)), given)
    same = serve(fleet(given, following([3] * 64)), given)
    ours, theirs = ((each.finish - each.first_token).mean() for each in (same, fixed))
    # Draws of 110,000 tokens: rounds differ by less than 1 %.
    assert ours == pytest.approx(theirs, rel=0.01)
    assert same.totals.decoded_tokens == fixed.totals.decoded_tokens
    np.testing.assert_array_equal(np.sort(same.output), np.sort(given.output))


def test_the_loop_is_compiled_once_whether_drafts_follow_the_batch_or_not() -> None:
    found = following([3] * 64).paced(requests(0.0, [500] * 4, 100))
    own, none = (
        [(each.dtype, each.ndim, each.flags.c_contiguous, each.flags.writeable) for each in paced]
        for paced in (found, UNPACED)
    )
    assert own == none


def test_each_batch_is_priced_at_its_own_length() -> None:
    given, lengths = requests(0.0, [500] * 4, 100), [3] * 8 + [1] * 20 + [0] * 36
    mixed = fleet(given, following(lengths)).prices
    for batch, length in ((1, 3), (8, 3), (16, 1), (32, 0)):
        row = mixed.decode_s[batch - 1]
        if length:
            one = fleet(given, following([length] * 64)).prices
            np.testing.assert_allclose(row, one.decode_s[batch - 1], rtol=0.01)
        else:  # a step that drafts nothing
            table, at = PLAIN.prices, PLAIN.prices.batches.tolist().index(batch)
            known = np.interp(mixed.contexts, table.contexts, table.decode_s[at])
            np.testing.assert_allclose(row, known, rtol=0.05)


def test_the_best_length_of_each_batch_is_no_slower_than_any_one() -> None:
    work, draft = Workload(1, 500, 200), eagle(TARGET)
    rates = parse("0.6")
    best = schedule(TARGET, draft, rates, work, 64).lengths
    what = RoundDraft(draft, chain(rates, int(best.max())), 1, rates, np.array([0, *best]))
    for clients in (2, 48):
        given = requests(np.zeros(clients * 12), 500, 200)
        times = [
            serve(fleet(given, drafting("0.6", n, draft)), given, concurrency=clients).totals
            for n in (1, 2, 4, 8)
        ]
        found = drafting_fleet(PLAIN, TARGET, given, what, concurrency=clients)
        ours = serve(found, given, concurrency=clients).totals.makespan_s
        assert ours <= 1.03 * min(each.makespan_s for each in times)


def test_drafts_that_follow_the_batch_need_batches_that_sequences_join() -> None:
    given = requests(0.0, [10] * 4, 10)
    alone = Fleet(TABLE, Server(policy="packed", max_sequences=4))
    with pytest.raises(InputError, match="follow the batch"):
        drafting_fleet(alone, TARGET, given, following([1] * 4))


def test_a_sequence_is_admitted_with_room_for_what_it_drafts() -> None:
    # Prompts of 30 fill 2 pages of 16, with 4 drafted tokens 3: of 6 pages, 3 or 2 sequences.
    given = requests(0.0, [30] * 3, 2)
    tight = Server(max_sequences=8, kv_tokens=96, token_budget=512)
    table = PLAIN.prices
    plain, room = (
        serve(Fleet(table, replace(tight, drafted=drafted)), given) for drafted in (0, 4)
    )
    assert (plain.admitted == 0).sum() == 3
    assert (room.admitted == 0).sum() == 2
    with pytest.raises(InputError, match="needs 80 of cache"):  # 60 + 1 + 4 tokens in 5 pages
        serve(Fleet(table, replace(tight, kv_tokens=64, drafted=4)), requests(0.0, [60], 2))


def test_drafted_tokens_count_in_the_budget() -> None:
    # Three of four decode 5 tokens each: of 20, 5 are left for the last prompt of 10, then none.
    given = requests([0.0, 0.0, 0.0, 1e-6], [6, 6, 6, 10], 40)
    small = Server(max_sequences=4, token_budget=20)
    steps = {}
    for drafted in (0, 4):
        served = serve(Fleet(PLAIN.prices, replace(small, drafted=drafted)), given)
        steps[drafted] = float(served.first_token[3] - served.first_token[0])
    step = float(PLAIN.prices.decode_s[0, 0])
    assert steps[4] - steps[0] > 0.5 * step  # one more step: 5 + 5 in place of 10


def test_a_server_runs_no_more_sequences_than_a_step_verifies() -> None:
    rounds = Rounds(drafting(length=4), TARGET, PLAIN.prices, context=1000.0, later=0.0)
    made = rounds.server(replace(SERVER, token_budget=64))
    assert (made.max_sequences, made.drafted) == (12, 4)
    with pytest.raises(InfeasibleError, match="verify a draft"):
        rounds.server(Server(max_sequences=1, token_budget=4))


def test_pipelines_are_refused() -> None:
    from roofline.cost.layout import Layout

    target = on(layout=Layout(pp=2), device="h100-sxm")
    with pytest.raises(InputError, match="not priced"):
        drafting_fleet(PLAIN, target, requests(0.0, [10], 10), drafting())
