"""``roofline plan``: what it prints, what it refuses, and that what it says of ways out is true."""

import csv
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline import api
from roofline.cli import run
from roofline.hardware import catalog
from tests.cli.once import once
from tests.cli.planned import SMALL, limited, rows

TABLES = {
    "verdict",
    "objectives",
    "confidences",
    "runners_up",
    "frontier",
    "gpus_by_rate",
    "sensitivity",
    "break_even",
    "candidates",
    "assumptions",
}
STEPS = {"ops", "roofs", "memory", "capacity", "batch_curve", "kernels"}


PLANNED = once(api.plan)


@pytest.fixture
def printing(cli: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same, for tests of what is printed: the same question is planned once."""
    monkeypatch.setattr(api, "plan", PLANNED)
    return cli


@pytest.mark.slow
def test_the_table_fits_a_page_and_says_what_to_buy(printing: Any) -> None:
    ran = printing(f"{SMALL} --rate 40 --gpus 4 --training-tokens 15T")
    assert ran.code == 0
    for title in (
        "SLO",
        "Deployments",
        "Deployments that nothing cheaper beats",
        "GPUs by rate",
        "Sensitivity",
        "Training once, inference again and again",
        "Layouts, ",
    ):
        assert f"\n{title}" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 100
    assert "layouts bounded" in ran.err
    assert "layouts bounded," not in ran.out


def test_json_carries_every_table_with_its_units(printing: Any) -> None:
    result = printing(f"{SMALL} --rate 40 --gpus 4 --training-tokens 15T --format json").result
    assert set(result["tables"]) == TABLES | STEPS
    assert {row["phase"] for row in rows(result, "ops")} == {"prefill", "decode"}
    assert not any(name.startswith("ttft") for name in result["tables"]["batch_curve"]["columns"])
    (verdict,) = rows(result, "verdict")
    assert verdict["slo_met"] is True
    assert result["fits"] is True
    assert result["tables"]["verdict"]["units"]["ttft_s"] == "s"
    assert set(result["derivations"]) == {"gpus", "price", "cost", "capacity", "headroom"}
    assert result["derivations"]["gpus"]["value"] == verdict["gpus"]
    assert result["derivations"]["cost"]["value"] == pytest.approx(verdict["usd_per_mtok"])
    assert sum(row["chosen"] for row in rows(result, "frontier")) <= 1
    assert sum(row["asked"] for row in rows(result, "gpus_by_rate")) == 1
    for name, entry in result["tables"].items():
        for row in entry["rows"]:
            assert list(row) == entry["columns"], name


@pytest.mark.slow
def test_what_is_recommended_can_be_started_and_is_read_back_the_same(
    cli: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    result = cli(f"{SMALL} --rate 40 --gpus 4 --aggregated --weights fp8 --format json").result
    (verdict,) = rows(result, "verdict")
    (command,) = result["commands"]
    assert run(shlex.split(command)[1:]) == 0
    printed, _, _ = capsys.readouterr().out.partition("# benchmark")
    again = roofline.parse_command(printed, gpu=verdict["gpu"]).metadata
    for name in ("layout", "weights", "kv", "max_sequences", "token_budget"):
        assert again[name] == verdict[name], name
    assert again["gpus"] * verdict["instances"] == verdict["gpus"]


SIMULATED = (
    f"{SMALL} --rate 40 --gpus 4",
    "plan llama-3.1-8b --rate 25 --gpus 4 --cv 2 --seed 3 --weights fp8 --weights bf16",
    # More than 16,384 tokens at most, which tables reach in powers of two, and little memory.
    "plan llama-3.1-8b --gpu l40s --gpus 8 --rate 2 --requests 3000 --prompt 1000..16000 "
    "--output 20..600 --slo ttft=20s,tpot=200ms --calibration none",
    "plan llama-3.1-8b --rate 10 --gpus 4 --temperature 0.7 --top-k 40",
    "plan llama-3.1-8b --rate 10 --gpus 4 --adapters 200 --max-loras 20 --adapter-skew 0.9 "
    "--lora-rank 32 --lora-targets qkv,attn-out",
    "plan mixtral-8x7b --gpus 16 --rate 8 --requests 1000 --routing-skew 0.5 --confidence 0%",
)


@pytest.mark.slow
@pytest.mark.parametrize("line", SIMULATED)
def test_figures_of_a_plan_are_those_of_the_simulation_that_it_prints(
    cli: Any, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    result = cli(f"{line} --aggregated --format json").result
    assert result["simulation"].startswith("roofline simulate ")
    asked = shlex.split(result["simulation"])[1:]
    assert run([*asked, "--no-intervals", "--format", "json"]) == 0
    again = json.loads(capsys.readouterr().out)["result"]
    assert again["met"] is True
    assert limited(again["objectives"]) == limited(rows(result, "objectives"))
    assert again["gpus"] == rows(result, "verdict")[0]["gpus"]


def test_two_pools_and_nothing_have_no_line_that_simulates_them(cli: Any) -> None:
    assert (
        cli(f"{SMALL} --rate 40 --gpus 1 --slo ttft=1ms --format json").result["simulation"] == ""
    )


@pytest.mark.slow
def test_an_impossible_slo_is_refused_without_the_compiler() -> None:
    line = "plan llama-3.1-8b --gpus 4 --rate 20 --slo ttft=1ms,tpot=0.1ms"
    code = f"""
import sys
from roofline.cli import run
assert run({line.split()}) == 1
assert "numba" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "looser SLO, in closed form" in done.stdout


@pytest.mark.slow
def test_what_was_not_measured_is_shown_apart(cli: Any, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    line = SMALL.replace("--calibration none", "--aggregated --gpu h100-sxm --gpu gaudi3")
    ran = cli(f"{line} --rate 40 --gpus 4 --price 3 --price 0.01 --report {page}")
    assert ran.code == 0
    assert max(map(len, ran.out.splitlines())) <= 100
    first = next(text for text in ran.out.splitlines() if "$" in text)
    assert "NVIDIA H100" in first
    assert "Not ranked: Intel Gaudi 3" in ran.out
    _, _, apart = ran.out.partition("Not measured: bounds at published rates, not ranked")
    assert next(line for line in apart.splitlines() if "≥" in line).count("≥") == 4
    text = page.read_text(encoding="utf-8")
    assert "Not ranked: Intel Gaudi 3" in text
    assert "Not measured: bounds at published rates" in text


@pytest.mark.slow
def test_a_plan_has_a_page_at_once_and_from_its_json(printing: Any, tmp_path: Path) -> None:
    saved, first, again = (tmp_path / name for name in ("plan.json", "one.html", "two.html"))
    ran = printing(f"{SMALL} --rate 40 --gpus 4 --format json --report {first}")
    saved.write_text(ran.out, encoding="utf-8")
    assert printing(f"report {saved} --out {again}").code == 0
    (verdict,) = rows(ran.result, "verdict")
    for page in (first, again):
        text = page.read_text(encoding="utf-8")
        assert verdict["shape"] in text
        assert "What it depends on" in text
        assert "If traffic grows" in text


@pytest.mark.slow
def test_more_confidence_never_costs_less(cli: Any) -> None:
    line = SMALL.replace("--calibration none", "") + " --rate 70 --gpus 8 --aggregated"
    expected = cli(f"{line} --confidence 0% --format json").result
    sure = cli(f"{line} --confidence 95% --format json").result
    assert rows(sure, "verdict")[0]["probability"] >= 0.95
    assert rows(sure, "verdict")[0]["gpus"] >= rows(expected, "verdict")[0]["gpus"]


@pytest.mark.slow
def test_a_trace_is_planned_for(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    lines = [f"{i * 0.05:.2f},{300 + i % 50},{10 + i % 30}" for i in range(400)]
    path.write_text("\n".join(["arrival_s,prompt,output", *lines]) + "\n", encoding="utf-8")
    line = f"plan llama-3.1-8b --calibration none --gpus 2 --slo ttft=200ms --trace {path}"
    result = cli(f"{line} --format json").result
    assert result["rate_per_s"] == pytest.approx(20.0)
    assert result["requests"] == 400
    assert result["fits"] is True


@pytest.mark.slow
def test_the_same_question_has_the_same_answer(cli: Any) -> None:
    line = f"{SMALL} --rate 20 --gpus 2 --format json"
    assert cli(line).out == cli(line).out


@pytest.mark.slow
@pytest.mark.parametrize("style", ["csv", "md"])
def test_other_formats(printing: Any, style: str) -> None:
    ran = printing(f"{SMALL} --rate 40 --gpus 4 --format {style}")
    assert ran.code == 0
    if style == "csv":
        (row,) = csv.DictReader(ran.out.splitlines())
        assert int(row["gpus"]) >= 1
    else:
        assert "| recommended |" in ran.out


def test_a_figure_explains_itself(printing: Any) -> None:
    ran = printing(f"{SMALL} --rate 40 --gpus 4 --explain gpus")
    assert ran.code == 0
    assert ran.out.startswith("GPUs = ")
    assert "ceil(rate · (1 + headroom) / requests of each)" in ran.out
    assert printing(f"{SMALL} --rate 20 --gpus 2 --explain nothing").code == 2


WAYS = (
    ("--gpus 2 --rate 20 --slo ttft=1ms,tpot=20ms", "ttft_p99"),
    ("--gpus 2 --rate 20 --slo ttft=200ms,tpot=1ms", "tpot_p99"),
    ("--gpus 1 --rate 300", "rate"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "limit"), WAYS)
def test_relaxations_are_enough(cli: Any, asked: str, limit: str) -> None:
    ran = cli(f"{SMALL} {asked} --format json")
    assert ran.code == 1
    assert ran.result["limit"] == limit
    found = rows(ran.result, "relaxations")
    assert found
    for row in found:
        if not row["asked"].endswith("--output"):
            again = cli(f"{SMALL} {asked} {row['asked']} --aggregated --format json")
            assert again.code == 0, row


@pytest.mark.slow
def test_memory_is_said_and_lifted(cli: Any) -> None:
    line = SMALL.replace("llama-3.1-8b", "llama-3.1-70b") + " --gpus 1 --rate 2"
    ran = cli(f"{line} --format json")
    assert ran.code == 1
    assert ran.result["limit"] == "memory"
    found = {row["asked"] for row in rows(ran.result, "relaxations")}
    assert any(each.startswith("--gpus") for each in found)
    for asked in found:
        assert cli(f"{line} {asked} --format json").code == 0
    shown = cli(line).out
    assert "the memory does not hold" in shown
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.slow
def test_two_kinds_are_compared_and_priced(cli: Any) -> None:
    line = f"{SMALL} --rate 20 --gpus 2 --gpu h100-sxm --gpu h200-sxm --format json"
    dear = cli(f"{line} --price 1 --price 100").result
    cheap = cli(f"{line} --price 100 --price 1").result
    assert rows(dear, "verdict")[0]["gpu"] == "h100-sxm"
    assert rows(cheap, "verdict")[0]["gpu"] == "h200-sxm"


@pytest.mark.slow
def test_prices_go_by_name(cli: Any) -> None:
    line = f"{SMALL} --rate 20 --gpus 2 --gpu h100-sxm --gpu l40s --format json"
    cheap = cli(f"{line} --price L40S=0.01").result
    assert rows(cheap, "verdict")[0]["gpu"] == "l40s"
    dear = cli(f"{line} --price l40s=100").result
    (best, *_) = rows(dear, "verdict")
    assert best["gpu"] == "h100-sxm"
    assert best["usd_per_hour"] == pytest.approx(catalog.gpu("h100-sxm").usd_per_hour)


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        ("--price a100-sxm=2", "a price of a100-sxm, which is no --gpu of the question"),
        ("--price l40s=much", "--price 'l40s=much' is not a number"),
        ("--price l40s=1 --price 2", "--price has a price without a name, or two of one name"),
        ("--price l40s=1 --price l40s=2", "--price has a price without a name, or two of one name"),
        ("--price l40s=-1", "price is $-1/h"),
        (
            "--rate-curve '0h 5, 9h 40' --reserved-price a100-sxm=2",
            "a price of a100-sxm, which is no --gpu of the question",
        ),
    ],
)
def test_prices_by_name_are_of_gpus_of_the_question(cli: Any, prices: str, message: str) -> None:
    ran = cli(f"{SMALL} --gpu h100-sxm --gpu l40s {prices}")
    assert ran.code == 2
    assert f"error: {message}\n" in ran.err


@pytest.mark.slow
def test_more_headroom_and_more_spares_never_cost_less(cli: Any) -> None:
    costs = [
        rows(cli(f"{SMALL} --rate 60 --gpus 8 --headroom {share} --format json").result, "verdict")
        for share in ("0%", "50%", "n+2")
    ]
    gpus = [found[0]["gpus"] for found in costs]
    assert gpus[0] <= gpus[1]
    assert gpus[0] < gpus[2]


@pytest.mark.parametrize(
    "line",
    [
        f"{SMALL} --rate 0",
        f"{SMALL} --rate 20 --headroom lots",
        f"{SMALL} --rate 20 --headroom n+x",
        f"{SMALL} --rate 20 --headroom nan",
        f"{SMALL} --rate 20 --confidence 100%",
        f"{SMALL} --rate 20 --confidence much",
        f"{SMALL} --rate 20 --gpus 0",
        f"{SMALL} --rate 20 --gpu h100-sxm --gpu l40s --price 1 --price 2 --price 3",
        f"{SMALL} --rate 20 --training-tokens many",
        "plan llama-3.1-8b --workload batch",
        "plan bert-base-uncased --rate 1",
        "plan llama-3.1-8b --rate 1 --slo soon",
        "plan llama-3.1-8b --rate 1 --prompt 200000",
        "plan llama-3.1-8b --gpu warp-drive",
        "plan '\x1b[31mred\x07'",
    ],
)
def test_what_cannot_be_planned_is_refused_in_two_lines(cli: Any, line: str) -> None:
    ran = cli(line)
    assert ran.code == 2
    assert ran.out == ""
    error = [text for text in ran.err.splitlines() if not text.startswith("planning")]
    assert error[0].startswith("error: ")
    assert error[1].startswith("hint: ")
    assert "\x1b" not in ran.err


def test_hostile_names_steer_no_terminal(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    guess = "source: assumed, note: a guess"
    path.write_text(
        'schema_version: 1\nname: "m\\e[31m|ine"\ntitle: "=cmd() <script>"\n'
        f"prompt: {{kind: constant, tokens: {{value: 300 token, {guess}}}}}\n"
        f"output: {{kind: constant, tokens: {{value: 20 token, {guess}}}}}\n"
        f"arrivals: {{kind: poisson, rate: {{value: 20 request/s, {guess}}}}}\n",
        encoding="utf-8",
    )
    line = f"plan llama-3.1-8b --calibration none --gpus 1 --requests 300 --workload {path}"
    for style in ("table", "md", "csv"):
        ran = cli(f"{line} --format {style}")
        assert ran.code in (0, 2)
        assert "\x1b" not in ran.out + ran.err


def test_an_interrupted_plan_says_so(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("roofline.study.plan.plan.search", stop)
    ran = cli(f"{SMALL} --rate 20")
    assert ran.code == 130
    assert ran.out == ""


@pytest.mark.slow
def test_prices_are_said_to_be_assumed(printing: Any) -> None:
    ran = printing(f"{SMALL} --rate 40 --gpus 4 --format json")
    notes = json.loads(ran.out)["notes"]
    assert "Prices are assumed: give --price for those you pay." in notes
    assert catalog.gpu("h100-sxm").facts["price.per_hour"].basis == "assumed"
    paid = printing(f"{SMALL} --rate 40 --gpus 4 --price 2 --format json")
    assert not any("Prices are assumed" in note for note in json.loads(paid.out)["notes"])


def test_answers_of_one_token_are_given_no_time_between_tokens(cli: Any) -> None:
    line = SMALL.replace("--output 20..40", "--output 1")
    assert line != SMALL
    ran = cli(f"{line} --rate 20 --gpus 2 --aggregated --format json")
    (kept,) = rows(ran.result, "objectives")
    assert kept["objective"] == "ttft_p99"
    (told,) = (note for note in json.loads(ran.out)["notes"] if "one token" in note)
    assert told.startswith("Left out: tpot_p99")


@pytest.mark.parametrize("count", [1, 99])
def test_a_plan_for_a_few_requests_is_refused(cli: Any, count: int) -> None:
    ran = cli(f"{SMALL.replace('--requests 600', f'--requests {count}')} --rate 20 --gpus 2")
    assert ran.code == 2
    said = "1 request is" if count == 1 else "99 requests are"
    assert f"{said} too few to plan for" in ran.err


def test_one_is_told_as_one(cli: Any) -> None:
    ran = cli("plan --price 1 --gpu h100-sxm --gpu l40s --price 2 --price 3 --rate 1")
    assert "3 prices for 2 kinds of GPU" in ran.err
    few = cli(f"{SMALL.replace('--output 20..40', '--output 1')} --rate 9 --gpus 1 --format json")
    assert json.loads(few.out)["result"]["output"] == "1 token"


@pytest.mark.parametrize("command", ["plan", "simulate"])
def test_a_trace_of_one_request_has_no_rate(cli: Any, tmp_path: Path, command: str) -> None:
    path = tmp_path / "one.csv"
    path.write_text("arrival_s,prompt,output\n0,100,20\n")
    ran = cli(f"{command} --trace {path}")
    assert ran.code == 2
    assert "a trace of one request has no rate\nhint: a rate wants two requests" in ran.err
    paced = cli(f"{command} --trace {path} --rate 2")
    assert paced.code == 2
    assert "no rate that could be changed" in paced.err


def test_pools_by_length_have_no_hall_and_no_day(cli: Any) -> None:
    for more in ("--power 1MW", "--rate-curve '0h 5, 9h 40'"):
        ran = cli(f"plan llama-3.1-8b --length-pools {more}")
        assert ran.code == 2
        assert "pools by length" in ran.err
