"""Tables and figures taken from a page in Chromium: sorted, copied, saved."""

import csv
import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.report import write
from roofline.table import Result, table
from tests.report.test_browser import Visit

pytestmark = pytest.mark.browser

ROWS: list[dict[str, Any]] = [
    # Written 2.00 s, 900 ms, 15.0 ms, and nothing; 1,200, 90, 8.
    {"layout": "tp16", "ttft_s": 2.0, "ttft_s_low": 1.5, "ttft_s_high": 2.5, "gpus": 1200},
    {"layout": "tp2", "ttft_s": 0.9, "ttft_s_low": 0.8, "ttft_s_high": 1.2, "gpus": 90},
    {"layout": "=tp4", "ttft_s": 0.015, "ttft_s_low": 0.01, "ttft_s_high": 0.02, "gpus": 8},
    {"layout": "tp8", "ttft_s": None, "ttft_s_low": None, "ttft_s_high": None, "gpus": 10},
]
UNITS = {"ttft_s": "s", "ttft_s_low": "s", "ttft_s_high": "s"}


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Any:
    path = tmp_path / "report.html"
    write(Result("other", {"trials": table(ROWS, UNITS)}), path)
    opened = Visit(browser, path, viewport={"width": 1280, "height": 800})
    yield opened
    opened.is_quiet()
    opened.context.close()


def _saved(visit: Visit, act: Callable[[], None]) -> tuple[str, bytes]:
    with visit.page.expect_download() as waited:
        act()
    return waited.value.suggested_filename, Path(waited.value.path()).read_bytes()


def _rows(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))


def _names(visit: Visit) -> list[str]:
    return [str(text) for text in visit.page.locator("#trials-table tbody th").all_inner_texts()]


def test_a_table_is_saved_as_numbers_in_units_without_prefixes(visit: Visit) -> None:
    name, content = _saved(visit, visit.page.get_by_role("button", name="Save as CSV").click)
    assert name == "trials-table.csv"
    assert _rows(content) == [
        ["Layout", "TTFT [s]", "80 % low [s]", "80 % high [s]", "GPUs"],
        ["tp16", "2", "1.5", "2.5", "1200"],
        ["tp2", "0.9", "0.8", "1.2", "90"],
        ["'=tp4", "0.015", "0.01", "0.02", "8"],  # no formula
        ["tp8", "", "", "", "10"],
    ]


@pytest.mark.parametrize(
    ("head", "up", "down"),
    [
        # By size, not by digits: 15.0 ms, 900 ms, 2.00 s; what is not known stays last.
        ("TTFT", ["=tp4", "tp2", "tp16", "tp8"], ["tp16", "tp2", "=tp4", "tp8"]),
        ("GPUs", ["=tp4", "tp8", "tp2", "tp16"], ["tp16", "tp2", "tp8", "=tp4"]),
        ("Layout", ["=tp4", "tp2", "tp8", "tp16"], ["tp16", "tp8", "tp2", "=tp4"]),
    ],
)
def test_a_head_sorts_up_then_down_then_as_it_was(
    visit: Visit, head: str, up: list[str], down: list[str]
) -> None:
    first = _names(visit)
    button = visit.page.get_by_role("button", name=head, exact=True)
    for order, said in ((up, "ascending"), (down, "descending"), (first, None)):
        button.focus()
        visit.page.keyboard.press("Enter")
        assert _names(visit) == order
        cell = visit.page.locator("thead th", has=button)
        assert cell.get_attribute("aria-sort") == said


def test_a_copied_table_is_what_is_seen_in_the_order_that_is_seen(visit: Visit) -> None:
    visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit.page.locator("thead").get_by_role("button", name="GPUs").click()
    visit.page.get_by_role("button", name="Copy the table").click()
    visit.page.get_by_text("Copy ✓").wait_for()
    copied = visit.page.evaluate("navigator.clipboard.readText()")
    lines = [line.split("\t") for line in copied.splitlines()]
    assert lines[0] == ["Layout", "TTFT", "80 %", "GPUs"]
    assert lines[1] == ["'=tp4", "15.0 ms", "10.0 – 20.0 ms", "8"]  # no formula when pasted
    assert [line[0].lstrip("'") for line in lines[1:]] == _names(visit)


def test_every_head_of_a_saved_table_is_there_once(browser: Any, tmp_path: Path) -> None:
    rows = [
        {
            "layout": layout,
            "ttft_s": 2.0,
            "ttft_s_low": 1.5,
            "ttft_s_high": 2.5,
            "tpot_s": 0.02,
            "tpot_s_low": 0.01,
            "tpot_s_high": 0.03,
        }
        for layout in ("tp1", "tp2")
    ]
    path = tmp_path / "report.html"
    write(Result("other", {"trials": table(rows, UNITS | {"tpot_s": "s"})}), path)
    visit = Visit(browser, path, viewport={"width": 1280, "height": 800})
    _, content = _saved(visit, visit.page.get_by_role("button", name="Save as CSV").click)
    heads, *saved = _rows(content)
    assert heads == [
        *("Layout", "TTFT [s]", "TTFT 80 % low [s]", "TTFT 80 % high [s]"),
        *("TPOT [s]", "TPOT 80 % low [s]", "TPOT 80 % high [s]"),
    ]
    assert saved[0] == ["tp1", "2", "1.5", "2.5", "0.02", "0.01", "0.03"]
    visit.is_quiet()
    visit.context.close()


def test_bounds_keep_their_sign_and_first_columns_their_unit(browser: Any, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"from_s": 0.5, "served_chance": 0.9999, "layout": "-1+1"},
        {"from_s": 1.0, "served_chance": 0.99, "layout": "-2 %"},
        {"from_s": 0.0, "served_chance": 0.0, "layout": "tp8"},
    ]
    path = tmp_path / "report.html"
    write(Result("other", {"trials": table(rows, {"from_s": "s"})}), path)
    visit = Visit(browser, path, viewport={"width": 1280, "height": 800})
    assert [name.split() for name in _names(visit)] == [["500", "ms"], ["1.00", "s"], ["0", "s"]]
    _, content = _saved(visit, visit.page.get_by_role("button", name="Save as CSV").click)
    heads, *saved = _rows(content)
    assert heads[0].endswith("[s]")
    assert saved == [
        ["0.5", "> 99 %", "'-1+1"],
        ["1", "99", "-2 %"],
        ["0", "< 1 %", "tp8"],
    ]
    visit.page.locator("thead button").nth(1).click()
    assert [name.split() for name in _names(visit)] == [["0", "s"], ["1.00", "s"], ["500", "ms"]]
    visit.is_quiet()
    visit.context.close()


def test_heads_are_on_paper_and_buttons_are_not(visit: Visit) -> None:
    visit.page.emulate_media(media="print")
    assert visit.page.locator("thead").get_by_text("TTFT").is_visible()
    assert not visit.page.locator(".tools").first.is_visible()


def test_a_figure_is_saved_with_title_legend_and_points(
    browser: Any, tmp_path: Path, result: Result
) -> None:
    path = tmp_path / "report.html"
    write(result, path)
    visit = Visit(browser, path, viewport={"width": 1280, "height": 800}, color_scheme="dark")
    name, picture = _saved(
        visit, visit.page.get_by_label("Save as a picture: Roofline of one device").click
    )
    assert (name, picture[:8]) == ("roofline-chart.png", b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", picture[16:24])
    drawn = visit.page.locator("#roofline-chart").bounding_box()
    assert width == round(2 * drawn["width"])
    assert height > 2 * drawn["height"]  # title and legend above it
    visit.is_quiet()
    visit.context.close()


APART = """
() => {
  const plot = document.getElementById("pools");
  const frame = plot.querySelector(".main-svg").getBoundingClientRect();
  const boxes = (names) => [...plot.querySelectorAll(names)].map((e) => e.getBoundingClientRect());
  const [texts, squares] = [boxes(".annotation-text-g"), boxes(".points path")];
  const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  return [
    texts.length,
    texts.filter((a, i) => texts.some((b, j) => i < j && over(a, b))).length,
    texts.filter((a) => squares.some((b) => over(a, b))).length,
    texts.filter((a) => a.left < frame.left - 1 || a.right > frame.right + 1).length,
  ];
}
"""


@pytest.mark.parametrize("width", [390, 1440])
def test_words_of_pools_keep_off_each_other_and_off_gpus(
    browser: Any, tmp_path: Path, width: int
) -> None:
    path = tmp_path / "report.html"
    asked: dict[str, Any] = {"prefill": "dp8-ep8", "decode": "dp16-ep16", "gpus": 96}
    write(roofline.disaggregate("deepseek-v3", "h200-sxm", **asked, calibration="none"), path)
    visit = Visit(browser, path, viewport={"width": width, "height": 844})
    assert visit.page.evaluate(APART) == [4, 0, 0, 0]
    assert visit.overflow() <= 0
    visit.is_quiet()
    visit.context.close()


def test_points_of_a_figure_are_those_of_the_result(
    browser: Any, tmp_path: Path, predicted: Result
) -> None:
    path = tmp_path / "report.html"
    write(predicted, path)
    visit = Visit(browser, path)
    button = visit.page.locator("figure", has=visit.page.locator("#batch-curve"))
    name, content = _saved(visit, button.get_by_text("Data").click)
    rows = _rows(content)
    at = {head: place for place, head in enumerate(rows[0])}
    curve = predicted.tables["batch_curve"]
    saved = [(row[at["x"]], row[at["y"]]) for row in rows if row[at["series"]] == "TTFT"]
    asked = zip(curve["batch"], curve["ttft_s"], strict=True)
    assert [(float(x), float(y)) for x, y in saved] == [tuple(map(float, pair)) for pair in asked]
    assert name == "batch-curve.csv"
    visit.context.close()
