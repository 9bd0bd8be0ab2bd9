import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.report.figures import linear_ticks, log_ticks
from roofline.table import Derivation
from roofline.view.text import amount, clean, label, percent, plain, to_json

ANY_TEXT = st.text(st.characters(), max_size=60)


@pytest.mark.slow
@given(ANY_TEXT)
def test_text_for_a_figure_has_no_markup(text: str) -> None:
    assert not set("<>\n\t") & set(label(text, 100))
    assert (
        len(label(text, 10).replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")) <= 10
    )


@given(ANY_TEXT)
def test_cleaned_text_can_be_written_and_reads_left_to_right(text: str) -> None:
    assert clean(text).encode("utf-8").decode("utf-8") == clean(text)
    assert not set("\u202e\u200b\ufeff\x00") & set(clean(text))


@given(ANY_TEXT)
def test_embedded_json_keeps_its_text_and_cannot_end_its_element(text: str) -> None:
    written = to_json({"name": text})
    assert json.loads(written) == {"name": text}
    assert not set("<>&\u2028\u2029") & set(written)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_null_or_a_dash(value: float) -> None:
    assert to_json({"x": [value]}) == '{"x":[null]}'
    assert amount(value, "s").number == "–"


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.5373, "s", "537\xa0ms"),
        (2007.18, "token/s", "2,007\xa0token/s"),
        (0.34598, "$", "$0.346"),
        (12.5, "$", "$12.50"),
        (1234567.0, "B", "1.23\xa0MB"),
        (295.34, "FLOP/B", "295\xa0FLOP/B"),
        (True, "", "True"),
        ("<b>", "", "<b>"),
        (None, "s", "–"),
    ],
)
def test_amounts_are_in_the_words_of_their_field(value: object, unit: str, shown: str) -> None:
    assert str(amount(value, unit)) == shown


def test_percentages_keep_two_digits_where_they_matter() -> None:
    assert [percent(share) for share in (0, 0.0004, 0.034, 0.0996, 1)] == [
        "0\xa0%", "<\xa00.1\xa0%", "3.4\xa0%", "10\xa0%", "100\xa0%",
    ]  # fmt: skip


@given(st.floats(min_value=1e-9, max_value=1e15), st.floats(min_value=1.5, max_value=1e6))
def test_ticks_lie_inside_the_axis(low: float, ratio: float) -> None:
    ticks = log_ticks(low, low * ratio, "s")
    assert all(low <= value <= low * ratio for value in ticks["tickvals"])
    ticks = linear_ticks(low, "s")
    assert 2 <= len(ticks["tickvals"]) <= 6
    assert len(set(ticks["ticktext"])) == len(ticks["ticktext"])


def test_large_numbers_are_grouped() -> None:
    assert plain(27875) == "27,875"
    assert plain(Derivation("x", 0.5, "").value) == "0.5"
