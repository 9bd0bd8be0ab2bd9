"""First card of a page: the answer, in figures, and how sure it is."""

from typing import Any

from roofline.records import replace
from roofline.report.page import render
from roofline.report.sections import (
    blocks,
    compare_verdict,
    parity,
    slo_verdict,
    sweep_verdict,
    tornado,
)
from roofline.report.sections.derivations import derivation_facts
from roofline.report.sections.reproduce import reproduce_facts
from roofline.report.sections.sweep_verdict import named, winners
from roofline.table import Derivation, Result, table
from roofline.view.questions import view_of
from tests.report.test_explorer import planned

NO_BREAK = "\N{NO-BREAK SPACE}"


def swept(**more: Any) -> Result:
    """Cheap but slow, quick but dear, and what is both but misses a limit."""
    common = {"model": "tiny", "layout": "tp1", "gpus": 1, "batch": 8, "basis": "transferred"}
    rows = [
        {"gpu": "slow", "usd_per_mtok": 1.0, "tpot_s": 0.04, "feasible": True},
        {"gpu": "fast", "usd_per_mtok": 3.0, "tpot_s": 0.01, "feasible": True},
        {"gpu": "best", "usd_per_mtok": 0.5, "tpot_s": 0.005, "feasible": False},
    ]
    metadata: dict[str, Any] = {
        "title": "Which?",
        "summary": ("Three.",),
        "objectives": (("usd_per_mtok", False), ("tpot_s", False)),
        "limits": {"tpot_s": 0.05},
    }
    points = table([{**row, **common} for row in rows], {"tpot_s": "s", "usd_per_mtok": "$"})
    return Result("sweep", {"points": points}, metadata={**metadata, **more})


def test_the_best_for_each_aim_is_among_those_that_keep_the_limits() -> None:
    found = winners(swept())
    assert [(each.aim, each.row["gpu"]) for each in found] == [
        ("least cost per Mtok", "slow"),
        ("least TPOT", "fast"),
    ]


def test_a_bound_is_no_winner_where_there_is_a_forecast() -> None:
    result = swept()
    rows = list(result.tables["points"].rows())
    rows[0] = rows[0] | {"basis": "datasheet"}
    points = {"points": table(rows, {})}
    assert {each.row["gpu"] for each in winners(replace(result, tables=points))} == {"fast"}


def test_a_sweep_is_answered_by_the_best_for_its_first_aim() -> None:
    result = swept()
    facts = sweep_verdict.sweep_verdict(result, winners(result))
    assert (facts.good, facts.status, facts.at) == (True, "Best: tiny on slow, tp1", "batch 8")
    cards = {figure.name: (figure.value.number, figure.said) for figure in facts.cards}
    assert cards["Cost per Mtok"] == ("$1.00", ())
    assert cards["TPOT"] == ("40.0", (f"limit: 50.0{NO_BREAK}ms",))
    assert facts.known[0] == "transferred"


def test_a_sweep_of_which_nothing_is_feasible_says_so() -> None:
    result = swept()
    none = table([row | {"feasible": False} for row in result.tables["points"].rows()], {})
    text = render(replace(result, tables={"points": none}))
    assert "No configuration keeps all limits" in text


def test_a_sweep_tells_one_prompt_and_the_steady_state_and_a_static_batch_where_it_is_asked() -> (
    None
):
    result = swept()
    felt = {"ttft_idle_s": 0.1, "tpot_steady_s": 0.06, "ttft_s": 20.0}
    points = table([row | felt for row in result.tables["points"].rows()], {})
    full = replace(result, tables={"points": points})
    cards = [card.name for card in sweep_verdict.sweep_verdict(full, winners(full)).cards]
    # TPOT has a limit, the TTFT of a static batch has none.
    assert cards == ["GPUs", "Cost per Mtok", "TTFT idle", "TPOT steady", "TPOT"]
    (block,) = [block for block in blocks(full) if block.key == "verdict"]
    heads = [head.text for head in block.grids[0].heads]
    assert "TTFT idle" in heads
    assert "TTFT" not in heads


def compared(*rows: dict[str, Any]) -> Result:
    """Variants, the first of them the base, of a TTFT of 100 ms and what else is said."""
    usual = {"ttft_idle_s": 0.1, "tpot_steady_s": 0.01, "steady_tok_s": 1000.0, "fits": True}
    usual |= {"steady_usd_per_mtok": 1.0}
    tables = {
        "variants": table([usual | row for row in rows], {}),
        "factors": table([{"variant": row["variant"]} for row in rows[1:]], {}),
    }
    given = {"rank": "steady", "batch": 16, "prompt": 2048, "output": 256, "basis": "datasheet"}
    return Result("compare", tables, metadata=given)


def test_a_variant_that_is_better_in_everything_is_the_verdict() -> None:
    better = {"ttft_idle_s": 0.05, "tpot_steady_s": 0.005, "steady_tok_s": 2000.0}
    result = compared({"variant": "old"}, {"variant": "new", "steady_usd_per_mtok": 0.5, **better})
    facts = compare_verdict.compare_verdict(result)
    assert facts.status == "Best in all: new"
    assert [card.said for card in facts.cards] == [
        (f"× {factor} of the base",) for factor in ("0.50", "0.50", "0.50", "2.00")
    ]
    assert facts.sentences[0] == "Least cost per Mtok: new, $0.50, × 0.50 of the base, old."


def test_variants_that_each_have_their_best_are_told_apart() -> None:
    quick = {"variant": "quick", "tpot_steady_s": 0.005, "steady_usd_per_mtok": 2.0}
    facts = compare_verdict.compare_verdict(compared({"variant": "base"}, quick))
    assert facts.status == "None is best in all"
    assert [card.said for card in facts.cards] == [("the base",)] * 4
    said = dict(sentence.replace(NO_BREAK, " ").split(": ", 1) for sentence in facts.sentences)
    assert said["Least TPOT steady"] == "quick, 5.00 ms, × 0.50 of the base, base."
    assert said["Least cost per Mtok"] == "the base, base, $1.00, × 0.50 of quick."
    assert said["Least TTFT idle"] == "the base, base, 100 ms, the same as quick."


def test_a_variant_that_is_no_better_loses_and_one_that_does_not_fit_is_not_asked() -> None:
    huge = {"variant": "huge", "fits": False, "steady_usd_per_mtok": 0.1}
    worse = {"variant": "worse", "tpot_steady_s": 0.02, "steady_tok_s": 1004.0}
    facts = compare_verdict.compare_verdict(compared({"variant": "base"}, worse, huge))
    assert facts.status == "Nothing is better than the base, base"  # 0.4 % is the same
    assert facts.sentences[-1] == "huge does not fit in memory."
    none = compared({"variant": "base", "fits": False}, {**huge})
    assert not compare_verdict.compare_verdict(none).good


def test_a_base_that_does_not_fit_is_what_factors_are_of_and_no_winner() -> None:
    base = {"variant": "large", "fits": False}
    small = {"variant": "small", "tpot_steady_s": 0.005, "steady_usd_per_mtok": 0.5}
    facts = compare_verdict.compare_verdict(compared(base, small, {"variant": "other"}))
    said = {card.name: card.said for card in facts.cards}
    assert said["Cost per Mtok"] == said["TPOT steady"] == ("× 0.50 of the base",)
    assert "base" not in facts.status
    alone = compare_verdict.compare_verdict(compared(base, small))
    assert alone.status == "Best in all: small"


def test_intervals_that_overlap_are_said() -> None:
    base = {"variant": "a", "tpot_steady_s_low": 0.008, "tpot_steady_s_high": 0.012}
    near = {"tpot_steady_s": 0.009, "tpot_steady_s_low": 0.007, "tpot_steady_s_high": 0.011}
    far = {"tpot_steady_s": 0.005, "tpot_steady_s_low": 0.004, "tpot_steady_s_high": 0.006}
    for other, overlap in ((near, True), (far, False)):
        facts = compare_verdict.compare_verdict(compared(base, {"variant": "b", **other}))
        (said,) = [sentence for sentence in facts.sentences if "TPOT" in sentence]
        assert ("intervals overlap" in said) == overlap


def test_sweeps_beside_each_other_have_a_winner_each_for_their_own_aims() -> None:
    rows = [row | {"scenario": name} for name in "ab" for row in swept().tables["points"].rows()]
    aims = {"a": (("usd_per_mtok", False),), "b": (("tpot_s", False),)}
    result = swept(objectives_of=aims)
    found = winners(replace(result, tables={"points": table(rows, {})}))
    assert [(each.scenario, each.row["gpu"]) for each in found] == [("a", "slow"), ("b", "fast")]
    assert sweep_verdict.sweep_verdict(result, found).status == ""


def test_a_configuration_is_named_without_what_says_nothing() -> None:
    row = {
        "model": "m",
        "gpu": "g",
        "gpus": 8,
        "weights": "fp8",
        "kv": "auto",
        "technique": "plain",
    }
    assert named(row) == "m on 8 × g, fp8 weights"
    assert named({}) == ""


def simulated(stable: bool, met: bool) -> Result:
    latency = {"metric": "ttft_s", "p50": 0.1, "p99": 0.4, "p99_low": 0.3, "p99_high": 0.5}
    objective = {"objective": "ttft_p99", "limit_s": 0.5, "met": met, "chance": 0.93}
    rate = {"metric": "usd_per_mtok", "value": 2.0, "unit": "$", "low": 1.9, "high": 2.1}
    return Result(
        "simulate",
        {
            "headline": table([latency], {}),
            "objectives": table([objective], {"limit_s": "s"}),
            "throughput": table([rate], {}),
        },
        metadata={"stable": stable, "met": met},
    )


def test_traffic_is_answered_by_its_objectives_and_how_sure_they_are() -> None:
    facts = slo_verdict.traffic_verdict(simulated(stable=True, met=True))
    assert facts.good
    assert facts.status == f"The load is carried and the SLO is kept; 93{NO_BREAK}% sure"
    first, second = facts.cards
    assert (first.name, str(first.value)) == ("TTFT p99", f"400{NO_BREAK}ms")
    assert first.said == (f"limit: 500{NO_BREAK}ms",)
    assert str(first.interval) == f"300 – 500{NO_BREAK}ms"
    assert (second.name, second.value.number) == ("Cost per Mtok", "$2.00")


def test_a_broken_objective_and_an_overload_are_said_first() -> None:
    assert "✗ The SLO is missed" in render(simulated(stable=True, met=False))
    assert "✗ The load is not carried" in render(simulated(stable=False, met=False))


def test_measurements_are_judged_by_their_intervals() -> None:
    row = {"run": "1", "metric": "ttft", "unit": "s", "predicted": 1.0, "low": 0.8, "high": 1.2}
    rows = [{**row, "measured": measured} for measured in (0.9, 1.1, 1.0, 2.0)]
    result = Result("compare-measured", {"figures": table(rows, {})})
    block = next(parity.build(result))
    assert block.key == "verdict"
    said = block.facts.status.replace(NO_BREAK, " ")
    assert said == "75 % of 4 measured figures are in their 80 % interval"
    assert not block.facts.good
    (figure,) = block.facts.cards
    assert figure.name == "TTFT, median error"
    assert figure.value.number == f"10{NO_BREAK}%"  # of 0, 9, 11 and 50 %
    assert view_of(result).title == "Predicted against measured"


def test_a_plan_is_answered_by_what_is_bought() -> None:
    facts = slo_verdict.plan_verdict(planned())
    likely = f"90{NO_BREAK}% likely"
    assert facts.status == f"The SLO holds on 2 GPUs at $6.00 an hour; {likely}"
    ttft = next(figure for figure in facts.cards if figure.name == "TTFT p99")
    assert ttft.said == (f"limit: 500{NO_BREAK}ms",)
    assert ("GPU", "fast") in facts.deployed


def test_a_plan_that_does_not_fit_says_what_was_tried() -> None:
    tables = {
        "verdict": table([], {}),
        "candidates": table([{"layout": "tp1", "reason": "memory", "gpu": "fast"}], {}),
    }
    block = slo_verdict.build(Result("plan", tables))
    assert block is not None
    assert not block.facts.good
    assert [grid.key for grid in block.grids] == ["candidates-table"]


def test_each_page_has_one_verdict() -> None:
    two = compared({"variant": "a"}, {"variant": "b"})
    for result in (planned(), swept(), simulated(stable=True, met=True), two):
        assert [block.key for block in blocks(result)].count("verdict") == 1


def test_both_ends_of_a_bar_are_seen_where_they_lie_on_one_side() -> None:
    row: dict[str, Any] = {"what": "traffic", "low": "−20 %", "high": "+20 %"}
    for end, cost in (("base", 2.4), ("low", 2.0), ("high", 2.0)):
        row |= {f"usd_per_mtok_{end}": cost, f"usd_per_hour_{end}": cost, f"gpus_{end}": 2}
        row |= {f"shape_{end}": "tp1", f"changes_{end}": end == "low"}
    facts = tornado.tornado_facts(table([row], {}))
    assert facts is not None
    low, high = tornado.draw_tornado(facts).spec["data"]
    assert low["offset"] >= high["offset"] + high["width"]
    # Without it a hatched bar is drawn on nothing.
    assert low["marker"]["pattern"]["fillmode"] == "overlay"


def test_a_capacity_in_requests_is_no_memory_and_a_share_is_in_percent() -> None:
    derivations = {
        "capacity": Derivation("capacity", 14.35, "request/s"),
        "room": Derivation("capacity", 2.0**30, "B"),
        "headroom": Derivation("headroom", 0.435, ""),
    }
    facts = derivation_facts(Result("plan", {}, derivations))
    said = {name: str(node.value).replace(NO_BREAK, " ") for name, node in facts.items()}
    assert said == {"capacity": "14.35 requests/s", "room": "1.00 GiB", "headroom": "44 %"}


def test_a_number_with_measured_parts_is_not_called_a_bound() -> None:
    measured = Derivation("step", 1.0, "s", basis="interpolated")
    bound = Derivation("norm", 1.0, "s", basis="datasheet")
    whole = Derivation("TPOT", 2.0, "s", "a + b", inputs=(measured, bound), basis="datasheet")
    facts = derivation_facts(Result("analyze", {}, {"tpot": whole, "norm": bound}))
    assert facts["tpot"].basis == "part datasheet"
    assert facts["norm"].basis == "datasheet"


def test_a_page_can_be_checked_by_its_digests() -> None:
    result = swept(scenario="ab" * 32)
    digests = dict(reproduce_facts(result).digests)
    assert digests["Scenario"] == "ab" * 32
    again = dict(reproduce_facts(swept(scenario="ab" * 32)).digests)
    assert digests == again
    rows = [row | {"tpot_s": 0.03} for row in result.tables["points"].rows()]
    other = replace(result, tables={"points": table(rows, {})})
    changed = dict(reproduce_facts(other).digests)
    assert changed["Figures of this page"] != digests["Figures of this page"]


def test_inputs_are_in_words_and_have_no_brackets() -> None:
    facts = reproduce_facts(swept(weights=["bf16", "fp8"], headroom=0.3, rate_per_s=10.0))
    inputs = dict(facts.inputs)
    assert inputs["Weights"] == "bf16, fp8"
    assert inputs["Headroom"] == f"30{NO_BREAK}%"
    assert inputs["Rate"] == f"10{NO_BREAK}requests/s"
