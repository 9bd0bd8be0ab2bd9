"""Published latency models of prefill and decode, and the throughput that follows.

Symbols: P parameters, B batch, S context. No launch time, every chip at its peak.
"""

import numpy as np

from roofline.cost.textbook.bounds import math_time, memory_time
from roofline.cost.textbook.intensity import matmul_flops
from roofline.cost.textbook.memory import weight_memory
from roofline.cost.work import Number


def kv_projection_time(
    d_model: Number, layers: Number, bytes_per_s: Number, width: Number = 2.0
) -> Number:
    """Time to load the key and value projections of MHA: 2·D²·L·width / rate. [s]

    Source: kipply (2022), Transformer Inference Arithmetic, "kv cache".

    Args:
        d_model: D = N·H. [1]
        layers: L. [1]
        bytes_per_s: Memory rate. [B/s]
        width: Bytes per weight. [B]

    Examples:
        >>> kv_projection_time(1000, layers=10, bytes_per_s=1e9)
        0.04
    """
    return 2.0 * d_model**2 * layers * width / bytes_per_s


def prefill_latency(
    parameters: Number, tokens: Number, flops_per_s: Number, chips: Number = 1.0, mfu: Number = 1.0
) -> Number:
    """Forward pass without attention: 2·P·tokens / (chips·peak·MFU). [s]

    The compute time of a decode step is the same with its batch as the tokens.

    Source: How to Scale Your Model (2025), "Serving LLaMA 3-70B on TPUs"; kipply (2022),
    Transformer Inference Arithmetic, "flops counting".

    Args:
        parameters: P. [parameter]
        tokens: Of all sequences. [token]
        flops_per_s: Peak of one chip. [FLOP/s]
        chips: Chips that share it evenly. [1]
        mfu: Part of the peak that is reached. [1]

    Examples:
        >>> prefill_latency(1e9, tokens=1000, flops_per_s=1e12, mfu=0.5)
        4.0
    """
    return math_time(matmul_flops(tokens, parameters, 1.0), flops_per_s, chips, mfu)


def decode_step_time(
    batch: Number,
    kv_bytes_per_sequence: Number,
    parameters: Number,
    flops_per_s: Number,
    bytes_per_s: Number,
    chips: Number = 1.0,
    weight_width: Number = 2.0,
) -> Number:
    """B·KV/(chips·rate) + max(2·B·P/(chips·peak), P·width/(chips·rate)). [s]

    Attention always waits for memory, the matrices for the slower of both.

    Source: How to Scale Your Model (2025), "Inference", theoretical step time.

    Args:
        batch: Sequences B. [1]
        kv_bytes_per_sequence: Cache of one. [B]
        parameters: P. [parameter]
        flops_per_s: Peak of one chip. [FLOP/s]
        bytes_per_s: Memory rate of one chip. [B/s]
        chips: Chips that share it evenly. [1]
        weight_width: Bytes per weight. [B]

    Examples:
        >>> float(decode_step_time(2, 1e9, parameters=1e9, flops_per_s=1e12, bytes_per_s=1e12))
        0.006
    """
    attention = memory_time(batch * kv_bytes_per_sequence, bytes_per_s, chips)
    math = prefill_latency(parameters, batch, flops_per_s, chips)
    weights = memory_time(weight_memory(parameters, weight_width), bytes_per_s, chips)
    return attention + np.maximum(math, weights)


def decode_throughput(batch: Number, latency: Number, chips: Number = 1.0) -> Number:
    """One token per sequence and step: B / (latency·chips). [token/s]

    Source: Stanford CS336 (2025) lecture 10, latency and throughput.

    Args:
        batch: Sequences B. [1]
        latency: Of a step. [s]
        chips: Chips it is divided by; 1 is the total. [1]

    Examples:
        >>> decode_throughput(32, 0.016, chips=8)
        250.0
    """
    return batch / (latency * chips)


def queries_per_second(
    batch: Number, latency: Number, tokens: Number, chips: Number = 1.0
) -> Number:
    """Answers of a full decode server: B / (latency·tokens·chips). [1/s]

    Source: How to Scale Your Model (2025), "Serving LLaMA 3-70B on TPUs".

    Args:
        batch: Sequences B. [1]
        latency: Of a step. [s]
        tokens: In an answer. [token]
        chips: Chips it is divided by. [1]

    Examples:
        >>> queries_per_second(40, 0.02, tokens=500, chips=4)
        1.0
    """
    return decode_throughput(batch, latency, chips) / tokens


def inference_mfu(
    parameters: Number,
    batch: Number,
    tokens: Number,
    seconds: Number,
    flops_per_s: Number,
    chips: Number = 1.0,
) -> Number:
    """Model FLOPs utilisation: 2·P·B·tokens / (seconds·chips·peak). [1]

    Attention is left out.

    Source: Pope et al. 2022 (arXiv 2211.05102), tables 2 and 3.

    Args:
        parameters: P. [parameter]
        batch: Sequences B. [1]
        tokens: Tokens of each sequence in that time. [token]
        seconds: Time it took. [s]
        flops_per_s: Peak of one chip. [FLOP/s]
        chips: Chips in use. [1]

    Examples:
        >>> inference_mfu(1e9, batch=1, tokens=1000, seconds=4.0, flops_per_s=1e12)
        0.5
    """
    return prefill_latency(parameters, batch * tokens, flops_per_s, chips) / seconds


def evicted_tokens(batch: Number, prompt: Number, generated: Number) -> Number:
    """Cached tokens that leave with the answers that end in a decode step: B·(P + G)/G. [token]

    A sequence stays for G steps, so that B/G of them end in a step, each with P + G tokens.

    Source: How to Scale Your Model (2025), "Serving LLaMA 3-70B on TPUs".

    Args:
        batch: Sequences B decoded together. [1]
        prompt, generated: Lengths P and G of prompts and answers. [token]

    Examples:
        >>> evicted_tokens(8, prompt=300, generated=100)
        32.0
    """
    return 1.0 * batch * (prompt + generated) / generated
