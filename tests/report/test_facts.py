import math

import pytest

from roofline.cost.roof import BOUNDS
from roofline.records import replace
from roofline.report.figures import COLOURS, HATCH
from roofline.report.sections import (
    batch_curve,
    derivations,
    memory_stack,
    reproduce,
    roofline_chart,
    time_per_op,
    verdict,
)
from roofline.report.sections.batch_curve import batch_facts
from roofline.report.sections.roofline_chart import (
    ChartLabel,
    ChartPoint,
    Roof,
    UnchartedOperators,
    roofline_facts,
)
from roofline.report.sections.time_per_op import MOST_BARS, time_facts
from roofline.table import Derivation, Result, table
from roofline.view import tables
from roofline.view.block import Card
from roofline.view.operators import operator_grids
from roofline.view.text import Amount


def test_a_point_stands_at_its_intensity_and_its_rate(result: Result) -> None:
    facts = roofline_facts(result)
    assert facts.points == (
        ChartPoint(
            "prefill", "gate", 200000.0, 1000.0, 200.0, 200.0, 300.0, 0.8, "compute", 1000.0, 1000.0
        ),
        ChartPoint(
            "decode", "gate", 2000.0, 200.0, 10.0, 20.0, 22.0, 20 / 70, "memory", 100.0, 100.0
        ),
        ChartPoint(
            "decode", "attention", 400.0, 400.0, 1.0, 40.0, 40.4, 40 / 70, "memory", 10.0, 10.0
        ),
    )
    assert facts.arithmetic == (Roof("bf16", 1000.0),)
    assert facts.bandwidth == (Roof("HBM", 10.0), Roof("L2", 40.0))
    assert facts.ridge == 100.0


def test_no_point_is_above_its_roof_and_all_are_on_the_chart(result: Result) -> None:
    facts = roofline_facts(result)
    for point in facts.points:
        assert point.flops_per_s <= min(1000.0, 10.0 * point.intensity)
        assert facts.x[0] < point.intensity < facts.x[1]
        assert facts.y[0] < point.flops_per_s < facts.y[1]


def test_operators_without_flops_are_named_beside_the_chart(result: Result) -> None:
    facts = roofline_facts(result)
    assert facts.left_out == (
        UnchartedOperators("prefill", ("norm",), 0.2),
        UnchartedOperators("decode", ("all-reduce",), 10 / 70),
    )


def test_labels_of_neighbours_are_joined_and_small_operators_have_none(result: Result) -> None:
    assert roofline_facts(result).labels == (
        ChartLabel("prefill", ("gate",), 200.0, 1000.0),
        ChartLabel("decode", ("attention",), 1.0, 10.0),
        ChartLabel("decode", ("gate",), 10.0, 100.0),
    )
    rows = [
        {"phase": "decode", "op": op, "flops": 1.0, "hbm_bytes": 1.0, "intensity": intensity,
         "seconds": 1.0, "serial_s": 1.0, "share": share, "bound": "memory"}
        for op, intensity, share in (("a", 10.0, 0.2), ("b", 11.0, 0.7), ("c", 12.0, 0.01))
    ]  # fmt: skip
    near = replace(result, tables={**result.tables, "ops": table(rows, {})})
    labels = roofline_facts(near).labels
    assert [label.ops for label in labels] == [("b", "a")]


def test_bars_are_ordered_by_time_and_add_up(result: Result) -> None:
    prefill, decode = time_facts(result)
    assert [(bar.op, bar.seconds, bar.serial_s, bar.bound) for bar in decode.bars] == [
        ("attention", 40.0, 40.4, "memory"),
        ("gate", 20.0, 22.0, "memory"),
        ("all-reduce", 10.0, 10.0, "wire"),
    ]
    assert (prefill.seconds, prefill.serial_s) == (250.0, 350.0)
    assert decode.by_bound == {"memory": pytest.approx(60 / 70), "wire": 10 / 70}


def test_many_operators_become_one_bar_that_keeps_their_time(result: Result) -> None:
    rows = [
        {"phase": "decode", "op": f"op{n}", "seconds": float(n), "serial_s": float(n + 1),
         "share": n / 210, "bound": "memory"}
        for n in range(1, 21)
    ]  # fmt: skip
    many = replace(result, tables={**result.tables, "ops": table(rows, {})})
    (facts,) = time_facts(many)
    assert len(facts.bars) == MOST_BARS + 1
    assert facts.bars[-1].op == "5 smaller"
    assert facts.bars[-1].seconds == sum(range(1, 6))
    assert sum(bar.seconds for bar in facts.bars) == facts.seconds == 210


def test_memory_parts_budget_and_capacity_add_up(result: Result) -> None:
    facts = memory_stack.memory_facts(result)
    assert [(part.name, part.bytes) for part in facts.parts] == [
        ("weights", 40.0),
        ("KV cache", 20.0),
        ("runtime", 10.0),
    ]
    assert (facts.used, facts.budget, facts.capacity, facts.free) == (70.0, 90.0, 100.0, 20.0)


def test_an_overflow_keeps_the_limits_where_they_are(overflowing: Result) -> None:
    facts = memory_stack.memory_facts(overflowing)
    assert (facts.used, facts.budget, facts.capacity, facts.free) == (140.0, 90.0, 100.0, -50.0)
    figure = memory_stack.draw_memory(facts)
    assert "50.0\xa0B too much" in figure.summary
    (frame,) = [shape for shape in figure.spec["layout"]["shapes"] if shape["type"] == "rect"]
    assert frame["x1"] / frame["x0"] == pytest.approx(140 / 90)


def test_the_region_that_does_not_fit_begins_at_the_largest_batch(result: Result) -> None:
    facts = batch_facts(result)
    assert (facts.most, facts.current) == (6, 4)
    assert facts.fits == (True, True, True, False)
    assert [panel.name for panel in facts.panels] == ["TTFT", "TPOT", "Throughput"]
    (region,) = [
        shape
        for shape in batch_curve.draw_batch(facts).spec["layout"]["shapes"]
        if shape["type"] == "rect"
    ]
    assert region["x0"] == pytest.approx(6)


def test_a_single_token_has_no_tpot_panel(result: Result) -> None:
    rows = [{**row, "tpot_s": 0.0} for row in result.tables["batch_curve"].rows()]
    single = replace(result, tables={**result.tables, "batch_curve": table(rows, {})})
    facts = batch_facts(single)
    assert [panel.name for panel in facts.panels] == ["TTFT", "Throughput"]


def test_nothing_is_shaded_where_every_batch_fits(result: Result) -> None:
    rows = [{**row, "fits": True} for row in result.tables["batch_curve"].rows()]
    roomy = replace(result, tables={**result.tables, "batch_curve": table(rows, {})})
    facts = batch_facts(roomy)
    assert facts.most is None
    assert "All of them fit" in batch_curve.draw_batch(facts).summary


def test_changes_that_do_not_fit_come_last(result: Result) -> None:
    found = tables.what_if(result)
    assert found is not None
    assert [row[0].text for row in found.rows] == ["fp8", "more"]


def test_the_verdict_has_both_bounds_and_a_link_to_the_derivation(result: Result) -> None:
    facts = verdict.verdict_facts(result)
    assert facts.fits is True
    assert facts.floor
    assert facts.cards[0] == Card(
        "TTFT",
        Amount("250", "s"),
        None,
        ("350\N{NO-BREAK SPACE}s without overlap",),
        basis="datasheet",
        explained="ttft",
    )
    assert facts.grounds == ""
    assert facts.known == ()
    assert facts.cards[2].explained == ""


def test_zero_tpot_is_shown_as_none(result: Result) -> None:
    rows = [
        {**row, "value": 0.0, "serial": 0.0} if row["metric"] == "tpot_s" else row
        for row in result.tables["headline"].rows()
    ]
    single = replace(result, tables={**result.tables, "headline": table(rows, {})})
    facts = verdict.verdict_facts(single)
    assert "TPOT" not in [card.name for card in facts.cards]
    found = tables.headline(single)
    assert found is not None
    assert [row[1].text for row in found.rows if row[0].text == "TPOT"] == ["–"]


def test_a_derivation_inside_another_is_told_once(result: Result) -> None:
    facts = derivations.derivation_facts(result)
    assert facts["ttft"].inputs[0].inputs[0].entry.source == "tiny datasheet"
    (inner,) = facts["latency"].inputs
    assert (inner.metric, inner.inputs) == ("ttft", ())


def test_a_long_part_of_two_derivations_is_told_under_the_first(result: Result) -> None:
    given = tuple(Derivation(str(n), float(n), "s") for n in range(derivations.LONG - 1))
    long, short = (Derivation("step", 1.0, "s", "sum", inputs=given[n:]) for n in (0, 1))
    two = {
        name: Derivation(name, 2.0, "s", "twice", inputs=(long, short)) for name in ("tpot", "ttft")
    }
    facts = derivations.derivation_facts(replace(result, derivations=two))
    assert [len(part.inputs) for part in facts["tpot"].inputs] == [len(given), len(given) - 1]
    linked, told = facts["ttft"].inputs
    assert (linked.metric, linked.under, linked.inputs) == ("tpot", "tpot", ())
    assert len(told.inputs) == len(given) - 1


def test_an_operator_table_has_every_operator_once(result: Result) -> None:
    prefill, decode = operator_grids(result)
    assert [row[0].text for row in prefill.rows] == ["gate", "norm"]
    assert [row[0].text for row in decode.rows] == ["gate", "attention", "all-reduce"]
    assert "Activations" not in [head.text for head in decode.heads]


def test_the_command_and_inputs_are_kept(result: Result) -> None:
    facts = reproduce.reproduce_facts(result)
    assert facts.command == "roofline analyze tiny-1b --gpu tiny"
    assert ("GPU", "tiny") in facts.inputs
    assert ("Prompt", "2,048") in facts.inputs
    assert not {"Summary", "Command"} & {key for key, _ in facts.inputs}


def test_the_area_of_a_point_is_its_share(result: Result) -> None:
    spec = roofline_chart.draw_roofline(roofline_facts(result)).spec
    cloud = next(trace for trace in spec["data"] if trace["name"] == "decode")
    marker = cloud["marker"]
    assert marker["size"] == [40 / 70, 20 / 70]
    # By plotly's rule for areas the diameter is 2·sqrt(size / sizeref / 2).
    assert math.sqrt(2 / marker["sizeref"]) == pytest.approx(roofline_chart.LARGEST_POINT)


def test_waiting_for_the_host_has_its_colour_its_pattern_and_its_words(result: Result) -> None:
    rows = [
        {"phase": "decode", "op": "load-weights", "seconds": 3.0, "serial_s": 4.0, "share": 0.75,
         "bound": "host"},
        {"phase": "decode", "op": "gate", "seconds": 1.0, "serial_s": 1.0, "share": 0.25,
         "bound": "memory"},
    ]  # fmt: skip
    loading = replace(result, tables={**result.tables, "ops": table(rows, {})})
    (facts,) = time_facts(loading)
    figure = time_per_op.draw_times(facts, "time")
    bar = next(
        bar for bar in figure.spec["data"] if bar.get("name", "").startswith("bound by the host")
    )
    assert bar["marker"]["color"] == "theme:host"
    assert bar["marker"]["pattern"]["shape"] == "."
    assert "75\xa0% bound by the host: loads or launches" in figure.summary
    assert [(key.tint, key.shape) for key in figure.legend][:2] == [
        ("host", "dotted"),
        ("memory", "hatched"),
    ]


def test_every_bound_has_a_colour_a_pattern_and_words() -> None:
    assert set(time_per_op.BOUNDS) - {""} == {*BOUNDS, "engine"} == set(HATCH) <= set(COLOURS)


def test_columns_of_wires_and_loads_are_shown_where_there_are_any(result: Result) -> None:
    ops = result.tables["ops"]
    rows = [
        {**row, "algorithm": "ring" if row["kind"] == "collective" else "",
         "network_bytes": 0.0, "host_bytes": 8.0 if row["op"] == "gate" else 0.0}
        for row in ops.rows()
    ]  # fmt: skip
    several = replace(result, tables={**result.tables, "ops": table(rows, {})})
    heads = [head.text for head in operator_grids(several)[0].heads]
    assert "Algorithm" in heads
    assert "Loaded" in heads
    assert "Sent out of the node" not in heads
