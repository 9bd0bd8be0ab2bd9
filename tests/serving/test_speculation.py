"""Tokens of a verification: against enumeration, simulation and brute force over all trees."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import InputError
from roofline.serving.acceptance import (
    PUBLISHED,
    Acceptance,
    conditional,
    expected_tokens,
    parse,
    published,
    walltime_improvement,
)
from roofline.serving.draft_trees import Tree, best, chain, full

RATE = st.floats(0.0, 1.0)
LENGTH = st.integers(1, 16)
RANKS = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=3).map(
    lambda ranks: tuple(sorted((rank / len(ranks) for rank in ranks), reverse=True))
)


def alike(rate: float) -> Acceptance:
    return Acceptance(((rate,),))


# --- closed forms


@given(rate=RATE, length=LENGTH)
def test_the_closed_form_is_the_mean_over_every_outcome(rate: float, length: int) -> None:
    """Enumerated: each drafted token is accepted or not, those after the first refusal are lost."""
    mean = 0.0
    for accepted in range(length + 1):
        stops = 1.0 if accepted == length else 1.0 - rate
        mean += rate**accepted * stops * (accepted + 1)
    assert expected_tokens(rate, length) == pytest.approx(mean, rel=1e-12)
    assert chain(alike(rate), length).tokens == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize("near", [1e-3, 1e-8, 1e-12, 2.0**-53])
def test_an_acceptance_next_to_one_loses_no_digits(near: float) -> None:
    assert expected_tokens(1.0 - near, 16) == pytest.approx(
        sum((1.0 - near) ** i for i in range(17)), rel=1e-13
    )


def test_the_ends_are_one_token_and_all_of_them() -> None:
    lengths = np.arange(1.0, 17.0)
    assert np.array_equal(expected_tokens(0.0, lengths), np.ones(16))
    assert np.array_equal(expected_tokens(1.0, lengths), lengths + 1.0)
    for length in range(1, 17):
        assert chain(alike(0.0), length).tokens == 1.0
        assert chain(alike(1.0), length).tokens == length + 1.0


@given(first=RATE, second=RATE, length=LENGTH)
def test_tokens_grow_with_acceptance_and_length(first: float, second: float, length: int) -> None:
    low, high = sorted((first, second))
    assert expected_tokens(low, length) <= expected_tokens(high, length) * (1 + 1e-12)
    assert expected_tokens(low, length) <= expected_tokens(low, length + 1) * (1 + 1e-12)
    assert 1.0 <= expected_tokens(low, length) <= length + 1.0 + 1e-9


@given(rate=RATE, length=LENGTH, cost=st.floats(0.0, 1.0))
def test_the_published_improvement_is_tokens_over_the_time_of_a_round(
    rate: float, length: int, cost: float
) -> None:
    rounds = length * cost + 1.0
    assert walltime_improvement(rate, length, cost) * rounds == pytest.approx(
        chain(alike(rate), length).tokens
    )


# --- simulation


def simulated(acceptance: Acceptance, children: dict[tuple[int, ...], int], runs: int) -> float:
    """Mean tokens of verifications in which the target walks down a tree, choice by choice."""
    draw = np.random.default_rng(7)
    total = 0
    for _ in range(runs):
        path: tuple[int, ...] = ()
        while width := children.get(path, 0):
            ranks = acceptance.ranks(len(path) + 1)[:width]
            chosen = int(np.searchsorted(np.cumsum(ranks), draw.random(), side="right"))
            if chosen == len(ranks):
                break
            path = (*path, chosen)
        total += len(path) + 1
    return total / runs


def every_path(widths: tuple[int, ...]) -> dict[tuple[int, ...], int]:
    return {
        path: widths[depth]
        for depth in range(len(widths))
        for path in product(*(range(width) for width in widths[:depth]))
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("acceptance", "widths"),
    [
        ("0.7", (1, 1, 1, 1)),
        ("0.9,0.6,0.3", (1, 1, 1)),
        ("0.55+0.2+0.1", (3, 2, 1)),
        ("0.6+0.15,0.5+0.1,0.4+0.1", (2, 2, 2)),
    ],
)
def test_a_simulated_walk_agrees(acceptance: str, widths: tuple[int, ...]) -> None:
    rates, runs = parse(acceptance), 40_000
    tree = full(rates, widths)
    spread = len(widths) / (2 * runs**0.5)  # a number from 1 to depth + 1 spreads no more
    assert simulated(rates, every_path(widths), runs) == pytest.approx(tree.tokens, abs=4 * spread)


# --- trees


@given(rate=RATE, length=LENGTH)
def test_a_tree_one_wide_is_a_chain(rate: float, length: int) -> None:
    wide = full(alike(rate), (1,) * length)
    assert wide == chain(alike(rate), length)
    assert wide.is_chain
    assert [level.inner for level in wide.levels] == [1] * (length - 1) + [0]
    assert best(alike(rate), length).tokens == pytest.approx(wide.tokens)


@pytest.mark.slow
@given(ranks=st.lists(RANKS, min_size=1, max_size=4), wider=st.booleans())
def test_more_alternatives_never_yield_less(ranks: list[tuple[float, ...]], wider: bool) -> None:
    acceptance = Acceptance(tuple(ranks))
    narrow = tuple(1 if wider else len(each) for each in ranks)
    deep = full(acceptance, narrow)
    wide = full(acceptance, tuple(len(each) for each in ranks))
    assert deep.tokens <= wide.tokens + 1e-12
    assert all(a.reached >= b.reached for a, b in zip(wide.levels, wide.levels[1:], strict=False))


def rooted(
    acceptance: Acceptance, nodes: int, depth: int
) -> Iterator[dict[tuple[int, ...], float]]:
    """Every tree of so many nodes, in which a node comes after its parent."""
    reachable: list[tuple[int, ...]] = []
    for length in range(1, depth + 1):
        wide = [range(len(acceptance.ranks(position))) for position in range(1, length + 1)]
        reachable += list(product(*wide))

    def grow(
        chosen: tuple[tuple[int, ...], ...], start: int
    ) -> Iterator[tuple[tuple[int, ...], ...]]:
        if len(chosen) == nodes:
            yield chosen
            return
        for place in range(start, len(reachable)):
            path = reachable[place]
            if len(path) == 1 or path[:-1] in chosen:
                yield from grow((*chosen, path), place + 1)

    for chosen in grow((), 0):
        values: dict[tuple[int, ...], float] = {}
        for path in chosen:
            above = values[path[:-1]] if len(path) > 1 else 1.0
            values[path] = above * acceptance.ranks(len(path))[path[-1]]
        yield values


@pytest.mark.parametrize("acceptance", ["0.6+0.3", "0.5+0.2+0.2", "0.9+0.05,0.4+0.3,0.8+0.1"])
@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5])
def test_no_tree_of_its_size_yields_more_than_the_best(acceptance: str, nodes: int) -> None:
    rates = parse(acceptance)
    most = max(1.0 + sum(values.values()) for values in rooted(rates, nodes, 3))
    tree = best(rates, nodes, 3)
    assert tree.tokens == pytest.approx(most, rel=1e-12)
    assert (tree.nodes, sum(level.inner for level in tree.levels) < nodes) == (nodes, True)


def test_the_best_tree_ends_where_there_are_no_more_alternatives() -> None:
    assert best(parse("0.5+0.25"), 100, depth=2) == full(parse("0.5+0.25"), (2, 2))
    assert best(parse("0.7,0.6"), 9) == chain(parse("0.7,0.6"), 2)


def test_a_tree_is_called_what_it_is() -> None:
    assert str(chain(alike(0.5), 1)) == "1 token in a row"
    assert str(full(parse("0.5+0.1"), (2, 1))) == "a tree of 4 tokens, 2 deep"
    assert Tree(()).tokens == 1.0


# --- acceptance


def test_published_rates_add_up_to_the_published_lengths() -> None:
    """Printed beside them: 2.60, 2.26, 2.56, and 1.35 where the positions add up to 1.36."""
    lengths = [chain(entry.acceptance, 3).tokens for entry in PUBLISHED[:4]]
    assert [round(length, 2) for length in lengths] == [2.60, 2.26, 2.56, 1.36]
    (found,) = (entry.acceptance for entry in PUBLISHED if entry.draft == "n-grams")
    assert chain(found, 5).tokens == pytest.approx(5376 / (993 + 821), rel=0.002)  # 2.96
    assert all(row["source"] and row["acceptance"] for row in published().rows())


@given(st.lists(st.floats(0.05, 1.0), min_size=2, max_size=8))
def test_shares_of_accepted_drafts_are_the_levels_of_a_chain(rates: list[float]) -> None:
    reached = [
        level.reached for level in chain(Acceptance(tuple((r,) for r in rates)), len(rates)).levels
    ]
    back = conditional(reached)
    assert [ranks[0] for ranks in back.positions] == pytest.approx(rates)


@given(st.lists(RANKS, min_size=1, max_size=4))
def test_an_acceptance_reads_as_it_is_written(ranks: list[tuple[float, ...]]) -> None:
    rounded = Acceptance(tuple(tuple(float(f"{rank:g}") for rank in each) for each in ranks))
    assert parse(str(rounded)) == rounded


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1.2", "acceptance is 1.2"),
        ("-0.1", "acceptance is -0.1"),
        ("nan", "acceptance is nan"),
        ("0.7+0.6", "is more than 1 in all"),
        ("0.1+0.2", "grows"),
        ("", "is not a number"),
        ("0.7,,0.6", "is not a number"),
        ("high", "'high' is not a number"),
    ],
)
def test_what_is_no_probability_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse(text)


@pytest.mark.parametrize(
    ("widths", "said"),
    [
        ((0,), "1 token or more"),
        ((1,) * 17, "draft length is 17"),
        ((), "draft length is 0"),
        ((3,), "acceptance is known of 2"),
        ((2, 2, 2), "known of 2 positions"),
        ((40, 40), "has 1,640 tokens"),
    ],
)
def test_a_tree_that_cannot_be_is_refused(widths: tuple[int, ...], said: str) -> None:
    with pytest.raises(InputError) as raised:
        full(parse("0.5+0.1,0.5+0.1"), widths)
    assert said in f"{raised.value} {raised.value.hint}"


@pytest.mark.parametrize("nodes", [0, -1, 10_000])
def test_a_tree_of_no_size_is_refused(nodes: int) -> None:
    with pytest.raises(InputError, match="tokens in a tree"):
        best(parse("0.5"), nodes)
