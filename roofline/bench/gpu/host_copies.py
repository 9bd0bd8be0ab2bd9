"""Copies between pinned memory of the host and the device, on CuPy's current stream."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work
from roofline.units import PREFIX

SIZES: Final = tuple(int(PREFIX["Ki"]) * 2**power for power in range(6, 19))
"""From 64 KiB to 256 MiB. [B]"""
WORD: Final = 4
TO_DEVICE: Final = 1
TO_HOST: Final = 2
"""Directions, by the numbers that CUDA has for them (``cudaMemcpyKind``)."""


@lru_cache(maxsize=1)
def pinned(xp: Any, size: int) -> Any:
    """Memory of the host that a device reads and writes by itself; kept for the next run."""
    return xp.cuda.alloc_pinned_memory(size)


def arguments(make: Maker, at: Shape) -> Mapping[str, object]:
    """Memory of the device, its size and the direction."""
    size = at["size"]
    return {"words": make.empty(size // WORD), "size": size, "direction": at["direction"]}


def launch(xp: Any, words: Any, size: int, direction: int) -> None:
    """One copy."""
    ends = int(words.data.ptr), int(pinned(xp, size).ptr)
    to, source = ends if direction == TO_DEVICE else ends[::-1]
    stream = xp.cuda.get_current_stream().ptr
    xp.cuda.runtime.memcpyAsync(to, source, size, direction, stream)


def work(at: Shape) -> Work:
    """Every byte crosses the link of the host and the device's memory once."""
    return Work(activation_bytes=float(at["size"]), host_bytes=float(at["size"]))


def regime(at: Shape) -> str:
    """Where it goes."""
    return "to device" if at["direction"] == TO_DEVICE else "to host"


def host_copies(name: str) -> Probe:
    """Probe of both directions, called as its file is."""
    return Probe(
        name=name,
        version=1,
        kind="host",
        axes={"direction": (TO_DEVICE, TO_HOST), "size": SIZES},
        arguments=arguments,
        launch=launch,
        work=work,
        regime=regime,
        backends=("cupy",),
        form="memory",
    )
