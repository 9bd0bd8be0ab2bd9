"""Traffic that a deployment is asked to carry, faster or slower, and the limits it has to keep."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.work import Array
from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.acceptance import Acceptance
from roofline.serving.objectives import Objective
from roofline.serving.requests import Requests, picked_rows

HIGHEST: Final = 0.99
"""Probability beyond which an interval of so few measurements says nothing."""


@dataclass(frozen=True)
class Demand:
    """Traffic in an open loop."""

    requests: Requests = field(repr=False)
    """Requests as drawn, or as recorded."""
    drawn_per_s: float
    """Rate at which they come as they are. [1/s]"""
    rate: float
    """Rate that is asked for. [1/s]"""
    warmup: int = 0
    """First requests that do not count. [1]"""
    name: str = ""
    """Name of the requests: of one name, they are the same."""
    acceptance: Acceptance | None = None
    """Acceptance rates of tokens drafted for their answers; None where nothing drafts."""

    def __post_init__(self) -> None:
        """Refuse what has no rate."""
        if not (0 < self.rate < np.inf and 0 < self.drawn_per_s < np.inf):
            raise InputError(
                f"traffic of {self.rate:g} requests per second", hint="give a `rate` above 0"
            )

    def at(self, rate: float) -> Requests:
        """The same requests at another rate [1/s]; how long people think stays as it is."""
        return replace(self.requests, arrival=self.requests.arrival * (self.drawn_per_s / rate))

    def scaled(self, prompt: float = 1.0, output: float = 1.0) -> "Demand":
        """The demand with prompts and answers longer by factors [1]; what prompts share stays."""
        made = self.requests
        shared = np.diff(made.prefix) * made.block
        new = np.maximum(np.rint(made.prompt * prompt).astype(np.int64), np.maximum(shared, 1))
        answers = np.maximum(np.rint(made.output * output).astype(np.int64), 1)
        longer = replace(made, prompt=new, output=answers)
        return replace(self, requests=longer, name=f"{self.name} {prompt:g} × {output:g}")

    def refused(self, factor: float) -> "Demand":
        """The demand of text of which so many times as many drafted tokens are refused. [1]"""
        if self.acceptance is None:
            return self
        accepted = self.acceptance.refused(factor)
        return replace(self, acceptance=accepted, name=f"{self.name} accepting {accepted}")

    def prompts(self) -> "Demand":
        """The demand of its prompts alone, each with its first token as the answer."""
        made = self.requests
        alone = replace(made, output=np.ones_like(made.output))
        return replace(self, requests=alone, name=f"{self.name} prompts")

    def answers(self) -> "Demand":
        """The demand of what is decoded: requests with more than a first token."""
        rows = np.flatnonzero(self.requests.output > 1)
        return replace(self, requests=picked_rows(self.requests, rows), name=f"{self.name} answers")

    @cached_property
    def new_tokens(self) -> NDArray[np.int64]:
        """Tokens of each prompt that an endless cache leaves to be computed. [token]"""
        made = self.requests
        counts = np.diff(made.prefix)
        first = np.zeros(len(made.hashes), np.int64)
        first[np.unique(made.hashes, return_index=True)[1]] = 1
        known = np.concatenate([[0], np.cumsum(first)])
        seen = counts - (known[made.prefix[1:]] - known[made.prefix[:-1]])
        new: NDArray[np.int64] = np.maximum(made.prompt - seen * made.block, 1)
        return new

    @property
    def shares(self) -> bool:
        """True if prompts have anything in common."""
        return len(self.requests.hashes) > 0

    @property
    def own_context(self) -> float:
        """Tokens that a sequence holds of its own while it decodes, mean over all steps. [token]"""
        return self.mean_new_tokens + self.steps / 2.0 if self.shares else self.mean_context

    @cached_property
    def mean_new_tokens(self) -> float:
        """Mean tokens of a prompt that an endless cache leaves to be computed. [token]"""
        return float(self.new_tokens.mean())

    def new_tokens_at(self, percent: float | None) -> float:
        """Tokens of a prompt that are computed, at a percentile; their mean for None. [token]"""
        if percent is None:
            return self.mean_new_tokens
        # Of n values, the one that so many percent are not above.
        return float(self._ordered[int(percent / 100.0 * (len(self._ordered) - 1))])

    @cached_property
    def _ordered(self) -> NDArray[np.int64]:
        """New tokens of the prompts, ascending. [token]"""
        return np.sort(self.new_tokens)

    @cached_property
    def mean_context(self) -> float:
        """Keys that a decode step sees of a sequence, mean over all steps. [token]"""
        prompt, steps = self.requests.prompt.astype(float), self.requests.output - 1.0
        seen: Array = steps * (prompt + (steps + 1.0) / 2.0)
        whole = float(steps.sum())
        return float(seen.sum()) / whole if whole else self.prompt

    @cached_property
    def longest(self) -> int:
        """Longest context. [token]"""
        return int((self.requests.prompt + self.requests.output).max())

    @cached_property
    def output(self) -> float:
        """Mean tokens of an answer. [token]"""
        return float(self.requests.output.mean())

    @cached_property
    def prompt(self) -> float:
        """Mean tokens of a prompt. [token]"""
        return float(self.requests.prompt.mean())

    @cached_property
    def steps(self) -> float:
        """Mean decode steps of an answer. [1]"""
        return float(self.requests.output.mean()) - 1.0


class Goal(Struct, frozen=True):
    """Limits of a plan."""

    objectives: tuple[Objective, ...]
    """Limits on latencies; none for a queue that is stable."""
    gpus: int
    """Most devices. [1]"""
    headroom: float = 0.0
    """Share by which traffic may grow before a limit is passed. [1]"""
    spares: int = 0
    """Replicas that may be lost before a limit is passed. [1]"""
    confidence: float = 0.0
    """Least probability that all limits hold; 0 to plan for what is expected. [1]"""
    held: Mapping[str, int] = {}
    """Most devices of a GPU by its name, where a ceiling on power or cost allows fewer. [1]"""
    returned: bool = False
    """True if devices are given back when all is served, as those of a job are, so that their price
    is that of the work."""

    def most(self, gpu: str) -> int:
        """Most devices of a GPU, by its name. [1]"""
        return min(self.gpus, self.held.get(gpu, self.gpus))

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        if not 0 <= self.headroom <= 100:
            raise InputError(f"headroom is {self.headroom:g}", hint="give a share like 30%")
        if not 0 <= self.spares <= 1000:
            raise InputError(f"{self.spares} spare replicas", hint="give 0 or more, like n+1")
        if not 0 <= self.confidence <= HIGHEST:
            raise InputError(
                f"a confidence of {self.confidence:.1%}",
                hint=f"give a probability up to {HIGHEST:.0%}",
            )
