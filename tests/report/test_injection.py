from itertools import count

import pytest

from roofline.records import replace
from roofline.report import render
from roofline.table import Result
from tests.report.hostile import harmless, in_turn, poisoned
from tests.report.pages import Page, taken_apart


def _shape(page: Page) -> list[tuple[str, list[str], tuple[str, ...]]]:
    return [(entry.tag, sorted(entry.attributes), entry.around) for entry in page.elements]


@pytest.mark.slow
@pytest.mark.parametrize("texts", in_turn(6), ids=count())
def test_a_hostile_text_adds_no_element_and_no_attribute(either: Result, texts: list[str]) -> None:
    plain = taken_apart(render(poisoned(either, harmless(texts))))
    hostile = taken_apart(render(poisoned(either, texts)))
    assert _shape(hostile) == _shape(plain)


@pytest.mark.parametrize("text", ["{{ 7*7 }}", "${7*7}", "{% raw %}"])
def test_a_template_in_a_name_is_text(result: Result, text: str) -> None:
    page = taken_apart(render(poisoned(result, [text])))
    assert page.all("h1")[0].text.startswith(text)


def test_a_hostile_name_survives_as_text(result: Result) -> None:
    name = "</script><script>alert(1)</script>"
    hostile = replace(result, metadata={**result.metadata, "model": name})
    page = taken_apart(render(hostile))
    assert page.all("h1")[0].text == f"{name} on 2 × Tiny GPU"
