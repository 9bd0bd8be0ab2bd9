"""The numeric tests would notice a mistake: each planted one is."""

import json
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cases import cases
from tests.microbench.planted import BUGS, Bug

ROOT = Path(__file__).resolve().parents[2]
SOME = {bug.source: name for name, bug in BUGS.items()}
"""A bug of each source."""
NAMES = cases(tuple(SOME.values()), tuple(BUGS))


def outcome(bug: Bug, folder: Path) -> str:
    """Verdict of the cases on a source with the bug; a process that dies says so too."""
    edits = json.dumps({bug.source: (bug.written, bug.planted)})
    command = [sys.executable, "-m", "tests.microbench.check", str(folder), edits]
    done = subprocess.run(
        [*command, json.dumps(bug.cases)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode > 0:
        raise RuntimeError(done.stderr)
    return done.stdout if done.returncode == 0 else f"ended by signal {-done.returncode}"


@pytest.fixture(scope="module")
def outcomes(libraries: Path) -> dict[str, Future[str]]:
    """Bugs, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        return {name: pool.submit(outcome, BUGS[name], libraries) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_bug_is_noticed(name: str, outcomes: dict[str, Future[str]]) -> None:
    assert outcomes[name].result() != ""
