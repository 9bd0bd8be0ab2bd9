"""A sweep to be killed: it says which chunks it acknowledges, one a line."""

import sys
from pathlib import Path

from roofline.study.executors import executor
from roofline.study.store.folder import Progress, SweepTask, run
from tests.study.store.works import Rows

CHUNKS = 40
SECONDS = 0.002
"""Time of a chunk: so short that most of the time a part is being written."""


def task(log: Path | None = None, seconds: float = SECONDS) -> SweepTask:
    return SweepTask("abc", 200 * CHUNKS, 200, Rows(seconds, log))


def say(now: Progress) -> None:
    if now.chunk is not None:
        sys.stdout.write(f"{now.chunk.number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    folder, log, name, workers, *seconds = sys.argv[1:]
    work = task(Path(log), *(float(each) for each in seconds))
    run(Path(folder), work, executor(name, int(workers)), say)
