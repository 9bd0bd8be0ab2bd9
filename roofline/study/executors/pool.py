"""Workers beside this process: each is handed chunks by a thread."""

import signal
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Generic

from roofline.study.executors.base import Done, Raised, T
from roofline.study.executors.seat import Seat
from roofline.study.store.chunk import Chunk


class Pool(Generic[T]):
    """Some workers, which compute as soon as they are made.

    Parameters
    ----------
    work
        Computes a chunk; can be pickled, and loaded where the main module is another.
    chunks
        Taken one at a time.
    workers
        Processes at most; one that no chunk is left for is not started.
    """

    def __init__(self, work: Callable[[Chunk], T], chunks: Iterator[Chunk], workers: int) -> None:
        self._chunks = chunks
        self._taking = threading.Lock()
        self._stopped = False
        # Chunks that are computed or wait to be fetched: memory does not grow with their number.
        self._room = threading.Semaphore(2 * workers)
        self._queue: SimpleQueue[tuple[Chunk, Done[T] | Raised] | BaseException | None]
        self._queue = SimpleQueue()
        self._seats: list[Seat[T]] = [Seat(work) for _ in range(workers)]
        self._threads = [
            threading.Thread(target=self._serve, args=(seat,), daemon=True) for seat in self._seats
        ]
        for thread in self._threads:
            thread.start()

    def answers(self) -> Iterator[tuple[Chunk, Done[T] | Raised]]:
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
        """End the workers, whatever they are at."""
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
