"""The simulator against a server that takes one step at a time."""

import os
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from roofline.records import replace
from roofline.serving.requests import COLUMNS, Requests
from roofline.serving.simulate.compiled.state import PacedDrafts
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.run import simulate, stream
from roofline.serving.simulate.served import ServedRequests, joined
from roofline.serving.simulate.server import BATCHED, Server
from tests.serving.deployments import on
from tests.serving.simulate.cases import chat, prices, server, some_engine, trace
from tests.serving.simulate.reference import reference
from tests.serving.simulate.reference_steps import Drafts, Outcome

TABLE = step_prices(on(), sequences=64)
CHAT = Server(max_sequences=64, token_budget=2048, kv_tokens=450_000)
TRACES = int(os.environ.get("ROOFLINE_TRACES", "150"))
CLOSE = 1e-9


def case(seed: int) -> tuple[Requests, Any, Any, dict[str, Any]]:
    random = np.random.default_rng(seed)
    block = int(random.choice([1, 2, 4, 7]))
    setting = server(random, block)
    given = trace(random, int(random.integers(1, 25)), block)
    driven: dict[str, Any] = {}
    if random.random() < 0.3:
        driven["concurrency"] = int(random.integers(1, 8))
        given = replace(given, arrival=np.zeros_like(given.arrival))
        driven["ramp_s"] = float(random.choice([0.0, random.uniform(0.0, 20.0)]))
    if setting.policy not in BATCHED and random.random() < 0.1:
        given = replace(given, output=given.output + 1)
        driven["transferred"] = True
    groups = int(random.choice([1, 1, 2, 3, 8]))
    return given, prices(random, some_engine(random), groups), setting, driven


def same(ours: ServedRequests, theirs: Outcome) -> None:
    """Every request, and all that was counted, to nine digits."""
    want = theirs.requests
    assert len(ours) == len(want)
    for name, other in (
        ("arrival", "arrival"),
        ("admitted", "admitted"),
        ("first_token", "first"),
        ("finish", "finish"),
    ):
        expected = np.array([getattr(one, other) for one in want])
        np.testing.assert_allclose(getattr(ours, name), expected, rtol=CLOSE, atol=CLOSE)
    assert ours.cached.tolist() == [one.cached for one in want]
    assert ours.preemptions.tolist() == [one.preemptions for one in want]
    totals, steps = ours.totals, theirs.steps
    assert totals.steps == steps
    assert totals.busy_s == pytest.approx(theirs.busy_s, rel=CLOSE)
    assert totals.preemptions == theirs.preemptions
    assert totals.prefilled_tokens == theirs.prefilled
    assert totals.decoded_tokens == theirs.decoded
    assert totals.recomputed_tokens == theirs.recomputed
    assert totals.swapped_tokens == theirs.swapped
    assert totals.loaded_tokens == theirs.loaded
    assert totals.read_tokens == theirs.read
    assert totals.copied_pages == theirs.copied
    assert totals.kv_peak_tokens == theirs.peak
    assert totals.kv_held_tokens * steps == pytest.approx(theirs.held, rel=CLOSE)
    assert totals.kv_stored_tokens * steps == pytest.approx(theirs.stored, rel=CLOSE)
    assert totals.kv_external_tokens * steps == pytest.approx(theirs.external, rel=CLOSE)
    if theirs.final:
        internal = (theirs.held - theirs.final) / steps
        assert totals.kv_internal_tokens == pytest.approx(internal, rel=CLOSE)
        reserved = (theirs.final - theirs.stored) / steps
        assert totals.kv_reserved_tokens == pytest.approx(reserved, rel=CLOSE)
    else:
        internal = (theirs.held - theirs.stored) / steps
        assert totals.kv_internal_tokens == pytest.approx(internal, rel=CLOSE, abs=CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_skipping_steps_changes_nothing(part: int) -> None:
    for seed in range(part, TRACES, 10):
        given, table, setting, driven = case(seed)
        ours = simulate(given, table, setting, **driven)
        try:
            same(ours, reference(given, table, setting, **driven))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {setting} {driven}") from error


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_skipping_steps_changes_nothing_where_each_sequence_has_room_for_drafts(part: int) -> None:
    for seed in range(part, TRACES, 4):
        given, table, setting, driven = case(seed)
        drafted = 1 + seed % 5
        budget = setting.token_budget and max(
            setting.token_budget, setting.max_sequences * (1 + drafted)
        )
        setting = replace(setting, drafted=drafted, token_budget=budget)
        ours = simulate(given, table, setting, **driven)
        try:
            same(ours, reference(given, table, setting, **driven))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {setting} {driven}") from error


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_skipping_steps_changes_nothing_where_drafts_follow_the_batch(part: int) -> None:
    compared = 0
    for seed in range(part, 3 * TRACES, 4):
        given, table, setting, driven = case(seed)
        if setting.policy in BATCHED or setting.kv == "contiguous" or "transferred" in driven:
            continue
        random, most = np.random.default_rng(seed), setting.max_sequences
        deepest = int(random.integers(1, 5))
        lengths = random.integers(0, deepest + 1, most + 1)
        rates = random.random((len(given), deepest))
        keys = random.integers(0, 2**64, len(given), dtype=np.uint64)
        budget = setting.token_budget and max(setting.token_budget, most * (1 + deepest))
        setting = replace(setting, drafted=deepest, token_budget=budget)
        none = np.zeros(len(given), np.int64)
        paced = PacedDrafts(lengths, rates, keys, given.output, none, none.copy())
        drafts = Drafts(lengths.tolist(), rates.tolist(), keys.tolist(), given.output.tolist())
        ours = simulate(given, table, setting, paced=paced, **driven)
        theirs = reference(given, table, setting, drafts=drafts, **driven)
        try:
            same(ours, theirs)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {setting} {driven}") from error
        compared += 1
    assert compared > TRACES // 8


def cut(given: Requests, at: list[int]) -> list[Requests]:
    """Requests in parts; empty ones are parts too."""
    ends = [0, *sorted(at), len(given)]
    return [
        replace(
            given,
            **{name: getattr(given, name)[start:stop] for name in COLUMNS},
            prefix=given.prefix[start : stop + 1] - given.prefix[start],
            hashes=given.hashes[given.prefix[start] : given.prefix[stop]],
        )
        for start, stop in pairwise(ends)
    ]


@pytest.mark.parametrize("part", range(10))
def test_where_a_stream_is_cut_makes_no_difference(part: int) -> None:
    for seed in range(part, TRACES, 10):
        given, table, setting, driven = case(seed)
        alone = np.full(len(given), -1)
        given = replace(given, after=alone, joins=alone)
        random = np.random.default_rng(seed)
        places = random.integers(0, len(given) + 1, int(random.integers(1, 5))).tolist()
        whole = simulate(given, table, setting, **driven)
        parts = list(stream(cut(given, places), table, setting, **driven))
        again = joined(parts)
        assert structs.astuple(again.totals) == pytest.approx(
            structs.astuple(whole.totals), rel=CLOSE
        )
        for name in ("number", "arrival", "admitted", "first_token", "finish", "cached"):
            expected = getattr(whole, name)
            np.testing.assert_allclose(
                getattr(again, name), expected, rtol=CLOSE, err_msg=f"seed {seed}"
            )


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"policy": "continuous", "first": "prefill"},
        {"kv_tokens": 8000},
        {"kv_tokens": 8000, "preemption": "swap", "swap_s_per_token": 1e-6},
    ],
)
def test_skipping_steps_changes_nothing_on_a_real_machine(changes: dict[str, Any]) -> None:
    given, setting = chat(40, 30.0), replace(CHAT, **changes)
    same(simulate(given, TABLE, setting), reference(given, TABLE, setting))
