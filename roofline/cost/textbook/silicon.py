"""Peaks from what a chip is made of: units times width times clock."""

from roofline.cost.work import Number
from roofline.units import BITS_PER_BYTE


def vector_cores(multiprocessors: Number, partitions: Number = 4.0, lanes: Number = 32.0) -> Number:
    """fp32 lanes of a chip: multiprocessors·partitions·lanes. [1]

    Source: How to Scale Your Model (2025), "GPUs", quiz 1.

    Args:
        multiprocessors: SMs. [1]
        partitions: Of one SM. [1]
        lanes: Of one partition. [1]

    Examples:
        >>> vector_cores(100)
        12800.0
    """
    return 1.0 * multiprocessors * partitions * lanes


def vector_rate(cores: Number, clock_hz: Number, flops_per_cycle: Number = 2.0) -> Number:
    """fp32 vector arithmetic: cores·clock·FLOP per cycle. [FLOP/s]

    Source: How to Scale Your Model (2025), "GPUs", quiz 1.

    Args:
        cores: fp32 lanes. [1]
        clock_hz: Clock. [Hz]
        flops_per_cycle: 2 counts a fused multiply-add as two; 1 is an addition or a multiplication.
            [FLOP]

    Examples:
        >>> vector_rate(10_000, 2e9), vector_rate(10_000, 2e9, flops_per_cycle=1)
        (40000000000000.0, 20000000000000.0)
    """
    return 1.0 * cores * clock_hz * flops_per_cycle


def vector_clock(flops_per_s: Number, cores: Number, flops_per_cycle: Number = 2.0) -> Number:
    """Clock that a vector peak is quoted at: peak / (cores·FLOP per cycle). [Hz]

    Source: How to Scale Your Model (2025), "GPUs", quiz 1.

    Args:
        flops_per_s: fp32 vector peak. [FLOP/s]
        cores: fp32 lanes. [1]
        flops_per_cycle: 2 where the peak counts fused multiply-adds as two. [FLOP]

    Examples:
        >>> vector_clock(40e12, cores=10_000)
        2000000000.0
    """
    return flops_per_s / (cores * flops_per_cycle)


def tensor_peak(
    multiprocessors: Number, tensor_cores: Number, flops_per_cycle: Number, clock_hz: Number
) -> Number:
    """Dense matrix arithmetic: SMs·tensor cores·FLOP per cycle·clock. [FLOP/s]

    Source: NVIDIA A100 and H100 architecture white papers, tables of peak rates.

    Args:
        multiprocessors: SMs. [1]
        tensor_cores: Of one SM. [1]
        flops_per_cycle: Of one tensor core in the type asked for. [FLOP]
        clock_hz: Clock. [Hz]

    Examples:
        >>> tensor_peak(100, tensor_cores=4, flops_per_cycle=500, clock_hz=1e9)
        200000000000000.0
    """
    return 1.0 * multiprocessors * tensor_cores * flops_per_cycle * clock_hz


def tensor_flops_per_cycle(
    flops_per_s: Number, multiprocessors: Number, tensor_cores: Number, clock_hz: Number
) -> Number:
    """Arithmetic of one tensor core in a cycle: peak / (SMs·tensor cores·clock). [FLOP]

    Source: How to Scale Your Model (2025), "GPUs", tensor cores.

    Args:
        flops_per_s: Dense peak. [FLOP/s]
        multiprocessors: SMs. [1]
        tensor_cores: Of one SM. [1]
        clock_hz: Clock. [Hz]

    Examples:
        >>> tensor_flops_per_cycle(200e12, multiprocessors=100, tensor_cores=4, clock_hz=1e9)
        500.0
    """
    return flops_per_s / (multiprocessors * tensor_cores * clock_hz)


def shared_memory(multiprocessors: Number, bytes_each: Number) -> Number:
    """On-chip memories of all SMs. [B]

    Source: How to Scale Your Model (2025), "GPUs", quiz 1.

    Args:
        multiprocessors: SMs. [1]
        bytes_each: On-chip memory of one. [B]

    Examples:
        >>> shared_memory(128, 256 * 2**10) / 2**20
        32.0
    """
    return 1.0 * multiprocessors * bytes_each


def shared_memory_rate(
    multiprocessors: Number, bytes_per_cycle: Number, clock_hz: Number
) -> Number:
    """Rate of all on-chip memories: SMs·bytes per cycle·clock. [B/s]

    Source: Dao et al. 2022 (arXiv 2205.14135), figure 1, 19 TB/s of an A100.

    Args:
        multiprocessors: SMs. [1]
        bytes_per_cycle: Of one SM: 32 banks of 4 bytes. [B]
        clock_hz: Clock. [Hz]

    Examples:
        >>> shared_memory_rate(100, bytes_per_cycle=128, clock_hz=1e9)
        12800000000000.0
    """
    return 1.0 * multiprocessors * bytes_per_cycle * clock_hz


def node_egress(ports: Number, bits_per_s: Number) -> Number:
    """Rate out of a node, in one direction: ports·line rate. [B/s]

    Source: How to Scale Your Model (2025), "GPUs", networking beyond the node.

    Args:
        ports: Network ports. [1]
        bits_per_s: Line rate of one. [bit/s]

    Examples:
        >>> node_egress(8, 400e9)
        400000000000.0
    """
    return ports * bits_per_s / BITS_PER_BYTE


def achieved_rate(flops_per_s: Number, utilization: Number) -> Number:
    """Peak times the part of it that is reached. [FLOP/s]

    Source: Dao 2023 (arXiv 2307.08691) and Shah et al. 2024 (arXiv 2407.08608), abstracts.

    Args:
        flops_per_s: Peak. [FLOP/s]
        utilization: Part of it. [1]

    Examples:
        >>> achieved_rate(1000e12, 0.75)
        750000000000000.0
    """
    return 1.0 * flops_per_s * utilization
