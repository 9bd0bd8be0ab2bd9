"""The page in headless Chromium, where playwright and a Chromium are installed."""

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.cli import run
from roofline.report import write
from roofline.report.page import pack
from roofline.table import Result
from tests.cases import cases
from tests.report.hostile import HOSTILE, poisoned

pytestmark = pytest.mark.browser

LISTEN = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""
CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "wires": {"tp": 8},
    "overflow": {"batch": 100_000},
    "one token": {"output": 1},
    "textbook": {"convention": "textbook"},
    "datasheet": {"calibration": "none"},
    "quantised": {"weights": "fp8", "tp": 8, "overlap": 0.5},
}


class Visit:
    """An opened page, and everything that should not have happened on it."""

    def __init__(self, browser: Any, path: Path, **context: Any) -> None:
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", self.dismiss)
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.add_init_script(LISTEN)
        self.page.goto(path.as_uri())
        if self.page.locator(".plot").count():
            self.page.wait_for_selector("html[data-drawn=yes]", state="attached")
        self.url = path.as_uri()

    def dismiss(self, dialog: Any) -> None:
        """A dialog is a script that should not have run."""
        self.said.append("dialog")
        dialog.dismiss()

    def is_quiet(self) -> None:
        """No message, no request but for the file itself, nothing that the policy refused."""
        assert self.said == []
        assert [url for url in self.asked if url != self.url and not url.startswith("data:")] == []
        assert self.page.evaluate("window.violations") == []

    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))

    def colours(self) -> tuple[str, str]:
        """Colours of the page behind and of the first figure."""
        body, figure = self.page.evaluate(
            """() => [getComputedStyle(document.querySelector("section")).backgroundColor,
            getComputedStyle(document.querySelector(".plot .main-svg")).backgroundColor]"""
        )
        return str(body), str(figure)


@pytest.mark.parametrize("case", CASES)
def test_a_real_page_is_quiet_and_every_figure_is_drawn(
    browser: Any, tmp_path: Path, case: str
) -> None:
    path = tmp_path / "report.html"
    write(roofline.analyze(**CASES[case]), path)
    visit = Visit(browser, path)
    plots = visit.page.locator(".plot")
    assert plots.count() == {"one token": 4, "textbook": 0}.get(case, 5)
    for place in range(plots.count()):
        marks = plots.nth(place).locator(".points path, .bars path, .scatterlayer path")
        assert marks.count() >= 3
    visit.is_quiet()
    visit.context.close()


WIDTHS = [*product(("light", "dark"), (390, 768, 1280))]


@pytest.mark.parametrize(("scheme", "width"), cases(WIDTHS[::2], WIDTHS))
def test_nothing_is_wider_than_the_window(
    browser: Any, tmp_path: Path, scheme: str, width: int
) -> None:
    path = tmp_path / "report.html"
    write(roofline.analyze(tp=8), path)
    visit = Visit(browser, path, viewport={"width": width, "height": 844}, color_scheme=scheme)
    assert visit.overflow() <= 0
    visit.page.evaluate(
        "document.querySelectorAll('details').forEach((entry) => entry.open = true)"
    )
    assert visit.overflow() <= 0
    visit.page.set_viewport_size({"width": 320, "height": 844})
    visit.page.wait_for_timeout(300)
    assert visit.overflow() <= 0
    visit.is_quiet()
    visit.context.close()


def test_figures_follow_the_theme_and_paper_is_light(
    browser: Any, tmp_path: Path, result: Result
) -> None:
    path = tmp_path / "report.html"
    write(result, path)
    visit = Visit(browser, path, color_scheme="light")
    light = visit.colours()
    assert light[0] == light[1] == "rgb(255, 255, 255)"
    visit.page.emulate_media(color_scheme="dark")
    visit.page.wait_for_timeout(300)
    dark = visit.colours()
    assert dark[0] == dark[1] != light[0]
    visit.page.emulate_media(color_scheme="dark", media="print")
    visit.page.wait_for_timeout(300)
    assert visit.colours()[1] == "rgb(255, 255, 255)"
    assert not visit.page.locator("nav").is_visible()
    visit.page.emulate_media(color_scheme="dark", media="screen")
    visit.page.wait_for_timeout(300)
    assert visit.colours() == dark
    assert len(visit.page.pdf(format="A4")) > 20_000
    visit.is_quiet()
    visit.context.close()


NAMES_APART = """
() => {
  const plot = document.getElementById("roofline-chart");
  const frame = plot.querySelector(".main-svg").getBoundingClientRect();
  const boxes = [...plot.querySelectorAll(".annotation")]
    .filter((drawing) => drawing.querySelector(".annotation-arrow-g"))
    .map((drawing) => drawing.querySelector(".annotation-text-g").getBoundingClientRect());
  const outside = boxes.filter((box) => box.left < frame.left || box.right > frame.right);
  const crossed = boxes.filter((a, i) => boxes.some((b, j) => i < j
    && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1));
  return [boxes.length, outside.length, crossed.length];
}
"""
ROOFS_OVER_POINTS = """
() => {
  const plot = document.getElementById("roofline-chart");
  const points = [...plot.querySelectorAll(".scatterlayer .points path")]
    .map((point) => point.getBoundingClientRect());
  const names = [...plot.querySelectorAll(".annotation")]
    .filter((drawing) => /FLOP\\/s/.test(drawing.textContent))
    .map((drawing) => drawing.querySelector(".annotation-text-g").getBoundingClientRect());
  return [names.length, names.filter((a) => points.some((b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)).length];
}
"""
CONTENTS = """
() => {
  const links = [...document.querySelectorAll("nav a")];
  const list = document.querySelector("nav ul").getBoundingClientRect();
  const seen = (box) => box.left >= list.left - 1 && box.right <= list.right + 1;
  return {
    top: list.top >= 0 && list.bottom < 120,
    current: links.filter((link) => link.ariaCurrent).map((link) => link.textContent),
    here: links.filter((link) => link.ariaCurrent).every((l) => seen(l.getBoundingClientRect())),
    cut: links.filter((link) => !seen(link.getBoundingClientRect())).length,
  };
}
"""
BADGES_BESIDE = """
() => {
  const plot = document.getElementById("time-0");
  const bars = plot.querySelector(".nsewdrag").getBoundingClientRect();
  const lefts = [...plot.querySelectorAll(".annotation-text-g")]
    .map((text) => text.getBoundingClientRect().left);
  return [lefts.length, lefts.every((left) => left >= bars.right)];
}
"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(
    ("model", "question"),
    [
        ("qwen3-235b-a22b", {"weights": "fp8", "tp": 8, "overlap": 0.5}),
        ("qwen3-30b-a3b", {"tp": 4}),
    ],
)
def test_names_of_points_are_apart_and_on_the_figure(
    browser: Any, tmp_path: Path, model: str, question: dict[str, Any], width: int
) -> None:
    path = tmp_path / "report.html"
    write(roofline.analyze(model, **question), path)
    visit = Visit(browser, path, viewport={"width": width, "height": 844})
    names, outside, crossed = visit.page.evaluate(NAMES_APART)
    assert names >= 6
    assert (outside, crossed) == (0, 0)
    roofs, over = visit.page.evaluate(ROOFS_OVER_POINTS)
    assert roofs >= 1
    assert over == 0
    visit.context.close()


@pytest.mark.parametrize("width", [390, 1440])
def test_the_contents_stay_and_say_where_the_reader_is(
    browser: Any, tmp_path: Path, predicted: Result, width: int
) -> None:
    path = tmp_path / "report.html"
    write(predicted, path)
    visit = Visit(browser, path, viewport={"width": width, "height": 844})
    assert visit.page.evaluate(CONTENTS)["current"] == ["Verdict"]
    for section in ("Time", "Derivations", "Reproduce"):
        key = section.lower()
        visit.page.evaluate(
            f"document.getElementById('{key}').scrollIntoView({{behavior: 'instant'}})"
        )
        visit.page.wait_for_timeout(200)
        found = visit.page.evaluate(CONTENTS)
        assert found["top"]
        assert found["here"]
        if section != "Derivations":  # shorter than the window: the end of the page comes first
            assert found["current"] == [section]
        if width == 1440:
            assert found["cut"] == 0
    visit.is_quiet()
    visit.context.close()


def test_badges_stand_beside_the_bars_on_screen_and_on_paper(
    browser: Any, tmp_path: Path, predicted: Result
) -> None:
    path = tmp_path / "report.html"
    write(predicted, path)
    visit = Visit(browser, path, viewport={"width": 1280, "height": 844})
    assert visit.page.evaluate(BADGES_BESIDE) == [2, True]
    visit.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    visit.page.wait_for_timeout(300)
    assert visit.page.evaluate(BADGES_BESIDE) == [2, True]
    visit.is_quiet()
    visit.context.close()


ON_PAPER = """
() => {
  const wide = [...document.querySelectorAll(".scroll > table")].filter(
    (table) => table.getBoundingClientRect().width > 681);
  return {
    wide: wide.map((table) => table.id),
    folded: document.querySelectorAll("details.paper:not([open])").length,
    zoomed: [...document.querySelectorAll("table")].filter((table) => table.style.zoom).length,
    figures: [...document.querySelectorAll(".plot .main-svg:first-child")].map(
      (drawing) => Math.round(drawing.getBoundingClientRect().width)),
  };
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        "llama-3.1-70b --gpu h100-sxm --gpus 8 --batch 64 --weights fp8",
        "deepseek-v3 --gpu h200-sxm --gpus 8 --engine sglang --isl 4k --osl 1k",
        "qwen3-30b-a3b --tp 2 --pue 1.25 --usd-per-kwh 0.12 --carbon fr",
    ],
)
def test_a_page_is_eight_screens_and_no_higher_column_than_another_is_empty(
    browser: Any, tmp_path: Path, asked: str
) -> None:
    path = tmp_path / "report.html"
    assert run(["analyze", *asked.split(), "--report", str(path)]) == 0
    visit = Visit(browser, path, viewport={"width": 1440, "height": 900})
    assert visit.page.evaluate("document.documentElement.scrollHeight") <= 8 * 900
    left, memory, right = (
        visit.page.evaluate(f"document.getElementById('{name}').getBoundingClientRect().toJSON()")
        for name in ("batch", "memory", "pareto-section")
    )
    assert left["top"] == memory["top"]
    assert left["right"] < memory["left"]
    assert left["bottom"] == right["bottom"]
    visit.context.close()


def test_tables_and_figures_are_as_wide_as_paper_and_come_back(
    browser: Any, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    write(roofline.analyze(tp=8), path)
    visit = Visit(browser, path, viewport={"width": 1280, "height": 844}, color_scheme="dark")
    screen = visit.page.evaluate(ON_PAPER)
    assert (screen["zoomed"], screen["folded"]) == (0, 12)
    visit.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    visit.page.wait_for_timeout(500)
    paper = visit.page.evaluate(ON_PAPER)
    assert (paper["wide"], paper["folded"]) == ([], 0)
    assert paper["zoomed"] >= 1  # the operators, with a column for everything
    assert set(paper["figures"]) == {680}
    assert visit.colours()[1] == "rgb(255, 255, 255)"
    visit.page.evaluate("dispatchEvent(new Event('afterprint'))")
    visit.page.wait_for_timeout(500)
    assert visit.page.evaluate(ON_PAPER) == screen
    visit.is_quiet()
    visit.context.close()


def test_hostile_texts_do_nothing_in_a_browser(
    browser: Any, tmp_path: Path, either: Result
) -> None:
    counts = []
    for name, texts in (("harmless", ["harmless"]), ("hostile", HOSTILE)):
        path = tmp_path / f"{name}.html"
        write(poisoned(either, texts), path)
        visit = Visit(browser, path)
        visit.page.mouse.move(400, 900)
        tags = visit.page.evaluate(
            """[...document.querySelectorAll("*:not(svg *)")]
            .map((element) => element.tagName)"""
        )
        counts.append(Counter(tags))
        assert visit.page.locator("svg a, svg image, svg script, svg foreignObject").count() == 0
        visit.is_quiet()
        visit.context.close()
    # The library of figures, the figures as they are packed, and the page's own.
    assert counts[1]["SCRIPT"] == counts[0]["SCRIPT"] == 3
    assert set(counts[1]) == set(counts[0])


def test_the_keyboard_reaches_contents_tables_and_derivations(
    browser: Any, tmp_path: Path, result: Result
) -> None:
    path = tmp_path / "report.html"
    write(result, path)
    visit = Visit(browser, path)
    visit.page.keyboard.press("Tab")
    assert visit.page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(60):
        visit.page.keyboard.press("Tab")
        reached.add(visit.page.evaluate("document.activeElement.tagName"))
    assert {"A", "DIV", "SUMMARY", "BUTTON"} <= reached
    visit.page.locator("#unfold").focus()
    visit.page.keyboard.press("Enter")
    assert visit.page.locator(".derivations details:not([open])").count() == 0
    visit.page.keyboard.press("Enter")
    assert visit.page.locator(".derivations details[open]").count() == 0
    visit.page.locator(".cards a").first.click()
    visit.page.wait_for_selector("#derivation-ttft[open]", state="attached")
    visit.is_quiet()
    visit.context.close()


def test_without_scripts_the_page_says_so_and_keeps_its_tables(
    browser: Any, tmp_path: Path, result: Result
) -> None:
    path = tmp_path / "report.html"
    write(result, path)
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert "scripts are off" in (page.locator("noscript").text_content() or "")
    assert page.locator("table").count() >= 8
    context.close()


def test_a_changed_library_does_not_run(browser: Any, tmp_path: Path, result: Result) -> None:
    path = tmp_path / "report.html"
    write(result, path)
    text = path.read_text("utf-8")
    start = text.index('id="library">') + len('id="library">')
    other = pack(b"window.Plotly = alert(1)")
    path.write_text(text[:start] + other + text[text.index("</script>", start) :], "utf-8")
    context = browser.new_context()
    page = context.new_page()
    page.on("dialog", lambda _: pytest.fail("the library ran"))
    page.goto(path.as_uri())
    page.get_by_text("could not be drawn").wait_for(state="visible")
    assert page.evaluate("typeof Plotly") == "undefined"
    context.close()
