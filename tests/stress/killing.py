"""Kills commands at random moments: ``python -m tests.stress.killing KILLS FOLDER``.

What a command has written is the file that was there before or the new one, whole; run again, it
ends as if nothing had killed it, and nothing else is left in its folder.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from io import StringIO
from itertools import count
from pathlib import Path
from pkgutil import walk_packages
from typing import Final

import roofline
from roofline.bench import probe as probing
from roofline.bench.campaign import describe
from roofline.bench.probe import find, points
from roofline.bench.published import detect
from roofline.bench.recorder import begin
from roofline.bench.records import read_records
from roofline.cli import run
from tests.bench.probes import measurement
from tests.bench.test_calibrating import planted
from tests.cli.test_report import SCENARIO

BEFORE: Final = b"before"
MOST: Final = 6
"""Kills in a row before a command is let to its end."""
SIMULATE: Final = (
    "simulate llama-3.1-8b --rate 5 --prompt 400 --output 20 --requests 200 "
    "--out requests.csv --timeline timeline.json --report page.html"
)
PLAN: Final = (
    "plan llama-3.1-8b --gpu h100-sxm --gpus 1 --rate 2 --prompt 500 --output 100 --requests 200 "
    "--slo ttft=500ms --report page.html"
)
LINES: Final = {
    "sweep": ("sweep scenario.yaml --keep all --workers 1 --out swept", ["swept/result.parquet"]),
    "simulate": (SIMULATE, ["requests.csv", "timeline.json", "page.html"]),
    "report": ("report ../source/swept --out page.html", ["page.html"]),
    "fit": ("bench fit ../source/records --out mine.yaml", ["mine.yaml"]),
    "schema": ("schema --out schema.json", ["schema.json"]),
    "validate": ("validate ../source/rows.csv --kind gemm --out rows.csv", ["rows.csv"]),
    "plan": (PLAN, ["page.html"]),
    "analyze": ("analyze llama-3.1-8b --calibration none --report page.html", ["page.html"]),
}
"""Commands whose files are the same each time, and those files."""
SHARES: Final = {
    "sweep": 9, "simulate": 6, "report": 9, "fit": 1, "schema": 3, "validate": 2, "analyze": 6,
    "calibrate": 1, "plan": 3,
}  # fmt: skip
CALIBRATE: Final = "calibrate --backend numpy --budget 5s --records records --out mine.yaml"
CALIBRATED: Final = (0, 2)
"""Exit codes of it: on a machine with other work, too little may be measured to fit anything."""


def started(line: str, folder: Path) -> int:
    """A command in a process of its own, which has nothing to import any more; its number."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 70
    with contextlib.suppress(BaseException):
        os.chdir(folder)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        code = run(line.split())
    os._exit(code)


def ended(line: str, folder: Path, codes: tuple[int, ...] = (0,)) -> float:
    """Run a command to its end; how long it took. [s]"""
    began = time.monotonic()
    _, status = os.waitpid(started(line, folder), 0)
    assert os.waitstatus_to_exitcode(status) in codes, (line, status)
    return time.monotonic() - began


def killed(line: str, folder: Path, delay: float, codes: tuple[int, ...] = (0,)) -> bool:
    """Run a command and kill it after a while; whether it was still running."""
    child = started(line, folder)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.waitstatus_to_exitcode(status) in codes, (line, status)
    return False


def content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def listed(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def prepared(folder: Path) -> None:
    """A folder with what commands read."""
    folder.mkdir(parents=True)
    text = SCENARIO.format(name="one", title="One").replace("[1, 8]", str(list(range(1, 41))))
    (folder / "scenario.yaml").write_text(text)


def source(root: Path, ran: Callable[[str, Path], object]) -> None:
    """Files that commands read, in a folder ``source``.

    Args:
        root: Where to make it.
        ran: Runs a command in a folder.
    """
    prepared(root / "source")
    ran(LINES["sweep"][0], root / "source")
    (root / "source" / "rows.csv").write_text("m,n,k,gpu,time_s\n1024,1024,1024,h100-sxm,1e-5\n")
    probe = find("rmsnorm")
    about = describe(detect(), 1, "processor")
    recorder = begin(root / "source" / "records", "numpy", about, [probe])
    for point, row in zip(points(probe.probe), planted("rmsnorm", 0.02), strict=True):
        recorder.keep(measurement(point, *row.samples))


class Repeatable:
    """A command whose files are the same each time, killed again and again.

    Args:
        name: Key of `LINES`.
        root: Folder for its own; has what commands read in ``source``.
    """

    def __init__(self, name: str, root: Path) -> None:
        self.name, self.root = name, root
        self.line, self.files = LINES[name]
        prepared(root / name)
        ended(self.line, root / name)
        self.seconds = ended(self.line, root / name)
        self.whole = {file: (root / name / file).read_bytes() for file in self.files}
        self.there = listed(root / name)

    def kill(self, number: int, chance: random.Random) -> tuple[int, int]:
        """Kill it some times, and run it again: kills, and how many left a file half done."""
        folder, kills = self.root / f"{self.name}-{number}", 0
        prepared(folder)
        before = BEFORE if self.name != "sweep" and chance.random() < 0.5 else b""
        for file in self.files if before else ():
            (folder / file).write_bytes(before)
        left = 0
        for _ in range(MOST):
            running = killed(self.line, folder, chance.uniform(0, 1.1) * self.seconds)
            kills += running
            for file in self.files:
                found = content(folder / file)
                assert found in (before, self.whole[file]), (self.name, file, len(found))
            left += any(name.endswith(".part") for name in listed(folder))
            if not running:
                break
        ended(self.line, folder)
        for file, whole in self.whole.items():
            assert content(folder / file) == whole, (self.name, file)
        assert listed(folder) == self.there, (self.name, listed(folder) ^ self.there)
        shutil.rmtree(folder)
        return kills, left


class Calibration:
    """`roofline calibrate`, whose times are others each time: no finished point is lost."""

    def __init__(self, _: str, root: Path) -> None:
        self.root = root
        (root / "calibrate").mkdir()
        self.seconds = ended(CALIBRATE, root / "calibrate", CALIBRATED)

    def kill(self, number: int, chance: random.Random) -> tuple[int, int]:
        """Kill it some times, and run it again."""
        folder, kills, left = self.root / f"calibrate-{number}", 0, 0
        folder.mkdir()
        known: set[str] = set()
        for _ in range(MOST):
            kills += killed(CALIBRATE, folder, chance.uniform(0, 1.1) * self.seconds, CALIBRATED)
            found = self.read(folder)
            assert known <= found, known - found
            known = found
            left += any(name.endswith(".part") for name in listed(folder))
        ended(CALIBRATE, folder, CALIBRATED)
        assert known <= self.read(folder)
        assert self.read(folder) or not (folder / "mine.yaml").exists()
        assert not [name for name in listed(folder) if name.endswith(".part")]
        shutil.rmtree(folder)
        return kills, left

    def read(self, folder: Path) -> set[str]:
        """Points that are kept; none where the time was over before anything was."""
        if not (folder / "records" / "run.json").exists():
            return set()
        return {row.point for row in read_records(folder / "records").rows}


def main(kills: int, root: Path) -> dict[str, object]:
    """Kill commands so many times in all; how often each, and how often a part was left."""
    for module in walk_packages(roofline.__path__, "roofline."):
        if not module.name.startswith(("roofline.bench.gpu.", "roofline.__main__")):
            import_module(module.name)
    with contextlib.redirect_stdout(StringIO()):
        assert run(["analyze", "llama-3.1-8b"]) == 0
    some = [each for each in probing.probes() if each.probe.name in ("call", "add", "rmsnorm")]
    vars(probing)["probes"] = lambda folder=None: some
    chance = random.Random(1)
    root.mkdir(parents=True, exist_ok=True)
    source(root, ended)
    made: dict[str, Repeatable | Calibration] = {}
    done: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for number in count():
        if done.total() >= kills:
            break
        (name,) = chance.choices(list(SHARES), list(SHARES.values()))
        kind: Callable[[str, Path], Repeatable | Calibration]
        kind = Calibration if name == "calibrate" else Repeatable
        if name not in made:
            made[name] = kind(name, root)
        times, halves = made[name].kill(number, chance)
        done[name] += times
        left[name] += halves
    return {"kills": dict(done), "parts left until the next run": dict(left)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(int(sys.argv[1]), Path(sys.argv[2]))) + "\n")
