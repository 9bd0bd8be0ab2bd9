"""Results in a notebook: HTML that is inert, and figures that are plotly's."""

import inspect
import re
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, get_type_hints

import plotly.graph_objects as go
import pytest

import roofline
from roofline import api
from roofline.errors import InputError, MissingEnvironmentError, UnknownNameError
from roofline.records import replace
from roofline.report import render
from roofline.report.notebook import MOST_ROWS, _interactive, html, sliders
from roofline.table import Derivation, Result, Table, table
from roofline.view.block import Figure, Key
from tests.report.hostile import HOSTILE, harmless, in_turn, poisoned
from tests.report.pages import Page, taken_apart

ALLOWED = {
    "b", "br", "code", "details", "div", "p", "summary",
    "table", "tbody", "td", "th", "thead", "tr",
}  # fmt: skip


def _shape(page: Page) -> list[tuple[str, list[tuple[str, str | None]]]]:
    return [(entry.tag, sorted(entry.attributes.items())) for entry in page.elements]


def _cells(shown: Table) -> list[list[str]]:
    """Rows of a table as a notebook has them."""
    rows: list[list[str]] = []
    for element in taken_apart(html(shown)).elements:
        if element.tag == "tr":
            rows.append([])
        elif element.tag in ("td", "th"):
            rows[-1].append(element.text.replace("\N{NO-BREAK SPACE}", " "))
    return rows


def test_a_result_says_what_it_is_then_what_it_found(result: Result) -> None:
    page = taken_apart(html(result))
    assert page.all("b")[0].text == "tiny-1b on 2 × Tiny GPU"
    said = [entry.text for entry in page.all("p")]
    assert said[1:3] == ["Fits with room.", "Decode is bound by memory."]
    assert [entry.text for entry in page.all("code")][:2] == ["headline", "memory"]
    assert ["open" in entry.attributes for entry in page.all("details")][:2] == [True, False]


def test_every_table_and_note_and_figure_of_a_result_is_there(result: Result) -> None:
    page = taken_apart(html(result))
    names = [entry.text for entry in page.all("code")]
    assert names[: len(result.tables)] == list(result.tables)
    assert "Counts are of a causal kernel." in [entry.text for entry in page.all("p")]
    assert '.plot("roofline-chart")' in names


@pytest.mark.slow
@pytest.mark.parametrize("texts", in_turn(9))
def test_hostile_texts_are_inert(result: Result, texts: list[str]) -> None:
    def named(words: list[str]) -> Result:
        return replace(
            poisoned(result, words), tables=dict.fromkeys(words, result.tables["memory"])
        )

    for made in (partial(poisoned, result), named):
        shown = taken_apart(html(made(texts)))
        assert _shape(shown) == _shape(taken_apart(html(made(harmless(texts)))))
        assert {entry.tag for entry in shown.elements} <= ALLOWED


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_derivation_and_column_are_inert(text: str) -> None:
    def tree(word: str) -> Derivation:
        leaf = Derivation(word, 1.0, word, source=word, note=word)
        return Derivation(word, 2.0, word, word, word, (leaf,))

    assert _shape(taken_apart(html(tree(text)))) == _shape(taken_apart(html(tree("harmless"))))
    named = table([{text: 1.0}], {text: text})
    assert _shape(taken_apart(html(named))) == _shape(taken_apart(html(table([{"a": 1.0}], {}))))


def test_cells_are_in_the_words_of_their_units() -> None:
    rows: list[dict[str, Any]] = [
        {"part": "a", "bytes": 16.1e9, "share": 0.25, "fits": True},
        {"part": "b", "bytes": None, "share": 0.0, "fits": False},
    ]
    assert _cells(table(rows, {"bytes": "B"})) == [
        ["part", "bytes", "share", "fits"],
        ["a", "15.0 GiB", "25 %", "yes"],
        ["b", "–", "0 %", "no"],
    ]


def test_a_unit_that_stands_in_the_row_is_told_with_the_number() -> None:
    rows = [{"metric": "ttft_s", "value": 0.5, "requests": 3, "unit": "s"}]
    assert _cells(table(rows, {})) == [["metric", "value", "requests"], ["ttft_s", "500 ms", "3"]]


@pytest.mark.slow
def test_a_long_table_says_what_it_leaves_out() -> None:
    long = table([{"n": n} for n in range(MOST_ROWS + 7)], {})
    assert html(long).count("<tr>") == MOST_ROWS + 1  # and the head
    assert "7 more: <code>.to_pandas()</code> has all." in html(long)
    assert len(long.to_pandas()) == MOST_ROWS + 7


def test_a_derivation_is_a_tree_in_both_forms(result: Result) -> None:
    tree = result.derivations["latency"]
    frame = tree.to_pandas()
    assert list(frame["name"]) == ["latency", "TTFT", "step", "BW"]
    assert list(frame["depth"]) == [0, 1, 2, 3]
    text = html(tree)
    assert "<b>latency = 320.0 s</b>" in text.replace("\N{NO-BREAK SPACE}", " ")
    assert "note: a floor" in text
    assert "from tiny datasheet" in text


def test_a_figure_is_plotlys_with_title_legend_and_the_colours_of_the_theme(result: Result) -> None:
    figure = result.plot("roofline-chart")
    assert isinstance(figure, go.Figure)
    assert figure == result.plot()
    assert figure.layout.title.text == "Roofline of one device"
    assert [trace.name for trace in figure.data if trace.showlegend is None] == [
        "prefill",
        "decode",
    ]
    assert "theme:" not in figure.to_json()
    assert figure.layout.paper_bgcolor == "#ffffff"
    assert not figure.layout.xaxis.fixedrange


def test_the_points_of_a_figure_are_those_of_the_result(result: Result) -> None:
    curve = result.tables["batch_curve"]
    traces = {trace.name: trace for trace in result.plot("batch-curve").data}
    assert tuple(traces["TTFT"].x) == curve["batch"]
    assert tuple(traces["TTFT"].y) == curve["ttft_s"]


def test_every_shape_of_a_legend_is_a_marker_of_plotly() -> None:
    """By the words of its own record, all of which plotly must take."""
    shapes = re.findall(r'``"([a-z-]+)"``', inspect.getsource(Key))
    legend = tuple(Key(shape, "ink", shape) for shape in shapes)
    spec = {"data": [], "layout": {"height": 300}}
    drawn = _interactive(Figure("f", "title", "summary", spec, legend))
    assert {trace.name for trace in drawn.data} == set(shapes) >= {"x", "cross", "dash", "star"}


@pytest.mark.parametrize("height", [0, -5, "800", None, 80.5])
def test_a_frame_of_no_height_is_one_error(result: Result, height: Any) -> None:
    with pytest.raises(InputError, match="height is"):
        result.page(height)


def test_a_figure_that_is_not_there_is_one_error(result: Result) -> None:
    with pytest.raises(UnknownNameError, match="no figure 'nothing'") as found:
        result.plot("nothing")
    assert "roofline-chart" in found.value.hint
    with pytest.raises(InputError, match="no figure is drawn of a result of x") as refused:
        Result("x", {"t": table([{"a": 1}], {})}).plot()
    assert refused.value.hint.endswith("has t")


KINDS: dict[str, tuple[Any, ...]] = {
    "analyze": (api.analyze, {}),
    "textbook": (api.analyze, {"convention": "textbook"}),
    "compare": (api.compare, {"model": "llama-2-7b", "changes": ["gqa=8"]}),
    "layouts": (api.layouts, {"gpus": 2, "calibration": "none"}),
    "paging": (api.paging, {"calibration": "none"}),
    "disaggregate": (
        api.disaggregate, {"model": "llama-3.1-8b", "prefill": "tp1", "decode": "tp1"},
    ),
    "speculate": (api.speculate, {"draft": "ngram", "acceptance": 0.5, "calibration": "none"}),
    "simulate": (api.simulate, {"requests": 20, "rate": 1.0, "calibration": "none"}),
    "serve-command": (api.serve_command, {}),
    "parse-command": (api.parse_command, {"command": "vllm serve meta-llama/Llama-3.1-8B"}),
    "doctor": (api.doctor, {}),
    "scoreboard": (api.scoreboard, {"date": "2026-11-23"}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_every_answer_shows_itself_and_is_frames(name: str) -> None:
    question, given = KINDS[name]
    answer = question(**given)
    page = taken_apart(answer._repr_html_())
    assert {entry.tag for entry in page.elements} <= ALLOWED
    assert len(answer._repr_html_()) < 100_000
    frames = answer.to_pandas()
    assert {key: len(frame) for key, frame in frames.items()} == {
        key: len(entry) for key, entry in answer.tables.items()
    }


LISTS: Final = {"gpus", "models"}
QUESTIONS: Final = [name for name in roofline.__all__ if name[0] != "_" and name not in LISTS]


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_public_question_is_answered_by_what_shows_itself(name: str) -> None:
    answer = get_type_hints(getattr(roofline, name))["return"]
    for way in ("_repr_html_", "to_pandas", "plot"):
        assert callable(getattr(answer, way, None)), way


@pytest.mark.slow
def test_a_sweep_shows_its_rows_and_draws_them() -> None:
    found = api.sweep("gpus")
    page = taken_apart(found._repr_html_())
    assert {entry.tag for entry in page.elements} <= ALLOWED
    assert f"{len(found.to_pandas())} rows" in found._repr_html_()
    names = [entry.text for entry in page.all("code") if entry.text.startswith(".plot")]
    assert '.plot("pareto")' in names
    drawn = found.plot("pareto")
    points = sum(len(trace.x) for trace in drawn.data if trace.mode == "markers" and trace.x[0])
    assert points == len(found.to_pandas())


@pytest.mark.slow
def test_showing_takes_no_plotly() -> None:
    """Tables of a result are there at once; only a figure takes the time to import plotly."""
    import subprocess
    import sys

    code = (
        "import sys, roofline\n"
        "roofline.analyze(calibration='none')._repr_html_()\n"
        "assert 'plotly' not in sys.modules and 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_page_inline_is_the_report_in_a_frame_of_its_own(result: Result) -> None:
    (frame,) = taken_apart(result.page(height=640)._repr_html_()).all("iframe")
    assert frame.attributes["srcdoc"] == render(result)
    # Neither the notebook's cookies nor its scripts: there is no allow-same-origin.
    assert frame.attributes["sandbox"] == "allow-scripts allow-downloads"
    assert "height: 640px" in (frame.attributes["style"] or "")


class Widget:
    """A widget as ipywidgets has them, of which the test moves the value."""

    def __init__(self, *children: Any, **given: Any) -> None:
        self.children = children[0] if children else ()
        self.value, self.options = given.get("value"), given.get("options")
        self.told: list[Any] = []

    def observe(self, told: Any, names: str) -> None:
        assert names == "value"
        self.told.append(told)

    def move(self, value: object) -> None:
        """Move it, as a user would."""
        self.value = value
        for told in self.told:
            told({"new": value})


@pytest.mark.slow
def test_sliders_ask_again_with_what_they_stand_at(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = dict.fromkeys(("HTML", "SelectionSlider", "HBox", "VBox"), Widget)
    monkeypatch.setitem(sys.modules, "ipywidgets", SimpleNamespace(**kinds))
    given: dict[str, Any] = {"calibration": "none", "prompt": 100, "output": 8}
    row, shown = sliders(roofline.analyze, batch=4, **given).children
    assert shown.value == html(roofline.analyze(batch=4, **given))
    batch, prompt, _ = row.children
    assert (batch.value, prompt.value) == (4, 100)
    assert 100 in prompt.options
    batch.move(16)
    assert shown.value == html(roofline.analyze(batch=16, **given))
    prompt.move(2**17)  # with the answer more than the network is made for
    assert "tokens" in shown.value
    assert "<table" not in shown.value


def test_without_the_library_sliders_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(MissingEnvironmentError, match="ipywidgets") as refused:
        sliders(roofline.analyze)
    assert "pip install ipywidgets" in refused.value.hint
