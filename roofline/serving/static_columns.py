"""Columns of static batches, and their approximate steady state without a simulator's tables."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import EngineCosts
from roofline.cost.work import Array, Number
from roofline.serving.phases import (
    DecodeSteps,
    FirstTokens,
    GridStep,
    decode_between,
    first_tokens,
    remembering,
    wires,
)
from roofline.serving.quadrature import Answers
from roofline.serving.workload import Workload

APPROXIMATE: Final = 0.02
"""Log standard deviation of the TPOT from that of the simulator's closed form: half of what was
compared is within 1.4 %. [1]"""


@dataclass(frozen=True, slots=True)
class SteadyColumns:
    """Approximate steady state of many batches or layouts, an entry for each.

    Attributes
    ----------
    ttft_idle_s, tpot_s
        TTFT of one prompt on an idle server; time between tokens with the batch kept full. [s]
    output_tok_s
        Output tokens of a replica. [token/s]
    """

    ttft_idle_s: Number
    tpot_s: Number
    output_tok_s: Number


def steady_columns(
    *,
    decode_s: Number,
    first_s: Number,
    prompt_s: Number,
    arrival_s: Number,
    batch: Number,
    output: Number,
) -> SteadyColumns:
    """Approximate steady state from a decode step and the time that one prompt takes.

        TPOT = D + (C − 1)·P / m
        throughput = C·n / (a + P + m·TPOT)

    with D the decode step of C sequences, P the time that a prompt adds to a step, a the front end,
    n tokens of an answer and m = n − 1 decode steps.

    Parameters
    ----------
    decode_s
        D. [s]
    first_s
        TTFT of one prompt on an idle server. [s]
    prompt_s
        P: prefill of a full step over the prompts in it. [s]
    arrival_s
        a. [s]
    batch, output
        C and n. [1] [token]

    Notes
    -----
    Every answer sees the prefill of all other clients once. Off the closed form of the simulator,
    `roofline.serving.steady.steady_state`, by at most 11.1 % in TPOT and 8.7 % in throughput, 1.5 %
    and 1.1 % in the median: on an 8B network and one H100 with vLLM's costs, 1 to 128 clients,
    prompts of 200 to 4,000 and answers of 100 to 1,000 tokens. It is too slow where few short
    prompts come with a step: that reads the weights anyway, and P has them once more. Memory and
    the most sequences of an engine are not looked at: a batch beyond them would wait.
    Source: Little's law.
    """
    steps = np.maximum(np.asarray(output, float) - 1.0, 0.0)
    each = np.where(steps > 0, decode_s + (batch - 1.0) * prompt_s / np.maximum(steps, 1.0), 0.0)
    # Answers of one token: prompts alone, one after the other.
    whole = np.where(steps > 0, arrival_s + prompt_s + steps * each, batch * prompt_s + arrival_s)
    return SteadyColumns(first_s, each[()], (batch * output / whole)[()])


@dataclass(eq=False)
class StaticBatches:
    """Static batches of the same lengths, an entry of every array for each, priced when asked for.

    Attributes
    ----------
    deployment, work
        What runs, its layouts as a column, and lengths.
    costs
        What the engine's software adds to each.
    batch
        Sequences of each. [1]
    first
        Their prefill.
    decode
        Their decode steps; None for answers of one token.
    """

    deployment: Deployment
    work: Workload
    costs: EngineCosts
    batch: Array
    first: FirstTokens
    decode: DecodeSteps | None

    @cached_property
    def idle(self) -> FirstTokens:
        """Prefill of one prompt on an idle server."""
        return first_tokens(self.deployment, 1.0, float(self.work.prompt), float(self.work.cached))

    @property
    def steps(self) -> list[GridStep]:
        """All that is to be priced of the batches."""
        return [*self.first.steps, *([] if self.decode is None else [self.decode.step])]

    @property
    def ttft_s(self) -> Array:
        """Arrival to first token of the prompt that is prefilled last. [s]"""
        return self.first.seconds[:, 0]

    @property
    def ttft_log_sd(self) -> Array:
        """Standard deviation of its logarithm. [1]"""
        return self.first.log_sd[:, 0]

    @cached_property
    def tpot_s(self) -> Array:
        """(latency − TTFT) / (tokens − 1); 0 for answers of one token. [s]"""
        if self.decode is None:
            return np.zeros_like(self.batch)
        return np.asarray(self.costs.decode_step(self._kernels_s, self.batch))

    @property
    def tpot_log_sd(self) -> Array:
        """Standard deviation of its logarithm. [1]"""
        if self.decode is None:
            return np.zeros_like(self.batch)
        spread = self.costs.log_sd(self._mean("log_sd"), self._kernel_share)
        return np.asarray(spread)

    @property
    def latency_s(self) -> Array:
        """Arrival to last token. [s]"""
        return self.ttft_s + self.tpot_s * (self.work.output - 1)

    @property
    def latency_log_sd(self) -> Array:
        """Log standard deviation of the latency; errors of both phases are fully correlated. [1]"""
        rest = self.latency_s - self.ttft_s
        spread = self.ttft_s * self.ttft_log_sd + rest * self.tpot_log_sd
        return np.asarray(spread / self.latency_s)

    @property
    def wires(self) -> Array:
        """Share of the time of a decode step, or of the only step, that collectives take. [1]"""
        if self.decode is None:
            return self.first.full.wide(wires(self.first.full))[:, 0]
        return self._mean("wires") * self._kernel_share

    @property
    def steady(self) -> SteadyColumns:
        """Approximate figures of as many sequences that are kept full: each asks again at once."""
        arrival = self.costs.arrival_s
        return steady_columns(
            decode_s=self.tpot_s,
            first_s=self.idle.seconds.reshape(-1),
            prompt_s=(self.ttft_s - arrival) / self.batch,
            arrival_s=arrival,
            batch=self.batch,
            output=float(self.work.output),
        )

    @cached_property
    def _kernels_s(self) -> Array:
        return self._mean("seconds")

    @property
    def _kernel_share(self) -> Array:
        return np.asarray(self.costs.decode_gain * self._kernels_s / self.tpot_s)

    def _mean(self, name: str) -> Array:
        """Mean over the decode steps of an answer."""
        assert self.decode is not None, "an answer of one token has no decode steps"
        rows = np.arange(len(self.batch))
        lengths = np.array([float(self.work.prompt)]), np.array([float(self.work.output)])
        answers = Answers.of(self.decode.contexts, *lengths).taken(0 * rows)
        return np.asarray(self.decode.mean(name, answers, rows))


def static_batches(
    deployment: Deployment, work: Workload, batch: Array, prefill_batch: int | None = None
) -> StaticBatches:
    """Static batches of several sizes, or on several layouts, each priced as it is alone.

    Parameters
    ----------
    deployment
        What runs; degrees of its layout may be arrays.
    work
        Lengths.
    batch
        Sequences of each. [1]
    prefill_batch
        Prompts prefilled in one step, 0 for as many as go together; None for what the workload
        says. [1]

    Notes
    -----
    Batches are the rows of a grid whose columns are contexts: what does not depend on the context
    is priced once for each. Each is what `roofline.serving.static.static_batch` says of it.
    """
    costs, layout = deployment.engine_costs, deployment.layout
    if layout.is_axis:
        degrees = (layout.tp, layout.cp, layout.dp, layout.ep)
        down = (np.broadcast_to(np.asarray(each, float), batch.shape)[:, None] for each in degrees)
        tp, cp, dp, ep = down
        deployment = replace(deployment, layout=replace(layout, tp=tp, cp=cp, dp=dp, ep=ep))
    known, down_batch, prompt = remembering(deployment), batch[:, None], float(work.prompt)
    asked = work.prefill_batch if prefill_batch is None else prefill_batch
    first = first_tokens(known, down_batch, prompt, float(work.cached), asked)
    decode = None
    if work.output > 1:
        longest = float(work.longest)
        decode = decode_between(known, down_batch, prompt, longest, kv_cache=work.kv_cache)
    return StaticBatches(known, work, costs, batch, first, decode)
