"""A place for one worker at a time: another process takes it when one dies."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Generic

from roofline.study.executors.base import TRIES, Done, Raised, T, died
from roofline.study.executors.worker import START
from roofline.study.store.chunk import Chunk

ONE_THREAD: Final[Mapping[str, str]] = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMBA_NUM_THREADS",
    ),
    "1",
)
"""Workers share the cores already."""

_LOST: Final = (EOFError, OSError, pickle.UnpicklingError)
"""What a pipe says whose other end is gone, also in the middle of an answer."""


class Seat(Generic[T]):
    """Where a worker sits; the first one is started with the first chunk.

    Not `multiprocessing`: its processes load the main module of the program again, which costs time
    and fails where it cannot be, and they outlive a parent that is killed.
    """

    def __init__(self, work: Callable[[Chunk], T]) -> None:
        self._greeting = pickle.dumps(sys.path) + pickle.dumps(work)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def ask(self, chunk: Chunk) -> Done[T] | Raised:
        """Have a chunk computed, by another worker if one dies at it.

        Raises
        ------
        PartialError
            Too many died.
        """
        how = ""
        for _ in range(TRIES):
            process = self._process or self._start()
            try:
                answer: Done[T] | Raised = _answer(process, chunk)
            except _LOST:
                how = _end(process)
                self._process = None
            else:
                return answer
        raise died(chunk, how)

    def abandon(self) -> None:
        """Kill the worker, from whatever thread; no other one starts."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """End the worker, from the thread that asks it."""
        self.abandon()
        if self._process is not None:
            _end(self._process)

    def _start(self) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._closed:
                raise EOFError("no worker is wanted any more")
            self._process = process = subprocess.Popen(
                # -P: until it knows the path of this process, it looks into no other folder.
                [sys.executable, "-P", "-c", START],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | ONE_THREAD,
            )
        with suppress(OSError):  # one that is dead already is noticed when it is asked
            _write(process, self._greeting)
        return process


def _answer(process: "subprocess.Popen[bytes]", chunk: Chunk) -> Any:
    assert process.stdout is not None
    _write(process, pickle.dumps(chunk))
    return pickle.load(process.stdout)


def _write(process: "subprocess.Popen[bytes]", content: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(content)
    process.stdin.flush()


def _end(process: "subprocess.Popen[bytes]") -> str:
    """Let go of a worker that does not answer any more, and say how it ended."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)  # so that it is its own end that is told
    process.kill()
    with suppress(OSError):  # what it has not read
        process.__exit__(None, None, None)
    code = process.wait()
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
