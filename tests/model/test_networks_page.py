"""The page of the families of networks is what the counts say, and nothing on it is wrong."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_as_counted() -> None:
    command = [sys.executable, str(ROOT / ".ci" / "networks.py"), "--check"]
    assert subprocess.run(command, check=False, timeout=120).returncode == 0


def test_sixty_families_and_more_are_right_and_none_is_wrong() -> None:
    rows = [
        line
        for line in (ROOT / "scenarios/guide/networks.md").read_text("utf-8").splitlines()
        if line.startswith("| `")
    ]
    assert sum(" right" in row for row in rows) > 120
    assert not [row for row in rows if " wrong" in row or " refused" in row]
