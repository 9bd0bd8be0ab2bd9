"""Static batches of a lane: steps at its batches, prompts and contexts, priced when asked for."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.engine_costs import EngineCosts
from roofline.cost.work import Array
from roofline.model.architecture import Architecture
from roofline.records import replace
from roofline.serving.phases import (
    DecodeSteps,
    FirstTokens,
    cut_prompts,
    decode_between,
    first_tokens,
)
from roofline.serving.quadrature import between_nodes
from roofline.serving.stages import GridStep, ask_together, remembering
from roofline.serving.static_batches import PromptTimes, prompt_times
from roofline.study.sweep.points import SweepSlice

FEW: Final = (1.0, 2.0)
"""Prompts side by side on an idle server. [1]"""


@dataclass(eq=False)
class SlicePrices:
    """Lane and what its steps take, priced when first asked for: what never fits never is."""

    lane: SweepSlice
    """The deployment, and the numbers that are asked about."""
    _tables: dict[tuple[str, bool], Array] = field(default_factory=dict, repr=False)

    @cached_property
    def first(self) -> tuple[tuple[NDArray[np.bool_], FirstTokens], ...]:
        """Masks of prompts, and first tokens of these prompts at the nodes of batches.

        One new token is a step of decode, whose kernels are others.
        """
        batches, asked = self.lane.axes.batch.nodes[:, None], float(self.lane.prefill_batch)
        return self._by_length(
            lambda whole, cached: first_tokens(self.lane.deployment, batches, whole, cached, asked)
        )

    @cached_property
    def idle(self) -> tuple[tuple[NDArray[np.bool_], FirstTokens], ...]:
        """The same of one prompt and of two side by side, on an idle server."""
        few = np.array(FEW)[:, None]
        return self._by_length(lambda *lengths: cut_prompts(self.lane.deployment, few, *lengths))

    def _by_length(
        self, made: Callable[[Array, Array], FirstTokens]
    ) -> tuple[tuple[NDArray[np.bool_], FirstTokens], ...]:
        """Masks of prompts, and what is made of their lengths, whole and cached, as a row."""
        prompts = self.lane.axes.prompt.nodes
        new = self.lane.new(prompts)
        return tuple(
            (which, made(prompts[None, which], (prompts - new)[None, which]))
            for which in (new == 1.0, new != 1.0)
            if which.any()
        )

    @cached_property
    def prompts(self) -> PromptTimes:
        """Time that prompts add to steps, at the nodes of batches × prompts."""
        lane = self.lane
        return prompt_times(
            lane.deployment,
            alone_s=self.few("busy_s")[:1],
            two_s=self.few("busy_s")[1:],
            all_s=self.table("busy_s"),
            batch=lane.axes.batch.nodes[:, None],
            new=lane.new(lane.axes.prompt.nodes),
            decode=self.decode[0][1] if self.decode and lane.kv_cache else None,
        )

    @cached_property
    def decode(self) -> tuple[tuple[float, DecodeSteps], ...]:
        """Longest contexts and the decode steps of answers up to there; none for single tokens.

        Answers that fill a window that others do not are priced at other contexts.
        """
        lane, axes = self.lane, self.lane.axes
        network = lane.deployment.architecture
        if axes.output.high <= 1.0 or network.is_encoder:
            return ()
        high = axes.prompt.high + axes.output.high - 1.0
        if network.max_context is not None:
            high = max(min(high, network.max_context - 1.0), axes.prompt.low + 1.0)
        low, batches = axes.prompt.low, axes.batch.nodes[:, None]
        ends = [float(end) for end in between_nodes(network) if low < end < high]
        return tuple(
            (end, decode_between(lane.deployment, batches, low, end, kv_cache=lane.kv_cache))
            for end in (*ends, high)
        )

    @cached_property
    def costs(self) -> EngineCosts:
        """Overheads of the engine's software."""
        return self.lane.deployment.engine_costs

    def table(self, name: str) -> Array:
        """A figure of `FirstTokens`, by name, at the nodes of batches × prompts."""
        return self._whole(name, self.first)

    def few(self, name: str) -> Array:
        """The same of one prompt, and of two side by side, at the nodes of prompts."""
        return self._whole(name, self.idle)

    def _whole(self, name: str, every: tuple[tuple[NDArray[np.bool_], FirstTokens], ...]) -> Array:
        key = name, every is self.idle
        if key not in self._tables:
            if not self._tables:
                ahead([self])
            parts = [(which, getattr(first, name)) for which, first in every]
            self._tables[key] = np.empty((len(parts[0][1]), len(self.lane.axes.prompt.nodes)))
            for which, part in parts:
                self._tables[key][:, which] = part
        return self._tables[key]

    def steps(self) -> Iterator[GridStep]:
        """All that is priced."""
        for _, first in (*self.first, *self.idle):
            yield from first.steps
        for _, decode in self.decode:
            yield decode.step


def priced(lane: SweepSlice) -> SlicePrices:
    """Prices of a lane, in which any of its points can be looked up.

    A point at a batch and a prompt that are nodes is priced as
    `roofline.serving.static.static_batch` prices it; one between them, where an axis has more
    values than are priced, on straight lines between its neighbours. What fits is known at once;
    times are priced when they are first asked for, and only then a device that lacks the arithmetic
    is refused with `roofline.errors.MissingRateError`.
    """
    return SlicePrices(
        replace(lane, deployment=remembering(lane.deployment), axes=lane.axes.thinned())
    )


def within(network: Architecture, prompt: Array, output: Array) -> NDArray[np.bool_]:
    """Mask of prompts and answers that a network is made for. [token]"""
    if network.max_context is None:
        return np.ones(len(prompt), np.bool_)
    answer = 0.0 if network.is_encoder else output
    return np.asarray(prompt + answer <= network.max_context)


def ahead(every: Sequence[SlicePrices]) -> None:
    """Look up the kernels of several lanes at once; a lane costs little more than its rows then.

    What a device has no arithmetic for is left to be refused where it is asked for.
    """
    ask_together([step for prices in every for step in prices.steps()])
