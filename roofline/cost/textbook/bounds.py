"""The two bounds of a roofline as published, and where they meet.

No overlap, no launch time, every chip at its peak.
"""

from roofline.cost.work import Number


def ridge(flops_per_s: Number, bytes_per_s: Number) -> Number:
    """Intensity at which a chip computes as long as it reads. [FLOP/B]

    Source: How to Scale Your Model (2025), "Rooflines".

    Args:
        flops_per_s: Peak arithmetic. [FLOP/s]
        bytes_per_s: Memory rate. [B/s]

    Examples:
        >>> ridge(312e12, 1.5e12)
        208.0
    """
    return flops_per_s / bytes_per_s


def critical_batch(ridge_point: Number, weight_width: Number = 2.0) -> Number:
    """Batch from which a weight matrix is compute-bound: 2·B·P/peak = width·P/rate. [token]

    Activations are small and left out.

    Source: How to Scale Your Model (2025), "Rooflines"; kipply (2022), Transformer Inference
    Arithmetic, "batch size".

    Args:
        ridge_point: Peak arithmetic over memory rate. [FLOP/B]
        weight_width: Bytes per weight. [B]

    Examples:
        >>> critical_batch(240), critical_batch(240, weight_width=1)
        (240.0, 120.0)
    """
    return ridge_point * weight_width / 2.0


def math_time(flops: Number, flops_per_s: Number, chips: Number = 1.0, mfu: Number = 1.0) -> Number:
    """T_math = FLOPs / (chips·peak·MFU). [s]

    Source: How to Scale Your Model (2025), "Rooflines".

    Args:
        flops: Arithmetic of all chips together. [FLOP]
        flops_per_s: Peak of one chip. [FLOP/s]
        chips: Chips that share it evenly. [1]
        mfu: Part of the peak that is reached. [1]

    Examples:
        >>> math_time(1e15, 1e15), math_time(1e15, 1e15, chips=4, mfu=0.5)
        (1.0, 0.5)
    """
    return flops / (chips * flops_per_s * mfu)


def memory_time(moved_bytes: Number, bytes_per_s: Number, chips: Number = 1.0) -> Number:
    """T_comms = bytes / (chips·rate): of a decode step, weights and caches read once. [s]

    Source: How to Scale Your Model (2025), "Rooflines"; Stanford CS336 (2025) lecture 10, latency
    and throughput.

    Args:
        moved_bytes: Traffic of all chips together. [B]
        bytes_per_s: Rate of one chip. [B/s]
        chips: Chips that share it evenly. [1]

    Examples:
        >>> memory_time(6e12, 1e12, chips=3)
        2.0
    """
    return moved_bytes / (chips * bytes_per_s)


def two_chip_threshold(
    flops_per_s: Number, link_bytes_per_s: Number, width: Number = 2.0
) -> Number:
    """D above which a product split over two chips along D is compute-bound. [1]

    B·D·F/peak = width·B·F/link, each chip sending its partial sums to the other.

    Source: How to Scale Your Model (2025), "Rooflines", network communication.

    Args:
        flops_per_s: Peak of one chip. [FLOP/s]
        link_bytes_per_s: Link between them, in one direction. [B/s]
        width: Bytes per partial sum. [B]

    Examples:
        >>> two_chip_threshold(100e12, 50e9)
        4000.0
    """
    return width * flops_per_s / link_bytes_per_s


def ratio(before: Number, after: Number) -> Number:
    """Quotient of two quantities: a speed-up where both are times. [1]

    Source: definition; Pope et al. 2022 (arXiv 2211.05102), table 2, of a time over its steps.

    Args:
        before, after: Same quantity, same unit; or a time and its steps. [1]

    Examples:
        >>> ratio(3.0, 2.0)
        1.5
    """
    return before / after


def saving(before: Number, after: Number) -> Number:
    """Part that is no longer needed: 1 − after/before. [1]

    Source: definition.

    Args:
        before, after: Same quantity, same unit. [1]

    Examples:
        >>> saving(4.0, 1.0)
        0.75
    """
    return 1.0 - after / before
