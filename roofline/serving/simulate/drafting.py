"""Speculative decoding of traffic: rounds in place of decode steps.

A round drafts, and one step of the target verifies; each sequence has as many tokens from it as
were accepted, and one. How many is drawn for every round of a request before it is served, by its
own acceptance where requests differ: nothing else of the load changes it. The loop then serves
requests of as many steps as they have rounds, at the price of a round. Where the length of drafts
follows the batch, the loop counts the rounds of each request as they run.

Each sequence has room in the cache, and in the token budget, for what it drafts. What that leaves
out: contexts and pages grow by a token a round in the loop. Rounds are priced, and the cache is
cut, for how much longer sequences are on average; a later turn finds fewer pages of an answer. Of
a batch that nobody joins the time between tokens is that of `roofline.serving.speculative` within
1 %.
"""

import math
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.memory import kv_bytes_per_sequence
from roofline.cost.step import SequenceGroup
from roofline.cost.work import Array
from roofline.errors import InfeasibleError
from roofline.records import replace
from roofline.serving.acceptance import Acceptance, of_requests
from roofline.serving.draft_trees import Tree
from roofline.serving.drafts import Draft, check_layout, held, pass_
from roofline.serving.requests import Integers, Requests
from roofline.serving.rounds import drafter, verification
from roofline.serving.simulate.compiled.state import PacedDrafts
from roofline.serving.simulate.dense import straight
from roofline.serving.simulate.prices import StepPrices
from roofline.serving.simulate.run import UNPACED
from roofline.serving.simulate.served import ServedRequests
from roofline.serving.simulate.server import UNLIMITED, Server

TOGETHER: Final = 64
"""Rounds of a request that are drawn at once. [1]"""


class RoundDraft(Struct, frozen=True):
    """Draft of a round, and the seed by which acceptance is drawn."""

    draft: Draft
    tree: Tree
    """Drafter, and its draft of a round."""
    seed: int = 0
    """Same seed, same rounds. [1]"""
    acceptance: Acceptance | None = None
    """Rates of a chain whose requests differ; None where all are alike."""
    lengths: Integers | None = None
    """Tokens drafted by sequences that decode, from none on, of which ``tree`` is the longest; None
    where that is drafted always. [token]"""

    @property
    def differ(self) -> bool:
        """Whether requests have acceptances of their own."""
        return self.acceptance is not None and not math.isinf(self.acceptance.concentration)

    def rates(self, requests: int) -> Array:
        """Acceptance of each position of a chain, positions × requests, or × 1. [1]

        One draw for each request says how it compares with the others.
        """
        assert self.acceptance is not None, "a draft of which no rates are known"
        draws = np.random.default_rng((self.seed, 1)).random(requests if self.differ else 1)
        return of_requests(self.acceptance, self.tree.depth, draws)

    def ends(self, requests: int) -> Array:
        """Draws from 0 to 1 at which a round has a token more: positions × requests, or × 1. [1]"""
        if self.differ:
            own: Array = np.subtract(1.0, np.cumprod(self.rates(requests), axis=0))
            return own
        alike: Array = np.cumsum(self.chances[:-1]) / self.chances.sum()
        return alike[:, None]

    def paced(self, given: Requests) -> PacedDrafts:
        """Requests whose rounds are counted as they run, as their drafts follow the batch."""
        if self.lengths is None:
            return UNPACED
        keys = np.random.default_rng((self.seed, 2)).integers(0, 2**64, len(given), dtype=np.uint64)
        return PacedDrafts(
            self.lengths,
            # A copy may be written, as all the others: the loop is compiled for one kind of array.
            self.rates(len(given)).T.copy(),
            keys,
            given.output,
            np.zeros(len(given), np.int64),
            np.zeros(len(given), np.int64),
        )

    def in_rounds(self, given: Requests) -> Requests:
        """Requests whose answers are counted in rounds, the prefill's token apart.

        The last round is cut where the answer ends. Where drafts follow the batch nobody knows yet:
        as many as tokens, at most.
        """
        if self.lengths is not None:
            return given
        random = np.random.default_rng(self.seed)
        ends = self.ends(len(given))
        left, rounds = given.output - 1, np.zeros(len(given), np.int64)
        open_ = np.flatnonzero(left > 0)
        while len(open_):
            draws = random.random((len(open_), TOGETHER))
            if ends.shape[1] == 1:
                drawn = np.searchsorted(ends[:, 0], draws, side="right")
            else:
                drawn = (draws >= ends[:, open_, None]).sum(axis=0)
            made = np.cumsum(1 + drawn, axis=1)
            rounds[open_] += 1 + (made[:, :-1] < left[open_, None]).sum(axis=1)
            left[open_] -= made[:, -1]
            open_ = open_[left[open_] > 0]
        return replace(given, output=1 + rounds)

    def in_tokens(self, served: ServedRequests, given: Requests) -> ServedRequests:
        """Requests that were served in rounds, with their tokens as they came."""
        output = given.output[served.number]
        totals = replace(served.totals, decoded_tokens=int((output - 1).sum()))
        return replace(served, output=output, totals=totals)

    @property
    def chances(self) -> Array:
        """Probability of 1, 2, … tokens of a round. [1]"""
        reached = np.array([1.0, *(level.reached for level in self.tree.levels), 0.0])
        falls: Array = np.maximum(reached[:-1] - reached[1:], 0.0)
        return falls


def reached(prices: StepPrices, sequences: int, longest: int) -> StepPrices:
    """Prices of a target as far as the steps of a server go, so that no others are priced.

    Those are of so many sequences at most, the longest of so many tokens. [1] [token]
    """
    batches = slice(0, int(np.searchsorted(prices.batches, sequences)) + 1)
    contexts = slice(0, int(np.searchsorted(prices.contexts, longest)) + 1)
    return replace(
        prices,
        batches=prices.batches[batches],
        contexts=prices.contexts[contexts],
        decode_s=np.ascontiguousarray(prices.decode_s[batches, contexts]),
        window_s=prices.window_s[batches],
        alone_s=prices.alone_s[batches],
    )


def ahead(given: Requests, rounds: Requests) -> float:
    """Tokens that a sequence has in a round beyond one for each before it, on average. [token]

    Of requests in tokens and in rounds, tokens come evenly over the rounds r of an answer:
    (m / r − 1)·(r − 1) / 2. Source: arithmetic.
    """
    number, made = rounds.output - 1.0, given.output - 1.0
    whole = float(number.sum())
    return float(((made - number) * (number - 1.0) / 2.0).sum()) / whole if whole else 0.0


def round_prices(
    drafting: RoundDraft, target: Deployment, prices: StepPrices, *, later: float, prompt: float
) -> StepPrices:
    """Prices with rounds in place of decode steps, and with prompts that pass the draft too.

    Args:
        drafting, target: What drafts what, for whom.
        prices: Of the target alone.
        later, prompt: Tokens that sequences have beyond one a round; of a prompt. [token]

    Raises:
        InputError: The layout has stages or shares contexts.
    """
    check_layout(target.layout)
    draft, batches = drafting.draft, prices.batches
    shape = (len(batches), len(prices.contexts))
    batch = np.repeat(batches, shape[1])
    cached = np.tile(prices.contexts, shape[0]) - 1.0 + later

    def rounds(tree: Tree) -> Array:
        """Batches × contexts."""
        whole = verification(target, tree, batch, cached).seconds()
        for each in drafter(draft, target, batch, cached)(tree) if tree.levels else ():
            whole = whole + each.seconds
        return np.broadcast_to(whole, batch.shape).reshape(shape).copy()

    if drafting.lengths is None:
        decode, alone = rounds(drafting.tree), prices.alone_s
    else:  # a row for every batch, of its length
        lengths, every = drafting.lengths[1:], np.arange(1.0, len(drafting.lengths))
        decode = np.empty((len(every), shape[1]))
        for length in np.unique(lengths):
            own = lengths == length
            found = rounds(Tree(drafting.tree.levels[:length]))
            decode[own] = straight(batches, found, every)[own]
        alone, batches = np.interp(every, batches, prices.alone_s), every
    others = prices.others_s
    if draft.sequential:
        # As if every group had as many prompts as the busiest: a draft is little of a step.
        busiest = np.outer(prices.shares, prices.tokens).ravel()
        count = np.maximum(busiest / prompt, 1.0)
        every, length = target.layout.dp * count, busiest / count
        beside = pass_(draft, target, SequenceGroup(every, length, length)).seconds(target)
        others = others + np.broadcast_to(beside, busiest.shape).reshape(others.shape)
    return replace(
        prices,
        batches=batches,
        decode_s=decode,
        window=0,
        windows=np.ones(1),
        window_s=np.zeros((len(batches), 1)),
        alone_s=alone,
        others_s=others,
    )


class Rounds(Struct, frozen=True):
    """A deployment that decodes in rounds, whatever limits its server has."""

    drafting: RoundDraft
    target: Deployment
    """Draft and target."""
    prices: StepPrices
    """Prices with rounds in place of decode steps."""
    context: float
    later: float
    """Context of a sequence in the loop, and tokens that a sequence has beyond it. [token]"""

    def server(self, plain: Server) -> Server:
        """Server whose memory holds the draft too, and longer sequences than the loop knows.

        It has room for all that is drafted, in the cache and in the steps. InfeasibleError where
        what drafts leaves no room.
        """
        drafted = self.drafting.tree.nodes
        sequences = min(plain.max_sequences, (plain.token_budget or UNLIMITED) // (1 + drafted))
        if sequences < 1:
            raise InfeasibleError(
                f"a step of {plain.token_budget} tokens does not hold the {1 + drafted} that "
                "verify a draft",
                hint="draft fewer tokens, or raise `token_budget`",
            )
        plain = replace(plain, drafted=drafted, max_sequences=sequences)
        if plain.kv_tokens >= UNLIMITED:
            return plain
        draft, context = self.drafting.draft, self.context
        depth, groups = self.drafting.tree.depth, self.target.layout.dp
        weights, cache = held(draft, self.target, int(groups), round(context), depth)
        token = kv_bytes_per_sequence(self.target, context) / context
        pool = plain.kv_tokens / groups * token - weights
        # A sequence is longer than the loop knows, and what it drafts comes after that.
        known = (context + drafted) / (context + drafted + self.later)
        room = groups * pool / (token + cache / context) * known
        if room < plain.page:
            raise InfeasibleError(
                f"{draft.title} leaves no room for a cache",
                hint="draft with less, give more devices, or a narrower format",
            )
        return replace(plain, kv_tokens=int(room))


def rounds_of(
    drafting: RoundDraft,
    target: Deployment,
    prices: StepPrices,
    requests: Requests,
    rounds: Requests | None = None,
) -> Rounds:
    """Rounds of a deployment for requests, whose lengths say how long sequences are.

    Where drafts follow the batch, those of an earlier run say how many rounds that takes.
    """
    rounds = drafting.in_rounds(requests) if rounds is None else rounds
    later, prompt = ahead(requests, rounds), float(requests.prompt.mean())
    context = prompt + float(rounds.output.mean()) / 2.0
    priced = round_prices(drafting, target, prices, later=later, prompt=prompt)
    return Rounds(drafting, target, priced, context, later)
