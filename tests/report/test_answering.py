"""Verdicts and figures of layouts, pools, runs and groups, against the tables that they are of."""

from typing import Any

import pytest

import roofline
from roofline.api.scores import error_groups
from roofline.report import render
from roofline.report.sections import blocks
from roofline.report.sections.latencies import draw_distribution
from roofline.report.sections.slo_verdict import traffic_verdict
from roofline.report.sections.traffic import draw_by_load
from roofline.report.sections.verdict import verdict_facts
from roofline.report.statuses import layout_cards, pools_status, spoken_layout
from roofline.table import Result, table
from roofline.view.grids import grid
from tests.report.pages import taken_apart


def _figures(result: Result) -> dict[str, Any]:
    return {figure.key: figure for block in blocks(result) for figure in block.figures}


def _trace(figure: Any, name: str) -> dict[str, Any]:
    (found,) = (trace for trace in figure.spec["data"] if trace.get("name") == name)
    return dict(found)


@pytest.fixture(scope="module")
def layouts() -> Result:
    return roofline.layouts("llama-3.1-8b", gpus=4, calibration="none")


@pytest.fixture(scope="module")
def pools() -> Result:
    return roofline.disaggregate(
        "llama-3.1-8b", prefill="tp1", decode="tp2", gpus=8, calibration="none"
    )


@pytest.fixture(scope="module")
def run() -> Result:
    return roofline.simulate(
        "llama-3.1-8b", workload="chat", rate=5.0, requests=200, slo="ttft=1s", calibration="none"
    )


@pytest.mark.slow
def test_the_front_of_layouts_is_what_nothing_beats_in_both(layouts: Result) -> None:
    rows = [row for row in layouts.rows("layouts") if row["fits"]]
    points = {(row["latency_s"], row["filled_tok_s_per_gpu"]) for row in rows}
    front = _trace(_figures(layouts)["layouts"], "nothing is better in both")
    unbeaten = {
        (x, y)
        for x, y in points
        if not any(a <= x and b >= y and (a, b) != (x, y) for a, b in points)
    }
    assert set(zip(front["x"], front["y"], strict=True)) == unbeaten
    assert front["x"] == sorted(front["x"])


@pytest.mark.slow
def test_cards_of_layouts_are_the_best_of_all_that_fit(layouts: Result) -> None:
    rows = [row for row in layouts.rows("layouts") if row["fits"]]
    fast = min(rows, key=lambda row: row["latency_s"])
    status = verdict_facts(layouts).status
    assert status.startswith(f"{spoken_layout(fast['layout'])} answers soonest")
    assert "Fits in memory" not in render(layouts)
    (first, *_) = layout_cards(layouts)
    assert first.name == "Least latency"
    assert first.said[0] == spoken_layout(fast["layout"])


def test_a_layout_is_written_as_the_engine_of_layouts_writes_it() -> None:
    from roofline.cost.layout import Layout

    for degrees in ({}, {"tp": 8}, {"tp": 2, "pp": 4}, {"dp": 8, "ep": 8}):
        layout = Layout(**degrees)  # type: ignore[arg-type]
        assert spoken_layout(layout.spelled).replace("\N{NO-BREAK SPACE}", " ") == str(layout)


def test_pools_are_drawn_gpu_by_gpu_and_the_least_sets_the_pace(pools: Result) -> None:
    figures, rows = _figures(pools), pools.rows("pools")
    for row in rows:
        squares = _trace(figures["pools"], row["pool"])
        assert len(squares["x"]) == row["instances"] * row["gpus"]
    least = min(rows, key=lambda row: row["requests_per_s"])
    assert f"{least['pool']} sets the pace" in pools_status(pools)
    (line,) = figures["carried"].spec["layout"]["shapes"]
    assert line["x0"] == least["requests_per_s"]
    (_, rest) = rows
    assert rest["idle"] == pytest.approx(1 - line["x0"] / rest["requests_per_s"], abs=1e-9)


def test_what_the_interconnect_carries_is_what_it_gives_over_a_cache(pools: Result) -> None:
    """By hand: bytes a second over bytes of a request, on the end that has least."""
    sent = {row["what"]: row["value"] for row in pools.rows("transfer")}
    bars = _trace(_figures(pools)["carried"], "requests/s")
    rate = float(str(bars["hovertext"][1]).split(": ")[1].split()[0].replace(",", ""))
    served = min(row["requests_per_s"] for row in pools.rows("pools"))
    assert rate == pytest.approx(served * sent["given"] / sent["needed"], rel=0.01)


@pytest.mark.slow
def test_a_run_is_drawn_as_its_tables_say(run: Result) -> None:
    figures = _figures(run)
    time = _trace(figures["over-time"], "running")
    rows = run.rows("over_time")
    assert time["x"][::2] == [row["from_s"] for row in rows]
    assert time["y"][1::2] == [row["running"] for row in rows]
    load = _trace(figures["by-load"], "TTFT p99")
    assert load["y"] == [row["ttft_p99_s"] for row in run.rows("by_load")]
    marked = [shape["x0"] for shape in figures["by-load"].spec["layout"]["shapes"]]
    assert marked == [run.metadata["saturation_requests_per_s"], 5.0]


def test_a_load_far_beyond_saturation_leaves_the_curve_its_room(run: Result) -> None:
    """Forty times what it serves: the axis ends near saturation, and an arrow says the rest."""
    limit = run.metadata["saturation_requests_per_s"]
    drawn = draw_by_load(
        run.rows("by_load"), {**run.metadata, "offered_requests_per_s": 40 * limit}
    )
    shown = drawn.spec["layout"]
    assert shown["xaxis"]["range"][1] < 2 * limit
    assert [shape["x0"] for shape in shown["shapes"]] == [limit]
    name = shown["annotations"][1]
    assert name["text"].endswith("→")
    assert name["x"] <= shown["xaxis"]["range"][1]


def test_limits_stand_at_their_percentile_and_means_do_not() -> None:
    rows = [{"request_share": share, "ttft_s": share} for share in (0.5, 1.0)]
    limits = [
        {"objective": "ttft_p99", "limit_s": 2.0},
        {"objective": "ttft_mean", "limit_s": 1.0},
        {"objective": "e2e_p99.9", "limit_s": 9.0},
    ]
    marks = _trace(draw_distribution(rows, limits), "limit")
    assert marks["x"] == [2.0, 9.0]
    assert marks["y"] == pytest.approx([0.99, 0.999])


@pytest.mark.parametrize("kind", ["layouts", "pools", "run"])
def test_ids_are_unique_on_pages_of_all_kinds(kind: str, request: pytest.FixtureRequest) -> None:
    page = taken_apart(render(request.getfixturevalue(kind)))
    ids = [e.attributes["id"] for e in page.elements if "id" in e.attributes]
    assert len(ids) == len(set(ids))


def test_errors_are_grouped_with_those_that_have_no_interval() -> None:
    figures = [
        {"engine": "vllm", "gpu": gpu, "network": "n", "mode": "", "metric": "odd", "error": error,
         "inside": inside}
        for gpu, error, inside in (("a", 0.1, True), ("a", -0.3, None), ("b", 0.2, None))
    ]  # fmt: skip
    rows = {(row["by"], row["gpu"]): row for row in error_groups(figures).rows()}
    first = rows["gpu", "a"]
    assert (first["figures"], first["inside"]) == (2, 1.0)
    assert first["median_error"] == pytest.approx(0.2)
    assert rows["gpu", "b"]["inside"] is None
    assert ("engine", "") not in rows  # all are of one


def test_numbers_of_a_column_have_the_same_digits_and_counts_have_none() -> None:
    rows = [{"requests_per_s": 23.0, "gpus": 8}, {"requests_per_s": 37.61, "gpus": 16}]
    rows.append({"requests_per_s": 0.5, "gpus": 4})
    cells = grid("k", "t", table(rows, {"requests_per_s": "request/s"})).rows
    assert [row[0].text for row in cells] == ["23.0", "37.6", "0.500"]
    assert [row[1].text for row in cells] == ["8", "16", "4"]


def test_clients_are_drawn_with_those_of_the_run_and_where_throughput_saturates() -> None:
    found = roofline.simulate("llama-3.1-8b", concurrency=4, max_sequences=16, calibration="none")
    figure, rows = _figures(found)["by-clients"], found.rows("by_clients")
    assert _trace(figure, "TTFT p99")["y"] == [row["ttft_p99_s"] for row in rows]
    assert _trace(figure, "throughput")["x"] == [row["clients"] for row in rows]
    marked = [shape["x0"] for shape in figure.spec["layout"]["shapes"]]
    assert marked == [4, found.metadata["saturation_clients"]]
    assert "by-load" not in _figures(found)


@pytest.mark.parametrize(("slo", "said"), [("ttft_p99=1ms", "missed"), ("ttft_p99=9s", "kept")])
def test_clients_that_wait_overload_nothing(slo: str, said: str) -> None:
    found = roofline.simulate("llama-3.1-8b", concurrency=2, slo=slo, calibration="none")
    status = traffic_verdict(found).status
    assert said in status
    assert "queue" not in status
