"""Draft length by load: at each batch the chain that makes a token in least time, or none.

Symbols: B sequences of a step, K tokens drafted in a row, τ(K) tokens of a verification, t(B, K)
time of a round.
"""

from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.work import Array
from roofline.serving.acceptance import Acceptance, mean_rounds
from roofline.serving.draft_trees import LONGEST, chain
from roofline.serving.drafts import Draft
from roofline.serving.requests import Integers
from roofline.serving.rounds import sheet
from roofline.serving.workload import Workload
from roofline.table import Table, table

SOURCE: Final = (
    "Liu et al. 2024 (SmartSpec, arXiv 2406.14066), section 4. Engines take it as a table by batch "
    "(vLLM PR 32374, num_speculative_tokens_per_batch_size) or learn it (SGLang, "
    "docs.sglang.io, adaptive speculative decoding)"
)
WORTH: Final = 1.01
"""Time over the least for which a length is not changed: steps of kernels would have it change back
and forth. [1]"""


class DraftSchedule(Struct, frozen=True):
    """Draft length of each batch from 1 on."""

    lengths: Integers
    """K; 0 where nothing is drafted. [token]"""
    tpot_s: Array
    plain_s: Array
    """Time between tokens with that draft, and without any. [s]"""

    @property
    def speed_up(self) -> Array:
        """TPOT without drafts over that with them. [1]"""
        return self.plain_s / self.tpot_s

    @property
    def loses_from(self) -> int | None:
        """Batch from which nothing is drafted, up to the largest; None where there is none. [1]"""
        drafts = np.flatnonzero(self.lengths)
        first = int(drafts[-1]) + 2 if len(drafts) else 1
        return first if first <= len(self.lengths) else None

    def ranges(self) -> list[tuple[int, int, int]]:
        """First and last batch of each length, and the length. [1] [1] [token]"""
        return ranges(self.lengths)


def ranges(lengths: Integers) -> list[tuple[int, int, int]]:
    """First and last batch, counted from 1, of as many tokens drafted. [1] [1] [token]

    Examples:
        >>> ranges(np.array([4, 4, 2]))
        [(1, 2, 4), (3, 3, 2)]
    """
    starts = np.flatnonzero(np.diff(lengths, prepend=-1))
    ends = [*starts[1:], len(lengths)]
    return [
        (int(start) + 1, int(end), int(lengths[start]))
        for start, end in zip(starts, ends, strict=True)
    ]


def schedule(
    target: Deployment, draft: Draft, acceptance: Acceptance, workload: Workload, most: int
) -> DraftSchedule:
    """Lengths by batch: the K that maximises B·τ(K) / t(B, K), K = 0 a plain step.

    A larger batch keeps the length of the one before it unless another gains 1 %. Where requests
    differ, 1 / E[1 / τ] stands for τ. Source: Liu et al. 2024 (SmartSpec, arXiv
    2406.14066), section 4, goodput, with the price of each round.

    Args:
        target, draft: What verifies, and what drafts.
        acceptance: How often a drafted token is accepted.
        workload: Lengths of prompt and answer.
        most: Largest batch. [1]
    """
    deepest = min(acceptance.deepest or LONGEST, LONGEST)
    trees = [chain(acceptance, length) for length in range(1, deepest + 1)]
    many = sheet(draft, target, workload, trees, np.arange(1.0, most + 1.0))
    plain = np.broadcast_to(np.asarray(many.step.seconds), most)
    times = [plain]
    for tree, passes, verify in zip(trees, many.passes, many.verify, strict=True):
        whole = np.asarray(verify.seconds) + sum(np.asarray(one.seconds) for one in passes)
        times.append(whole * mean_rounds(acceptance, tree.depth))
    every = np.stack(times)
    lengths = _settled(every)
    return DraftSchedule(lengths, every[lengths, np.arange(most)], plain)


def _settled(times: Array) -> Integers:
    """Fastest row of each column, but the row of the column before while it is `WORTH` no more."""
    best = times.min(axis=0)
    out: Integers = times.argmin(axis=0)
    for at in range(1, len(out)):
        if times[out[at - 1], at] <= best[at] * WORTH:
            out[at] = out[at - 1]
    return out


def schedule_table(found: DraftSchedule) -> Table:
    """Batches of each length, with the speed-up at either end."""
    gain = found.speed_up
    rows = [
        {
            "from_batch": first,
            "to_batch": last,
            "drafted": length,
            "tpot_s": float(found.tpot_s[first - 1]),
            "speed_up": float(gain[first - 1]),
            "speed_up_to": float(gain[last - 1]),
        }
        for first, last, length in found.ranges()
    ]
    return table(rows, {"from_batch": "", "to_batch": "", "drafted": "token", "tpot_s": "s"})
