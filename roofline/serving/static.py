"""A static batch: all prompts arrive together, are prefilled, then decode in step to the end."""

import math
from dataclasses import dataclass, field, fields, replace

import numpy as np

from roofline.cost import memory as memory_
from roofline.cost.deployment import Deployment
from roofline.cost.memory import Memory
from roofline.cost.roof import roof
from roofline.cost.step import Group, prefill, step
from roofline.cost.work import Array, Number, Op, Work, plus
from roofline.errors import InputError
from roofline.serving.quadrature import nodes
from roofline.units import MILLION, SECONDS_PER_HOUR

MOST_TOKENS = 2**31
MOST_SEQUENCES = 2**24


@dataclass(frozen=True, slots=True)
class Workload:
    """What a static batch is asked to do.

    Attributes
    ----------
    batch
        Sequences decoded together. [1]
    prompt, output
        Tokens of each prompt and of each answer. [token]
    prefill_batch
        Prompts prefilled in one step; 0 for the whole batch. [1]
    prefix_hit
        Share of the prompt that is cached already. [1]
    kv_cache
        False to compute the whole context again for every token.
    """

    batch: int = 16
    prompt: int = 2048
    output: int = 256
    prefill_batch: int = 0
    prefix_hit: float = 0.0
    kv_cache: bool = True

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        for name, value, most in (
            ("batch", self.batch, MOST_SEQUENCES),
            ("prompt", self.prompt, MOST_TOKENS),
            ("output", self.output, MOST_TOKENS),
        ):
            if not 1 <= value <= most:
                raise InputError(f"{name} is {value:g}", hint=f"give a number from 1 to {most:,}")
        if not 0 <= self.prefill_batch <= self.batch:
            raise InputError(
                f"prefill batch is {self.prefill_batch:g}, batch is {self.batch}",
                hint="prefill between 1 prompt and the whole batch in a step",
            )
        if not 0 <= self.prefix_hit < 1:
            raise InputError(
                f"prefix hit is {self.prefix_hit:g}",
                hint="give the cached share of the prompt, from 0 up to but not including 1",
            )

    @property
    def cached(self) -> int:
        """Tokens of the prompt that are cached; at least one is left to compute. [token]"""
        return min(math.floor(self.prefix_hit * self.prompt), self.prompt - 1)

    @property
    def together(self) -> int:
        """Prompts in one prefill step. [1]"""
        return self.prefill_batch or self.batch

    @property
    def longest(self) -> int:
        """Context of the last step that is computed. [token]"""
        return self.prompt + self.output - 1

    @property
    def prefill(self) -> Group:
        """The prefill step."""
        return prefill(float(self.together), float(self.prompt), float(self.cached))

    def decode(self, context: Number) -> Group:
        """Decode step that ends at a context: one new token, or all of them without a cache."""
        new = 1.0 if self.kv_cache else context
        return Group(float(self.batch), new, context)


@dataclass(frozen=True, slots=True)
class OpTime:
    """An operator's share of a phase, all its executions together, on one device.

    Attributes
    ----------
    op
        At the prefill step, or the mean of the decode steps.
    seconds, compute, memory, wire
        Time, and what each limit alone would take; for decode the mean over the answer. [s]
    """

    op: Op
    seconds: float
    compute: float
    memory: float
    wire: float

    @property
    def bound(self) -> str:
        """What takes longest: ``"compute"``, ``"memory"`` or ``"wire"``."""
        times = {"compute": self.compute, "memory": self.memory, "wire": self.wire}
        return max(times, key=lambda name: times[name])

    @property
    def serial(self) -> float:
        """Time if nothing overlapped. [s]"""
        return self.compute + self.memory + self.wire


@dataclass(frozen=True, slots=True)
class StaticBatch:
    """What users feel. Times at datasheet rates are the least the hardware allows.

    Attributes
    ----------
    deployment, workload, memory
        What was asked.
    prefill, decode
        Operators of the prefill step and of the mean decode step, by name.
    ttft_s
        Arrival to first token of the prompt that is prefilled last. [s]
    ttft_mean_s
        The same, mean over the batch. [s]
    tpot_s
        (latency − TTFT) / (tokens − 1); 0 for a single token. [s]
    latency_s
        Arrival to last token. [s]
    """

    deployment: Deployment
    workload: Workload
    memory: Memory
    prefill: dict[str, OpTime] = field(repr=False)
    decode: dict[str, OpTime] = field(repr=False)
    ttft_s: float
    ttft_mean_s: float
    tpot_s: float
    latency_s: float

    @property
    def devices(self) -> int:
        """Devices the batch runs on. [1]"""
        return self.deployment.tp

    @property
    def throughput_tok_s(self) -> float:
        """Output tokens of the batch over its latency. [token/s]"""
        return self.workload.batch * self.workload.output / self.latency_s

    @property
    def decode_tok_s(self) -> float:
        """Output tokens while decoding; 0 for a single token. [token/s]"""
        return self.workload.batch / self.tpot_s if self.tpot_s else 0.0

    @property
    def user_tok_s(self) -> float:
        """What one user sees after the first token; 0 for a single token. [token/s]"""
        return 1 / self.tpot_s if self.tpot_s else 0.0

    @property
    def usd_per_mtok(self) -> float:
        """Price of a million output tokens; 0 where no price is assumed. [$]"""
        per_second = self.deployment.node.gpu.usd_per_hour * self.devices / SECONDS_PER_HOUR
        return per_second / self.throughput_tok_s * MILLION

    @property
    def joule_per_mtok(self) -> float:
        """Energy of a million output tokens at board power, an upper bound. [J]"""
        return self.deployment.node.gpu.tdp_w * self.devices / self.throughput_tok_s * MILLION

    @property
    def prefill_serial_s(self) -> float:
        """Prefill step if nothing overlapped. [s]"""
        return sum(entry.serial for entry in self.prefill.values())

    @property
    def decode_serial_s(self) -> float:
        """Mean decode step if nothing overlapped. [s]"""
        return sum(entry.serial for entry in self.decode.values())


def static_batch(
    deployment: Deployment, workload: Workload, *, utilization: float | None = None
) -> StaticBatch:
    """Price a static batch at datasheet rates.

    Parameters
    ----------
    deployment
        Network, node, formats, layout, engine.
    workload
        Batch and lengths.
    utilization
        Share of device memory the engine takes; None for its default. [1]

    Raises
    ------
    InputError
        The context is longer than the network is made for.
    """
    check_context(deployment, workload)
    first = _priced(deployment, workload.prefill)
    rest: dict[str, OpTime] = {}
    if workload.output > 1:
        contexts, weights = nodes(workload.prompt + 1, workload.longest)
        rest = _priced(deployment, workload.decode(contexts), weights)
    steps = math.ceil(workload.batch / workload.together)
    one = sum(entry.seconds for entry in first.values())
    tpot = sum(entry.seconds for entry in rest.values())
    return StaticBatch(
        deployment=deployment,
        workload=workload,
        memory=_memory(deployment, workload, utilization),
        prefill=first,
        decode=rest,
        ttft_s=one * steps,
        ttft_mean_s=one * _mean_wait(workload.batch, workload.together),
        tpot_s=tpot,
        latency_s=one * steps + tpot * (workload.output - 1),
    )


def _mean_wait(batch: int, together: int) -> float:
    """Prefill steps until a prompt has its first token, mean over the batch. [1]"""
    full, rest = divmod(batch, together)
    waits = together * full * (full + 1) / 2 + rest * (full + 1)
    return waits / batch


def check_context(deployment: Deployment, workload: Workload) -> None:
    """Refuse a context beyond what the network is made for."""
    limit = deployment.architecture.max_context
    total = workload.prompt + workload.output
    if limit is not None and total > limit:
        raise InputError(
            f"{workload.prompt} + {workload.output} tokens are {total}, "
            f"{deployment.architecture.name} is made for {limit}",
            hint=f"shorten --prompt or --output to {limit} together",
        )


def _priced(
    deployment: Deployment, group: Group, weights: Array | None = None
) -> dict[str, OpTime]:
    """Operators of a step; with weights, their mean over the scenario axis."""

    def mean(value: Number) -> float:
        if weights is None or not isinstance(value, np.ndarray):
            return float(value)
        return float(weights @ value)

    priced = {}
    for name, op in step(deployment, group).items():
        time = roof(op, deployment, float(op.repeat))
        limits = (time.overlapped, time.compute, time.memory, time.wire)
        work = Work(*(mean(getattr(op.work, part.name)) for part in fields(Work)))
        dims = {key: mean(value) for key, value in op.dims.items()}
        shown = replace(op, work=work, dims=dims)
        priced[name] = OpTime(shown, *map(mean, limits))
    return priced


def _memory(deployment: Deployment, workload: Workload, utilization: float | None) -> Memory:
    group = workload.prefill
    tokens = float(plus(group.count * group.new, 0.0))
    rows = workload.together
    if deployment.engine.step_tokens:
        tokens = min(tokens, deployment.engine.step_tokens)
    if not workload.kv_cache:
        tokens = float(workload.batch * workload.longest)
    return memory_.budget(
        deployment,
        batch=workload.batch,
        context=workload.longest,
        step_tokens=max(tokens, float(workload.batch)),
        step_rows=max(rows, workload.batch),
        utilization=utilization,
        cached=workload.kv_cache,
    )
