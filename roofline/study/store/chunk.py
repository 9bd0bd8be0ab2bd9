"""A sweep cut into chunks: the same ones whatever runs them, and in whatever order."""

from collections.abc import Iterator

from msgspec import Struct


class Chunk(Struct, frozen=True):
    """Some configurations in a row, computed as one piece."""

    number: int
    """Place among the chunks of the sweep, from 0."""
    start: int
    stop: int
    """Configurations: from the first one up to, not including, the last one."""

    def __len__(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        """Name of the chunk in errors."""
        return f"chunk {self.number:,} (configurations {self.start:,} to {self.stop - 1:,})"


def chunks(total: int, size: int) -> Iterator[Chunk]:
    """Cut a sweep, one chunk after the other.

    Args:
        total: Configurations of the sweep.
        size: Configurations of a chunk; the last one may have fewer.

    Examples:
        >>> [(chunk.start, chunk.stop) for chunk in chunks(10, 4)]
        [(0, 4), (4, 8), (8, 10)]
    """
    for number in range(count(total, size)):
        start = number * size
        yield Chunk(number, start, min(start + size, total))


def count(total: int, size: int) -> int:
    """Chunks of a sweep.

    >>> count(10, 4)
    3
    """
    return -(-total // size)
