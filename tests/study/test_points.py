"""Rows of a sweep as a result: what is said of limits, of counts and of what is kept."""

import json
from typing import Any

import pyarrow as pa
import pytest

from roofline.study.points import result_of

ABOUT: dict[str, Any] = {
    "of": "batch",
    "title": "Which?",
    "keep": "pareto",
    "objectives": ["min usd_per_mtok"],
    "constraints": {"user_tok_s": ">= 20.0", "tpot_s_high": "<= 0.06"},
    "units": {"user_tok_s": "token/s", "tpot_s_high": "s", "usd_per_mtok": "$"},
    "configurations": 48,
    "counts": {"feasible": 0, "user_tok_s": 47, "tpot_s_high unknown": 1},
}


def summary(rows: int, **changes: Any) -> str:
    table = pa.table({"index": [*range(rows)], "feasible": [True] * rows})
    about = json.dumps({**ABOUT, **changes}).encode()
    found = result_of(table.replace_schema_metadata({b"roofline": about}))
    return " ".join(found.metadata["summary"])


def test_limits_have_the_units_of_their_columns() -> None:
    assert "speed for one user at least 20.0 token/s; TPOT, upper end at most 60.0 ms" in summary(1)


def test_nothing_feasible_is_told_by_what_is_missed() -> None:
    said = summary(0)
    assert "48 configurations, 0 of them feasible." in said
    assert "47 have speed for one user below 20.0 token/s" in said
    assert "1 has no known TPOT, upper end" in said
    assert "kept" not in said


@pytest.mark.parametrize(("rows", "words"), [(1, "1 row is kept"), (2, "2 rows are kept")])
def test_rows_are_counted_in_grammar(rows: int, words: str) -> None:
    assert words in summary(rows, counts={"feasible": rows})
