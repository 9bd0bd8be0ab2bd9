"""What measurements depend on besides the probe, as text that goes beside them."""

import platform
from datetime import UTC, datetime
from typing import Any

import numpy as np

from roofline.bench.processor import Processor


def describe(processor: Processor, threads: int, clock: str) -> dict[str, str]:
    """Machine, libraries and date of measurements with NumPy.

    Parameters
    ----------
    processor
        Of this machine.
    threads
        That BLAS uses. [1]
    clock
        What was read: ``"processor"`` or ``"wall"``.
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
