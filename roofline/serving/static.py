"""Static batch, operator by operator: prompts arrive together, are prefilled, decode in step."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Final

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import EngineCosts
from roofline.cost.measured import MeasuredTime
from roofline.cost.memory import MemoryBudget
from roofline.cost.roof import Time
from roofline.cost.work import COUNTS, Array, Number, Op, Work
from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.phases import (
    ENGINE,
    DecodeSteps,
    FirstTokens,
    cut_prompts,
    decode_between,
    first_tokens,
    prompts_per_step,
)
from roofline.serving.price import usd_per_mtok
from roofline.serving.quadrature import Answers
from roofline.serving.room import memory_of
from roofline.serving.stages import GridStep, PricedStage, fill, pace, slowest
from roofline.serving.workload import Workload, branches
from roofline.table import BASES
from roofline.units import MILLION

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
    measured: MeasuredTime | None = None
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


@dataclass(frozen=True)
class StaticBatch:
    """Latencies of a static batch. Times at datasheet rates are the least the hardware allows."""

    deployment: Deployment
    workload: Workload
    """Deployment, batch and lengths."""
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
    held: MemoryBudget | None = None
    """Memory of a device that holds other than this batch alone, as drafts; else None."""

    @cached_property
    def memory(self) -> MemoryBudget:
        """Memory of a device."""
        if self.held is not None:
            return self.held
        return memory_of(self.deployment, self.workload, self.utilization)

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
        return usd_per_mtok(self.deployment.usd_per_hour, 1.0, self.throughput_tok_s)

    @property
    def joule_per_mtok(self) -> float:
        """Energy of a million output tokens at board power, an upper bound. [J]"""
        return self.deployment.watts / self.throughput_tok_s * MILLION

    @property
    def latency_serial_s(self) -> float:
        """Latency if nothing overlapped. [s]"""
        return self.ttft_serial_s + self.tpot_serial_s * (self.workload.output - 1)


@dataclass(eq=False)
class BatchSteps:
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


def phases(deployment: Deployment, workload: Workload) -> BatchSteps:
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
    return BatchSteps(deployment, work, first, decode)


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
    asked: BatchSteps, *, utilization: float | None = None, operators: bool = True
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
    batch = priced(BatchSteps(deployment, own, first, None))
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
    prompts = prompts_per_step(deployment, float(workload.batch), new)
    return replace(workload, prefill_batch=int(prompts))


def check_context(deployment: Deployment, workload: Workload) -> None:
    """Refuse a context beyond what the network is made for."""
    limit = deployment.architecture.max_context
    answer = 0 if deployment.architecture.is_encoder else workload.output
    total = workload.prompt + answer
    if limit is None or total <= limit:
        return
    if not answer:
        raise InputError(
            f"a prompt of {total:,} tokens, {deployment.architecture.name} is made for {limit:,}",
            hint=f"shorten `prompt` to {limit:,}",
        )
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
    measured = MeasuredTime(seconds, costs.tpot_log_sd, float(BASES.index("interpolated")))
    return {ENGINE: OpTime(op, seconds, 0.0, 0.0, 0.0, measured=measured)}


def operator_times(
    stage: PricedStage, weights: Array | None = None, gain: float = 1.0
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
