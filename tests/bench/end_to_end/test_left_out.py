"""Errors on networks left out are told once, and quoted as they are told."""

from pathlib import Path

import pandas as pd
import pytest

from roofline.bench.end_to_end.cases import read
from roofline.bench.end_to_end.held_out import HeldOut
from roofline.bench.end_to_end.left_out import CHOICES, table
from roofline.bench.end_to_end.predicting import prepared
from roofline.content import shipped
from tests.bench.end_to_end.test_cases import GOOD

ROOT = Path(__file__).parents[3]


def lines() -> list[str]:
    text = (shipped("hwspecs") / "left-out.md").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.startswith("| ")][1:]


def test_a_table_counts_rows_of_each_choice_and_errors_over_what_was_measured() -> None:
    """TPOT 10 % too long within its interval, and 20 % too short outside; nothing else measured."""
    each = [GOOD | {"gpu": gpu} for gpu in ("h100_sxm", "b200_sxm")]
    rows, _ = prepared(read(pd.DataFrame([*each, GOOD | {"mode": "static_batch"}]))[0])
    scored = HeldOut(
        [{"tpot_s": factor * 0.01} for factor in (1.1, 0.8, 9.0)], [{"tpot_s": 0.1}] * 3
    )
    assert table(rows, scored)[2:] == [
        "| all GPUs | 2 | 15.0 / 15.0 / 19.0 | 50 % |  |  |  |  |",
        "| H100 and H200 | 1 | 10.0 / 10.0 / 10.0 | 100 % |  |  |  |  |",
        "| of these, vLLM | 1 | 10.0 / 10.0 / 10.0 | 100 % |  |  |  |  |",
        "| B200 | 1 | 20.0 / 20.0 / 20.0 | 0 % |  |  |  |  |",
    ]


def test_the_guide_has_the_table_as_it_was_written() -> None:
    guide = (ROOT / "scenarios" / "guide" / "accuracy.md").read_text(encoding="utf-8")
    told = lines()
    assert [line.split(" | ")[0] for line in told] == [f"| {title}" for title in CHOICES]
    for line in told:
        assert line in guide


@pytest.mark.parametrize(("metric", "column"), [("TPOT of serving", 2), ("TTFT of the same", 4)])
def test_the_readme_has_its_first_line(metric: str, column: int) -> None:
    cells = [cell.strip() for cell in lines()[0].strip("|").split("|")]
    median, _, p90 = cells[column].split(" / ")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (row,) = (line for line in readme.splitlines() if line.startswith(f"| {metric}"))
    assert row.endswith(f"| {cells[1]} | {median} | {p90} | {cells[column + 1]} |")
