"""Places of a campaign: this processor with NumPy, or a GPU with CuPy."""

import platform
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import numpy as np

from roofline.bench import clock
from roofline.bench.backend import Backend
from roofline.bench.capacity import HAD
from roofline.bench.published import Processor, Published, detect, of_processor
from roofline.errors import InputError, MissingEnvironmentError


def describe(processor: Processor, threads: int, clock: str) -> dict[str, str]:
    """Machine, libraries and date of measurements with NumPy.

    Args:
        processor: Of this machine.
        threads: Threads that BLAS uses. [1]
        clock: What was read: ``"processor"`` or ``"wall"``.
    """
    return {
        "machine": processor.name,
        "processor": processor.title,
        "cores": str(processor.cores),
        "cache": str(int(processor.cache_bytes)),
        "memory": str(int(processor.memory_bytes)),
        "threads": str(threads),
        "clock": clock,
        "blas": blas(),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def blas() -> str:
    """BLAS library that NumPy was built with."""
    config: Any = np.show_config(mode="dicts")
    found = (config or {}).get("Build Dependencies", {}).get("blas", {})
    return f"{found.get('name', 'unknown')} {found.get('version', '')}".strip()


class Noise(Protocol):
    """Disturbances of a machine, which its text states in a clause."""

    @property
    def calm(self) -> bool:
        """True where times can be trusted to a few percent."""

    @property
    def lost(self) -> float:
        """Share of the time in which others make the device useless. [1]"""


@dataclass(frozen=True, slots=True)
class Place:
    """A device and its libraries, on which probes run."""

    backend: Backend
    """Runs and times them."""
    published: Published
    """Rates of its datasheet, or what stands in for one."""
    environment: Mapping[str, str]
    """Facts that the times depend on besides the probes."""
    noise: Callable[[], Noise | None]
    """Measures the noise of the machine."""
    title: str
    """Name for people."""


def numpy_place() -> Place:
    """NumPy in this process."""
    here = detect()
    backend = clock.backend(here)
    kind = "processor" if backend.threads == 1 else "wall"
    return Place(
        backend,
        of_processor(here, backend.threads),
        {
            **describe(here, backend.threads, kind),
            HAD: str(round(backend.cache_bytes)),
        },
        lambda: clock.noise(backend),
        f"{here.title}, {backend.threads} thread(s)",
    )


def place(backend: str, name: str = "") -> AbstractContextManager[Place]:
    """Place where a backend runs; entering it takes the device.

    Args:
        backend: ``"numpy"`` or ``"cupy"``.
        name: GPU whose published rates apply, if it is not to be recognised.

    Raises:
        InputError: A GPU is named, and the backend has none.
        MissingEnvironmentError: It is not to be had here.
    """
    if backend == "cupy":
        from roofline.bench.gpu.place import cupy_place

        return cupy_place(name)
    if backend != "numpy":
        raise MissingEnvironmentError(
            f"the backend {backend} cannot run here", hint="use one of numpy, cupy"
        )
    if name:
        raise InputError(
            f"NumPy does not run on {name}", hint="leave --gpu out, or add --backend cupy"
        )
    return nullcontext(numpy_place())


def chosen() -> tuple[str, str]:
    """Backend to take if none is named, and why: a GPU where there is one and CuPy reaches it."""
    from roofline.bench.gpu.environment import require_device

    try:
        require_device()
    except MissingEnvironmentError as error:
        return "numpy", f"no GPU is measured: {error.message}; {error.hint}"
    return "cupy", "there is a GPU, and CuPy reaches it"
