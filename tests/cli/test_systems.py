"""Each row of the table of systems has a command that anyone can type, which prints its figure."""

import contextlib
import io
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from roofline.cli import run
from tests.cases import cases

RECORDING = """\
{"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 40, "output_length": 9, \
"type": "text", "turn": 1, "hash_ids": [7, 8, 9]}
{"chat_id": 2, "parent_chat_id": 1, "timestamp": 63.614, "input_length": 64, "output_length": 3, \
"type": "text", "turn": 2, "hash_ids": [7, 8, 10, 11]}
{"chat_id": 3, "parent_chat_id": -1, "timestamp": 71.114, "input_length": 40, "output_length": 9, \
"type": "text", "turn": 1, "hash_ids": [12, 13, 14]}
"""
"""Three requests as Bailian's traces have them, under the name that the table gives them."""
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


SOME = rows()[:: cases(2, 1)]
"""Every second system, or all of them."""


@pytest.mark.slow
@pytest.mark.parametrize(("system", "command", "figure"), SOME, ids=[row[0] for row in SOME])
def test_the_command_of_a_system_prints_its_figure(
    system: str, command: str, figure: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "recording.jsonl").write_text(RECORDING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    code, out = printed(command)
    assert code == 0, f"{system}: {out[:300]}"
    assert figure.lower() in out.lower()
