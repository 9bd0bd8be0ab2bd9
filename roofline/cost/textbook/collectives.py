"""Time of collectives as published: bytes over the rate out of a device, no latency, no contention.

Symbols: V payload, N devices, W rate out of one device in one direction, B batch, D model width.
"""

import math

from roofline.cost.textbook.memory import tensor_bytes
from roofline.cost.work import Number


def all_gather_time(payload: Number, bytes_per_s: Number, ranks: Number = math.inf) -> Number:
    """Ring all-gather, and reduce-scatter: V·(N − 1) / (N·W), V/W for many devices. [s]

    In each of N − 1 steps every device passes a shard of V/N on. The time of a hop is left out.

    Source: How to Scale Your Model (2025), "GPUs", intra-node collectives.

    Args:
        payload: Whole tensor V, of which each device holds 1/N. [B]
        bytes_per_s: Rate out of a device W, in one direction. [B/s]
        ranks: Devices N; without it, the limit of many. [1]

    Examples:
        >>> all_gather_time(8e9, 1e9, ranks=4), all_gather_time(8e9, 1e9)
        (6.0, 8.0)
    """
    return payload * (1.0 - 1.0 / ranks) / bytes_per_s


def all_gather_rate(bytes_per_s: Number, ranks: Number) -> Number:
    """Payload over time of an all-gather at one level of a network: W·N / (N − 1). [B/s]

    The rate of a network is that of its slowest level.

    Source: How to Scale Your Model (2025), "GPUs", cross-node collectives.

    Args:
        bytes_per_s: Link from each child W, in one direction. [B/s]
        ranks: Children of the level N. [1]

    Examples:
        >>> all_gather_rate(300e9, ranks=4)
        400000000000.0
    """
    return bytes_per_s * ranks / (ranks - 1.0)


def all_reduce_time(payload: Number, bytes_per_s: Number, ranks: Number = math.inf) -> Number:
    """Ring all-reduce: a reduce-scatter and an all-gather, 2·V·(N − 1) / (N·W). [s]

    The time of a hop, and of the additions, is left out.

    Source: How to Scale Your Model (2025), "GPUs", intra-node collectives.

    Args:
        payload: Tensor V on each device. [B]
        bytes_per_s: Rate out of a device W, in one direction. [B/s]
        ranks: Devices N; without it, the limit of many. [1]

    Examples:
        >>> all_reduce_time(8e9, 1e9, ranks=4)
        12.0
    """
    return 2.0 * all_gather_time(payload, bytes_per_s, ranks)


def switch_all_reduce_time(payload: Number, bytes_per_s: Number) -> Number:
    """All-reduce that the switches add up (SHARP): V / W, whatever the number of devices. [s]

    A device sends (N − 1)/N of V, gets its shard of the sum back, and sends that 1/N to be
    spread. A bound: the source measured a gain of 30 % over the ring where this promises 75 %.

    Source: How to Scale Your Model (2025), "GPUs", in network reductions.

    Args:
        payload: Tensor V on each device. [B]
        bytes_per_s: Rate out of a device W, in one direction. [B/s]

    Examples:
        >>> switch_all_reduce_time(8e9, 1e9)
        8.0
    """
    return payload / bytes_per_s


def all_to_all_time(payload: Number, bytes_per_s: Number, ranks: Number) -> Number:
    """Each device sends a part of its own to every other: V·(N − 1) / (N²·W). [s]

    It holds V/N and keeps 1/N of that. Every pair has a path of full rate, as behind a switch;
    padding and uneven parts are left out.

    Source: How to Scale Your Model (2025), "GPUs", intra-node collectives.

    Args:
        payload: Tensor of all devices together V. [B]
        bytes_per_s: Rate out of a device W, in one direction. [B/s]
        ranks: Devices N. [1]

    Examples:
        >>> all_to_all_time(16e9, 1e9, ranks=4)
        3.0
    """
    return all_gather_time(payload, bytes_per_s, ranks) / ranks


def latency_bound_bytes(bytes_per_s: Number, hop_seconds: Number, ranks: Number) -> Number:
    """Payload below which a hop takes longer than its shard of V/N: N·W·hop. [B]

    Source: How to Scale Your Model (2025), "Inference", appendix C.

    Args:
        bytes_per_s: Rate out of a device W, in one direction. [B/s]
        hop_seconds: Fixed time of a message to the neighbour. [s]
        ranks: Devices N. [1]

    Examples:
        >>> latency_bound_bytes(50e9, hop_seconds=2e-6, ranks=4)
        400000.0
    """
    return ranks * bytes_per_s * hop_seconds


def node_rate(ranks: Number, bytes_per_s: Number) -> Number:
    """Rate at which all devices of a node send to each other at once: N·W. [B/s]

    Source: How to Scale Your Model (2025), "GPUs", quiz 2.

    Args:
        ranks: Devices of the node N. [1]
        bytes_per_s: Rate out of a device W, in one direction. [B/s]

    Examples:
        >>> node_rate(4, 300e9)
        1200000000000.0
    """
    return 1.0 * ranks * bytes_per_s


def tensor_parallel_time(
    batch: Number,
    d_model: Number,
    layers: Number,
    bytes_per_s: Number,
    width: Number = 2.0,
    ranks: Number = math.inf,
) -> Number:
    """Two all-reduces of B·D a layer: 4·B·D·L·width / W for many devices. [s]

    One after attention, one after the MLP. The time of a hop is left out, `tensor_parallel_latency`
    is that part; the embedding and the LM head are left out.

    Source: kipply (2022), Transformer Inference Arithmetic, Gopher at a batch of 512, which leaves
    the width out.

    Args:
        batch: Tokens B. [token]
        d_model: D. [1]
        layers: L. [1]
        bytes_per_s: Rate out of a device W, in one direction. [B/s]
        width: Bytes per element; 1 counts elements. [B]
        ranks: Devices N; without it, the limit of many. [1]

    Examples:
        >>> tensor_parallel_time(10, d_model=1000, layers=25, bytes_per_s=1e6)
        2.0
    """
    payload = tensor_bytes(batch, d_model, width)
    return 2.0 * layers * all_reduce_time(payload, bytes_per_s, ranks)


def tensor_parallel_latency(layers: Number, hop_seconds: Number, steps: Number = 4.0) -> Number:
    """Tensor parallelism of few tokens: only the messages' fixed time, L·steps·hop. [s]

    Source: kipply (2022), Transformer Inference Arithmetic, Gopher at a small batch.

    Args:
        layers: L. [1]
        hop_seconds: Fixed time of a step of communication. [s]
        steps: Steps of a layer: two all-reduces of two halves. [1]

    Examples:
        >>> tensor_parallel_latency(50, hop_seconds=0.01)
        2.0
    """
    return 1.0 * layers * steps * hop_seconds
