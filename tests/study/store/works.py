"""Work to sweep with: tables of which a test can say what must be in them."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from roofline.errors import InputError
from roofline.study.store.chunk import Chunk

NAMES = ("h100-sxm", "a100-sxm", "l40s")


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a chunk: a third of the configurations is left out; names come with dictionaries.

    Attributes
    ----------
    seconds
        That it takes.
    log
        Gets a line for each chunk that is begun.
    """

    seconds: float = 0.0
    log: Path | None = None

    def __call__(self, chunk: Chunk) -> Any:
        import pyarrow as pa

        if self.log is not None:
            with self.log.open("a") as file:
                file.write(f"{chunk.number} {os.getpid()}\n")
        time.sleep(self.seconds)
        index = np.arange(chunk.start, chunk.stop)
        index = index[index % 3 != 1]
        random = np.random.default_rng(chunk.number)
        names = [NAMES[(number // 7) % 3] for number in index]
        return pa.table(
            {
                "index": index,
                "gpu": pa.array(names, pa.string()).dictionary_encode(),
                "latency_s": random.random(len(index)),
            }
        )


@dataclass(frozen=True, slots=True)
class Failing:
    """Raises at one chunk."""

    number: int
    bug: bool = False

    def __call__(self, chunk: Chunk) -> Any:
        if chunk.number == self.number:
            if self.bug:
                raise ZeroDivisionError("a bug")
            raise InputError("the batch is too large", hint="give a smaller one", where="a.yaml:3")
        return Rows()(chunk)


@dataclass(frozen=True, slots=True)
class Dying:
    """Kills the process it is in at one chunk, the first few times."""

    number: int
    times: int
    folder: Path

    def __call__(self, chunk: Chunk) -> Any:
        if chunk.number == self.number:
            deaths = len(list(self.folder.glob("death-*")))
            if deaths < self.times:
                (self.folder / f"death-{deaths}").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return Rows()(chunk)


@dataclass(frozen=True, slots=True)
class Stuck:
    """A class whose errors cannot be pickled."""

    def __call__(self, chunk: Chunk) -> Any:
        class OwnError(Exception):
            """Known here alone."""

        raise OwnError("of its own")


def least(count: int) -> "Least":
    """Keep the rows with the least latency."""
    return Least(count)


@dataclass(frozen=True, slots=True)
class Least:
    count: int

    def __call__(self, table: Any) -> Any:
        order = [("latency_s", "ascending"), ("index", "ascending")]
        return table.sort_by(order).slice(0, self.count)
