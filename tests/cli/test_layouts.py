"""Layouts, offload and overlap as a person meets them."""

import csv
import io
import json

import pytest

from roofline.cli import run

Captured = pytest.CaptureFixture[str]


DATASHEET = "--calibration none"


def ask(capsys: Captured, line: str) -> tuple[int, str, str]:
    code = run(line.split())
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.slow
def test_layouts_are_listed_best_first_with_the_reason(capsys: Captured) -> None:
    code, out, err = ask(capsys, "layouts mixtral-8x7b-v0.1 --gpus 4 --top 5")
    assert (code, err) == (0, "")
    assert "has the least latency of" in out
    assert "5 of " in out
    assert max(len(line) for line in out.splitlines()) <= 100


@pytest.mark.slow
def test_wide_names_still_fit_a_hundred_columns(capsys: Captured) -> None:
    _, out, _ = ask(capsys, "layouts deepseek-v3 --node hgx-h800-8 --gpus 64 --top 0")
    assert max(len(line) for line in out.splitlines()) <= 100


@pytest.mark.slow
def test_the_same_for_programs(capsys: Captured) -> None:
    code, out, _ = ask(capsys, "layouts llama-3.1-70b --gpus 16 --format json")
    result = json.loads(out)["result"]
    assert code == 0
    assert len(result["layouts"]) == result["metadata"]["layouts"] if "metadata" in result else True
    assert {row["objective"] for row in result["best"]} == {"latency", "throughput", "cost"}
    every = result["layouts"]
    assert [row["fits"] for row in every] == sorted((row["fits"] for row in every), reverse=True)
    code, out, _ = ask(capsys, "layouts llama-3.1-70b --gpus 16 --format csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["layout"] for row in rows] == [row["layout"] for row in every]


@pytest.mark.slow
def test_nothing_that_fits_is_told_and_fails(capsys: Captured) -> None:
    code, out, _ = ask(capsys, "layouts llama-3.1-405b --gpus 2")
    assert code == 1
    assert "None of" in out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("analyze --layout tp8-xp2", "no degree of parallelism"),
        ("analyze --layout tp2-tp4", "says tp twice"),
        ("analyze --layout tp2 --pp 2", "say the same"),
        ("analyze --layout auto --tp 2 --gpus 4", "does not take --tp"),
        ("analyze --gpus 8 --pp 3", "cannot be divided into groups of 3"),
        ("analyze --tp 3", "query heads 32 cannot be divided"),
        ("analyze --dp 2 --gpus 2", "no experts"),
        ("analyze --pp 33 --gpus 33", "too few for 33 stages"),
        ("analyze --pp 2 --stages 20,20", "are not 2 stages"),
        ("analyze --pp 2 --stages twenty", "not a list of whole numbers"),
        ("analyze --gpus 16 --tp 16 --gpu rtx-4090", "do not fit into one node"),
        ("analyze --node hgx-h100-8 --gpu a100-sxm", "has h100-sxm"),
        ("analyze --overlap 1.5", "overlap is 1.5"),
        ("analyze --offload-weights 1.5", "offloaded share of weights is 1.5"),
        ("analyze --offload-weights most", "offloaded share of weights"),
        ("analyze mixtral-8x7b-v0.1 --gpus 4 --ep 3", "make --ep one of 1, 2, 4"),
        ("analyze mamba-2.8b --tp 1 --cp 2 --gpus 2", "recurrent state"),
        ("layouts --gpus 0", "gpus is 0"),
        ("layouts llama-3.1-8b --gpus 8 --node nope", "no node is called"),
    ],
)
def test_a_layout_that_cannot_be_is_one_clear_error(
    capsys: Captured, line: str, message: str
) -> None:
    code, out, err = ask(capsys, line)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 2


@pytest.mark.slow
def test_a_pipeline_over_two_nodes_is_explained(capsys: Captured) -> None:
    code, out, _ = ask(capsys, "analyze llama-3.1-405b --gpus 16 --tp 8 --pp 2 --batch 16")
    assert code == 0
    assert "TP 8 × PP 2 lies on 2 nodes" in out
    assert "2 stages work on 2 micro-batches of 8 in turn" in out
    assert "send " in out
    code, out, _ = ask(
        capsys, "analyze llama-3.1-405b --gpus 16 --tp 8 --pp 2 --batch 16 --explain ttft"
    )
    assert "sum of stages + (full steps − 1) · slowest stage" in out


@pytest.mark.slow
def test_what_does_not_fit_is_offloaded_as_far_as_it_must(capsys: Captured) -> None:
    line = (
        "analyze llama-3.1-70b --gpu rtx-4090 --weights int4-awq --batch 1 --prompt 64 --output 8"
    )
    code, out, _ = ask(capsys, line)
    assert code == 1
    assert "Does not fit" in out
    code, out, _ = ask(capsys, f"{line} --offload-weights auto")
    assert code == 0
    assert "bound by the host: loads or launches" in out
    assert "Loading hides behind the rest of a decode step from a batch of" in out


def test_hidden_wires_make_it_faster_and_leave_the_second_figure(capsys: Captured) -> None:
    def metrics(more: str) -> dict[str, dict[str, float]]:
        _, out, _ = ask(
            capsys, f"analyze llama-3.1-70b --gpus 8 --calibration none --format json {more}"
        )
        found: dict[str, dict[str, float]] = json.loads(out)["result"]["metrics"]
        return found

    bare, hidden = metrics(""), metrics("--overlap 0.8")
    assert hidden["tpot_s"]["value"] < bare["tpot_s"]["value"]
    assert hidden["tpot_s"]["serial"] == bare["tpot_s"]["serial"]
