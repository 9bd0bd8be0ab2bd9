"""The page of a scoreboard: its facts, its figures, its links; in a browser where there is one."""

from pathlib import Path
from typing import Any

import pytest

from roofline.report import write
from roofline.report.page import render
from roofline.report.scored import scored_figures
from roofline.report.sections import blocks, error_groups, parity, scoreboard_published, tables
from roofline.table import Result, table
from roofline.view.questions import view_of
from tests.cases import cases
from tests.report.hostile import HOSTILE
from tests.report.pages import taken_apart
from tests.report.test_browser import Visit

NO_BREAK = "\N{NO-BREAK SPACE}"
UNITS = {"ttft_s": "s", "tpot_s": "s", "latency_s": "s", "throughput_tok_s": "token/s"}
LINK = "https://example.org/blog"


def scored(name: str, metric: str, measured: float, predicted: float) -> dict[str, Any]:
    """A figure of a row on two GPUs, with an interval from 0.8 to 1.2 of the prediction."""
    low, high = 0.8 * predicted, 1.2 * predicted
    inside = low <= measured <= high
    return {
        "row": name, "engine": "vllm", "version": "1", "gpu": "h100-sxm", "gpus": 2,
        "network": "llama-3.1-8b", "mode": "steady_concurrency", "load": 8.0, "prompt": 1000.0,
        "output": 100.0, "metric": metric, "unit": UNITS[metric], "measured": measured,
        "predicted": predicted, "low": low, "high": high, "error": predicted / measured - 1.0,
        "inside": inside, "profile": "vllm", "rule": "" if inside else "chance",
        "reason": "" if inside else "just beyond.",
    }  # fmt: skip


def published(name: str, measured: float, predicted: float | None) -> dict[str, Any]:
    """A published rate of four of eight GPUs."""
    value = predicted or 0.0
    inside = None if predicted is None else 0.8 * value <= measured <= 1.2 * value
    return {
        "name": name, "title": f"Result {name}", "model": "llama-3.1-8b", "gpu": "h100-sxm",
        "gpus": 8, "engine": "vllm", "load": "decode", "metric": "throughput_tok_s",
        "unit": "token/s", "per": 4, "measured": measured, "predicted": predicted,
        "low": predicted and 0.8 * value, "high": predicted and 1.2 * value,
        "error": None if predicted is None else value / measured - 1.0, "inside": inside,
        "fitted": False, "basis": "assumed", "rule": "" if inside else "engine",
        "reason": "because" if inside is False else "",
        "why not": "too little is known" if predicted is None else "", "source": "A blog",
        "url": LINK, "date": "2025-01", "where": "table 1", "note": "a note",
    }  # fmt: skip


ROWS = [
    *(scored(f"run {i}", "tpot_s", 0.01 * i, 0.011 * i) for i in range(1, 5)),
    scored("run 5", "tpot_s", 0.01, 0.02),
    scored("run 1", "throughput_tok_s", 100.0, 100.0),
]
PUBLISHED = [published("a", 100.0, 110.0), published("b", 100.0, 50.0), published("c", 1.0, None)]
GROUP = {
    "by": "engine", "engine": "vllm", "gpu": "", "network": "", "mode": "", "metric": "tpot_s",
    "figures": 5, "median_error": 0.1, "mean_error": 0.28, "p90_error": 0.64, "inside": 0.8,
}  # fmt: skip


def board(rows: list[dict[str, Any]] | None = None) -> Result:
    """A scoreboard small enough to check by hand."""
    kept = ROWS if rows is None else rows
    tables = {
        "groups": table([GROUP] if kept else [], dict.fromkeys(GROUP, "")),
        "reasons": table(
            [{"rule": "chance", "figures": 1, "share": 1.0, "meaning": "Just beyond."}], {}
        ),
        "published_results": table(PUBLISHED, {}),
        "scores": table(kept, dict.fromkeys(ROWS[0], "")),
        "refused": table([], {"rows": "", "why": ""}),
    }
    return Result(
        "scoreboard",
        tables,
        metadata={"date": "2026-11-23", "version": "1", "summary": ["Half of 8 % is 4 %."]},
    )


def test_rates_are_of_each_gpu() -> None:
    found = scored_figures(board())
    assert [len(found[metric]) for metric in ("tpot_s", "throughput_tok_s")] == [5, 3]
    row, first, _ = found["throughput_tok_s"]
    assert (row.measured, row.published) == (50.0, False)
    assert (first.measured, first.predicted, first.published) == (25.0, 27.5, True)


def test_the_verdict_counts_rows_and_not_what_others_published() -> None:
    facts = parity.measured_verdict(board())
    assert facts is not None
    assert facts.good
    assert (
        facts.status == f"83{NO_BREAK}% of 6 measured figures are in their 80{NO_BREAK}% interval"
    )
    assert facts.sentences == (f"Half of 8{NO_BREAK}% is 4{NO_BREAK}%.",)
    names = [figure.name for figure in facts.cards]
    assert names == [
        "TPOT, median error",
        "Throughput, median error",
        "Published results, median error",
    ]
    assert facts.cards[0].value.number == f"10{NO_BREAK}%"
    assert facts.cards[2].said == (f"2 figures; 50{NO_BREAK}% in their interval",)


def test_without_rows_it_is_of_what_others_published() -> None:
    facts = parity.measured_verdict(board([]))
    assert facts is not None
    assert not facts.good
    assert facts.status.startswith(f"50{NO_BREAK}% of 2 published figures")


def test_a_panel_needs_some_figures_and_stars_have_their_interval() -> None:
    verdict, block = parity.build(board())
    assert (verdict.key, block.key) == ("verdict", "parity")
    assert [figure.key for figure in block.figures] == ["scored-tpot", "scored-throughput"]
    tpot, rate = (figure.spec["data"] for figure in block.figures)
    assert [len(entry["x"]) for entry in tpot] == [2, 2, 2, 4, 1]
    assert rate[-1]["error_y"]["array"] == pytest.approx([5.5, 2.5])
    assert "run 5" in tpot[4]["hovertext"][0]
    assert [block.key for block in parity.build(board([]))] == ["verdict"]


def test_results_are_listed_with_reasons_and_sources() -> None:
    block = scoreboard_published.build(board())
    assert block is not None
    (shown,) = block.grids
    assert len(shown.rows) == 2
    assert dict(zip((h.text for h in shown.heads), shown.rows[0], strict=True))["Figure"].text == (
        "Throughput of 4 GPUs"
    )
    assert block.facts["outside"] == (f"Result b, throughput of 4 GPUs −50{NO_BREAK}%: because",)
    assert block.facts["left"] == ("Result c: too little is known",)
    (source,) = block.facts["sources"]
    assert (source.title, source.url, source.date) == ("A blog", LINK, "2025-01")
    assert [quoted["title"] for quoted in source.results] == ["Result a", "Result b", "Result c"]


def test_groups_are_tables_and_no_other_section_shows_them() -> None:
    assert not list(tables.build(board()))
    block = error_groups.build(board())
    assert block is not None
    assert [grid.key for grid in block.grids] == ["groups-engine", "reasons-table"]
    assert [cell.text for cell in block.grids[0].rows[0]] == [
        "vllm",
        "TPOT",
        "5",
        *(f"{value}{NO_BREAK}%" for value in (10, 28, 64, 80)),
    ]


def test_a_scoreboard_has_one_verdict_and_its_date_in_the_subtitle() -> None:
    assert [block.key for block in blocks(board())].count("verdict") == 1
    page = view_of(board())
    assert (page.title, page.subtitle) == (
        "Scoreboard: predicted against measured",
        "2026-11-23 · roofline 1",
    )


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE[:: cases(2, 1)])
def test_no_text_is_markup_and_no_script_is_linked_to(text: str) -> None:
    plain = board()
    rows = [row | dict.fromkeys(("row", "engine", "version", "network"), text) for row in ROWS]
    texts = ("title", "source", "url", "date", "where", "note", "reason", "why not", "basis")
    results = [row | dict.fromkeys(texts, text) for row in PUBLISHED]
    groups = [GROUP | {"engine": text}]
    tables = dict(plain.tables) | {
        "scores": table(rows, {}),
        "published_results": table(results, {}),
        "groups": table(groups, {}),
    }
    page = taken_apart(render(Result("scoreboard", tables, metadata={"summary": [text]})))
    assert not page.all("img")
    assert not page.all("iframe")
    links = [element.attributes["href"] or "" for element in page.all("a")]
    assert all(link.startswith(("#", "https://")) for link in links)


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_quiet_and_no_wider_than_the_window(
    browser: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    path = tmp_path / "scoreboard.html"
    write(board(), path)
    visit = Visit(browser, path, viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert visit.page.locator(".plot").count() == 2
    assert visit.page.locator(".plot .points path").count() >= 7
    assert visit.overflow() <= 0
    visit.is_quiet()
    visit.context.close()
