"""Static batches of many sizes or layouts in columns, with their approximate steady state."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import EngineCosts
from roofline.cost.work import Array, Number, distinct
from roofline.records import replace
from roofline.serving.phases import (
    DecodeSteps,
    FirstTokens,
    chunks_of,
    cut_prompts,
    decode_between,
    first_tokens,
)
from roofline.serving.quadrature import Answers
from roofline.serving.stages import GridStep, remembering, wires
from roofline.serving.static import CENTRAL, StaticBatch, micro
from roofline.serving.workload import Workload, branches
from roofline.table import Table, table, units_of

APPROXIMATE: Final = 0.02
"""Log standard deviation of the TPOT from that of the simulator's closed form: 9 of 10 that were
compared are within 4.7 %, half within 0.5 %. [1]"""


class SteadyColumns(Struct, frozen=True):
    """Approximate steady state of many batches or layouts, an entry for each."""

    ttft_idle_s: Number
    tpot_s: Number
    """TTFT of one prompt on an idle server; time between tokens with the batch kept full. [s]"""
    output_tok_s: Number
    """Output tokens of a replica. [token/s]"""


class PromptTimes(Struct, frozen=True):
    """Time that prompts add to the step that they join, an entry for each batch or layout."""

    first_s: Array
    second_s: Array
    further_s: Array
    """Time of the first chunk of a prompt in a step, of the second, and of each further one in a
    group of devices that has one. [s]"""
    chunks: Array
    """Chunks of a prompt, each in a step of its own. [1]"""


def prompt_times(
    deployment: Deployment,
    *,
    alone_s: Array,
    two_s: Array,
    all_s: Array,
    batch: Array,
    new: Number,
    decode: DecodeSteps | None,
) -> PromptTimes:
    """Time that prompts add to the step that they join.

        S = T_2 − T
        R = (T_C − T_2) / (C − 2)
        Q = T + (C − 1)·S/p − G

    with T a step of one chunk of p tokens, T_2 and T_C those of two chunks and of C prompts, and G
    the part of a decode step that is shared with prompts beside it: weights are read, kernels and
    the step itself are started once. S is the time of a second prompt, S/p that of one token more,
    R that of each prompt beyond, and Q what the first prompt adds to a step in which all other
    clients decode.

    Nothing is shared where prompts have steps of their own. A second prompt is in another group of
    attention data parallelism where there is one, and the token more of a group takes as long as
    one of T_C. Of prompts that are cut R is T_C / C for each chunk; without decode all three are.
    Source: the sum over the operators of a mixed step, on straight lines between T, T_2 and T_C.

    Args:
        deployment: What runs; degrees of its layout may be columns.
        alone_s, two_s: Time of one prompt and of two in all of their steps, from `cut_prompts`. [s]
        all_s: Time of all prompts in one step: `FirstTokens.busy_s`. [s]
        batch: C, as a column. [1]
        new: Tokens of a prompt that are not cached. [token]
        decode: Decode steps of the batches; None where nothing decodes, or nothing is cached.
    """
    mean = all_s / batch
    if decode is None:
        return PromptTimes(mean, mean, mean, np.ones_like(mean))
    others, chunks = batch - 1.0, np.broadcast_to(chunks_of(deployment, new), all_s.shape)
    first = alone_s / chunks
    second = (two_s - alone_s) / chunks
    further = np.where(others > 1, (all_s - two_s) / np.maximum(others - 1.0, 1.0), second)
    further = np.where(chunks > 1.0, mean / chunks, further)
    if deployment.engine.first == "decode":
        each = np.where(np.asarray(deployment.layout.dp) > 1, mean, second * chunks) / new
        first = np.maximum(first + others / decode.number * each - decode.shared_s, 0.0)
    return PromptTimes(first, second, further, chunks)


def steady_tpot(
    *, decode_s: Number, prompts: PromptTimes, batch: Number, output: Number, groups: Number
) -> Array:
    """Approximate time between tokens of a server that is kept full; 0 for answers of one token.

        λ = k·(C − 1) / n
        TPOT = D + P₁·Q + P₂·S + (λ − P₁ − P₂)·R

    with D the decode step of C sequences, n tokens of an answer, k chunks of a prompt, Q, S and R
    what the first chunk in a step adds to it, the second, and each further one, and P₁ and P₂ the
    chances that a step has at least one of them, and at least two.

    Every other client sends a prompt in n steps. How many come in one step is a Poisson number of
    mean λ; of prompts that are cut each of the g groups of devices has one chunk with chance λ / g,
    or none. A further chunk is as a second one as long as a group is without.
    Off the closed form of the simulator, `roofline.serving.steady.steady_state`, by 0.2 % in the
    median and by 2.2 % or less in nine of ten cases: 18 deployments of 6 networks with the kernels
    and costs of three engines, 1 to 256 clients, prompts of 100 to 4,000 tokens and answers of 50
    to 1,000 (479 that fit); layouts of attention data parallelism by up to 8 %. It is off by up to
    three times where more prompts come than steps, or more tokens than the front end, have room
    for: they wait then.
    Source: Little's law, in steps.

    Args:
        decode_s: D. [s]
        prompts: Q, S, R and k.
        batch, output: C and n. [1] [token]
        groups: g, groups of devices that have sequences of their own. [1]
    """
    met = (batch - 1.0) / output * prompts.chunks
    one, two = _chances(met, prompts.chunks, groups)
    crowded = _crowded(met, met - one - two, groups)
    added = one * prompts.first_s + (met - one - crowded) * prompts.second_s
    each = decode_s + (added + crowded * prompts.further_s)
    return np.where(np.asarray(output) > 1.0, each, 0.0)


def _chances(met: Array, chunks: Array, groups: Number) -> tuple[Array, Array]:
    """Chances that a step has at least one chunk, and at least two, of a mean number. [1]"""
    one = -np.expm1(-met)
    two = one - met * np.exp(-met)
    cut = chunks > 1.0
    if not cut.any():
        return one, two
    busy = np.minimum(met / groups, 1.0)
    none = (1.0 - busy) ** groups
    single = groups * busy * (1.0 - busy) ** (groups - 1.0)
    return np.where(cut, 1.0 - none, one), np.where(cut, 1.0 - none - single, two)


def _crowded(met: Array, further: Array, groups: Number) -> Array:
    """Chunks of a step, of those further than any number, for which no group is left. [1]"""
    return np.where(np.asarray(groups) > 1, np.clip(met - groups, 0.0, further), further)


@dataclass(eq=False)
class StaticBatches:
    """Static batches of the same lengths, an entry of every array for each, priced on demand."""

    deployment: Deployment
    work: Workload
    """Deployment, its layouts as a column, and lengths."""
    costs: EngineCosts
    """Overheads of the engine's software."""
    batch: Array
    """Sequences of each. [1]"""
    first: FirstTokens
    """Their prefill."""
    decode: DecodeSteps | None
    """Their decode steps; None for answers of one token."""

    @cached_property
    def few(self) -> FirstTokens:
        """Prefill on an idle server, of one prompt and of two side by side: columns."""
        lengths = float(self.work.prompt), float(self.work.cached)
        return cut_prompts(self.deployment, np.array([[1.0, 2.0]]), *lengths)

    @property
    def steps(self) -> list[GridStep]:
        """All that is to be priced of the batches and of their steady state."""
        decode = [] if self.decode is None else [self.decode.step]
        return [*self.first.steps, *self.few.steps, *decode]

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
        sequences = self.batch * branches(self.deployment, self.work)
        return np.asarray(self.costs.decode_step(self._kernels_s, sequences))

    @property
    def tpot_log_sd(self) -> Array:
        """Standard deviation of its logarithm. [1]"""
        if self.decode is None:
            return np.zeros_like(self.batch)
        sequences = self.batch * branches(self.deployment, self.work)
        load = sequences, self.work.prompt + self.work.output / 2.0
        spread = self.costs.log_sd(self._mean("log_sd"), self._kernel_share, load)
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
        """Approximate figures of as many sequences that are kept full: each asks again at once.

            throughput = C·n / (a + k·(D + Q + P₁·S + (λ − P₁)·R) + m·TPOT)

        with the terms of `steady_tpot`, a the front end and m = n − 1 steps after the first token:
        the prompts of others go through the steps of one's own, too, those that are cut in other
        groups.

        Off the closed form by 0.2 % in the median and by 2.4 % or less in nine of ten cases, those
        of `steady_tpot`. Memory and the most sequences of an engine are not looked at: what is
        beyond them would wait.
        Source: Little's law.
        """
        prompts, batch, output = self.prompts, self.batch, float(self.work.output)
        groups = np.ravel(np.asarray(self.deployment.layout.dp, float))
        each = steady_tpot(
            decode_s=self.tpot_s, prompts=prompts, batch=batch, output=output, groups=groups
        )
        met = (batch - 1.0) / (output if output > 1.0 else 1.0) * prompts.chunks
        # Answers of one token: prompts alone, one after the other.
        any_met = -np.expm1(-met) if output > 1.0 else np.minimum(met, 1.0)
        crowded = _crowded(met, met - any_met, groups)
        others_s = (met - crowded) * prompts.second_s + crowded * prompts.further_s
        # A chunk fills its group's step: one of another prompt is in another group.
        apart = np.minimum(met, groups - 1.0) * prompts.second_s
        others_s = np.where(prompts.chunks > 1.0, apart, others_s)
        own = prompts.chunks * (self.tpot_s + prompts.first_s + others_s)
        whole = self.costs.arrival_s + own + (output - 1.0) * each
        return SteadyColumns(self.few.seconds[:, 0], each, batch * output / whole)

    @property
    def prompts(self) -> PromptTimes:
        """Time that prompts add to the steps of such a server."""
        found = prompt_times(
            self.deployment,
            alone_s=self.few.busy_s[:, :1],
            two_s=self.few.busy_s[:, 1:],
            all_s=self.first.busy_s,
            batch=self.batch[:, None],
            new=float(self.work.prompt - self.work.cached),
            decode=self.decode if self.work.kv_cache else None,
        )
        columns = (found.first_s, found.second_s, found.further_s, found.chunks)
        return PromptTimes(*(column[:, 0] for column in columns))

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
        answers = Answers.of(self.decode.contexts, *lengths)
        return np.asarray(self.decode.mean(name, answers, rows))


def batch_axis(batch: int, most: int) -> Array:
    """Powers of two to beyond the most that fits, and the batch itself. [1]"""
    last = max(4 * batch, 2 * most, 16)
    return distinct(np.append(2.0 ** np.arange(0, min(np.log2(last) + 1, 20)), batch))


def static_batches(
    deployment: Deployment, work: Workload, batch: Array, prefill_batch: int | None = None
) -> StaticBatches:
    """Static batches of several sizes, or on several layouts, each priced as it is alone.

    Batches are the rows of a grid whose columns are contexts: what does not depend on the context
    is priced once for each. Each is what `roofline.serving.static.static_batch` says of it.

    Args:
        deployment: What runs; degrees of its layout may be arrays.
        work: Lengths.
        batch: Sequences of each. [1]
        prefill_batch: Prompts prefilled in one step, 0 for as many as go together; None for what
            the workload says. [1]
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
        sequences = down_batch * branches(deployment, work)
        decode = decode_between(known, sequences, prompt, longest, kv_cache=work.kv_cache)
    return StaticBatches(known, work, costs, batch, first, decode)


def batches_of(batch: StaticBatch, most: int) -> StaticBatches:
    """Batches of a `curve`."""
    deployment, work = batch.deployment, batch.workload
    asked = work.prefill_batch
    if deployment.layout.pp > 1 and micro(deployment, replace(work, prefill_batch=0)) == work:
        asked = 0  # nobody said how many prompts go together
    return static_batches(deployment, work, batch_axis(work.batch, most), asked)


def curve(batch: StaticBatch, most: int, found: StaticBatches | None = None) -> Table:
    """TTFT, TPOT and throughput against batch, powers of two to beyond the most that fits.

    Those are the batches of `batches_of`, which may have been priced already.
    """
    found = batches_of(batch, most) if found is None else found
    output = batch.workload.samples * batch.workload.output
    columns = (found.batch, found.ttft_s, found.tpot_s, found.latency_s)
    rows = [
        {
            "batch": int(b),
            "ttft_s": start,
            "tpot_s": each,
            "latency_s": whole,
            "throughput_tok_s": b * output / whole,
            "user_tok_s": 1 / each if each else 0.0,
            "fits": bool(b <= most),
        }
        for b, start, each, whole in zip(*(column.tolist() for column in columns), strict=True)
    ]
    if batch.calibrated:
        for place, row in enumerate(rows):
            for name, sds in (
                ("ttft_s", found.ttft_log_sd),
                ("tpot_s", found.tpot_log_sd),
                ("throughput_tok_s", found.latency_log_sd),
            ):
                factor = float(np.exp(CENTRAL * sds[place]))
                row[f"{name}_low"], row[f"{name}_high"] = row[name] / factor, row[name] * factor
    return table(rows, units_of(rows[0]), batch.deployment.basis)
