"""Sources: those used are listed, those listed are used; quantities are located."""

import pytest

from roofline.errors import DocumentError, QuantityError
from roofline.schema import Document, check_sources, parse_yaml, quantity

GOOD = """\
sources:
  sheet: {title: A data sheet}
hbm: {value: 3 TB/s, source: sheet}
rates:
  - {value: 1, source: assumed, note: a guess}
"""


def test_a_document_whose_sources_agree_passes() -> None:
    check_sources(parse_yaml(GOOD, "f"))


def test_a_document_without_figures_needs_no_sources() -> None:
    check_sources(parse_yaml("a: 1", "f"))
    check_sources(parse_yaml("[1]", "f"))


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        (("source: sheet", "source: sheat"), "3:30", "'sheat' is not listed"),
        ((", note: a guess", ""), "5:24", "assumed, without a reason"),
        (("note: a guess", "note: ''"), "5:24", "assumed, without a reason"),
        (("rates", "  other: {title: B}\nrates"), "", ""),
        (("  sheet:", "  other: {title: B}\n  sheet:"), "2:3", "'other' is listed but nothing"),
        (("sources:\n  sheet: {title: A data sheet}\n", ""), "1:30", "'sheet' is not listed"),
    ],
)
def test_a_source_that_does_not_agree_is_located(
    change: tuple[str, str], place: str, words: str
) -> None:
    text = GOOD.replace(*change)
    assert text != GOOD
    with pytest.raises(DocumentError) as caught:
        check_sources(parse_yaml(text, "f"))
    if place:
        assert caught.value.where == f"f:{place}"
    assert words in caught.value.message


def test_the_first_figure_in_the_document_is_told() -> None:
    text = "a: [{source: x}, {source: y}]\nb: {c: {source: z}}\nsources: {w: {title: t}}"
    with pytest.raises(DocumentError, match="f:1:14: the source 'x' is not listed"):
        check_sources(parse_yaml(text, "f"))


def test_a_quantity_is_read_in_base_units() -> None:
    document = parse_yaml("a: [{value: 3.35 TB/s}, {value: 132}, {value: 1e9}]", "f")
    assert quantity(document, "B/s", "a", 0, "value") == 3.35e12
    assert quantity(document, "", "a", 1, "value") == 132.0
    assert quantity(document, "", "a", 2, "value") == 1e9


@pytest.mark.parametrize("written", ["3 TB", "3.35", "fast", "[1]", "true", "null", "{b: 1}"])
def test_a_quantity_that_is_none_is_located(written: str) -> None:
    with pytest.raises(QuantityError) as caught:
        quantity(parse_yaml(f"\na: {written}", "f"), "B/s", "a")
    assert caught.value.where == "f:2:4" if written != "{b: 1}" else "f:2:5"


def test_a_quantity_of_a_document_made_in_memory() -> None:
    assert quantity(Document({"a": "80 GiB"}, "made"), "B", "a") == 80 * 2**30
