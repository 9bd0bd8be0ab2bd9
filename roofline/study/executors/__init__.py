"""Executors compute chunks: processes of this machine, or a Ray cluster."""

import os
import pickle
import traceback
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Final, Generic, Literal, Protocol, TypeVar

from roofline.errors import InputError, PartialError, RooflineError
from roofline.study.store.chunk import Chunk

T = TypeVar("T")

TRIES: Final = 3
"""Times a chunk is started whose workers die under it."""

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


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """Result of a chunk."""

    value: T


@dataclass(frozen=True, slots=True)
class Raised:
    """Error that a chunk raised, and its traceback."""

    error: Exception
    trace: str


def attempt(work: Callable[[Chunk], T], chunk: Chunk) -> Done[T] | Raised:
    """Compute a chunk where an error cannot be raised to the one who asked."""
    try:
        return Done(work(chunk))
    except Exception as error:
        return Raised(_portable(error), traceback.format_exc())


def value(chunk: Chunk, came: Done[T] | Raised) -> T:
    """Result of a chunk; an error is raised again, with the chunk it is about."""
    if isinstance(came, Done):
        return came.value
    error = located(came.error, chunk)
    if error is came.error:
        error.add_note(f"in a worker:\n{came.trace}")
    raise error


def located(error: Exception, chunk: Chunk) -> Exception:
    """An error of the work with the chunk it is about; a bug keeps its traceback, and a note."""
    if isinstance(error, RooflineError):
        message = f"{chunk}: {error.message}"
        return type(error)(message, hint=error.hint, where=error.where)
    error.add_note(f"in {chunk}")
    return error


def died(chunk: Chunk, how: str) -> PartialError:
    """The error of a chunk that was started `TRIES` times."""
    return PartialError(
        f"{chunk}: its worker died {TRIES} times ({how})",
        hint="most often memory runs out: run it again with fewer workers to go on",
    )


def _portable(error: Exception) -> Exception:
    """An error that survives the way to another process."""
    try:
        copy: Exception = pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return copy


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
