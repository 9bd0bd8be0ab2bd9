"""Outcome of a chunk in another process: its result, or the error that it raised."""

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from msgspec import Struct

from roofline.errors import PartialError, RooflineError
from roofline.study.store.chunk import Chunk

T = TypeVar("T")

TRIES: Final = 3
"""Times a chunk is started whose workers die under it."""


@dataclass(frozen=True, slots=True)
class ChunkResult(Generic[T]):
    """Result of a chunk."""

    value: T


class ChunkError(Struct, frozen=True):
    """Error that a chunk raised, and its traceback."""

    error: Exception
    trace: str


def attempt(work: Callable[[Chunk], T], chunk: Chunk) -> ChunkResult[T] | ChunkError:
    """Compute a chunk where an error cannot be raised to the one who asked."""
    try:
        return ChunkResult(work(chunk))
    except Exception as error:
        return ChunkError(_portable(error), traceback.format_exc())


def value(chunk: Chunk, came: ChunkResult[T] | ChunkError) -> T:
    """Result of a chunk; an error is raised again, with the chunk it is about."""
    if isinstance(came, ChunkResult):
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
