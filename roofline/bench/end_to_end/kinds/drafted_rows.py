"""Rows of speculative decoding: the layer that predicts further tokens drafts, the target verifies.

How often drafts were accepted is not measured in any row. What others published of the network is
taken: the prediction lies between its ends, and its interval holds both.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from msgspec import Struct

from roofline.bench.end_to_end.cases import Row, row_of, said
from roofline.bench.end_to_end.held_out import DEVIATIONS, Spreads
from roofline.bench.end_to_end.kinds.prediction import ApartRow, Prediction, wider
from roofline.bench.end_to_end.metrics import profile_of
from roofline.bench.end_to_end.replay import (
    SAME,
    SEED,
    PreparedRow,
    known,
    request_metrics,
    with_profile,
)
from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.serving import drafts
from roofline.serving.acceptance import PUBLISHED, conditional
from roofline.serving.draft_trees import Tree, chain
from roofline.serving.run.serve import Fleet, drafting_fleet, serve
from roofline.serving.simulate.drafting import RoundDraft

KIND: Final = "speculative"
WIDER: Final = 1.3
"""Factor on the spread of a row, with which 80 % of 256 figures of devices other than an H200 are
in their interval; those of an H200 are left to check it. [1]"""
MTP: Final = "mtp"
FLAGS: Final = (
    r"--speculative-num-steps[ =](\d+)",
    r"num_nextn_predict_layers[ =:]+(\d+)",
    r"num[-_]speculative[-_]tokens[\"']?[ =:]+(\d+)",
)
"""Flags of SGLang, TensorRT-LLM, and vLLM and ATOM for the number of tokens drafted in a row."""
FIRST: Final = "ttft_s"
"""Metric that no accepted token changes."""
USUAL: Final = "deepseek-v3"
"""Network of which most was published: others are no surer than it."""


class Accepted(Struct, frozen=True):
    """Published acceptance of a chain of drafted tokens."""

    tree: Tree
    """Chain, each position accepted as often as in the middle of the ends."""
    log_sd: float
    """Log standard deviation of the tokens of a round: the ends are its central 80 %. [1]"""


def accepted(network: str, length: int) -> Accepted:
    """Acceptance of drafts of a network's own layer, from what was published.

    Args:
        network: Name in the catalog; one of the same shape stands for it.
        length: Tokens drafted in a row. [token]

    Raises:
        InputError: Nothing was published of it.

    Examples:
        >>> found = accepted("deepseek-r1", 1)  # 0.70 to 0.90 were published
        >>> round(found.tree.tokens, 2)
        1.8
    """
    ends = _ends(network, length)
    if not ends:
        raise InputError(
            f"no acceptance of {length} tokens drafted by {network} was published",
            hint="roofline speculate lists those that were",
        )
    low, high = ends[0], ends[-1]
    reached = [
        (one.reached + other.reached) / 2.0
        for one, other in zip(low.levels, high.levels, strict=True)
    ]
    usual = _ends(USUAL, length) or ends
    widest = max(np.log(each[-1].tokens / each[0].tokens) for each in (ends, usual))
    return Accepted(chain(conditional(reached), length), float(widest) / (2.0 * DEVIATIONS))


def _ends(network: str, length: int) -> list[Tree]:
    """Chains by what was published of a network, that of the fewest tokens first."""
    names = {network, SAME.get(network, network)}
    known = (each.acceptance for each in PUBLISHED if each.draft == "MTP" and each.target in names)
    found = [
        chain(each, length) for each in known if each.deepest is None or each.deepest >= length
    ]
    return sorted(found, key=lambda tree: tree.tokens)


@dataclass(frozen=True)
class DraftedRow(ApartRow):
    """A measured row of speculative decoding."""

    row: Row
    """The row as if it decoded plainly."""
    length: int
    """Tokens drafted in a row; 0 for none. [token]"""

    @cached_property
    def known(self) -> PreparedRow:
        """The row with what would serve it plainly."""
        return known(self.row)

    def predict(self, logs: Array, spreads: Spreads) -> Prediction:
        """Prediction by constants of engines, and their spreads."""
        each = self.known
        profile = profile_of(each, logs)
        prices = each.prices(profile)
        fleet, unsure, drafted = Fleet(prices, each.server, int(self.row.replicas)), 0.0, "nothing"
        if self.length:
            found = accepted(self.row.case.network, self.length)
            target = with_profile(each.deployment, profile)
            drafting = RoundDraft(drafts.mtp(target), found.tree, SEED)
            fleet = drafting_fleet(fleet, target, each.requests, drafting)
            unsure = found.log_sd
            drafted = f"{self.length} tokens by MTP, {found.tree.tokens:.2f} tokens of a round"
        served = serve(fleet, each.requests, concurrency=each.clients)
        return Prediction(
            each.row,
            each.engine.profile,
            each.kind,
            predicted=request_metrics(self.row, served, served.totals.makespan_s),
            log_sd={
                name: WIDER * wider(spreads, each, name, 0.0 if name == FIRST else unsure)
                for name in self.row.measured
            },
            basis=f"drafts {drafted}, constants fitted for {each.engine.profile} that decodes "
            "plainly",
        )


def drafted_row(place: int, record: Mapping[str, Any]) -> DraftedRow:
    """Row of speculative decoding; ``server_args`` says how many tokens are drafted.

    Raises:
        InputError: It does not say what drafts, or how many tokens.
    """
    draft = said(record, "speculation").lower()
    if draft != MTP:
        raise InputError(
            f"the draft is {draft!r:.40}" if draft else "what drafts is not said",
            hint=f"rows with {MTP} are predicted",
        )
    arguments = said(record, "server_args")
    found = [int(match) for flag in FLAGS for match in re.findall(flag, arguments)]
    if not found:
        raise InputError(
            "how many tokens are drafted is not said", hint="give the flag in server_args"
        )
    row = row_of(place, {**record, "speculation": ""})
    return DraftedRow(place, row.case, row, found[0])
