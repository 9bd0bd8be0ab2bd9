"""Configurations on a page: what can be chosen, what the script gets, and the controls at work."""

import random
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.cli import run
from roofline.records import replace
from roofline.report import lanes as configurations
from roofline.report import render, write
from roofline.report.lanes import MOST, alike, cut, embedded
from roofline.report.sections import blocks, pareto
from roofline.table import Column, Result, Table, table
from tests.report.hostile import MANY, poisoned
from tests.report.pages import taken_apart
from tests.report.test_browser import Visit


def points(gpus: tuple[str, ...] = ("fast", "slow"), copies: int = 1) -> Table:
    """Two GPUs, batches 1, 2 and 4, prompts of 10 and 20 tokens; the last one does not fit."""
    rows: list[dict[str, Any]] = []
    for place, gpu in enumerate(gpus):
        for batch in (1, 2, 4):
            for prompt in (10, 20):
                tpot = 0.010 * (1 + place) * batch**0.5 * (1 + prompt / 100)
                row: dict[str, Any] = {"index": len(rows), "model": "tiny", "gpu": gpu}
                row |= {"batch": batch, "prompt": prompt, "ttft_s": 0.1 * batch * (1 + place)}
                row |= {"tpot_s": tpot, "tpot_s_low": 0.9 * tpot, "tpot_s_high": 1.1 * tpot}
                row |= {"user_tok_s": 1 / tpot, "throughput_per_gpu_tok_s": batch / tpot}
                row |= {"usd_per_mtok": tpot / batch, "fits": (batch, prompt) != (4, 20)}
                row |= {"feasible": row["fits"], "decode_bound": "memory"}
                rows += [row] * copies
    return Table({name: Column(tuple(row[name] for row in rows)) for name in rows[0]})


def swept(table: Table, **metadata: Any) -> Result:
    wanted = {"objectives": (("usd_per_mtok", False),)}
    return Result("sweep", {"points": table}, metadata=wanted | metadata)


def test_what_differs_can_be_chosen_and_what_does_not_is_said() -> None:
    lanes = configurations.swept(swept(points()), points())
    assert [(axis.name, axis.values) for axis in lanes.axes] == [("gpu", ("fast", "slow"))]
    assert [(n.name, n.values) for n in lanes.numbers] == [
        ("batch", (1, 2, 4)),
        ("prompt", (10, 20)),
    ]
    assert lanes.fixed == (("Model", "tiny"),)
    costs = [row["usd_per_mtok"] for row in lanes.rows if row["feasible"]]
    assert costs == sorted(costs)
    assert [row["feasible"] for row in lanes.rows[-2:]] == [False, False]


def test_the_script_gets_every_row_at_its_place() -> None:
    lanes = configurations.swept(swept(points(), objectives=()), points())
    data = embedded(lanes)
    choices = [lanes.axes[0].values, lanes.numbers[0].values, lanes.numbers[1].values]
    tpot = next(figure for figure in data["figures"] if figure["name"] == "tpot_s")
    for row, places, value, low in zip(
        lanes.rows, data["at"], tpot["value"], tpot["low"], strict=True
    ):
        told = [values[place] for values, place in zip(choices, places, strict=True)]
        assert told == [row["gpu"], row["batch"], row["prompt"]]
        assert value == pytest.approx(row["tpot_s"], rel=1e-3)
        assert low == pytest.approx(row["tpot_s_low"], rel=1e-3)
    assert not tpot["more"]


def test_a_figure_that_is_cut_short_is_shown_as_the_whole_one() -> None:
    numbers = random.Random(1)
    values = [10 ** numbers.uniform(-4, 7) for _ in range(5000)]
    # Rounded to five digits first, and then to three, they would be one off.
    values += [0.0102497, 0.0102503, 2075.49, 12.3449951, 1.00499]
    for value in values:
        whole, short = (Decimal(repr(number)) for number in (value, cut(value)))
        for digits in (3, value):
            place = Decimal(1).scaleb(whole.adjusted() - 2) if digits == 3 else Decimal("0.01")
            assert short.quantize(place, ROUND_HALF_UP) == whole.quantize(place, ROUND_HALF_UP)
        assert short.quantize(1, ROUND_HALF_UP) == whole.quantize(1, ROUND_HALF_UP)


@pytest.mark.slow
def test_a_page_holds_so_many_rows_and_says_how_many_it_leaves_out() -> None:
    table = points(copies=300)
    assert configurations.swept(swept(table), table).left_out == len(table) - MOST
    assert f"{len(table) - MOST:,} more configurations" in render(swept(table))


def test_a_page_about_one_length_compares_gpus_at_that_length() -> None:
    result = swept(points(), start={"gpu": "fast", "batch": 4, "prompt": 20})
    kept = alike(result, result.tables["points"])
    assert set(kept["prompt"]) == {20}
    assert len(kept) == len(points()) / 2
    assert len(alike(swept(points()), points())) == len(points())


def test_every_table_has_a_caption_by_which_its_tools_are_named() -> None:
    page = taken_apart(render(swept(points())))
    captions = [each for each in page.all("span") if each.around[-1] == "caption"]
    assert len(captions) > 2
    assert all(each.text.strip() for each in captions)


def test_what_does_not_fit_is_no_point_and_no_end_of_the_chart() -> None:
    figure = pareto.draw(configurations.swept(swept(points()), points()))
    assert figure is not None
    drawn = [trace for trace in figure.spec["data"] if trace["mode"] == "markers"]
    assert sum(len(trace["x"]) for trace in drawn) == 10  # of 12, one of each GPU does not fit
    assert "batch 4, prompt 20" not in figure.summary


@pytest.mark.slow
def test_names_of_any_kind_are_inert() -> None:
    texts = tuple(MANY)
    page = taken_apart(render(swept(points(texts))))
    options = {option.text for option in page.all("option")}
    assert len(page.all("option")) == 2 * len(texts)
    assert "<b>bold</b><br><i>italic</i>" in options
    assert len(page.all("script")) == len(taken_apart(render(swept(points()))).all("script"))


def planned() -> Result:
    """A plan with a row of everything."""
    option: dict[str, Any] = {"gpu": "fast", "gpus": 2, "shape": "tp1 × 2", "weights": "bf16"}
    option |= {"usd_per_hour": 6.0, "ttft_s": 0.3, "tpot_s": 0.02, "best_in": "cost"}
    other = {**option, "gpus": 4, "usd_per_hour": 12.0, "ttft_s": 0.1, "chosen": False}
    bar: dict[str, Any] = {"what": "traffic", "low": "−20 %", "high": "+20 %"}
    for end, cost in (("base", 1.0), ("low", 0.8), ("high", None)):
        bar |= {f"usd_per_mtok_{end}": cost, f"usd_per_hour_{end}": cost, f"gpus_{end}": 2}
        bar |= {f"shape_{end}": "tp1 × 2", f"changes_{end}": end == "low"}
    step: dict[str, Any] = {
        "rate_from_per_s": 0.0,
        "rate_to_per_s": 9.0,
        "gpus": 2,
        "usd_per_hour": 6.0,
    }
    step |= {"gpu": "fast", "shape": "tp1 × 2"}
    tables = {
        "verdict": [{**option, "slo_met": True, "probability": 0.9, "rate_per_s": 8.0}],
        "objectives": [{"objective": "ttft_p99", "limit_s": 0.5, "value_s": 0.3, "met": True}],
        "frontier": [{**option, "chosen": True}, other],
        "runners_up": [{"why": "faster", **other, "gives_up": "cost", "gains": "TTFT"}],
        "gpus_by_rate": [step],
        "sensitivity": [bar],
        "candidates": [{"layout": "tp1", "status": "chosen", "reason": "it serves"}],
    }
    return Result(
        "plan",
        {name: table(rows, {}) for name, rows in tables.items()},
        metadata={"model": "tiny", "summary": ("2 × fast.",), "ttft_statistic": "ttft_p99"},
    )


def test_a_plan_has_a_section_for_everything() -> None:
    page = taken_apart(render(planned()))
    assert [heading.text for heading in page.all("h2")] == [
        *("Verdict", "Alternatives", "If traffic grows", "What it depends on", "Tables"),
        "Reproduce",
    ]
    assert len([e for e in page.all("div") if "plot" in str(e.attributes.get("class"))]) == 4


def test_a_plan_goes_from_the_price_to_the_kernels() -> None:
    hour = {"from_h": 0, "to_h": 24, "gpu_hours": 24.0, "rate_per_s": 1.0}
    day = {"by_hour": table([hour], {}), "fleets": table([{"fleet": "fixed", "most_gpus": 1}], {})}
    result = planned()
    found = [block.key for block in blocks(replace(result, tables={**result.tables, **day}))]
    assert found[:5] == ["verdict", "alternatives", "fleets", "rates", "sensitivity-section"]


@pytest.mark.slow
@pytest.mark.parametrize("place", range(0, len(MANY), 15))
def test_texts_of_a_plan_are_inert(place: int) -> None:
    def shape(texts: list[str]) -> list[tuple[str, list[str]]]:
        page = taken_apart(render(poisoned(planned(), texts)))
        # A long text has a wider column.
        return [(entry.tag, sorted({*entry.attributes} - {"class"})) for entry in page.elements]

    # As many, so that the same texts are equal.
    assert shape(MANY[place : place + 15]) == shape([f"harmless {n}" for n in range(15)])


@pytest.mark.browser
def test_hostile_names_do_nothing_in_a_browser(browser: Any, tmp_path: Path) -> None:
    for name, result in (
        ("sweep", swept(points(tuple(MANY)))),
        ("plan", poisoned(planned(), MANY)),
    ):
        write(result, tmp_path / f"{name}.html")
        visit = Visit(browser, tmp_path / f"{name}.html")
        if name == "sweep":
            chosen = visit.page.locator("select[data-side=B]")
            for place in range(0, len(MANY), 25):
                chosen.select_option(value=str(place))
            visit.page.wait_for_timeout(200)
        assert visit.page.locator("svg a, svg image, svg script, svg foreignObject").count() == 0
        visit.is_quiet()
        visit.context.close()


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1440])
def test_pages_of_plans_and_comparisons_are_no_wider_than_the_window(
    browser: Any, tmp_path: Path, width: int
) -> None:
    result = roofline.compare("llama-3.1-8b", changes=["gpu=h200-sxm", "student=qwen3-8b"])
    for name, shown in (("plan", planned()), ("compare", result)):
        write(shown, tmp_path / f"{name}.html")
        size = {"width": width, "height": 844}
        visit = Visit(browser, tmp_path / f"{name}.html", viewport=size, color_scheme="dark")
        assert visit.overflow() <= 0
        visit.is_quiet()
        visit.context.close()


def open_page(browser: Any, tmp_path: Path, **context: Any) -> Visit:
    path = tmp_path / "page.html"
    write(swept(points(), limits={"tpot_s": 0.015}), path)
    return Visit(browser, path, **context)


def figures(visit: Visit) -> dict[str, list[str]]:
    """Rows of the table of both sides."""
    lines = visit.page.locator("#explorer-figures tbody tr")
    return {
        cells[0]: cells[1:]
        for cells in (
            lines.nth(n).locator("th, td").all_inner_texts() for n in range(lines.count())
        )
    }


@pytest.mark.browser
def test_every_control_changes_the_numbers_by_mouse_and_by_keys(
    browser: Any, tmp_path: Path
) -> None:
    visit = open_page(browser, tmp_path)
    page = visit.page
    first = figures(visit)
    batch, prompt = page.locator("#explorer input[type=range]").all()
    # The best is the fast one at its largest batch that fits: 10 ms · 2 · 1.1.
    assert first["TPOT"][0] == "22.0\u00a0ms"
    assert first["TPOT"][1] == "19.8 – 24.2\u00a0ms"
    assert first["TPOT"][-1] == "▲ × 2.00"
    assert page.locator("#explorer-said").inner_text().startswith("A misses the SLO: TPOT.")
    batch.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(100)
    assert figures(visit)["TPOT"][0] == "15.6\u00a0ms"
    assert batch.get_attribute("aria-valuetext") == "2"
    page.keyboard.press("Home")
    page.wait_for_timeout(100)
    assert figures(visit)["TPOT"][0] == "11.0\u00a0ms"
    assert "A keeps the SLO" in page.locator("#explorer-said").inner_text()
    prompt.fill("1")
    page.wait_for_timeout(100)
    assert figures(visit)["TPOT"][0] == "12.0\u00a0ms"
    page.locator("select[data-side=A]").select_option(label="slow")
    page.wait_for_timeout(100)
    assert figures(visit)["TPOT"][0] == "24.0\u00a0ms"
    box = batch.bounding_box()
    page.mouse.click(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2)
    page.wait_for_timeout(100)
    assert "A does not fit into memory" in page.locator("#explorer-said").inner_text()
    page.locator("[data-limit=tpot_s]").fill("1000")
    page.wait_for_timeout(100)
    kept = page.locator("#explorer-map td.kept").count()
    assert (kept, page.locator("#explorer-map td.broken").count()) == (5, 1)
    visit.is_quiet()
    visit.context.close()


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_narrow_screen_and_is_quick(browser: Any, tmp_path: Path, scheme: str) -> None:
    visit = open_page(
        browser, tmp_path, viewport={"width": 390, "height": 844}, color_scheme=scheme
    )
    assert visit.overflow() <= 0
    curve = visit.page.locator("#explorer-curve .scatterlayer .points path")
    assert curve.count() == 6
    visit.is_quiet()
    visit.context.close()


def kept() -> Table:
    """Few of the points: fast at 1 and 4, slow at 2, each at one length."""
    places = {("fast", 1, 10), ("fast", 4, 10), ("slow", 2, 20)}
    every = points()
    return every.of_rows(
        [row for row in every.rows() if (row["gpu"], row["batch"], row["prompt"]) in places]
    )


def test_a_page_of_few_says_that_only_these_can_be_chosen() -> None:
    assert "Where a sweep keeps all, every one is here" in render(swept(kept(), keep="pareto"))
    assert "can be chosen:" in render(swept(kept()))
    assert "can be chosen:" not in render(swept(points(), keep="pareto"))


@pytest.mark.browser
def test_where_few_were_kept_every_choice_leads_to_one(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write(swept(kept(), keep="pareto", objectives=(("tpot_s", False),)), path)
    visit = Visit(browser, path)
    page = visit.page
    batch, prompt = page.locator("#explorer input[type=range]").all()
    side = page.locator("select[data-side=A]")

    def shown() -> tuple[str, str, str]:
        page.wait_for_timeout(100)
        at = (batch.get_attribute("aria-valuetext"), prompt.get_attribute("aria-valuetext"))
        return (side.evaluate("e => e.options[e.selectedIndex].text"), *map(str, at))

    assert shown() == ("fast", "1", "10")
    assert figures(visit)["TPOT"][0] == "11.0\u00a0ms"
    side.select_option(label="slow")
    assert shown() == ("slow", "2", "20")
    assert "nearest" in page.locator("#explorer-said").inner_text()
    batch.fill("2")
    assert shown() == ("fast", "4", "10")
    prompt.fill("1")
    assert shown() == ("slow", "2", "20")
    page.locator("select[data-side=B]").select_option(label="fast")
    assert shown()[0] == "fast"  # none but fast is there
    assert page.locator("#explorer-map td").all_inner_texts() == [
        "✓ 11.0\u00a0ms",
        "✓ 22.0\u00a0ms",
    ]
    assert "–" not in [cell for cells in figures(visit).values() for cell in cells]
    visit.is_quiet()
    visit.context.close()


@pytest.mark.slow
@pytest.mark.browser
def test_the_controls_say_what_the_command_line_says(
    browser: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, numbers = tmp_path / "page.html", random.Random(5)
    assert run(["analyze", "llama-3.1-8b", "--price", "1.7", "--report", str(path)]) == 0
    visit = Visit(browser, path)
    selects = visit.page.locator("select[data-side=A]").all()
    sliders = visit.page.locator("#explorer input[type=range]").all()
    for _ in range(6):
        for select in selects:
            options = select.locator("option").all_inner_texts()
            select.select_option(label=numbers.choice(options))
        for slider in sliders:
            most = int(slider.get_attribute("max"))
            slider.fill(str(numbers.randint(0, most)))
        visit.page.wait_for_timeout(200)
        gpu, layout, weights = (
            select.evaluate("e => e.options[e.selectedIndex].text") for select in selects
        )
        batch, prompt = (s.get_attribute("aria-valuetext").replace(",", "") for s in sliders)
        asked = ["--gpu", gpu, "--layout", layout, "--weights", weights]
        asked += ["--batch", batch, "--prompt", prompt]
        asked += ["--price", "1.7"] if gpu == "h100-sxm" else []
        capsys.readouterr()
        fits = run(["analyze", "llama-3.1-8b", *asked, "--format", "md"]) == 0
        lines = capsys.readouterr().out.split("Static batch")[1].splitlines()
        cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines]
        told = {row[0]: row[1] for row in cells if len(row) > 1}
        shown = figures(visit)
        for name in ("TTFT", "TPOT", "Latency", "Throughput", "Cost per Mtok", "Energy per Mtok"):
            number = shown[name][0].replace("\u00a0", " ").replace("token/s", "tok/s")
            assert number == told[name].replace("\u00a0", " "), (name, asked)
        said = visit.page.locator("#explorer-said").inner_text()
        assert ("A does not fit" not in said) == fits
    visit.is_quiet()
    visit.context.close()
