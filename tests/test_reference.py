"""The reference of the Python API: every public name says what it takes, and is on a page."""

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import roofline
from roofline import api, errors, table
from roofline.study.sweep_result import Sweep
from tests.test_docstrings import described

ROOT: Final = Path(__file__).resolve().parent.parent
QUESTIONS: Final = sorted(
    {
        name
        for name in (*roofline.__all__, *api.__all__)
        if inspect.isfunction(getattr(api, name, 0))
    }
)
KINDS: Final = (table.Result, table.Table, table.Column, table.Derivation, Sweep)


def _is_error(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, errors.RooflineError)


def undescribed(function: Callable[..., Any]) -> list[str]:
    """Parameters that a docstring does not name, and names in it that are none."""
    taken = [name for name in inspect.signature(function).parameters if name != "self"]
    told = described(inspect.getdoc(function) or "")
    missing = [f"{name} is not described" for name in taken if not told.get(name, "").strip()]
    return missing + [f"{name} is no parameter" for name in told if name not in taken]


def test_every_name_of_the_front_door_is_a_question() -> None:
    assert set(roofline.__all__) - {"__version__"} <= set(QUESTIONS)


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_says_what_each_parameter_is(name: str) -> None:
    assert undescribed(getattr(api, name)) == []


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_says_what_it_returns_and_raises(name: str) -> None:
    text = inspect.getdoc(getattr(api, name)) or ""
    assert text.split("\n")[0].endswith(".")
    if inspect.signature(getattr(api, name)).return_annotation is table.Result:
        assert "Returns:\n    Result: Table" in text
        assert "Raises:\n" in text


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_answer_says_what_its_fields_and_methods_are(kind: type) -> None:
    text = inspect.getdoc(kind) or ""
    for name in inspect.signature(kind).parameters:
        if name.startswith("_"):
            continue
        said = re.search(rf"(?m)^ +(\w+, )*{name}(, \w+)*:", text)
        assert said or len(text.split("\n")) == 1, name
    for name, member in vars(kind).items():
        if callable(member) and (not name.startswith("_") or name == "_repr_html_"):
            assert inspect.getdoc(member), name


def test_every_error_says_what_it_is() -> None:
    kinds = [each for each in vars(errors).values() if _is_error(each)]
    assert len(kinds) > 5
    assert all((inspect.getdoc(each) or "").split("\n")[0].endswith(".") for each in kinds)


def test_a_parameter_without_a_description_is_noticed() -> None:
    def question(model: str, gpu: str) -> None:
        """Ask.

        Args:
            model: Which.
            price: How much.
        """

    assert undescribed(question) == ["gpu is not described", "price is no parameter"]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Pages by module."""
    pytest.importorskip("pdoc", reason="the reference is written by pdoc: pip install -e '.[dev]'")
    folder = tmp_path_factory.mktemp("reference")
    script = ROOT / ".ci" / "reference.py"
    if not script.exists():
        pytest.skip("the script that writes the reference is in a checkout only")
    subprocess.run([sys.executable, str(script), str(folder)], check=True, cwd=ROOT)
    return {
        path.relative_to(folder).with_suffix("").as_posix().replace("/", "."): path.read_text()
        for path in folder.rglob("*.html")
    }


@pytest.mark.slow
def test_every_public_name_is_on_a_page_with_its_parameters(pages: dict[str, str]) -> None:
    for name in set(roofline.__all__) - {"__version__"}:
        assert f'id="{name}"' in pages["roofline"]
        entry = pages["roofline"].split(f'<section id="{name}">')[1].split("</section>")[0]
        told = re.findall(r"<li><strong>([\w, ]+):</strong>", entry)
        assert set(inspect.signature(getattr(api, name)).parameters) <= {
            each.strip() for group in told for each in group.split(",")
        }, name


@pytest.mark.slow
def test_pages_have_no_section_left_as_text(pages: dict[str, str]) -> None:
    assert len(pages) > 10
    for name, page in pages.items():
        text = re.sub(r"(?s)<style.*?</style>|<script.*?</script>", "", page)
        assert not re.search(
            r"\b(Args|Raises|Returns):\s*\n", re.sub(r"(?s)<h6.*?</h6>", "", text)
        ), name


@pytest.mark.slow
def test_the_first_page_leads_to_the_others(pages: dict[str, str]) -> None:
    for module in ("table", "errors", "units", "hardware/catalog", "model/catalog"):
        assert f'href="roofline/{module}.html"' in pages["roofline"], module
