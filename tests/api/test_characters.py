"""Throughput and price of text, whatever its tokens are."""

from typing import Any

import pytest

import roofline
from roofline.errors import InputError


def test_characters_a_second_are_tokens_times_characters_of_each() -> None:
    """Half as many characters a token: half as fast in text, and twice as dear."""
    asked: dict[str, Any] = {"batch": 4, "prompt": 64, "output": 16, "calibration": "none"}
    tables = [
        roofline.analyze("llama-3.1-8b", characters_per_token=each, **asked).tables["headline"]
        for each in (4.0, 2.0)
    ]
    long, short = ({row["metric"]: row["value"] for row in table.rows()} for table in tables)
    assert long["throughput_char_s"] == 4.0 * long["throughput_tok_s"]
    assert long["throughput_char_s"] == 2.0 * short["throughput_char_s"]
    assert short["usd_per_mchar"] == 2.0 * long["usd_per_mchar"] == long["usd_per_mtok"] / 2.0


def test_nothing_is_said_of_characters_where_nobody_asks() -> None:
    table = roofline.analyze("llama-3.1-8b", batch=1, prompt=64, output=2).tables["headline"]
    assert not any("char" in row["metric"] for row in table.rows())


def test_what_is_no_number_of_characters_is_refused() -> None:
    with pytest.raises(InputError, match="characters of a token"):
        roofline.analyze("llama-3.1-8b", characters_per_token=-1.0)
