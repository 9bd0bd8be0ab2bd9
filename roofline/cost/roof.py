"""The roofline: how long a device takes over some work, and what binds it.

Each operator is roofed by itself and the times are added. At one set of rates,
max(compute, memory, wire) ≤ time ≤ their sum: the left is perfect overlap, the right is none.
Where measurements say how long an operator takes, that is its time, with an interval.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.calibration.remembered import at_once
from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import ALONE, KernelGains
from roofline.cost.kernels.form import longest
from roofline.cost.measured import DATASHEET, UNMEASURED, MeasuredTime
from roofline.cost.work import Number, Op, plus
from roofline.hardware.machine import Gpu

CHOSEN: Final = "when chosen"
"""Mark of an operator that loads what is known too late to be loaded ahead."""
HOST: Final = "host"
"""Kind of what is loaded from the host, which no kernel does."""
BOUNDS = ("compute", "memory", "wire", HOST)


@dataclass(frozen=True, eq=False, slots=True)
class Time:
    """Time of an operator at datasheet rates, and as measured where it is known.

    Limits are computed when they are asked for: nobody asks for most of what was measured.
    """

    op: Op = field(repr=False)
    gpu: Gpu = field(repr=False)
    executions: float
    """Operator, device, and number of executions. [1]"""
    measured: MeasuredTime | None = None
    """Measured time; None where there is none."""

    @property
    def compute(self) -> Number:
        """Time of the arithmetic, if that were the only limit. [s]"""
        op = self.op
        if not op.arithmetic:
            return 0.0
        return op.work.flops * (self.executions / self.gpu.rate(op.arithmetic)) / self._occupied

    @property
    def memory(self) -> Number:
        """Time of the traffic with device memory, likewise. [s]"""
        moved = self.op.work.hbm_bytes * (self.executions / self.gpu.hbm_bytes_per_s)
        return moved / self._occupied

    @property
    def _occupied(self) -> Number:
        """Share of the multiprocessors that work, mean over its waves. [1]"""
        return self.op.dims.get("occupied", 1.0)

    @property
    def wire(self) -> Number:
        """Time of the wires between devices, likewise. [s]"""
        return 0.0 if self.op.kind == HOST else self.op.wire_s * self.executions

    @property
    def host(self) -> Number:
        """Time of the wires to the host, likewise. [s]"""
        return self.op.wire_s * self.executions if self.op.kind == HOST else 0.0

    @property
    def seconds(self) -> Number:
        """Time as it is predicted: measured, else at datasheet rates with perfect overlap. [s]"""
        return self.overlapped if self.measured is None else self.measured.seconds

    @property
    def overlapped(self) -> Number:
        """Lower bound: everything overlaps. [s]"""
        return _larger(_larger(_larger(self.compute, self.memory), self.wire), self.host)

    @property
    def serial(self) -> Number:
        """Upper bound at these rates: nothing overlaps. [s]"""
        return plus(plus(plus(self.compute, self.memory), self.wire), self.host)

    @property
    def bound(self) -> NDArray[np.intp]:
        """Index into `BOUNDS` of what takes longest; the first one of equals."""
        return longest(self.compute, self.memory, self.wire, self.host)


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

    compute = F / P, memory = B / BW; wires as `roofline.cost.collectives` prices them.
    Source: Williams, Waterman and Patterson 2009, Roofline.

    Args:
        op: Operator of a step.
        deployment: Where it runs.
        executions: How many, one after the other. [1]

    Raises:
        MissingRateError: The device lacks the arithmetic.
    """
    (known,) = measured_each([op], deployment)
    return roofed(op, deployment.node.gpu, executions, known, deployment.kernel_gains)


def measured_each(ops: Sequence[Op], deployment: Deployment) -> list[MeasuredTime | None]:
    """Measurements of one execution of operators by themselves; None where there are none."""
    known = deployment.calibration
    if known is None:
        return [None] * len(ops)
    told = iter(at_once(known, deployment.node.gpu, [op for op in ops if op.kind != HOST]))
    return [None if op.kind == HOST else next(told) for op in ops]


def roofed(
    op: Op, gpu: Gpu, executions: float, known: MeasuredTime | None, gains: KernelGains = ALONE
) -> Time:
    """`roof` of an operator of which it is known already what measurements say of one execution.

    Args:
        op, gpu, executions: What runs, where, and how often. [1]
        known: Its time alone; None to take the datasheet's rates.
        gains: Factors on it where an engine runs it.
    """
    if op.arithmetic:
        gpu.rate(op.arithmetic)  # a device without it is refused whether or not anybody asks
    if op.kind == HOST:
        return Time(op, gpu, executions)
    if known is not None:
        took = gains.seconds(op, known) * executions
        known = MeasuredTime(took, known.log_sd, known.basis, known.found, known.assumed)
    return Time(op, gpu, executions, known)


@dataclass(frozen=True)
class StepTime:
    """Time of a step by what can be hidden behind what."""

    local: Number = 0.0
    """Operators of the device itself, each overlapped in itself. [s]"""
    wire: Number = 0.0
    host: Number = 0.0
    chosen: Number = 0.0
    """Collectives; loads from the host that can be made ahead, and those that cannot. [s]"""
    spreads: Mapping[str, Number] = field(default_factory=dict)
    """Sums of time · log standard deviation of the operators that were measured, by kind: errors of
    one kind go together. [s]"""
    times: Sequence[Time] = field(default=(), repr=False)
    """Times of the operators. [s]"""

    @cached_property
    def serial(self) -> Number:
        """Everything, if nothing overlapped. [s]"""
        total: Number = 0.0
        for time in self.times:
            total = plus(total, time.serial if time.measured is None else time.measured.seconds)
        return total

    @cached_property
    def basis(self) -> Number:
        """Index into `roofline.table.BASES` of the worst that an operator's time rests on."""
        worst: Number = -1.0
        for time in self.times:
            worst = np.maximum(worst, _basis(time))
        return worst

    @property
    def log_sd(self) -> Number:
        """Standard deviation of the logarithm of the step's time, as far as it is measured. [1]

        Spreads of different kinds are independent. Source: the delta method for a sum.
        """
        if not self.spreads:
            return 0.0
        squares: Number = 0.0
        for spread in self.spreads.values():
            squares = squares + spread * spread
        return np.sqrt(squares) / (self.local + self.wire + self.host + self.chosen)

    def hidden(self, deployment: Deployment) -> tuple[Number, Number]:
        """Time of wires and of loads that the deployment hides. [s]

        The asked share of the wires' time, as far as there is work to hide it behind; loads behind
        all the rest where the next layer is loaded ahead.
        """
        wire: Number = 0.0
        if deployment.options.overlap:
            wire = np.minimum(deployment.options.overlap * self.wire, self.local)
        rest = plus(plus(self.local, self.wire), self.chosen) - wire
        return wire, np.minimum(self.host, rest) if deployment.offload.ahead else 0.0

    def seconds(self, deployment: Deployment) -> Number:
        """Time of the step with what the deployment hides. [s]"""
        wire, host = self.hidden(deployment)
        whole = plus(plus(plus(self.local, self.wire), self.host), self.chosen)
        return whole - wire - host


def parts(timed: Iterable[tuple[Op, Time]]) -> StepTime:
    """Time of a step by what can be hidden behind what.

    Source: the sum over operators.
    """
    sums: dict[str, Number] = {"local": 0.0, "collective": 0.0, "host": 0.0, CHOSEN: 0.0}
    spreads: dict[str, Number] = {}
    priced = list(timed)
    # At datasheet rates beside measured kernels a time is a guess, and as wide as guesses are.
    guessed = UNMEASURED if any(time.measured is not None for _, time in priced) else 0.0
    for op, time in priced:
        kind: str = CHOSEN if op.algorithm == CHOSEN else op.kind
        kind = kind if kind in sums else "local"
        took, known = time.seconds, time.measured
        sums[kind] = plus(sums[kind], took)
        if known is not None or guessed:
            spread = took * (guessed if known is None else known.log_sd)
            spreads[op.kind] = plus(spreads.get(op.kind, 0.0), spread)
    times = [time for _, time in priced]
    return StepTime(sums["local"], sums["collective"], sums["host"], sums[CHOSEN], spreads, times)


def _basis(time: Time) -> Number:
    """Basis of a time; none where an operator is not used on a part of its axis."""
    if time.measured is not None:
        return time.measured.basis
    took = time.seconds
    return np.where(took > 0.0, DATASHEET, 0.0) if isinstance(took, np.ndarray) else DATASHEET


GEMM_TILE = (128, 128)  # rows and columns of an output tile, usual for 16-bit tensor-core kernels
ROW_BLOCKS = (128, 64, 32, 16)  # query rows that a FlashAttention block may have
KEY_BLOCKS = (256, 128, 64, 32, 16, 8)  # key columns that it may have
PIECE = 2**20  # row blocks counted at once


class MemoryTraffic(Struct, frozen=True):
    """Bytes of one execution by level of the memory hierarchy, for the hierarchical roofline.

    The last-level cache sees operands again for every tile that needs them. Tiles are chosen by
    rule, not measured, so these figures explain; they do not price.
    """

    hbm: float
    l2: float
    """Bytes from device memory, and through the last-level cache into the SMs. [B]"""
    scores: float = 0.0
    """Bytes of scores that attention would write and read if they left the chip. [B]"""


def flash_blocks(head_dim: float, shared_bytes: float, width: float) -> tuple[int, int]:
    """Rows of queries and columns of keys that fit on chip together.

    A block keeps Q (rows × H) and two stages of K and V (columns × H); outputs are in registers.
    The largest rows, then the largest columns that fit are taken; the smallest of both if none
    do. Source: the tiling of FlashAttention-2, Dao 2023 (arXiv 2307.08691), section 3.

    Args:
        head_dim: H. [1]
        shared_bytes: On-chip memory of one SM. [B]
        width: Bytes per element. [B]

    Examples:
        With 99 KiB on chip, Q takes 32 KiB, and two stages of 64 keys and values take 64 KiB:

        >>> flash_blocks(128, 99 * 1024, 2)
        (128, 64)
    """
    for rows in ROW_BLOCKS:
        for columns in KEY_BLOCKS:
            if (rows + 4 * columns) * head_dim * width <= shared_bytes:
                return rows, columns
    return ROW_BLOCKS[-1], KEY_BLOCKS[-1]


def flash_key_blocks(new: float, context: float, window: float, rows: int, columns: int) -> float:
    """Key blocks that the row blocks of one head and sequence visit, under a causal mask.

    Row block i ends at key S − T + min(T, (i + 1)·rows) and starts at the window of its first row.
    Source: the block loop of Dao 2023 (arXiv 2307.08691), algorithm 1, with causal masking.

    Args:
        new, context: T and S. [token]
        window: W; 0 for none. [token]
        rows, columns: Of a block. [token]

    Examples:
        Four row blocks over four key blocks visit 1 + 2 + 3 + 4:

        >>> flash_key_blocks(512, 512, 0, 128, 128)
        10.0
    """
    cached, visited = context - new, 0.0
    blocks = math.ceil(new / rows)
    for start in range(0, blocks, PIECE):
        index = np.arange(start, min(start + PIECE, blocks), dtype=float)
        last = cached + np.minimum(new, (index + 1.0) * rows)
        first = np.maximum(0.0, cached + index * rows + 1.0 - window) if window else 0.0 * index
        visited += float(np.sum(np.ceil(last / columns) - np.floor(first / columns)))
    return visited


def traffic(op: Op, gpu: Gpu, width: float, kv_width: float) -> MemoryTraffic:
    """Bytes of one execution of an operator at each level, for scalar dimensions.

    GEMM: each 128×128 output tile reads its rows of X and columns of W through the cache.
    Attention: each row block of each query head reads the keys and values it visits.
    Source: tiling of output-stationary kernels; Dao 2023 (arXiv 2307.08691).

    Args:
        op: Operator of a step, priced for one scenario.
        gpu: Whose on-chip memory sets the tiles.
        width, kv_width: Bytes per activation and per cached element. [B]
    """
    hbm = float(op.work.hbm_bytes)
    if op.kind == "gemm":
        m, n, k = (float(op.dims[key]) for key in ("m", "n", "k"))
        weight = float(op.work.weight_bytes) / (n * k)
        rows, columns = GEMM_TILE
        reads = math.ceil(n / columns) * m * k * width + math.ceil(m / rows) * n * k * weight
        return MemoryTraffic(hbm, reads + m * n * width)
    if op.kind in ("prefill-attention", "decode-attention"):
        count, new, context, heads, kv_heads, h, window = (
            float(op.dims[key])
            for key in ("count", "new", "context", "heads", "kv_heads", "head_dim", "window")
        )
        rows, columns = flash_blocks(h, gpu.shared_bytes, width)
        # A few new tokens: the query heads that share a key/value head form one row block.
        group = heads / kv_heads
        packed = new * group <= rows
        readers = kv_heads if packed else heads
        visited = flash_key_blocks(new, context, window, rows, columns) * columns
        read = min(visited, context) if packed else visited
        keys = count * readers * read * 2 * h * kv_width
        through = keys + 2 * count * new * heads * h * width
        # Naive attention moves its scores as well: never less than device memory sees.
        return MemoryTraffic(hbm, max(through, hbm), 4 * count * heads * new * context * width)
    return MemoryTraffic(hbm, hbm)
