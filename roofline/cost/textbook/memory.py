"""Memory as published: weights, KV cache, what fits, and what training stores.

Symbols: P parameters, B batch, S context, L layers, K key/value heads, H head width.
"""

import numpy as np

from roofline.cost.work import Number


def tensor_bytes(rows: Number, columns: Number, width: Number) -> Number:
    """Matrix, activation tensor or S×S attention matrix: rows·columns·width. [B]

    Source: Stanford CS336 (2025) lecture 2, tensor memory.

    Args:
        rows, columns: Shape. [1]
        width: Bytes per element. [B]

    Examples:
        >>> tensor_bytes(2048, 2048, width=2) / 2**20
        8.0
    """
    return 1.0 * rows * columns * width


def weight_memory(parameters: Number, width: Number) -> Number:
    """P·width. [B]

    Source: kipply (2022), Transformer Inference Arithmetic, "capacity".

    Args:
        parameters: P. [parameter]
        width: Bytes per parameter. [B]

    Examples:
        >>> weight_memory(7e9, width=2)
        14000000000.0
    """
    return 1.0 * parameters * width


def mixed_weight_memory(
    quantised: Number, width: Number, rest: Number, rest_width: Number = 2.0
) -> Number:
    """Weights of which a part is quantised: P·width + R·rest_width. [B]

    Source: gpt-oss model card (2025), table 1.

    Args:
        quantised, rest: Parameters that are quantised, P, and that are not, R. [parameter]
        width, rest_width: Bytes per parameter of each, scales included. [B]

    Examples:
        >>> mixed_weight_memory(32, width=0.5, rest=8)
        32.0
    """
    return weight_memory(quantised, width) + weight_memory(rest, rest_width)


def kv_bytes_per_token(layers: Number, kv_heads: Number, head_dim: Number, width: Number) -> Number:
    """Keys and values of one token in all layers: 2·L·K·H·width. [B]

    Source: kipply (2022), Transformer Inference Arithmetic, "kv cache"; GQA by K instead of N.

    Args:
        layers: L. [1]
        kv_heads, head_dim: K and H; only their product counts. [1]
        width: Bytes per element; 1 counts elements. [B]

    Examples:
        >>> kv_bytes_per_token(32, kv_heads=32, head_dim=128, width=2)
        524288.0
    """
    return 2.0 * layers * kv_heads * head_dim * width


def kv_memory(per_token: Number, context: Number, batch: Number = 1.0) -> Number:
    """Cache of B sequences of S tokens: bytes per token · S · B. [B]

    Source: Stanford CS336 (2025) lecture 10, KV cache size.

    Args:
        per_token: Cached bytes per token. [B]
        context: S. [token]
        batch: Sequences B. [1]

    Examples:
        >>> kv_memory(524288, context=4096) / 2**30
        2.0
    """
    return 1.0 * per_token * context * batch


def decode_memory(weight_bytes: Number, batch: Number, kv_bytes_per_sequence: Number) -> Number:
    """Memory that a decode step holds and reads once: weights + B·cache of a sequence. [B]

    Activations are small and left out; the input embedding is among the weights.

    Source: Stanford CS336 (2025) lecture 10, latency and throughput.

    Args:
        weight_bytes: All weights. [B]
        batch: Sequences B. [1]
        kv_bytes_per_sequence: Cache of one sequence. [B]

    Examples:
        >>> decode_memory(26e9, batch=2, kv_bytes_per_sequence=7e9)
        40000000000.0
    """
    return weight_bytes + 1.0 * batch * kv_bytes_per_sequence


def memory_left(chips: Number, bytes_per_chip: Number, weight_bytes: Number) -> Number:
    """Memory that the weights leave for the cache: chips·memory − weights. [B]

    Source: How to Scale Your Model (2025), "Serving LLaMA 3-70B on TPUs".

    Args:
        chips: Devices the weights are spread over. [1]
        bytes_per_chip: Memory of one. [B]
        weight_bytes: All weights. [B]

    Examples:
        >>> memory_left(4, bytes_per_chip=16e9, weight_bytes=35e9)
        29000000000.0
    """
    return 1.0 * chips * bytes_per_chip - weight_bytes


def caches_that_fit(free_bytes: Number, cache_bytes: Number) -> Number:
    """Whole caches in the memory that is free; of one token they are "slots". [1]

    Source: Kwon et al. 2023 (arXiv 2309.06180), table 1; How to Scale Your Model (2025),
    "Serving LLaMA 3-70B on TPUs".

    Args:
        free_bytes: Memory for the cache. [B]
        cache_bytes: Cache of one sequence, or of one token. [B]

    Examples:
        >>> float(caches_that_fit(29e9, 4e9))
        7.0
    """
    return np.floor(free_bytes / cache_bytes)


def chips_needed(memory_bytes: Number, bytes_per_chip: Number) -> Number:
    """Fewest devices whose memories hold it. [1]

    Source: How to Scale Your Model (2025), "Serving LLaMA 3-70B on TPUs".

    Args:
        memory_bytes: Weights and caches. [B]
        bytes_per_chip: Memory of one device. [B]

    Examples:
        >>> float(chips_needed(70e9, 16e9))
        5.0
    """
    return np.ceil(memory_bytes / bytes_per_chip)


def trainable_parameters(
    chips: Number, bytes_per_chip: Number, bytes_per_parameter: Number = 16.0
) -> Number:
    """Largest model that naive training holds, activations left out. [parameter]

    Source: Stanford CS336 (2025) lecture 2, motivating questions.

    Args:
        chips: Devices. [1]
        bytes_per_chip: Memory of one. [B]
        bytes_per_parameter: Parameter, gradient and two Adam moments in fp32: 16. [B]

    Examples:
        >>> trainable_parameters(8, 80e9)
        40000000000.0
    """
    return 1.0 * chips * bytes_per_chip / bytes_per_parameter


def slots_never_used(maximum: Number, prompt: Number, generated: Number, future: Number) -> Number:
    """Cache slots that a request reserves and never fills, where its maximum is reserved. [token]

    Source: PagedAttention, Kwon et al. 2023 (arXiv 2309.06180), figure 3: internal fragmentation.

    Args:
        maximum: Slots reserved when the request arrives. [token]
        prompt, generated, future: Slots filled by the prompt, filled so far, and still to be
            filled. [token]

    Examples:
        >>> slots_never_used(10, prompt=4, generated=1, future=2)
        3
    """
    return maximum - prompt - generated - future


def token_state_share(reserved: Number, internal: Number, external: Number) -> Number:
    """Part of the cache memory that holds states of tokens. [1]

    Source: PagedAttention, Kwon et al. 2023 (arXiv 2309.06180), figure 2.

    Args:
        reserved, internal, external: Parts reserved for tokens to come, never to be used, and
            between reservations. [1]

    Examples:
        >>> round(token_state_share(0.2, 0.5, 0.1), 9)
        0.2
    """
    return 1.0 - reserved - internal - external
