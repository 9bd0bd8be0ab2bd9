"""What computes chunks: processes of this machine, or a Ray cluster."""

import os
from typing import Final, Literal

from roofline.errors import InputError
from roofline.study.executors.base import Executor

Name = Literal["local", "ray"]
NAMES: Final[tuple[Name, ...]] = ("local", "ray")


def executor(name: str = "local", workers: int | None = None) -> Executor:
    """An executor by its name.

    Args:
        name: One of `NAMES`.
        workers: Chunks computed at once; none takes as many as there are cores.

    Raises:
        InputError: There is no such executor, or it cannot have that many workers.
    """
    if workers is not None and workers < 1:
        raise InputError(f"{workers} workers compute nothing", hint="give at least 1")
    if name == "local":
        from roofline.study.executors.local import Local

        return Local(workers or cores())
    if name == "ray":
        from roofline.study.executors.ray import Ray

        return Ray(workers)
    raise InputError(f"there is no executor {name!r}", hint=f"give one of {', '.join(NAMES)}")


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
