"""Sweeps killed at random moments lose nothing that they acknowledged, and repeat nothing.

``ROOFLINE_KILLS`` sets how many kills there are.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from roofline.study.executors.local import Local
from roofline.study.store import manifest
from roofline.study.store.folder import run
from roofline.study.store.parts import intact
from tests.study.store import victim

KILLS: Final = int(os.environ.get("ROOFLINE_KILLS", "3"))
LONGEST: Final = 8
"""Kills of one sweep before it is let to its end."""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return run(tmp_path_factory.mktemp("whole"), victim.task(), Local(1)).result.read_bytes()


def started(folder: Path, log: Path, workers: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", victim.__name__, str(folder), str(log), "local", str(workers)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def numbers(lines: bytes) -> list[int]:
    """First numbers of the lines that are whole."""
    whole = lines[: lines.rfind(b"\n") + 1]
    return [int(line.split()[0]) for line in whole.splitlines()]


def finished(folder: Path) -> dict[int, manifest.ManifestEntry]:
    """Parts that the manifest names and that are intact."""
    path = folder / "manifest.jsonl"
    if not path.exists():
        return {}
    _, entries = manifest.read(path)
    parts, whole = folder / "parts", entries.pop(manifest.WHOLE, None)
    if whole is not None and intact(folder / "result.parquet", whole):
        return entries
    return {n: entry for n, entry in entries.items() if intact(parts / f"{n:06}.parquet", entry)}


def delays(seed: int) -> Iterator[tuple[bool, float]]:
    """Time to kill: after so many seconds, from the start or from the first acknowledgement."""
    chance = random.Random(seed)
    while True:
        early = chance.random() < 0.15
        yield early, chance.uniform(0, 0.5 if early else 0.3)


def killed(folder: Path, log: Path, workers: int, early: bool, delay: float) -> tuple[bool, bytes]:
    """Run a sweep and kill it; whether it was still running, and what it acknowledged."""
    with started(folder, log, workers) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = b"" if early else process.stdout.readline()
        time.sleep(delay)
        process.kill()
        said = first + process.stdout.read()
        errors = process.stderr.read()
    running = process.returncode == -signal.SIGKILL
    assert running or process.returncode == 0, errors.decode()
    return running, said


@pytest.mark.slow
@pytest.mark.stress
def test_killed_sweeps_lose_and_repeat_nothing(tmp_path: Path, result: bytes) -> None:
    left = KILLS
    seen: Counter[str] = Counter()
    when = delays(1)
    for sweep in count():
        if left <= 0:
            break
        folder, workers = tmp_path / str(sweep), 1 + sweep % 2
        acknowledged: set[int] = set()
        for attempt in range(LONGEST):
            log = tmp_path / f"{sweep}-{attempt}.log"
            ended, said = killed(folder, log, workers, *next(when))
            new = numbers(said)
            begun = numbers(log.read_bytes()) if log.exists() else []
            assert not acknowledged & set(begun), "a chunk was computed again"
            assert len(set(begun)) == len(begun)
            assert set(new) <= set(begun)
            acknowledged |= set(new)
            assert acknowledged <= set(finished(folder)), "an acknowledged chunk was lost"
            left -= ended
            place = "after" if not ended else "before" if not new else "amid"
            seen[place if len(finished(folder)) < victim.CHUNKS else f"{place}, merging"] += 1
            if not ended or left <= 0:
                break
        final = tmp_path / f"{sweep}-final.log"
        outcome = run(folder, victim.task(final), Local(1))
        assert outcome.result.read_bytes() == result
        assert outcome.resumed >= len(acknowledged)
        repeated = numbers(final.read_bytes()) if final.exists() else []
        assert not acknowledged & set(repeated)
        lines = (folder / "manifest.jsonl").read_bytes().splitlines()
        assert len(lines) == 1 + victim.CHUNKS + 1 == 1 + len(finished(folder)) + 1
        assert not list(folder.rglob("*.part"))
    print(f"\n  {KILLS} kills: {dict(seen)}")  # noqa: T201
