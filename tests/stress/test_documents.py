"""Mutated documents of every reader: no traceback, every refusal at a place, none slow.

``ROOFLINE_STRESS`` sets how many documents; each has a number of its own, by which it can be
repeated alone. ``ROOFLINE_STRESS_REPORT`` names a file for what was found.
"""

import os
import random
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Final

import pytest

from roofline.errors import RooflineError
from tests.stress.mutating import mutated
from tests.stress.readers import Reader, readers

CASES: Final = int(os.environ.get("ROOFLINE_STRESS", "1000"))
SEED: Final = os.environ.get("ROOFLINE_STRESS_SEED", "roofline")
SLOWEST_SECONDS: Final = 0.25
SLOWEST_LOOPS: Final = 6.0
"""The same in loops of `loop`, which slows down as a document does on a machine with other work."""
LONGEST_MESSAGE: Final = 2_000
MOST_BYTES: Final = 300_000_000
"""Memory of all documents, beside that of the originals. [B]"""


@dataclass
class Seen:
    """Outcomes of the documents of a reader."""

    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest: tuple[float, int] = (0.0, -1)
    failures: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> list[Reader]:
    return readers(tmp_path_factory.mktemp("readers"))


def case(index: int, known: list[Reader], folder: Path) -> tuple[Reader, Path]:
    """The reader of a document, and where that is written."""
    chance = random.Random(f"{SEED}:{index}")
    (reader,) = chance.choices(known, [each.weight for each in known])
    original = chance.choice(reader.originals)
    others = [original.content] if reader.packed else [
        each.content
        for each in chance.choice([each for each in known if not each.packed]).originals[:9]
    ]  # fmt: skip
    path = folder / original.name
    if chance.randrange(20) == 0 and path.suffix in (".json", ".yaml"):
        path = path.with_suffix(".yaml" if path.suffix == ".json" else ".json")
    path.write_bytes(mutated(original.content, chance, others, packed=reader.packed))
    return reader, path


def timed(reader: Reader, path: Path) -> tuple[float, BaseException | None]:
    """CPU time [s], and what was raised."""
    start = time.process_time()
    try:
        reader.read(path)
    except (Exception, SystemExit) as error:
        return time.process_time() - start, error
    return time.process_time() - start, None


def fault(reader: Reader, path: Path, error: BaseException | None) -> str:
    """Fault of a refusal; empty where there is none."""
    if error is None:
        return ""
    if not isinstance(error, RooflineError):
        return f"{type(error).__name__}: {str(error)[:200]!r}"
    # A file that cannot be read is named in the sentence.
    named = not error.where and path.name in error.message
    if not named and not re.fullmatch(rf".+?({reader.where})", error.where):
        return f"not located: {error.where} {error.told[:200]!r}"
    if not error.hint:
        return f"no hint: {error.told[:200]!r}"
    if len(error.told) + len(error.hint) > LONGEST_MESSAGE:
        return f"long: {error.told[:200]!r}, {error.hint[:200]!r}"
    if not f"{error.told}{error.hint}".isprintable():
        return f"not printable: {error.told[:200]!r}, {error.hint[:200]!r}"
    f"{error.told} {error.hint}".encode()
    return ""


def peak() -> float:
    """Most memory of this process so far. [B]"""
    return getrusage(RUSAGE_SELF).ru_maxrss * 1024.0


def loop() -> float:
    """CPU time of a million additions: 42 ms where documents take 0.19 s at most. [s]"""
    start, total = time.process_time(), 0
    for number in range(10**6):
        total += number * number
    return time.process_time() - start


def repeated(index: int, known: list[Reader], folder: Path) -> tuple[float, float]:
    """Least CPU time of one case [s], and in loops beside it [1]."""
    took = []
    for _ in range(5):
        seconds, _error = timed(*case(index, known, folder))
        took.append((seconds, seconds / loop()))
    return min(seconds for seconds, _ in took), min(loops for _, loops in took)


@pytest.mark.stress
def test_mutated_documents_are_read_or_refused_at_a_place_and_in_time(
    tmp_path: Path, known: list[Reader]
) -> None:
    seen = {reader.name: Seen() for reader in known}
    suspects: list[int] = []
    before = peak()
    for index in range(CASES):
        reader, path = case(index, known, tmp_path)
        seconds, error = timed(reader, path)
        path.unlink()
        found = seen[reader.name]
        found.seconds += seconds
        if seconds > found.slowest[0]:
            found.slowest = seconds, index
        if seconds > SLOWEST_SECONDS:
            suspects.append(index)
        if error is None:
            found.accepted += 1
        else:
            found.refused += 1
        if wrong := fault(reader, path, error):
            found.failures.append(f"{reader.name} {index}: {wrong}")
    memory = peak()
    # CPU time doubles on a machine with other work: what was slow is measured again, beside loops.
    again = {index: repeated(index, known, tmp_path) for index in suspects}
    failures = [line for found in seen.values() for line in found.failures]
    report = "\n".join(
        [
            f"{CASES:,} documents of {len(known)} readers, seed {SEED!r}: {len(failures)} faults; "
            f"peak memory {memory / 1e6:.0f} MB, {before / 1e6:.0f} MB before; "
            f"over {SLOWEST_SECONDS:g} s, and best of five in seconds and in loops: {again}",
            *(
                f"  {name}: {each.accepted:,} read, {each.refused:,} refused, "
                f"{each.seconds / max(each.accepted + each.refused, 1) * 1e3:.2f} ms each, "
                f"slowest {each.slowest[0] * 1e3:.0f} ms (case {each.slowest[1]})"
                for name, each in seen.items()
            ),
        ]
    )
    if place := os.environ.get("ROOFLINE_STRESS_REPORT"):
        Path(place).write_text(report + "\n" + "\n".join(failures) + "\n")
    assert not failures, f"{report}\n" + "\n".join(failures[:20])
    assert all(loops <= SLOWEST_LOOPS for _, loops in again.values()), report
    assert memory - before <= MOST_BYTES, report
    accepted = sum(each.accepted for each in seen.values())
    assert CASES // 50 <= accepted <= CASES - CASES // 50, report


def test_the_documents_that_are_mutated_are_good_themselves(
    tmp_path: Path, known: list[Reader]
) -> None:
    for reader in known:
        for original in reader.originals:
            path = tmp_path / original.name
            path.write_bytes(original.content)
            _, error = timed(reader, path)
            assert error is None, (reader.name, original.name, error)
            path.unlink()
