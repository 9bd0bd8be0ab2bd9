"""One amount of memory as each engine means it, and back.

With C bytes on a device, W of weights, A of activations and R of runtime and graphs, a share u of
the device leaves u·C - W - A - R for the cache. Other engines ask for the same bytes as a share of
what is free, or together with the weights, or as tokens.
"""

import math
from typing import Final

from roofline.errors import InfeasibleError
from roofline.interop.commands.served import Of, OffloadedWeights, Outside, Room, ServerMemory
from roofline.units import show_binary

DIGITS: Final = 4
"""Decimals of a share of a device that survive being written in another engine's words."""
_WRITTEN: Final = 7
_SLACK: Final = 2.0**-20
"""So that a share that is a whole number of layers stays it."""


def converted(share: ServerMemory, of: Of, room: Room) -> float:
    """A share of memory in the words of an engine.

    Source: vLLM 0.33 ``CacheConfig.gpu_memory_utilization`` (of the device, for the executor);
    SGLang 0.5.23 ``handle_gpu_memory_settings`` (weights and pool over capacity); TensorRT-LLM
    ``KvCacheConfig.free_gpu_memory_fraction`` (of what is left after weights and buffers);
    llama.cpp ``--ctx-size`` (tokens of the whole cache).

    Raises:
        InfeasibleError: It leaves no room for a cache.
    """
    if share.of == of:
        return share.value
    cache = {
        "device": share.value * room.capacity - room.fixed,
        "static": share.value * room.capacity - room.weights,
        "free": share.value * (room.capacity - room.fixed),
        "tokens": share.value * room.token,
    }[share.of]
    if cache <= 0:
        raise InfeasibleError(
            f"no room is left for a cache: weights and activations take "
            f"{show_binary(room.fixed)} of {show_binary(room.fixed + cache)} on each device",
            hint="give more devices, a narrower format, or a larger `memory_utilization`",
        )
    match of:
        case "device":
            return round((room.fixed + cache) / room.capacity, DIGITS)
        case "static":
            return round((room.weights + cache) / room.capacity, _WRITTEN)
        case "free":
            return round(cache / (room.capacity - room.fixed), _WRITTEN)
        case "tokens":
            return float(int(cache / room.token)) if room.token else 0.0


def kept_outside(host: OffloadedWeights, of: Outside, room: Room) -> float:
    """Weights on the host in the words of an engine: a share, bytes of a device, or layers left.

    Source: vLLM 0.33 ``--cpu-offload-gb`` (GiB of each device); llama.cpp ``--gpu-layers``.
    """
    if host.of == of:
        return host.value
    share = {
        "layers": lambda: host.value,
        "bytes": lambda: host.value / room.layers,
        "resident": lambda: 1.0 - host.value / room.depth,
    }[host.of]()
    match of:
        case "layers":
            return round(min(max(share, 0.0), 1.0), DIGITS)
        case "bytes":
            return share * room.layers
        case "resident":
            return float(math.floor(room.depth * (1.0 - share) + _SLACK))
