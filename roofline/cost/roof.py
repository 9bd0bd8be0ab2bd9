"""The roofline: how long a device takes over some work, and what binds it.

Each operator is roofed by itself and the times are added. At one set of rates,
max(compute, memory, wire) ≤ time ≤ their sum: the left is perfect overlap, the right is none.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment
from roofline.cost.work import Number, Op, plus

BOUNDS = ("compute", "memory", "wire")


@dataclass(frozen=True, slots=True)
class Time:
    """Time of an operator at datasheet rates.

    Attributes
    ----------
    compute, memory, wire
        If that were the only limit. [s]
    """

    compute: Number
    memory: Number
    wire: Number

    @property
    def overlapped(self) -> Number:
        """Lower bound: everything overlaps. [s]"""
        return _larger(_larger(self.compute, self.memory), self.wire)

    @property
    def serial(self) -> Number:
        """Upper bound at these rates: nothing overlaps. [s]"""
        return plus(plus(self.compute, self.memory), self.wire)

    @property
    def bound(self) -> NDArray[np.intp]:
        """Index into `BOUNDS` of what takes longest; the first one of equals."""
        times = np.broadcast_arrays(self.compute, self.memory, self.wire)
        return np.asarray(np.argmax(np.stack(times), axis=0))


def _larger(a: Number, b: Number) -> Number:
    """Maximum of two times; the scalar zero is no limit and costs no pass over an array."""
    if isinstance(a, float) and a == 0.0:
        return b
    if isinstance(b, float) and b == 0.0:
        return a
    larger: Number = np.maximum(a, b)
    return larger


def roof(op: Op, deployment: Deployment, executions: float = 1.0) -> Time:
    """Price executions of an operator at dense datasheet rates.

    Parameters
    ----------
    op
        Operator of a step.
    deployment
        Where it runs.
    executions
        How many, one after the other. [1]

    Raises
    ------
    MissingRateError
        The device lacks the arithmetic, or a link that the operator needs.

    Notes
    -----
    compute = F / P, memory = B / BW, wire = sent / link rate + messages · latency.
    Source: Williams, Waterman and Patterson 2009, Roofline.
    """
    gpu, work = deployment.node.gpu, op.work
    compute = work.flops * (executions / gpu.rate(op.arithmetic)) if op.arithmetic else 0.0
    memory = work.hbm_bytes * (executions / gpu.hbm_bytes_per_s)
    wire: Number = 0.0
    if op.kind == "collective":
        link = deployment.node.link
        assert link is not None, "a node of several devices has a link"
        sent = work.wire_bytes * (executions / link.bytes_per_s)
        wire = plus(sent, work.messages * (executions * link.latency_s))
    return Time(compute, memory, wire)


def seconds(ops: Mapping[str, Op], deployment: Deployment) -> Number:
    """Time of a step: every operator overlapped in itself, one after the other. [s]

    Parameters
    ----------
    ops
        Operators of the step.
    deployment
        Where it runs.

    Notes
    -----
    Source: the sum over operators of `roof`, each times its repeats.
    """
    total: Number = 0.0
    for op in ops.values():
        total = plus(total, roof(op, deployment, float(op.repeat)).overlapped)
    return total
