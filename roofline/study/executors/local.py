"""Worker processes on this machine; a thread hands each of them its chunks.

A worker ends when its input does, and so does not outlive the sweep that started it, however that
ends.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Final, Generic

from msgspec import Struct

from roofline.study.executors.outcome import (
    TRIES,
    ChunkError,
    ChunkResult,
    T,
    attempt,
    died,
    located,
    value,
)
from roofline.study.store.chunk import Chunk

START: Final = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from roofline.study.executors.local import serve
serve()
"""
"""Program of a worker's interpreter."""


def serve() -> None:
    """Read the work, then chunks; answer each with what came of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the sweep, which ends its workers
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what the work prints is no answer
        try:
            work = pickle.load(sys.stdin.buffer)
            while True:
                chunk = pickle.load(sys.stdin.buffer)
                pickle.dump(attempt(work, chunk), answers, pickle.HIGHEST_PROTOCOL)
                answers.flush()
        except (EOFError, BrokenPipeError):
            os._exit(0)  # nobody listens


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
"""Environment of a worker, whose libraries take one thread: workers share the cores already."""

_LOST: Final = (EOFError, OSError, pickle.UnpicklingError)
"""Errors of a pipe whose other end is gone, also in the middle of an answer."""


class Seat(Generic[T]):
    """Place of one worker process at a time; the first chunk starts the first one.

    Not `multiprocessing`: its processes load the main module of the program again, which costs time
    and fails where it cannot be, and they outlive a parent that is killed.
    """

    def __init__(self, work: Callable[[Chunk], T]) -> None:
        self._greeting = pickle.dumps(sys.path) + pickle.dumps(work)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def ask(self, chunk: Chunk) -> ChunkResult[T] | ChunkError:
        """Have a chunk computed, by another worker if one dies; PartialError where too many did."""
        how = ""
        for _ in range(TRIES):
            process = self._process or self._start()
            try:
                _write(process, pickle.dumps(chunk))
                assert process.stdout is not None
                answer: ChunkResult[T] | ChunkError = pickle.load(process.stdout)
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


def _write(process: "subprocess.Popen[bytes]", content: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(content)
    process.stdin.flush()


def _end(process: "subprocess.Popen[bytes]") -> str:
    """Let go of a worker that does not answer any more, and say how it ended."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)  # for the exit code of its own end, not of the kill below
    process.kill()
    with suppress(OSError):  # what it has not read
        process.__exit__(None, None, None)
    code = process.wait()
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


class WorkerPool(Generic[T]):
    """Workers that compute as soon as they are made; one that no chunk is left for is not started.

    The work must be picklable, and loadable in a process with another main module.
    """

    def __init__(self, work: Callable[[Chunk], T], chunks: Iterator[Chunk], workers: int) -> None:
        self._chunks = chunks
        self._taking = threading.Lock()
        self._stopped = False
        # Chunks that are computed or wait to be fetched: memory does not grow with their number.
        self._room = threading.Semaphore(2 * workers)
        self._queue: SimpleQueue[tuple[Chunk, ChunkResult[T] | ChunkError] | BaseException | None]
        self._queue = SimpleQueue()
        self._seats: list[Seat[T]] = [Seat(work) for _ in range(workers)]
        self._threads = [
            threading.Thread(target=self._serve, args=(seat,), daemon=True) for seat in self._seats
        ]
        for thread in self._threads:
            thread.start()

    def answers(self) -> Iterator[tuple[Chunk, ChunkResult[T] | ChunkError]]:
        """Chunks and what came of them, as they end."""
        serving = len(self._threads)
        while serving:
            answer = self._queue.get()
            if answer is None:
                serving -= 1
            elif isinstance(answer, BaseException):
                raise answer
            else:
                yield answer
                self._room.release()

    def stop(self) -> None:
        """Kill the workers, even in the middle of a chunk."""
        self._stopped = True
        for seat in self._seats:
            seat.abandon()
        self._room.release(len(self._threads))
        for thread in self._threads:
            thread.join()

    def _serve(self, seat: Seat[T]) -> None:
        if hasattr(signal, "pthread_sigmask"):
            # Processes inherit this: Ctrl-C must not reach a worker that is just starting.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            while (chunk := self._next()) is not None:
                self._queue.put((chunk, seat.ask(chunk)))
            self._queue.put(None)
        except BaseException as error:
            self._queue.put(error)  # for the thread that asked
        finally:
            seat.close()

    def _next(self) -> Chunk | None:
        self._room.acquire()
        with self._taking:
            return None if self._stopped else next(self._chunks, None)


class Local(Struct, frozen=True):
    """Processes of this machine; a single worker is this process itself."""

    workers: int
    """Chunks computed at once."""

    def run(
        self, work: Callable[[Chunk], T], chunks: Iterable[Chunk]
    ) -> Generator[tuple[Chunk, T], None, None]:
        """Compute each chunk: see `Executor.run`."""
        if self.workers == 1:
            for chunk in chunks:
                try:
                    done = work(chunk)
                except Exception as error:
                    raise located(error, chunk) from error.__cause__
                yield chunk, done
            return
        pool: WorkerPool[T] = WorkerPool(work, iter(chunks), self.workers)
        try:
            for chunk, came in pool.answers():
                yield chunk, value(chunk, came)
        finally:
            pool.stop()
