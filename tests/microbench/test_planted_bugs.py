"""The numeric tests would notice a mistake: each planted one is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import cases
from tests.microbench.planted import BUGS

ROOT = Path(__file__).resolve().parents[2]
SOME = {bug.source: name for name, bug in BUGS.items()}
"""A bug of each source."""
NAMES = cases(tuple(SOME.values()), tuple(BUGS))


@pytest.fixture(scope="module")
def outcomes(libraries: Path) -> dict[str, str]:
    """Verdicts of the cases on sources with the bugs."""
    chosen = [BUGS[name] for name in NAMES]
    bugs = [(bug.source, bug.written, bug.planted, bug.cases) for bug in chosen]
    command = [sys.executable, "-m", "tests.microbench.check", str(libraries), json.dumps(bugs)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(NAMES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_bug_is_noticed(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes[name] != ""
