"""Figures of answers beside that of `analyze`: what they show is what the tables say."""

from itertools import count
from typing import Any

import pytest

from roofline.report.page import render
from roofline.report.sections import latencies, layouts_chart, speed_up, variants
from roofline.report.sections.latencies import latency_facts
from roofline.table import Result, table
from roofline.view.block import Figure
from tests.report.hostile import harmless, in_turn, poisoned
from tests.report.pages import taken_apart


def _latency(metric: str, scale: float, **ends: float) -> dict[str, Any]:
    values = {"p50": 1.0, "p90": 2.0, "p95": 3.0, "p99": 4.0}
    return {"metric": metric, **{name: scale * value for name, value in values.items()}, **ends}


def simulated() -> Result:
    headline = [
        {**_latency("ttft_s", 0.1), "p99_low": 0.3, "p99_high": 0.5},
        {**_latency("queueing_s", 0.0), "p99_low": 0.0, "p99_high": 0.0},
    ]
    objectives = [
        {"objective": "ttft_p99", "limit_s": 0.35},
        {"objective": "e2e_p99", "limit_s": 9.0},
    ]
    return Result(
        "simulate", {"headline": table(headline, {}), "objectives": table(objectives, {})}
    )


def drafted() -> Result:
    rows = [
        {"batch": 1, "speed_up": 2.0, "best_speed_up": 2.2, "fits": True},
        {"batch": 64, "speed_up": 1.1, "best_speed_up": 1.2, "fits": True},
        {"batch": 256, "speed_up": 0.8, "best_speed_up": 1.0, "fits": False},
    ]
    return Result("speculate", {"batches": table(rows, {})})


def laid_out() -> Result:
    def row(name: str, latency: float, rate: float | None, fits: bool) -> dict[str, Any]:
        return {"layout": name, "replicas": 1, "latency_s": latency, "tpot_s": 0.01, "fits": fits,
                "filled_tok_s_per_gpu": rate, "wire_share": 0.2}  # fmt: skip

    rows = [
        row("tp8", 2.0, 100.0, True),
        row("tp2-pp4", 5.0, 300.0, True),
        row("tp1", 9.0, None, True),
        row("dp8", 1.0, 500.0, False),
    ]
    best = [{"objective": "latency", "layout": "tp8"}]
    return Result("layouts", {"layouts": table(rows, {}), "best": table(best, {})})


def varied() -> Result:
    rows = [
        {"variant": "gqa=8", "ttft_s": 0.9, "tpot_s": 0.5, "throughput_tok_s": 1.8},
        {"variant": "mla=512", "ttft_s": 0.9, "tpot_s": None, "throughput_tok_s": 1.9},
    ]
    return Result("compare", {"factors": table(rows, {})})


ANSWERS = {
    latencies: simulated,
    speed_up: drafted,
    layouts_chart: laid_out,
    variants: varied,
}


def _figure(module: Any) -> Figure:
    block = module.build(ANSWERS[module]())
    assert block is not None
    found: tuple[Figure, ...] = block.figures
    (figure,) = found
    return figure


def test_latencies_that_took_time_are_drawn_with_their_intervals_and_objectives() -> None:
    (ttft,) = latency_facts(simulated())
    assert ttft.values == {"p50": 0.1, "p90": 0.2, "p99": 0.4}
    assert ttft.ends == {"p99": (0.3, 0.5)}
    assert ttft.limits == (("p99", 0.35),)
    traces = {trace["name"]: trace for trace in _figure(latencies).spec["data"]}
    assert traces["p99"]["error_x"]["arrayminus"] == pytest.approx([0.1])
    assert traces["p50"]["error_x"]["array"] == [0.0]
    assert traces["limit"]["x"] == [0.35]


def test_the_speed_up_says_where_it_is_a_loss_and_what_does_not_fit() -> None:
    figure = _figure(speed_up)
    assert figure.summary == "2.00 × at a batch of 1, 0.80 × at 256; a loss from 256 on."
    asked, best = figure.spec["data"]
    assert asked["y"] == [2.0, 1.1, 0.8]
    assert best["y"] == [2.2, 1.2, 1.0]
    assert asked["marker"]["symbol"] == ["diamond", "diamond", "diamond-open"]


def test_the_work_of_a_token_is_drawn_by_what_is_drafted() -> None:
    rows = [
        {"drafted": 1, "speed_up": 1.5, "gain_bound": 1.6, "operations": 1.2, "traffic": 0.7},
        {"drafted": 4, "speed_up": 2.0, "gain_bound": 2.4, "operations": 1.8, "traffic": 0.5},
        {"drafted": 8, "speed_up": 1.7, "gain_bound": 2.2, "operations": 2.9, "traffic": 0.6},
    ]
    block = speed_up.build(Result("speculate", {**drafted().tables, "drafts": table(rows, {})}))
    assert block is not None
    _, work = block.figures
    assert work.summary == (
        "2.00 × as fast with 4 drafted, for 1.80 × the arithmetic and 0.50 × the memory traffic of "
        "a token."
    )
    assert [trace["x"] for trace in work.spec["data"]] == [[1, 4, 8]] * 4
    assert [key.text for key in work.legend][1] == "bound of the speed-up"


def test_layouts_that_fit_are_drawn_and_the_best_have_their_name() -> None:
    figure = _figure(layouts_chart)
    _, points = figure.spec["data"]
    assert (points["x"], points["y"]) == ([2.0, 5.0], [100.0, 300.0])
    names = [entry["text"] for entry in figure.spec["layout"]["annotations"]]
    assert names == ["TP\N{NO-BREAK SPACE}8"]


def test_factors_of_a_variant_are_those_of_the_table() -> None:
    traces = {trace["name"]: trace for trace in _figure(variants).spec["data"]}
    assert traces["TPOT"]["x"] == [0.5]
    assert traces["TPOT"]["y"] == [0]
    assert traces["Throughput"]["x"] == [1.8, 1.9]
    assert "mla=512: TTFT × 0.90, Throughput × 1.90" in _figure(variants).summary


@pytest.mark.parametrize("module", ANSWERS, ids=lambda module: module.__name__.split(".")[-1])
def test_there_is_no_section_without_its_table(module: Any) -> None:
    assert module.build(Result("other", {"t": table([{"a": 1}], {})})) is None


@pytest.mark.slow
@pytest.mark.parametrize("module", ANSWERS, ids=lambda module: module.__name__.split(".")[-1])
def test_a_figure_opens_in_a_notebook_and_on_a_page(module: Any) -> None:
    answer = ANSWERS[module]()
    drawn = answer.plot(_figure(module).key)
    assert drawn.layout.title.text == _figure(module).title
    assert "theme:" not in drawn.to_json()
    assert f'id="{_figure(module).key}"' in render(answer)


@pytest.mark.slow
@pytest.mark.parametrize("texts", in_turn(15), ids=count())
@pytest.mark.parametrize("module", ANSWERS, ids=lambda module: module.__name__.split(".")[-1])
def test_a_hostile_name_adds_no_element(module: Any, texts: list[str]) -> None:
    def shape(words: list[str]) -> list[tuple[str, list[str]]]:
        page = taken_apart(render(poisoned(ANSWERS[module](), words)))
        return [(entry.tag, sorted(entry.attributes)) for entry in page.elements]

    assert shape(texts) == shape(harmless(texts))
