"""Columns, units and values as a reader sees them."""

import pytest

from roofline.table import Column, Table, table
from roofline.view.block import PageTable
from roofline.view.grids import grid
from roofline.view.words import heading, mid, spoken, sure, unit_of, written

NO_BREAK = "\N{NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ttft_p99", "TTFT p99"),
        ("tpot_without_s", "TPOT without"),
        ("kv_bytes_left", "KV bytes left"),
        ("ttft_low_s", "TTFT, from"),
        ("usd_per_mtok_high", "Cost per Mtok, to"),
        ("wire_share", "Wire share"),
        ("low", "Low"),
        ("offered_requests_per_s", "Load"),
        ("output_throughput", "Output throughput"),
    ],
)
def test_names_are_written_as_the_field_does(name: str, said: str) -> None:
    assert heading(name) == said


@pytest.mark.parametrize(
    ("name", "value", "unit", "said"),
    [
        ("wire_share", 0.2078, "", "21 %"),
        ("unused_share", 1.4e-17, "", "0 %"),
        ("probability", 1.0, "", "> 99 %"),
        ("error", -0.0545, "", "−5.5 %"),
        ("error", 0.1, "", "+10 %"),
        ("median", 0.1, "", "10 %"),
        ("parameters", 13015864320.0, "parameter", "13.0 G"),
        ("slots", 9216.0, "token", "9,216 tokens"),
        ("slots", 1.0, "token", "1 token"),
        ("capacity_per_s", 14.35, "", "14.3 requests/s"),
        ("met", True, "", "yes"),
    ],
)
def test_values_have_the_unit_that_people_expect(
    name: str, value: float, unit: str, said: str
) -> None:
    assert str(written(name, value, unit)).replace(NO_BREAK, " ") == said


def test_no_probability_is_called_certain() -> None:
    assert [sure(chance).replace(NO_BREAK, " ") for chance in (1.0, 0.995, 0.98, 0.0)] == [
        *("> 99 %", "> 99 %", "98 %", "< 1 %")
    ]


def test_sentences_name_statistics_as_tables_do() -> None:
    assert spoken("before tpot_p99 breaks") == "before TPOT p99 breaks"
    assert spoken("a tpot_p99x of its own") == "a tpot_p99x of its own"
    assert spoken("ttft, headroom", "best_in") == "TTFT, Headroom"
    assert mid("Throughput per GPU") == "throughput per GPU"
    assert unit_of("rate_per_s") == "requests/s"


def told(shown: PageTable) -> list[list[str]]:
    return [[f"{cell.text} {cell.unit}".strip() for cell in row] for row in shown.rows]


def test_ends_of_an_interval_share_a_column() -> None:
    columns = {
        "step_s": Column((0.01, 2.0), "s"),
        "step_low_s": Column((0.009, 0.8), "s"),
        "step_high_s": Column((0.011, 4.0), "s"),
    }
    shown = grid("t", "T", Table(columns))
    assert [head.text for head in shown.heads] == ["A step", f"80{NO_BREAK}%"]
    assert told(shown)[0] == ["10.0 ms", "9.00 – 11.0 ms"]
    assert told(shown)[1] == ["2.00 s", f"800{NO_BREAK}ms – 4.00 s"]


def test_ends_that_are_all_the_same_have_no_column() -> None:
    rows = [{"share": 0.5, "share_low": 0.5, "share_high": 0.5}]
    assert [head.text for head in grid("t", "T", table(rows, {})).heads] == ["Share"]


def test_inputs_that_are_lower_or_higher_in_words_are_no_interval() -> None:
    rows = [{"what": "traffic", "low": "−20 %", "high": "+20 %"}]
    shown = grid("t", "T", table(rows, {}))
    assert [head.text for head in shown.heads] == ["What", "Low", "High"]


def test_a_unit_of_the_row_is_that_of_its_values() -> None:
    rows = [
        {"metric": "makespan_s", "value": 213.0, "unit": "s", "low": 202.0, "high": 226.0},
        {"metric": "given", "value": 8e11, "unit": "B/s", "low": None, "high": None},
        {"metric": "utilisation", "value": 0.0237, "unit": "", "low": None, "high": None},
    ]
    shown = grid("t", "T", table(rows, {}))
    assert [head.text for head in shown.heads] == ["Metric", "Value", f"80{NO_BREAK}%"]
    lines = told(shown)
    assert lines[0] == ["Makespan", "213 s", "202 – 226 s"]
    assert lines[1][1] == "800 GB/s"
    assert lines[2][1].replace(NO_BREAK, " ") == "2.4 %"
