"""Each rule holds where its evidence was planted, and says the figures that it rests on."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pandas as pd

from roofline.bench.end_to_end.comparing import RunComparison, compare
from roofline.bench.end_to_end.evidence import bounds
from roofline.bench.end_to_end.rules import RULES, Reason, reason
from tests.bench.end_to_end.test_cases import GOOD

BASE: dict[str, Any] = GOOD | {
    "model": "meta-llama/Llama-3.1-8B",
    "n_gpus": 1,
    "tp": 1,
    "isl": 1024,
    "osl": 256,
}
METRICS = ("ttft_s", "tpot_s", "latency_s", "output_tok_s")
Factors = Mapping[str, float]


@cache
def predicted(changes: tuple[tuple[str, Any], ...]) -> RunComparison:
    frame = pd.DataFrame([BASE | dict(changes)])
    (found,), refused = compare(frame, [{(name, "mean"): 1.0 for name in METRICS}])
    assert not refused
    return found


def runs(
    *planted: Factors | Callable[[RunComparison], Factors], **changes: Any
) -> list[RunComparison]:
    """Runs at 1, 4, 16, 64… clients, measured as predicted but for the factors planted."""
    out = []
    for power, factors in enumerate(planted):
        base = predicted(tuple(sorted(({"batch": 4**power} | changes).items())))
        wanted = factors(base) if callable(factors) else factors
        row = BASE | {"batch": 4**power} | changes
        measured = {
            (figure.metric, figure.statistic): figure.predicted * wanted.get(figure.metric, 1.0)
            for figure in base.figures
        }
        if "latency_s" not in wanted:
            parts = [measured[name, "mean"] for name in ("ttft_s", "tpot_s")]
            measured["latency_s", "mean"] = parts[0] + (BASE["osl"] - 1) * parts[1]
        (found,), _ = compare(pd.DataFrame([row]), [measured])
        out.append(found)
    return out


def have(run: RunComparison, metric: str) -> float:
    figure = run.get(metric)
    assert figure is not None
    return figure.predicted


def why(metric: str, found: list[RunComparison], place: int = -1) -> Reason:
    figure = found[place].get(metric)
    assert figure is not None
    said = reason(figure, found[place], found)
    assert said is not None
    return said


def test_what_is_inside_has_no_reason() -> None:
    (run,) = runs({"tpot_s": 1.01})
    figure = run.get("tpot_s")
    assert figure is not None
    assert reason(figure, run, [run]) is None


def test_a_time_a_thousand_times_off_has_another_unit() -> None:
    said = why("ttft_s", runs({"ttft_s": 1300.0}))
    assert said.name == "unit"
    assert said.text.endswith("probably milliseconds in a column of seconds.")
    said = why("tpot_s", runs({"tpot_s": 0.0007}))
    assert said.name == "unit"
    assert said.text.endswith("probably seconds in a column of milliseconds.")
    for factor in (400.0, 2500.0, 1 / 400, 1 / 2500):
        assert why("ttft_s", runs({"ttft_s": factor})).name != "unit"
    assert why("output_tok_s", runs({"output_tok_s": 1000.0})).name != "unit"


def test_a_text_has_the_error_of_the_table() -> None:
    (run,) = runs({"tpot_s": 0.72})
    figure = run.get("tpot_s")
    assert figure is not None
    assert f"{100 * figure.error:.0f} % too high" in why("tpot_s", [run]).text


def test_the_same_run_twice_is_no_other_load() -> None:
    def later(run: RunComparison) -> Factors:
        return {"ttft_s": 1 + 0.3 / have(run, "ttft_s"), "tpot_s": 1 + 0.006 / have(run, "tpot_s")}

    (run,) = runs(later)
    for metric in ("ttft_s", "tpot_s"):
        once, twice = why(metric, [run]), why(metric, [run, run])
        assert once == twice
        assert "load" not in once.text


def test_faster_than_the_datasheet_is_another_scenario() -> None:
    def impossible(run: RunComparison) -> Factors:
        return {"tpot_s": 0.9 * bounds(run.known).token / have(run, "tpot_s")}

    said = why("tpot_s", runs(impossible))
    assert said.name == "scenario"
    # 7.5 G parameters without the embedding, 2 B each, and the cache, at 3.35 TB/s.
    assert "4.53 ms" in said.text
    assert why("ttft_s", runs({"ttft_s": 0.05})).name == "scenario"
    assert why("output_tok_s", runs({}, {}, {"output_tok_s": 9.0})).name == "scenario"


def test_a_latency_that_its_parts_contradict_is_said() -> None:
    said = why("latency_s", runs({"latency_s": 1.9}))
    assert said.name == "contradiction"
    assert "another length" in said.text


def test_clients_that_are_idle_are_counted() -> None:
    said = why("output_tok_s", runs({}, {"output_tok_s": 0.5}))
    assert said.name == "idle"
    assert said.text.startswith("rate times latency is 2 of 4 clients")


def test_a_latency_follows_from_its_gaps() -> None:
    said = why("latency_s", runs({"tpot_s": 2.0, "latency_s": 1.97}))
    assert said.name == "follows"
    assert "predicted 50 % too low" in said.text  # 1 / 2


def test_a_throughput_that_stops_growing_is_a_cap() -> None:
    def flat(run: RunComparison) -> Factors:
        """As at 16 clients, and the others wait for their turn: all 64 are in flight."""
        before = predicted((("batch", 16),))
        rate, gap = have(before, "output_tok_s"), have(before, "tpot_s")
        waited = 64 * BASE["osl"] / rate - (BASE["osl"] - 1) * gap
        wanted = {"output_tok_s": rate, "tpot_s": gap, "ttft_s": waited}
        return {name: value / have(run, name) for name, value in wanted.items()}

    found = runs({}, {}, {}, flat)
    said = why("output_tok_s", found)
    assert said.name == "batch-cap"
    assert "from 16 to 64 clients the throughput grew 0 %" in said.text
    assert "about 16 sequences" in said.text
    assert why("ttft_s", found).name == "batch-cap"
    assert why("tpot_s", found).name == "batch-cap"
    lighter = found[2].get("tpot_s")
    assert lighter is not None
    assert reason(lighter, found[2], found) is None


def test_kernels_that_were_not_measured_there_are_named() -> None:
    said = why("tpot_s", runs({"tpot_s": 2.0}, gpu="mi300x"))
    assert said.name == "kernels"
    assert "100 % of a decode step" in said.text
    assert "(assumed)" in said.text
    right = runs({}, {}, {"tpot_s": 2.0}, gpu="mi300x")
    assert why("tpot_s", right).name == "unexplained"  # they did well at other loads
    unknown = why("tpot_s", runs({"tpot_s": 3.0}, engine="mlc-llm"))
    assert unknown.name == "kernels"
    assert "no run of mlc-llm was ever measured" in unknown.text


def test_prompts_and_tokens_slower_alike_are_clocks() -> None:
    said = why("tpot_s", runs({"tpot_s": 1.4, "ttft_s": 1.45}))
    assert said.name == "clocks"
    assert "TTFT is predicted 31 % too low and TPOT predicted 29 % too low" in said.text
    assert why("tpot_s", runs({"tpot_s": 1.4, "ttft_s": 1.0})).name != "clocks"


def test_first_tokens_late_under_load_only_wait() -> None:
    said = why("ttft_s", runs({}, {}, {"ttft_s": 2.5}))
    assert said.name == "queueing"
    assert "with 16 clients" in said.text
    assert "with 1 client it is as predicted" in said.text


def test_first_tokens_late_at_a_high_rate_wait_for_what_is_in_flight() -> None:
    rates = {"mode": "steady_rate", "requests": 200, "rate": 4.0}
    found = runs({"ttft_s": 3.0}, **rates)
    said = why("ttft_s", found)
    assert said.name == "queueing"
    in_flight = 4.0 * have(found[0], "latency_s")  # Little's law
    assert f"4 requests/s, about {in_flight:.0f} in flight" in said.text
    assert why("tpot_s", runs({"tpot_s": 2.0}, **rates)).name == "open-loop"


def test_first_tokens_late_by_the_same_time_at_any_load_are_the_front_end() -> None:
    def later(run: RunComparison) -> Factors:
        return {"ttft_s": 1 + 0.3 / have(run, "ttft_s")}

    found = runs(later, later, later)
    for place in range(2):
        said = why("ttft_s", found, place)
        assert said.name == "front-end"
        assert "300 ms later" in said.text


def test_tokens_late_by_the_same_time_are_the_engines_step() -> None:
    def later(run: RunComparison) -> Factors:
        return {"tpot_s": 1 + 0.006 / have(run, "tpot_s")}

    said = why("tpot_s", runs(later, later, later, later), 0)
    assert said.name == "decode"
    assert "6.00 ms more at every load" in said.text


def test_tokens_late_by_the_same_share_are_read_wider() -> None:
    said = why("tpot_s", runs(*[{"tpot_s": 1.6}] * 4))
    assert said.name == "decode"
    assert "predicted 38 % too low at every load" in said.text


def test_just_beyond_the_end_is_chance() -> None:
    (run,) = runs({})
    figure = run.get("tpot_s")
    assert figure is not None
    end = figure.end(1.0)
    assert end is not None
    said = why("tpot_s", runs({"tpot_s": 1.05 * end / figure.predicted}))
    assert said.name == "chance"
    assert "5 % beyond" in said.text


def test_better_than_predicted_but_possible() -> None:
    assert why("tpot_s", runs({"tpot_s": 0.72})).name == "faster"
    said = why("ttft_s", runs({}, {}, {}, {"ttft_s": 0.5}))
    assert said.name == "faster"
    assert "cached prefix" in said.text


def test_one_slow_run_alone_is_not_explained() -> None:
    said = why("tpot_s", runs({"tpot_s": 2.0}))
    assert said.name == "unexplained"
    assert "predicted 50 % too low" in said.text


def test_every_rule_was_planted() -> None:
    assert set(RULES) == {
        "unit", "scenario", "contradiction", "idle", "follows", "batch-cap", "kernels", "clocks",
        "queueing", "chance", "front-end", "decode", "faster", "open-loop", "unexplained",
    }  # fmt: skip
