"""Static batches: all prompts arrive together, are prefilled, then decode in step to the end.

`StaticBatch` is one of them, operator by operator; `StaticBatches` are many in columns, with their
approximate steady state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import EngineCosts
from roofline.cost.measured import Measured
from roofline.cost.memory import Memory
from roofline.cost.roof import Time
from roofline.cost.work import COUNTS, Array, Number, Op, Work, distinct
from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.phases import (
    ENGINE,
    DecodeSteps,
    FirstTokens,
    chunks_of,
    cut_prompts,
    decode_between,
    first_tokens,
    together,
)
from roofline.serving.quadrature import Answers
from roofline.serving.room import memory_of
from roofline.serving.stages import GridStep, Priced, fill, pace, remembering, slowest, wires
from roofline.serving.workload import Workload, branches
from roofline.table import BASES
from roofline.units import MILLION, SECONDS_PER_HOUR

CENTRAL: Final = 1.2815515655446008
"""Standard deviations from the median to either end of the central 80 %: the quantile 0.9."""


@dataclass(frozen=True, slots=True)
class OpTime:
    """An operator's share of a phase, all its executions together, on one device."""

    op: Op
    """Operator in the prefill step, or the mean of the decode steps."""
    seconds: float
    """Time, without what is hidden behind other operators; for decode the mean over the answer,
    as all others here. [s]"""
    compute: float
    memory: float
    wire: float
    host: float = 0.0
    """Time of each limit alone. [s]"""
    measured: Measured | None = None
    """Measured time; None where nothing like it was measured."""
    symbols: Callable[[], Mapping[str, float]] = field(default=dict, repr=False, compare=False)
    """Values of the symbols of the operator's formula, means like all else here."""

    @property
    def bound(self) -> str:
        """Slowest limit: ``"compute"``, ``"memory"``, ``"wire"``, ``"host"`` or ``"engine"``."""
        if self.op.kind == "engine":
            return "engine"
        times = {
            "compute": self.compute,
            "memory": self.memory,
            "wire": self.wire,
            "host": self.host,
        }
        return max(times, key=lambda name: times[name])

    @property
    def roof(self) -> float:
        """The least that the published rates allow. [s]"""
        return max(self.compute, self.memory, self.wire, self.host)

    @property
    def basis(self) -> str:
        """Basis of the time, one of `roofline.table.BASES`."""
        return "datasheet" if self.measured is None else BASES[int(self.measured.basis)]

    @property
    def serial(self) -> float:
        """Time if nothing overlapped. [s]"""
        return self.compute + self.memory + self.wire + self.host


@dataclass(frozen=True, slots=True)
class StaticBatch:
    """Latencies of a static batch. Times at datasheet rates are the least the hardware allows."""

    deployment: Deployment
    workload: Workload
    memory: Memory
    """Deployment, batch and lengths, and memory of a device."""
    prefill: dict[str, OpTime] = field(repr=False)
    decode: dict[str, OpTime] = field(repr=False)
    """Operators of the prefill step and of the mean decode step, by name: of the slowest stage
    where there are several."""
    prefill_stages: tuple[float, ...]
    decode_stages: tuple[float, ...]
    """Time of each stage of the pipeline for one micro-batch. [s]"""
    ttft_s: float
    """Arrival to first token of the prompt that is prefilled last. [s]"""
    ttft_mean_s: float
    """The same, mean over the batch. [s]"""
    tpot_s: float
    """(latency − TTFT) / (tokens − 1); 0 for a single token. [s]"""
    latency_s: float
    """Arrival to last token. [s]"""
    ttft_serial_s: float
    tpot_serial_s: float
    """TTFT and TPOT if nothing overlapped. [s]"""
    utilization: float | None = None
    """Share of device memory that was asked for; None for the engine's default. [1]"""
    ttft_log_sd: float = 0.0
    tpot_log_sd: float = 0.0
    """Standard deviation of their logarithms, as far as operators were measured; 0 at datasheet
    rates. [1]"""

    @property
    def sequences(self) -> int:
        """Sequences that decode together: answers or beams of all prompts. [1]"""
        return self.workload.batch * branches(self.deployment, self.workload)

    @property
    def answers(self) -> int:
        """Answers of the batch; all beams of a prompt are one. [1]"""
        return self.workload.batch * self.workload.samples

    @property
    def calibrated(self) -> bool:
        """Whether operators were priced as measured, so that there are intervals."""
        return self.deployment.calibration is not None

    @property
    def latency_log_sd(self) -> float:
        """Log standard deviation of the latency; errors of both phases are fully correlated. [1]"""
        tokens = self.workload.output - 1
        spread = self.ttft_s * self.ttft_log_sd + self.tpot_s * tokens * self.tpot_log_sd
        return spread / self.latency_s

    @property
    def devices(self) -> int:
        """Devices the batch runs on. [1]"""
        return self.deployment.devices

    @property
    def throughput_tok_s(self) -> float:
        """Output tokens of the batch over its latency. [token/s]"""
        return self.answers * self.workload.output / self.latency_s

    @property
    def decode_tok_s(self) -> float:
        """Output tokens while decoding; 0 for a single token. [token/s]"""
        return self.answers / self.tpot_s if self.tpot_s else 0.0

    @property
    def user_tok_s(self) -> float:
        """Rate of one user after the first token; 0 for a single token. [token/s]"""
        return 1 / self.tpot_s if self.tpot_s else 0.0

    @property
    def usd_per_mtok(self) -> float:
        """Price of a million output tokens; 0 where no price is assumed. [$]"""
        per_second = self.deployment.usd_per_hour / SECONDS_PER_HOUR
        return per_second / self.throughput_tok_s * MILLION

    @property
    def joule_per_mtok(self) -> float:
        """Energy of a million output tokens at board power, an upper bound. [J]"""
        return self.deployment.watts / self.throughput_tok_s * MILLION

    @property
    def latency_serial_s(self) -> float:
        """Latency if nothing overlapped. [s]"""
        return self.ttft_serial_s + self.tpot_serial_s * (self.workload.output - 1)


@dataclass(eq=False)
class Phases:
    """Steps of a static batch before they are priced."""

    deployment: Deployment
    workload: Workload
    """Deployment, and its prompts in as many steps as it takes."""
    first: FirstTokens
    """Prefill."""
    decode: DecodeSteps | None
    """Decode steps; None for answers of one token."""

    @property
    def steps(self) -> list[GridStep]:
        """All that is to be priced."""
        return [*self.first.steps, *([] if self.decode is None else [self.decode.step])]


def phases(deployment: Deployment, workload: Workload) -> Phases:
    """Steps of a static batch before they are priced.

    InputError where the context is longer than the network is made for.
    """
    check_context(deployment, workload)
    work = micro(deployment, workload)
    batch, prompt = float(work.batch), float(work.prompt)
    first = first_tokens(deployment, batch, prompt, float(work.cached), work.prefill_batch)
    decode = None
    if work.output > 1:
        longest = float(work.longest)
        batch *= branches(deployment, work)
        decode = decode_between(deployment, batch, prompt, longest, kv_cache=work.kv_cache)
    return Phases(deployment, work, first, decode)


def static_batch(
    deployment: Deployment,
    workload: Workload,
    *,
    utilization: float | None = None,
    operators: bool = True,
) -> StaticBatch:
    """Price a static batch, each operator by itself.

    Args:
        deployment: Network, node, formats, layout, engine.
        workload: Batch and lengths.
        utilization: Share of device memory the engine takes; None for its default. [1]
        operators: Whether it says what each operator takes, too.

    Raises:
        InputError: The context is longer than the network is made for.
    """
    return priced(phases(deployment, workload), utilization=utilization, operators=operators)


def priced(
    asked: Phases, *, utilization: float | None = None, operators: bool = True
) -> StaticBatch:
    """Static batch of some phases, whose kernels may be looked up already: see `static_batch`."""
    deployment, work, first, steps = asked.deployment, asked.workload, asked.first, asked.decode
    costs, prompt = deployment.engine_costs, float(work.prompt)
    ttft = float(first.seconds)
    rest: dict[str, OpTime] = {}
    tpot = tpot_serial = tpot_sd = 0.0
    decoding: tuple[float, ...] = ()
    if steps is not None:
        answer = Answers.of(steps.contexts, np.array([prompt]), np.array([float(work.output)]))
        kernels, serial, spread = (
            float(np.asarray(steps.mean(name, answer, np.zeros(1, np.intp)))[0])
            for name in ("seconds", "serial", "log_sd")
        )
        batch = float(work.batch * branches(deployment, work))
        gain, weights = costs.decode_gain, answer.weights(steps.contexts)
        tpot, tpot_serial = (float(costs.decode_step(each, batch)) for each in (kernels, serial))
        software = tpot - gain * kernels
        load = batch, work.prompt + work.output / 2.0
        tpot_sd = float(costs.log_sd(spread, 1.0 - software / tpot, load))
        decoding = tuple(gain * _mean(each, weights) for each in steps.step.seconds())
        if operators:
            rest = operator_times(slowest(steps.step.stages), weights, gain)
            rest |= engine_time(software, costs)
    prompts: dict[str, OpTime] = {}
    if operators:
        prompts = operator_times(slowest(first.full.stages), gain=costs.prefill_gain)
        prompts |= engine_time(costs.prefill_step_s + float(first.launching_s), costs)
    return StaticBatch(
        deployment=deployment,
        workload=work,
        memory=memory_of(deployment, work, utilization),
        prefill=prompts,
        decode=rest,
        prefill_stages=tuple(float(each) for each in first.stages_s(first.full)),
        decode_stages=decoding,
        ttft_s=ttft,
        ttft_mean_s=_mean_ttft(first, work),
        tpot_s=tpot,
        latency_s=ttft + tpot * (work.output - 1),
        ttft_serial_s=float(first.at(serial=True)),
        tpot_serial_s=tpot_serial,
        utilization=utilization,
        ttft_log_sd=float(first.log_sd),
        tpot_log_sd=tpot_sd,
    )


def lone_prompt(deployment: Deployment, workload: Workload) -> StaticBatch:
    """One prompt of a workload on an idle server, in the steps that the engine cuts it into."""
    own = replace(workload, batch=1, prefill_batch=0, output=1)
    first = cut_prompts(deployment, 1.0, float(own.prompt), float(own.cached))
    batch = priced(Phases(deployment, own, first, None))
    return replace(batch, ttft_mean_s=batch.ttft_s)


def _mean_ttft(first: FirstTokens, work: Workload) -> float:
    """Arrival to first token, mean over the batch. [s]

    Prompts of full step i have their first token after i steps, those left over at the end.
    """
    costs, times = first.costs, first.stages_s(first.full)
    filled = float(fill(times)) + costs.prefill_step_s
    paced = float(pace(times)) + costs.prefill_step_s
    full = work.full_steps
    waits = work.together * (full * filled + full * (full - 1) / 2 * paced)
    waits += work.together * full * costs.arrival_s
    return (waits + work.left_over * float(first.seconds)) / work.batch


def micro(deployment: Deployment, workload: Workload) -> Workload:
    """The workload with its prompts in as many steps as a pipeline takes, unless asked for.

    As many as take turns in decode, or more where the engine's steps hold fewer prompts.
    """
    if deployment.turns == 1 or workload.prefill_batch:
        return workload
    new = float(workload.prompt - workload.cached)
    prompts = together(deployment, float(workload.batch), new)
    return replace(workload, prefill_batch=int(prompts))


def check_context(deployment: Deployment, workload: Workload) -> None:
    """Refuse a context beyond what the network is made for."""
    limit = deployment.architecture.max_context
    answer = 0 if deployment.architecture.is_encoder else workload.output
    total = workload.prompt + answer
    if limit is not None and total > limit:
        raise InputError(
            f"{workload.prompt:,} + {answer:,} tokens are {total:,}, "
            f"{deployment.architecture.name} is made for {limit:,}",
            hint=f"shorten `prompt` or `output` to {limit:,} together",
        )


def _mean(value: Number, weights: Array | None) -> float:
    """Mean over the scenario axis; of a scalar, itself."""
    if weights is None or not hasattr(value, "shape") or not value.shape:
        return float(value)
    return float(weights @ value)


def engine_time(seconds: float, costs: EngineCosts) -> dict[str, OpTime]:
    """Time that an engine adds to kernels of a step [s], as one more operator; none if ideal."""
    if not costs.step_s:
        return {}
    op = Op(ENGINE, "engine", Work())
    measured = Measured(seconds, costs.tpot_log_sd, float(BASES.index("interpolated")))
    return {ENGINE: OpTime(op, seconds, 0.0, 0.0, 0.0, measured=measured)}


def operator_times(
    stage: Priced, weights: Array | None = None, gain: float = 1.0
) -> dict[str, OpTime]:
    """Operators of a stage; with weights of the rows of the scenario axis [1], their mean over it.

    The gain is a factor on measured kernels in this phase. [1]
    """

    def shown(op: Op, time: Time) -> OpTime:
        limits = (time.compute, time.memory, time.wire, time.host)
        means = {name: _mean(getattr(op.work, name), weights) for name in COUNTS}
        work = replace(op.work, **means)
        dims = {key: _mean(value, weights) for key, value in op.dims.items()}
        wired = _mean(op.wire_s, weights)
        mean = replace(op, work=work, dims=dims, wire_s=wired)
        known = time.measured
        if known is not None:
            known = replace(
                known,
                seconds=gain * _mean(known.seconds, weights),
                log_sd=_mean(known.log_sd, weights),
                basis=float(np.max(known.basis)),
            )
        compute, memory, wire, host = (_mean(limit, weights) for limit in limits)
        exposed = gain * _mean(stage.exposed(op, time), weights)
        symbols = partial(op.work.symbols, weights)
        return OpTime(mean, exposed, compute, memory, wire, host, known, symbols)

    return {name: shown(op, time) for name, (op, time) in stage.ops.items()}


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
