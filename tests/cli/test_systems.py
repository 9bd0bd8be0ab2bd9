"""Every row of the table of systems has a command that anyone can type, and its figure is printed."""

import contextlib
import io
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from roofline.cli import run

TABLE = Path(__file__).resolve().parents[2] / "scenarios" / "SYSTEMS.md"


def rows() -> list[tuple[str, str, str]]:
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[2:]]
    return [(row[0], row[1].strip("`"), row[2]) for row in cells]


@cache
def printed(command: str) -> tuple[int, str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = run(shlex.split(command))
    return code, re.sub(r"\s+", " ", out.getvalue())


def test_no_system_is_in_the_code_only() -> None:
    assert len(rows()) > 75
    assert all(command and figure for _, command, figure in rows())


@pytest.mark.slow
@pytest.mark.parametrize(("system", "command", "figure"), rows(), ids=[row[0] for row in rows()])
def test_the_command_of_a_system_prints_its_figure(
    system: str, command: str, figure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    code, out = printed(command)
    assert code == 0, f"{system}: {out[:300]}"
    assert figure.lower() in out.lower()
