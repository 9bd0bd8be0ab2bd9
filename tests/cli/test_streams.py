"""Standard streams that are closed, full, left by their reader, or not Unicode."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from roofline.errors import EXIT_CODES, RooflineError
from tests.cases import cases

pytestmark = pytest.mark.skipif(os.name != "posix", reason="redirections of a shell")
ANSWER = "analyze llama-3.1-8b"
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")


def ran(line: str, **settings: str) -> "subprocess.CompletedProcess[bytes]":
    """A line of a shell in which `roofline` is this one."""
    path = os.pathsep.join(sys.path)
    return subprocess.run(
        ["bash", "-c", f'roofline() {{ "{sys.executable}" -m roofline "$@"; }}; {line}'],
        env=os.environ | {"PYTHONPATH": path} | settings,
        capture_output=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("command", [ANSWER, "gpus", "--help", f"{ANSWER} --format json"])
@pytest.mark.parametrize("where", [pytest.param("/dev/full", marks=FULL), "&-"])
def test_output_that_cannot_be_written_is_one_error(command: str, where: str) -> None:
    done = ran(f"roofline {command} >{where}")
    error, hint = done.stderr.decode().splitlines()
    assert done.returncode == 5
    assert error.startswith("error: standard output cannot be written: ")
    assert hint.startswith("hint: ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("analyze llama-3.1-405b --gpu l4", 1),
        ("simulate llama-3.1-8b --rate 5 --prompt 400 --output 20 --requests 20", 0),
        *cases((), ((ANSWER, 0), ("analyze nope", 2))),
    ],
)
@pytest.mark.parametrize("where", [pytest.param("/dev/full", marks=FULL), "&-"])
def test_notes_that_nobody_reads_change_no_answer(line: str, code: int, where: str) -> None:
    done = ran(f"roofline {line} 2>{where}")
    assert done.returncode == code
    assert bool(done.stdout) == (code < 2)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["analyze -", "sweep -", "parse-command -"])
def test_standard_input_that_is_closed_is_empty(command: str) -> None:
    done = ran(f"roofline {command} <&-")
    assert done.returncode == 2
    assert len(done.stderr.decode().splitlines()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("command", [ANSWER, "analyze llama-3.1-405b --gpu l4", "gpus"])
def test_a_reader_that_left_is_no_answer(command: str) -> None:
    done = ran(f"roofline {command} | true; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", *cases((), ("cp1252", "utf-8"))])
def test_every_encoding_has_the_same_answer(encoding: str) -> None:
    done = ran(f"roofline {ANSWER}", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode(encoding)
    assert "NVIDIA H100 SXM5 80GB" in text
    assert "?" not in text
    plain = ran(f"roofline {ANSWER} --format json", PYTHONIOENCODING=encoding)
    unicode = ran(f"roofline {ANSWER} --format json", PYTHONIOENCODING="utf-8")
    assert json.loads(plain.stdout.decode(encoding)) == json.loads(unicode.stdout)


def test_a_bug_has_an_exit_code_of_its_own_and_leaves_its_traceback(tmp_path: Path) -> None:
    code = (
        "import sys, roofline.cli as cli, roofline.hardware.catalog as catalog\n"
        "catalog._stems = lambda shelf: 1 / 0\n"
        "sys.argv = ['roofline', 'gpus']; cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 70
    error, hint = done.stderr.decode().splitlines()
    assert error == "error: this is a bug in roofline: ZeroDivisionError: division by zero"
    assert hint.endswith("report it with the command, roofline gpus")
    (trace,) = tmp_path.iterdir()
    assert str(trace) in hint
    assert trace.read_text("utf-8").endswith("ZeroDivisionError: division by zero\n")


def test_help_says_what_every_exit_code_means() -> None:
    text = " ".join(ran("roofline --help").stdout.decode().split())
    for code, meaning in EXIT_CODES.items():
        assert f"{code} {meaning}" in text
    kinds = [RooflineError]
    while kinds:
        kind = kinds.pop()
        assert kind.exit_code in EXIT_CODES
        kinds += kind.__subclasses__()


def test_an_error_shows_what_cannot_be_seen_as_escapes() -> None:
    error = RooflineError("a\x1b[31mb\tc", hint="\u202ed", where="e\n:1")
    assert error.told == "e\\n:1: a\\x1b[31mb\\tc"
    assert error.hint == "\\u202ed"
