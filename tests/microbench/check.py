"""Runs cases on the emulator with edited sources, each edit in a process of its own."""

import json
import sys
from multiprocessing import get_context
from pathlib import Path

from tests.microbench.attention_cases import CASES as ATTENTION
from tests.microbench.attention_cases import build
from tests.microbench.emulation import SCHEDULES, Emulator, KernelError
from tests.microbench.small_cases import BUILDERS as SMALL


def noticed(folder: Path, edits: dict[str, tuple[str, str]], names: list[str]) -> str:
    """Failure of the first case that does not hold, or nothing."""
    for name in names:
        for schedule in SCHEDULES:
            case = build(name) if name in ATTENTION else SMALL[name]()
            try:
                Emulator(folder, schedule, edits).run(*case.launches(case.arrays))
            except KernelError as error:
                return f"{name}: {error}"
            off = case.error(case.arrays[case.result])
            if not off < case.tolerance:
                return f"{name}: off by {off / case.tolerance:.3g} tolerances"
    return ""


def outcome(folder: Path, edits: dict[str, tuple[str, str]], names: list[str]) -> str:
    """Failure that a forked process tells, which a fault may end: then it is that."""
    fork = get_context("fork")
    told, tell = fork.Pipe(duplex=False)
    process = fork.Process(target=lambda: tell.send(noticed(folder, edits, names)))
    process.start()
    process.join()
    if process.exitcode:
        if process.exitcode > 0:
            raise RuntimeError(f"{names} with {edits} end with {process.exitcode}")
        return f"ended by signal {-process.exitcode}"
    return str(told.recv())


if __name__ == "__main__":
    folder, bugs = sys.argv[1:]
    found = [
        outcome(Path(folder), {source: (written, planted)}, names)
        for source, written, planted, names in json.loads(bugs)
    ]
    sys.stdout.write(json.dumps(found))
