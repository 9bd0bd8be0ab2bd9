"""The page of a deployment that measured kernels predict: intervals, floors apart, how sure."""

import pytest

import roofline
from roofline.records import replace
from roofline.report import render
from roofline.report.sections import (
    assumptions,
    batch_curve,
    roofline_chart,
    time_per_op,
    verdict,
)
from roofline.report.sections.batch_curve import batch_facts
from roofline.report.sections.roofline_chart import ChartPoint, roofline_facts
from roofline.report.sections.time_per_op import OperatorBar, time_facts
from roofline.table import Result, table
from roofline.view.block import Card, Cell
from roofline.view.known import at_roof, calibrated, ends, inside
from roofline.view.operators import operator_grids
from roofline.view.text import Amount
from tests.report.pages import taken_apart

NO_BREAK = "\N{NO-BREAK SPACE}"


@pytest.fixture(scope="module")
def real() -> Result:
    """Quantised weights on several devices: products that quantise, wires that hide in part."""
    return roofline.analyze("llama-3.1-8b", weights="fp8", tp=8, overlap=0.5, prompt=512, output=32)


def test_a_predicted_figure_has_its_interval_and_the_datasheet_bound_apart(
    predicted: Result,
) -> None:
    facts = verdict.verdict_facts(predicted)
    assert facts.grounds == "measured kernels (tiny-kernels)"
    assert (facts.floor, facts.both) == (False, False)
    assert facts.cards[0] == Card(
        "TTFT",
        Amount("300", "s"),
        Amount("240 – 375", "s"),
        ("datasheet floor 250",),
        basis="part datasheet",
        explained="ttft",
    )
    assert [card.said[0].split()[1] for card in facts.cards] == ["floor", "floor", "ceiling"]
    assert facts.cards[1].basis == "transferred"


def test_how_sure_is_the_time_of_each_step_by_basis_best_first(predicted: Result) -> None:
    assert verdict.verdict_facts(predicted).known == (
        verdict.BasisShares("prefill", {"interpolated": 250 / 300, "datasheet": 50 / 300}),
        verdict.BasisShares(
            "decode", {"interpolated": 5 / 77, "extrapolated": 32 / 77, "transferred": 40 / 77}
        ),
    )


@pytest.mark.slow
def test_the_shares_of_how_sure_are_the_whole_step(real: Result) -> None:
    for entry in verdict.verdict_facts(real).known:
        assert sum(entry.shares.values()) == pytest.approx(1)


def test_without_any_measured_operator_figures_are_floors(predicted: Result) -> None:
    rows = [
        {**row, "low": row["value"], "high": row["value"]}
        for row in predicted.tables["headline"].rows()
    ]
    bare = replace(predicted, tables={**predicted.tables, "headline": table(rows, {})})
    facts = verdict.verdict_facts(bare)
    assert (facts.grounds, facts.floor) == ("", True)
    assert facts.cards[0].basis == "datasheet"
    assert "datasheet floor, not a forecast" in render(bare)


def test_a_figure_in_which_nothing_was_measured_says_so(predicted: Result) -> None:
    rows = [
        {**row, "low": row["value"], "high": row["value"]} if row["metric"] == "ttft_s" else row
        for row in predicted.tables["headline"].rows()
    ]
    mixed = replace(predicted, tables={**predicted.tables, "headline": table(rows, {})})
    card = verdict.verdict_facts(mixed).cards[0]
    assert (card.interval, card.basis) == (None, "datasheet")
    assert "nothing measured" in render(mixed)


def test_bars_have_intervals_the_share_of_the_roof_and_a_basis(predicted: Result) -> None:
    prefill, decode = time_facts(predicted)
    assert prefill.bars == (
        OperatorBar(
            "gate", 250.0, 300.0, 250 / 300, "compute", (200.0, 312.5), 200.0, 0.8, "interpolated"
        ),
        OperatorBar("norm", 50.0, 50.0, 50 / 300, "memory", None, 50.0, 1.0, "datasheet"),
    )
    assert decode.bars == (
        OperatorBar("gate", 40.0, 22.0, 40 / 77, "memory", (20.0, 80.0), 20.0, 0.5, "transferred"),
        OperatorBar(
            "attention", 32.0, 40.4, 32 / 77, "memory", (16.0, 64.0), 32.0, 1.25, "extrapolated"
        ),
        OperatorBar(
            "all-reduce", 5.0, 10.0, 5 / 77, "wire", (4.0, 6.25), 5.0, None, "interpolated"
        ),
    )
    assert decode.inside == ("quantise-gate",)
    assert (decode.seconds, decode.within_s) == (77.0, 57.0)


def test_full_and_pale_bars_and_lines_stand_where_the_facts_are(predicted: Result) -> None:
    facts = time_facts(predicted)[1]
    figure = time_per_op.draw_times(facts, "time")
    pale, memory, wire, line, _ = figure.spec["data"]
    assert pale["x"] == [40.0, 32.0, 5.0]
    assert (memory["x"], wire["x"]) == ([20.0, 32.0], [5.0])
    low, high = line["error_x"]["arrayminus"], line["error_x"]["array"]
    assert [x - left for x, left in zip(line["x"], low, strict=True)] == [20.0, 16.0, 4.0]
    assert [x + right for x, right in zip(line["x"], high, strict=True)] == [80.0, 64.0, 6.25]
    badges = [entry["text"] for entry in figure.spec["layout"]["annotations"]]
    assert badges == ["transferred", "extrapolated", "interpolated"]
    assert figure.title == f"Decode step: 77.0{NO_BREAK}s predicted"
    assert f"20.0{NO_BREAK}s are beyond the datasheet floors" in figure.summary


def test_what_is_not_measured_has_no_line(predicted: Result) -> None:
    figure = time_per_op.draw_times(time_facts(predicted)[0], "time")
    line = next(trace for trace in figure.spec["data"] if "error_x" in trace)
    assert line["x"] == [250.0]
    assert (
        "a datasheet floor: nothing like it was measured" in figure.spec["data"][0]["hovertext"][1]
    )


@pytest.mark.slow
def test_operators_inside_others_are_named_and_have_no_bar(real: Result) -> None:
    times = time_facts(real)
    block = time_per_op.build(real)
    assert block is not None
    (fused,) = block.facts["fused"]
    assert fused == ("quantise-qkv, quantise-attn-out, quantise-gate-up, quantise-down",
                     "prefill and decode")  # fmt: skip
    rows = [row for row in real.tables["ops"].rows() if row["phase"] == "decode"]
    assert {bar.op for bar in times[1].bars} == {row["op"] for row in rows if row["seconds"]}
    assert "In the product, and so without a bar in prefill and decode" in render(real)


def test_wires_that_are_all_hidden_are_not_in_a_product() -> None:
    row = {"seconds": 0.0, "roof_s": 3.0, "wire_s": 3.0, "host_s": 0.0, "basis": "interpolated"}
    assert not inside(row)
    assert ends({**row, "low_s": 0.0, "high_s": 0.0}) is None
    assert at_roof(row) is None
    assert inside({**row, "wire_s": 0.0})


def test_a_point_stands_at_its_predicted_rate_and_knows_its_roof(predicted: Result) -> None:
    points = {(point.phase, point.op): point for point in roofline_facts(predicted).points}
    assert points["prefill", "gate"] == ChartPoint(
        "prefill", "gate", 200000.0, 1000.0, 200.0, 250.0, 300.0, 250 / 300, "compute",
        flops_per_s=800.0, roof_flops_per_s=1000.0, interval=(640.0, 1000.0), basis="interpolated",
    )  # fmt: skip
    assert points["decode", "attention"].flops_per_s == 12.5  # above its roof of 10
    assert points["decode", "attention"].roof_flops_per_s == 10.0


def test_roofs_of_points_are_those_of_the_machine(real: Result) -> None:
    rates = {row["name"]: row["rate"] for row in real.tables["roofs"].rows()}
    arithmetic = {row["op"]: row["arithmetic"] for row in real.tables["ops"].rows()}
    facts = roofline_facts(real)
    assert len(facts.points) >= 10
    for point in facts.points:
        peak = min(rates[arithmetic[point.op]], rates["HBM"] * point.intensity)
        assert point.roof_flops_per_s == pytest.approx(peak)
        assert facts.y[0] < point.flops_per_s < facts.y[1]


def test_the_gap_to_the_roof_is_drawn_and_hovered(predicted: Result) -> None:
    figure = roofline_chart.draw_roofline(roofline_facts(predicted))
    gaps = [trace for trace in figure.spec["data"] if None in trace["x"]]
    assert gaps[0]["x"] == [200.0, 200.0, None]
    assert gaps[0]["y"] == [800.0, 1000.0, None]
    cloud = next(trace for trace in figure.spec["data"] if trace.get("name") == "prefill")
    (hover,) = cloud["hovertext"]
    assert f"predicted 800{NO_BREAK}FLOP/s, interpolated" in hover
    assert f"80 % in 640{NO_BREAK}FLOP/s – 1.00{NO_BREAK}kFLOP/s" in hover
    assert f"roof 1.00{NO_BREAK}kFLOP/s: 80{NO_BREAK}% of it" in hover
    assert f"80{NO_BREAK}% in prefill (gate)" in figure.summary


def test_points_below_the_roof_share_a_label_only_at_one_height(predicted: Result) -> None:
    rows = [
        {"phase": "decode", "op": op, "flops": 10.0, "hbm_bytes": 1.0, "intensity": 10.0,
         "seconds": seconds, "low_s": seconds / 2, "high_s": 2 * seconds, "roof_s": 0.1,
         "serial_s": 0.1, "share": seconds / 7.2, "bound": "memory", "basis": "interpolated"}
        for op, seconds in (("a", 1.0), ("b", 1.2), ("c", 5.0))
    ]  # fmt: skip
    near = replace(predicted, tables={**predicted.tables, "ops": table(rows, {})})
    assert [entry.ops for entry in roofline_facts(near).labels] == [("b", "a"), ("c",)]


def test_curves_have_bands_and_axes_that_hold_them(predicted: Result) -> None:
    facts = batch_facts(predicted)
    assert facts.calibrated
    ttft = facts.panels[0]
    assert (ttft.low[0], ttft.values[0], ttft.high[0]) == (31.25, 62.5, 125.0)
    figure = batch_curve.draw_batch(facts)
    low, high, curve = figure.spec["data"][:3]
    assert (low["y"], high["y"], curve["y"]) == (
        list(ttft.low),
        list(ttft.high),
        list(ttft.values),
    )
    assert "fill" not in low
    assert high["fill"] == "tonexty"
    edges = [10**edge for edge in figure.spec["layout"]["yaxis"]["range"]]
    assert edges[0] < min(ttft.low) < max(ttft.high) < edges[1]
    assert f"80 % in 31.2 – 125{NO_BREAK}s" in curve["hovertext"][0]
    assert f"The central 80 % at batch 4: TTFT 125 – 500{NO_BREAK}s" in figure.summary


def test_bands_of_a_real_result_hold_the_headline_interval(real: Result) -> None:
    facts = batch_facts(real)
    here = facts.batches.index(16)
    rows = {row["metric"]: row for row in real.tables["static_batch"].rows()}
    for panel, metric in zip(facts.panels, ("ttft_s", "tpot_s", "throughput_tok_s"), strict=True):
        assert panel.low[here] == pytest.approx(rows[metric]["low"])
        assert panel.high[here] == pytest.approx(rows[metric]["high"])


def test_the_operator_table_says_interval_roof_and_basis(predicted: Result) -> None:
    decode = operator_grids(predicted)[1]
    heads = [head.text for head in decode.heads]
    first = ["Operator", "Time", f"80{NO_BREAK}%", "Datasheet floor", "Floor over time", "Basis"]
    assert heads[:6] == first
    assert "No overlap" not in heads
    told = {row[0].text: row[1:6] for row in decode.rows}
    assert told["gate"] == (
        Cell("40.0", "s"),
        Cell("20.0 – 80.0", "s"),
        Cell("20.0", "s"),
        Cell(f"50{NO_BREAK}%"),
        Cell("transferred", tone="badge"),
    )
    assert told["quantise-gate"][4] == Cell("in the product", tone="muted")
    assert told["all-reduce"][3] == Cell("–")
    norm = operator_grids(predicted)[0].rows[1]
    assert norm[2].text == "–"


def test_the_kernels_in_use_are_among_the_assumptions(predicted: Result) -> None:
    block = assumptions.build(predicted)
    assert block is not None
    kernels = next(grid for grid in block.grids if grid.key == "kernels-table")
    assert kernels.caption.endswith("calibration tiny-kernels")
    assert [cell.text for cell in kernels.rows[0]] == [
        "gemm bf16, vllm", "tiny", "interpolated", f"80{NO_BREAK}%", f"50{NO_BREAK}%", "gate",
        "8 rows",
    ]  # fmt: skip
    assert [cell.text for cell in kernels.rows[1][:2]] == ["–", "–"]


def test_a_predicted_page_calls_nothing_of_its_own_a_floor(predicted: Result) -> None:
    text = render(predicted)
    taken_apart(text)
    assert "Predicted from measured kernels" in text
    assert "not a forecast" not in text
    assert "without overlap" not in text.partition("library")[0]
    assert "With perfect overlap" not in text


def test_a_datasheet_page_predicts_nothing() -> None:
    text = render(roofline.analyze(calibration="none", prompt=64, output=4))
    shown = text.partition('id="library"')[0]
    assert "datasheet floor, not a forecast" in shown
    assert "redicted" not in shown.partition("</style>")[2]
    assert "80 %" not in shown
    assert "kernels-table" not in shown.partition("</style>")[2]


def test_which_page_it_is_stands_in_the_header(predicted: Result, result: Result) -> None:
    for page, words in (
        (predicted, "predicted from measured kernels (tiny-kernels)"),
        (result, "datasheet rates"),
    ):
        lines = taken_apart(render(page)).all("p")
        (line,) = [p.text for p in lines if p.attributes.get("class") == "subtitle"]
        assert line.endswith(words)


def test_intervals_are_what_makes_a_result_calibrated(result: Result, predicted: Result) -> None:
    assert not calibrated(result)
    assert calibrated(predicted)
