"""The README and the guide show what commands and calls print."""

import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.documents import GUIDE, README, ROOT, call_prints, calls, code, command_prints, commands

PAGES: Final = [README, *GUIDE]
BLOCKS: Final = [(page, *block) for page in PAGES for block in commands(page)]
LINK: Final = re.compile(r"\]\(([^)#:]+)(?:#([^)]+))?\)")


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 10
    assert calls(README)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "command", "shown"), BLOCKS, ids=[f"{p.stem}: {c}" for p, c, _ in BLOCKS]
)
def test_a_command_prints_what_the_page_shows(
    page: Path, command: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFLINE_HOME", str(tmp_path))  # what is learnt is kept there
    assert command_prints(command).strip() == shown.strip()


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=() if page == README else pytest.mark.slow)
        for page in PAGES
    ],
)
def test_python_examples_run(page: Path) -> None:
    session: dict[str, Any] = {}
    for example in calls(page):
        assert call_prints(example.source, session) == example.want, example.source
    for block in code(page):
        exec(compile(block, str(page), "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text("utf-8")):
        found = (page.parent / target).resolve()
        assert found.exists(), f"{page.relative_to(ROOT)}: {target}"
        if anchor:
            heads = re.findall(r"^#+ (.*)$", found.read_text("utf-8"), re.M)
            assert anchor in [re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in heads]


def test_the_guide_lists_its_pages() -> None:
    listed = {target for target, _ in LINK.findall((GUIDE[0].parent / "README.md").read_text())}
    assert {page.name for page in GUIDE} - {"README.md"} <= listed
