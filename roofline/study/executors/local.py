"""Processes of this machine."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass

from roofline.study.executors.base import T, located, value
from roofline.study.executors.pool import Pool
from roofline.study.store.chunk import Chunk


@dataclass(frozen=True, slots=True)
class Local:
    """Processes of this machine; a single worker is this process itself."""

    workers: int
    """Chunks computed at once."""

    def run(
        self, work: Callable[[Chunk], T], chunks: Iterable[Chunk]
    ) -> Generator[tuple[Chunk, T], None, None]:
        """As `Executor.run`."""
        return _here(work, chunks) if self.workers == 1 else _beside(work, chunks, self.workers)


def _here(
    work: Callable[[Chunk], T], chunks: Iterable[Chunk]
) -> Generator[tuple[Chunk, T], None, None]:
    for chunk in chunks:
        try:
            came = work(chunk)
        except Exception as error:
            raise located(error, chunk) from error.__cause__
        yield chunk, came


def _beside(
    work: Callable[[Chunk], T], chunks: Iterable[Chunk], workers: int
) -> Generator[tuple[Chunk, T], None, None]:
    pool: Pool[T] = Pool(work, iter(chunks), workers)
    try:
        for chunk, came in pool.answers():
            yield chunk, value(chunk, came)
    finally:
        pool.stop()
