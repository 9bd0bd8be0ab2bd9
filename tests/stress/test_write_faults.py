"""A disk that fails at any operation of any command leaves the file of before or the new one.

A plan writes its page as `roofline analyze` does, and takes longer to make it.
"""

import contextlib
import errno
import io
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from roofline.cli import run
from tests.cases import cases
from tests.stress.killing import BEFORE, LINES, content, listed, prepared, source
from tests.study.store.test_disk_full import Disk, on


@dataclass
class Faulty(Disk):
    """A disk that fails at one of its operations: opens, writes, flushes and renames."""

    fault: int = -1
    """Its number; none where it is negative."""
    error: int = errno.EIO
    """Error of the system."""
    lasting: bool = False
    """Whether all that follow fail as well."""
    short: bool = False
    """Whether a write that fails takes half first."""
    done: int = 0
    """Operations so far. [1]"""

    def step(self) -> None:
        number, self.done = self.done, self.done + 1
        if number == self.fault or (self.lasting and number > self.fault >= 0):
            raise OSError(self.error, os.strerror(self.error))

    def open(self) -> None:
        self.step()

    def take(self, size: int) -> int:
        if self.short and self.done == self.fault and size > 1:
            self.short = False
            return size // 2
        self.step()
        return size


def ran(line: str, folder: Path) -> tuple[int, str]:
    """Exit code of a command in a folder, and what it says on stderr."""
    said = io.StringIO()
    silent = contextlib.redirect_stdout(io.StringIO())
    with contextlib.chdir(folder), silent, contextlib.redirect_stderr(said):
        code = run(line.split())
    return code, said.getvalue()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("faults")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROOFLINE_CACHE", str(folder / "cache"))
        source(folder, ran)
        yield folder


@pytest.mark.parametrize("name", [name for name in LINES if name != "plan"])
@pytest.mark.parametrize(
    ("error", "lasting", "short"),
    [(errno.EIO, False, False), (errno.ENOSPC, True, False), (errno.ENOSPC, True, True)],
    ids=["once", "full", "half written"],
)
def test_any_fault_leaves_the_old_file_or_the_new_one(
    root: Path, name: str, error: int, lasting: bool, short: bool
) -> None:
    line, files = LINES[name]
    place = root / f"{name}-{error}-{short}"
    prepared(place / "whole")
    disk = Faulty()
    with on(disk):
        code, said = ran(line.replace("../", "../../"), place / "whole")
    assert code == 0, said
    whole = {file: content(place / "whole" / file) for file in files}
    there = listed(place / "whole")
    outcomes: Counter[str] = Counter()
    # Other operations where the disk fails otherwise: three ways have all of a small file's.
    first, apart = cases((lasting + short, max(3, disk.done // 4)), (0, 1))
    for fault in range(first, disk.done, apart):
        folder = place / str(fault)
        prepared(folder)
        before = b"" if name == "sweep" or fault % 2 else BEFORE
        for file in files if before else ():
            (folder / file).write_bytes(before)
        faulty = Faulty(fault=fault, error=error, lasting=lasting, short=short)
        with on(faulty):
            code, said = ran(line.replace("../", "../../"), folder)
        assert code in (0, 3, 4), (fault, said)
        if code:
            assert "cannot be written: " in said, fault
        for file in files:
            found = content(folder / file)
            assert found == whole[file] or (code and found == before), (fault, file, len(found))
        assert not [each for each in listed(folder) if each.endswith(".part")], fault
        outcomes["a new file" if code == 0 else "an error"] += 1
        assert ran(line.replace("../", "../../"), folder)[0] == 0
        assert {file: content(folder / file) for file in files} == whole
        assert listed(folder) == there
    print(f"\n  {name}: {disk.done} faults, {dict(outcomes)}")  # noqa: T201
    assert disk.done >= 3
    assert outcomes["an error"]
