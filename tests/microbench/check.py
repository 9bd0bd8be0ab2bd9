"""Runs cases on the emulator with an edited source, in a process of its own."""

import json
import sys
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


if __name__ == "__main__":
    folder, edits, names = sys.argv[1:]
    given = {name: (old, new) for name, (old, new) in json.loads(edits).items()}
    sys.stdout.write(noticed(Path(folder), given, json.loads(names)))
