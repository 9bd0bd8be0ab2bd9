"""Compare the processor time of commands between two checkouts, in turn: A B A B.

``python -m tests.benchmarks.paired BEFORE AFTER [--rounds 3] [--only plan-70b …]`` runs whole
processes of this Python, one at a time. The first pair fills caches of compiled code and is not
counted. Printed, never asserted: the medians, and the median of the ratio pair by pair. A command
that crashes, or ends otherwise in one checkout than in the other, is not compared.
"""

import argparse
import os
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from tests.benchmarks.reference import reference

COMMANDS: Final[Mapping[str, str]] = {
    "plan-70b": "plan llama-3.1-70b --gpu h100-sxm --gpus 32 --rate 20 --slo ttft=500ms,tpot=40ms",
    "plan-deepseek": "plan deepseek-v3 --gpu h200-sxm --gpus 32 --rate 10",
    "plan-impossible": (
        "plan llama-3.1-70b --gpu h100-sxm --gpus 32 --rate 20 --slo ttft=1ms,tpot=1ms"
    ),
    "analyze": "analyze llama-3.1-8b",
    "analyze-datasheet": "analyze llama-3.1-8b --calibration none",
    "layouts-1024": "layouts deepseek-v3 --gpu h800-sxm --gpus 1024",
    "simulate": "simulate llama-3.1-8b --rate 4",
}
DROPPED: Final = frozenset({"PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "NUMBA_CACHE_DIR"})
"""Settings that would keep compiled code from being reused."""
CRASHED: Final = "traceback"


def run(checkout: Path, arguments: str, caches: Path) -> tuple[float, str]:
    """Processor time of a command and its children, and how it ended. [s]"""
    environment = {key: value for key, value in os.environ.items() if key not in DROPPED}
    environment |= {
        "PYTHONPATH": str(checkout),
        "PYTHONPYCACHEPREFIX": str(caches / "python"),
        "NUMBA_CACHE_DIR": str(caches / "numba"),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        [sys.executable, "-m", "roofline", *shlex.split(arguments)],
        cwd=checkout,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    end = CRASHED if b"Traceback" in ended.stderr else f"exit code {ended.returncode}"
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, end


def compare(before: Path, after: Path, names: Sequence[str], rounds: int) -> None:
    """Print each command's seconds in both checkouts, and how many times faster the second is."""
    print(f"{'command':18} {'before':>9} {'after':>9}   before / after, and its range")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            arguments = COMMANDS[name]
            ends = [run(each, arguments, Path(folder))[1] for each in (before, after)]
            if ends[0] != ends[1] or CRASHED in ends:
                print(f"{name:18} not compared: {ends[0]} before, {ends[1]} after", flush=True)
                continue
            with reference() as loop:
                pairs = [
                    tuple(run(each, arguments, Path(folder))[0] for each in (before, after))
                    for _ in range(rounds)
                ]
            firsts, seconds = zip(*pairs, strict=True)
            ratios = [first / second for first, second in pairs]
            print(
                f"{name:18} {median(firsts):7.2f} s {median(seconds):7.2f} s   "
                f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) "
                f"{loop.time(median(seconds))}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.paired")
    parser.add_argument("before", type=Path, help="Checkout that is compared with.")
    parser.add_argument("after", type=Path, help="Checkout that is compared.")
    parser.add_argument("--rounds", type=int, default=3, help="Pairs that are counted.")
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    given = parser.parse_args()
    compare(given.before.resolve(), given.after.resolve(), given.only, given.rounds)


if __name__ == "__main__":
    main()
