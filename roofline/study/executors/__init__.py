"""Executors compute chunks: processes of this machine, or a Ray cluster."""

import os
from collections.abc import Callable, Generator, Iterable
from typing import Final, Literal, Protocol, TypeVar

from roofline.errors import InputError
from roofline.study.store.chunk import Chunk

T = TypeVar("T")

Name = Literal["local", "ray"]
NAMES: Final[tuple[Name, ...]] = ("local", "ray")


class Executor(Protocol):
    """Computes chunks, some at once."""

    def run(
        self, work: Callable[[Chunk], T], chunks: Iterable[Chunk]
    ) -> Generator[tuple[Chunk, T], None, None]:
        """Compute each chunk, and give it with its result, in whatever order they end.

        Chunks are taken as they can be computed, and no more than a few of a worker wait to be
        fetched: memory does not grow with their number. Closing the generator ends the workers.

        Args:
            work: Can be pickled and called again for the same chunk, whose worker may die.
            chunks: Taken one at a time.

        Raises:
            PartialError: The workers of a chunk died again and again.
            RooflineError: From the work, with the chunk it is about.
        """
        ...


def executor(name: str = "local", workers: int | None = None) -> Executor:
    """An executor by its name, one of `NAMES`, with some workers or as many as there are cores.

    InputError where there is no such executor, or it cannot have that many workers.
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
