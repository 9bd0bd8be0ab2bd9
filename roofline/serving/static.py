"""A static batch: all prompts arrive together, are prefilled, then decode in step to the end."""

from dataclasses import dataclass, field, fields, replace

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.memory import Memory
from roofline.cost.roof import roof
from roofline.cost.step import Group, step
from roofline.cost.work import Array, Number, Op, Work
from roofline.errors import InputError
from roofline.serving.quadrature import nodes
from roofline.serving.room import memory_of
from roofline.serving.workload import Workload
from roofline.units import MILLION, SECONDS_PER_HOUR


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
    ttft_serial_s, tpot_serial_s
        TTFT and TPOT if nothing overlapped. [s]
    utilization
        Share of device memory that was asked for; None for the engine's default. [1]
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
    ttft_serial_s: float
    tpot_serial_s: float
    utilization: float | None = None

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
    def latency_serial_s(self) -> float:
        """Latency if nothing overlapped. [s]"""
        return self.ttft_serial_s + self.tpot_serial_s * (self.workload.output - 1)


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
    first = _priced(deployment, workload.prefill(float(workload.together)))
    last: dict[str, OpTime] = {}
    if workload.left_over:
        last = _priced(deployment, workload.prefill(float(workload.left_over)))
    rest: dict[str, OpTime] = {}
    if workload.output > 1:
        contexts, weights = nodes(workload.prompt + 1, workload.longest)
        rest = _priced(deployment, workload.decode(contexts), weights)
    one, tail, tpot = (sum(op.seconds for op in ops.values()) for ops in (first, last, rest))
    serial = [sum(op.serial for op in ops.values()) for ops in (first, last, rest)]
    ttft = one * workload.full_steps + tail
    # Prompts of full step i have their first token after i steps, those left over at the end.
    waits = workload.together * workload.full_steps * (workload.full_steps + 1) / 2 * one
    return StaticBatch(
        deployment=deployment,
        workload=workload,
        memory=memory_of(deployment, workload, utilization),
        prefill=first,
        decode=rest,
        ttft_s=ttft,
        ttft_mean_s=(waits + workload.left_over * ttft) / workload.batch,
        tpot_s=tpot,
        latency_s=ttft + tpot * (workload.output - 1),
        ttft_serial_s=serial[0] * workload.full_steps + serial[1],
        tpot_serial_s=serial[2],
        utilization=utilization,
    )


def check_context(deployment: Deployment, workload: Workload) -> None:
    """Refuse a context beyond what the network is made for."""
    limit = deployment.architecture.max_context
    answer = 0 if deployment.architecture.is_encoder else workload.output
    total = workload.prompt + answer
    if limit is not None and total > limit:
        raise InputError(
            f"{workload.prompt} + {answer} tokens are {total}, "
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
