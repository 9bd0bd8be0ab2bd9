"""Power, energy and electricity as they are asked for on the command line."""

import json
from typing import Any

import pytest

from roofline import api

BARE = "--calibration none"


def facility(result: dict[str, Any]) -> dict[str, float]:
    entry = result["facility"]
    rows = entry.values() if isinstance(entry, dict) else entry
    names = entry if isinstance(entry, dict) else [row["metric"] for row in entry]
    return {name: row["value"] for name, row in zip(names, rows, strict=True)}


def test_nothing_of_a_building_is_told_unless_asked(cli: Any) -> None:
    plain, same = (cli(f"analyze llama-3.1-8b {BARE} {more}") for more in ("", "--pue 1"))
    assert plain.code == same.code == 0
    assert plain.out == same.out
    assert "Building" not in plain.out


def test_analyze_tells_energy_carbon_and_electricity(cli: Any) -> None:
    ran = cli(f"analyze {BARE} --pue 1.2 --carbon fr --usd-per-kwh 0.1 --format json")
    found = facility(json.loads(ran.out)["result"])
    assert found["board_decode_w"] < found["board_w"] <= found["board_prefill_w"] == 700.0
    assert found["gco2e_per_mtok"] == pytest.approx(found["wh_per_mtok"] * 44.18e-3)
    assert found["electricity_usd_per_request"] == pytest.approx(found["wh_per_request"] * 1e-4)
    assert found["wh_per_mtok"] / found["wh_per_request"] == pytest.approx(1e6 / 256)


def test_replicas_draw_as_many_times_as_much_and_take_the_same_for_a_token() -> None:
    one, four = (
        {r["metric"]: r["value"] for r in found.tables["facility"].rows()}
        for found in (
            api.analyze("llama-3.1-8b", "h100-sxm", calibration="none", pue=1.3, gpus=n, tp=1)
            for n in (1, 4)
        )
    )
    assert four["facility_w"] == pytest.approx(4.0 * one["facility_w"])
    assert four["wh_per_mtok"] == pytest.approx(one["wh_per_mtok"])


@pytest.mark.slow
def test_a_simulated_closed_loop_draws_what_the_steady_state_does() -> None:
    asked: dict[str, Any] = {"calibration": "none", "pue": 1.2, "prompt": 500, "output": 200}
    steady = api.analyze("llama-3.1-8b", "h100-sxm", batch=32, **asked)
    served = api.simulate("llama-3.1-8b", "h100-sxm", concurrency=32, requests=600, **asked)
    one, other = (
        {row["metric"]: row["value"] for row in found.tables["facility"].rows()}
        for found in (steady, served)
    )
    for metric in ("board_w", "facility_w", "wh_per_mtok"):
        assert other[metric] == pytest.approx(one[metric], rel=0.12), metric


@pytest.mark.parametrize(
    ("line", "said", "hint"),
    [
        ("analyze --pue 0.5", "PUE is 0.5", "like 1.25"),
        ("analyze --carbon atlantis", "no grid is called 'atlantis'", "grams of CO2e"),
        ("analyze --usd-per-kwh -1", "a kilowatt-hour for $-1", "0.08"),
        ("analyze --convention textbook --pue 1.2", "does not take", "leave out"),
        ("simulate --pue 1.2 --draft ngram --acceptance 0.5", "does not take --draft", "leave out"),
        ("plan --own -4", "a server for $-4", "--own 280000"),
        ("plan --own 1 --years 0", "0 years", "up to 50"),
        ("plan --years 3", "does not take --years", "leave out"),
        ("plan --power 2kW", "2.00 kW hold no HGX H100", "--power"),
        ("plan --power much", "power: 'much'", "2MW"),
        ("plan --power -3", "power of '-3'", "2MW"),
        ("plan --power nan", "power of 'nan'", "2MW"),
        ("plan --budget-per-hour 1", "$1.00/h pay for no h100-sxm", "--budget-per-hour"),
        ("plan --gpu tpu-v5p --budget-per-hour 9 --price 0", "no price", "--price"),
    ],
)
def test_what_cannot_be_is_one_error_with_a_hint(cli: Any, line: str, said: str, hint: str) -> None:
    command, _, rest = line.partition(" ")
    ran = cli(f"{command} llama-3.1-8b {rest}")
    assert ran.code == 2
    assert said in ran.err
    assert hint in ran.err.partition("hint:")[2]


SMALL = "--calibration none --prompt 400 --output 20..40 --requests 400 --slo ttft=200ms,tpot=20ms"


@pytest.mark.slow
def test_a_plan_at_a_rate_keeps_to_the_ceiling_and_says_which(cli: Any) -> None:
    ran = cli(f"plan llama-3.1-8b --rate 5 --power 30kW --pue 1.2 {SMALL} --format json")
    result = json.loads(ran.out)["result"]
    assert result["gpus_allowed"] == 16  # 30 kW over 12.58 kW are two servers
    assert "30.0 kW hold 16 GPUs of h100-sxm, by power." in result["summary"]
    ran = cli(f"plan llama-3.1-8b --rate 9000 --budget-per-hour 6 {SMALL} --format json")
    result = json.loads(ran.out)["result"]
    assert (ran.code, result["gpus_allowed"], result["fits"]) == (1, 2, False)


@pytest.mark.slow
def test_a_plan_without_a_rate_fills_the_hall_with_the_gpu_that_serves_most(cli: Any) -> None:
    line = f"plan llama-3.1-8b --gpu h100-sxm --gpu l40s --power 60kW {SMALL} --format json"
    result = json.loads(cli(line).out)["result"]
    rows = result["tables"]["halls"]["rows"]
    assert [row["gpu"] for row in rows] == ["h100-sxm", "l40s"]
    (best,) = (row for row in rows if row["chosen"])
    assert best["tokens_per_day"] == max(row["tokens_per_day"] or 0.0 for row in rows)
    assert all(row["provisioned_w"] <= 60e3 for row in rows if row["blocks"])
    drawn = {row["metric"]: row["value"] for row in result["tables"]["facility"]["rows"]}
    assert drawn["facility_w"] == pytest.approx(best["facility_w"])
    assert drawn["facility_w"] <= drawn["provisioned_w"] <= 60e3
