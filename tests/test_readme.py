"""The README shows what the commands print."""

import pytest

from tests.documents import README, code, command_prints, commands

BLOCKS = commands(README)


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_an_example_prints_what_the_readme_shows(command: str, shown: str) -> None:
    assert command_prints(command).strip() == shown.strip()


def test_python_examples_run() -> None:
    blocks = code(README)
    assert blocks
    for block in blocks:
        exec(compile(block, str(README), "exec"), {})
