"""A command as it is typed, and what came of it."""

import shlex

import pytest

from roofline.cli import run
from tests.cli.planned import Command, Ran


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Command:
    """A line of the command-line interface, without the program's name."""

    def command(line: str) -> Ran:
        code = run(shlex.split(line))
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return command
