"""Limits and costs of splitting a network, as published.

A limit is where one time reaches another that it overlaps with in full, over an MLP of two
matrices D×F. Symbols: B batch, D model width, F feed-forward width, L layers.
"""

from roofline.cost.textbook.bounds import ridge
from roofline.cost.textbook.memory import tensor_bytes
from roofline.cost.work import Number


def data_parallel_critical_batch(
    flops_per_s: Number, bytes_per_s: Number, experts: Number = 1.0, active_experts: Number = 1.0
) -> Number:
    """Tokens per device from which the backward pass hides the gradients: E/k·peak/W. [token]

    8·k·B·D·F/peak = 8·E·D·F/W in bf16: B tokens of a device, and the ring all-reduce of all
    gradients over many devices. Of few, (X − 1)/X of the tokens is enough; that is left out.

    Source: How to Scale Your Model (2025), "GPUs", data parallelism.

    Args:
        flops_per_s: Peak of one device. [FLOP/s]
        bytes_per_s: Rate W out of a device; between nodes, out of a node. [B/s]
        experts, active_experts: E and k; 1 and 1 of a dense network. [1]

    Examples:
        >>> data_parallel_critical_batch(1000e12, 500e9)
        2000.0
        >>> data_parallel_critical_batch(1000e12, 500e9, experts=64, active_experts=8)
        16000.0
    """
    return ridge(flops_per_s, bytes_per_s) * experts / active_experts


def tensor_parallel_limit(d_ff: Number, link_ridge: Number) -> Number:
    """Devices from which activations take longer than arithmetic: F / α. [1]

    4·B·D·F/(Y·peak) = 4·B·D/W in bf16, an all-gather before the MLP and a reduce-scatter after.

    Source: How to Scale Your Model (2025), "GPUs", tensor parallelism.

    Args:
        d_ff: F. [1]
        link_ridge: α: peak arithmetic over the rate out of a device. [FLOP/B]

    Examples:
        >>> tensor_parallel_limit(16000, link_ridge=2000)
        8.0
    """
    return d_ff / link_ridge


def decode_tensor_parallel_limit(d_ff: Number, batch: Number, rate_ratio: Number) -> Number:
    """Devices from which activations take longer than reading the weights: F / (B·β). [1]

    2·D·F/(Y·memory rate) = 2·B·D/W. The KV cache is left out; it would have to be split as far.

    Source: How to Scale Your Model (2025), "Inference", distributing over accelerators.

    Args:
        d_ff: F. [1]
        batch: Tokens of a step B. [token]
        rate_ratio: β: memory rate of a device over the rate out of it. [1]

    Examples:
        >>> decode_tensor_parallel_limit(16000, batch=100, rate_ratio=10)
        16.0
    """
    return d_ff / (batch * rate_ratio)


def weight_stationary_crossing(ff_multiple: Number) -> Number:
    """Chips of a 3D torus above which splitting D and F beats splitting F: 18·F/D. [1]

    Over X chips along D and N/X along F, the exchanges of a bf16 MLP take
    (2·B·D/X + 4·B·F·X/N) / W, at best B·√(32·D·F/N) / W. Along F alone, over the three axes, they
    take 4·B·D/(3·W). Both are equal at N = 32·F/D·(3/4)². That X be whole is left out.

    Source: How to Scale Your Model (2025), "Inference", question 7, which prints 81 for
    128·(3/4)² = 72; the scheme is of Pope et al. 2022 (arXiv 2211.05102).

    Args:
        ff_multiple: F / D. [1]

    Examples:
        >>> weight_stationary_crossing(4)
        72.0
    """
    return 18.0 * ff_multiple


def pipeline_bubble(stages: Number, microbatches: Number, chunks: Number = 1.0) -> Number:
    """Idle over busy time of a pipeline: (p − 1) / (v·m); idle over all is b/(1 + b). [1]

    A stage waits for p − 1 microbatches of a chunk, a v-th of its layers. The exchanges between
    stages, and stages of unequal time, are left out.

    Source: Narayanan et al. 2021 (arXiv 2104.04473), section 2.2.

    Args:
        stages: p. [1]
        microbatches: m. [1]
        chunks: Parts of the network that a stage holds, interleaved, v. [1]

    Examples:
        >>> pipeline_bubble(5, microbatches=8), pipeline_bubble(5, microbatches=8, chunks=2)
        (0.5, 0.25)
    """
    return (stages - 1.0) / (chunks * microbatches)


def expert_exchange_time(
    tokens: Number,
    experts: Number,
    d_model: Number,
    bytes_per_s: Number,
    dispatch_width: Number = 1.0,
    combine_width: Number = 2.0,
) -> Number:
    """Dispatch and combine of a mixture of experts: (d + c)·T·k·D / W. [s]

    Every copy of a token leaves its device. That some experts are on the same device, that copies
    to one node can travel once, and latency are left out.

    Source: Insights into DeepSeek-V3 (2025, arXiv 2505.09343), section 2.3.2.

    Args:
        tokens: Of one device T. [token]
        experts: Experts a token goes to k, the shared one included. [1]
        d_model: D. [1]
        bytes_per_s: Rate W out of a device, in one direction. [B/s]
        dispatch_width, combine_width: Bytes per element on the way there, d: fp8, and back, c:
            bf16. [B]

    Examples:
        >>> expert_exchange_time(10, experts=5, d_model=2000, bytes_per_s=1e6)
        0.3
    """
    copies = tokens * experts
    there = tensor_bytes(copies, d_model, dispatch_width)
    back = tensor_bytes(copies, d_model, combine_width)
    return (there + back) / bytes_per_s


def exchange_bound_tpot(
    exchange_seconds: Number, layers: Number, microbatches: Number = 2.0
) -> Number:
    """Decode step whose arithmetic hides behind its exchanges: exchange·microbatches·L. [s]

    One microbatch computes while the other exchanges. Every layer is taken for one of experts.

    Source: Insights into DeepSeek-V3 (2025, arXiv 2505.09343), section 2.3.2.

    Args:
        exchange_seconds: Dispatch and combine of a layer and microbatch. [s]
        layers: L. [1]
        microbatches: That take turns. [1]

    Examples:
        >>> exchange_bound_tpot(0.0001, layers=50)
        0.01
    """
    return exchange_seconds * microbatches * layers


def prefill_servers(prefill_seconds: Number, queries_per_s: Number) -> Number:
    """Prefill servers that keep one decode server full: seconds of a prompt · answers/s. [1]

    Moving the cache between them, and queueing, are left out.

    Source: How to Scale Your Model (2025), "Serving LLaMA 3-70B on TPUs", prefill.

    Args:
        prefill_seconds: Prefill of one prompt on a server. [s]
        queries_per_s: Answers of a full decode server. [query/s]

    Examples:
        >>> prefill_servers(0.5, queries_per_s=6)
        3.0
    """
    return prefill_seconds * queries_per_s


def kv_transfer_rate(kv_bytes: Number, queries_per_s: Number) -> Number:
    """Rate from prefill to decode servers at which no cache waits: cache·prompts/s. [B/s]

    Source: DistServe, Zhong et al. 2024 (arXiv 2401.09670), communication overhead.

    Args:
        kv_bytes: Cache of one prompt. [B]
        queries_per_s: Prompts. [query/s]

    Examples:
        >>> kv_transfer_rate(2e9, queries_per_s=5)
        10000000000.0
    """
    return 1.0 * kv_bytes * queries_per_s
