"""The tutorial follows the lecture, and every line of it prints what the page shows."""

import re
from typing import Any

import pytest

from tests.documents import TUTORIAL, call_prints, calls, code, command_prints, commands, renewed

BLOCKS = commands(TUTORIAL)


def test_it_follows_the_lecture() -> None:
    heads = re.findall(r"^## \d\. (.*)$", TUTORIAL.read_text("utf-8"), re.M)
    assert heads == [
        "Arithmetic intensity",
        "Roofline",
        "Prefill and decode",
        "KV cache",
        "GQA and MLA",
        "Batching",
        "Speculation",
    ]


def test_every_part_shows_what_the_tool_prints() -> None:
    parts = re.split(r"^## \d\. ", TUTORIAL.read_text("utf-8"), flags=re.M)[1:]
    assert all(">>> " in part or "$ roofline" in part for part in parts)
    assert code(TUTORIAL) == [], "a block of Python that is not a session is not run"


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_a_command_prints_what_the_tutorial_shows(command: str, shown: str) -> None:
    assert command_prints(command).strip() == shown.strip()


def test_its_session_prints_what_the_tutorial_shows() -> None:
    session: dict[str, Any] = {}
    examples = calls(TUTORIAL)
    assert len(examples) > 20
    for example in examples:
        assert call_prints(example.source, session) == example.want, example.source


def test_a_page_is_renewed_in_its_outputs_alone() -> None:
    page = (
        "Text.\n\n```console\n$ roofline --version\nold\n```\n\n"
        "```python\n>>> for n in (1, 2):\n...     n\n0\n>>> n = 3\n```\n\n```python\nn = 4\n```\n"
    )
    shown = command_prints("--version")
    assert renewed(page) == page.replace("old\n", shown).replace("n\n0\n", "n\n1\n2\n")
