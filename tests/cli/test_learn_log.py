"""``roofline calibrate --from-log`` as a person meets it, and what uses the result."""

import json
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.cli import run
from roofline.errors import DocumentError
from tests.interop.engine_logs.simulated import Planted, loops, vllm_lines, written

Captured = pytest.CaptureFixture[str]
GIVEN = ("--given", "model=llama-3.1-8b,gpu=h100-sxm,gpus=1")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOFLINE_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Log of a server 1.2 times as slow, with a millisecond more for each step."""
    loads = [(clients, 500, 1000) for clients in (2, 8, 32)]
    runs = loops(Planted(1.2, 1e-3), loads, seconds=30.0)
    return written(tmp_path_factory.mktemp("log") / "vllm.log", vllm_lines(list(runs), 3.0))


def ask(capsys: Captured, *arguments: object) -> tuple[int, str, str]:
    code = run([str(each) for each in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.slow
def test_a_log_is_learnt_from_kept_and_used(capsys: Captured, slower: Path, tmp_path: Path) -> None:
    code, out, err = ask(capsys, "calibrate", "--from-log", slower, *GIVEN)
    assert code == 0
    own = tmp_path / "home" / "engines" / "vllm-log.yaml"
    assert f"wrote {own}" in err
    for word in ("decode_gain", "Steps that were logged", "octave of the batch", "idle or chang"):
        assert word in out
    assert max(len(line) for line in out.splitlines()) <= 100

    asked: dict[str, Any] = {"batch": 8, "prompt": 500, "output": 1000}
    plain = roofline.analyze("llama-3.1-8b", "h100-sxm", **asked)
    mine = roofline.analyze("llama-3.1-8b", "h100-sxm", **asked, profile=own)
    one, other = (
        next(e for e in each.tables["static_batch"].rows() if e["metric"] == "tpot_s")
        for each in (plain, mine)
    )
    # 1.2 times the kernels and 1 ms more than the 8.0 ms that are shipped.
    assert other["value"] == pytest.approx(one["value"] * 1.3, rel=0.05)
    assert other["high"] / other["low"] < one["high"] / one["low"]
    assert "the load asked about is among those" in mine.notes[-1]
    curve = [row for row in mine.tables["batch_curve"].rows() if row["batch"] in (8, 256)]
    spreads = [row["tpot_s_high"] / row["tpot_s_low"] for row in curve]
    assert spreads[0] == pytest.approx(other["high"] / other["low"])
    assert spreads[1] > spreads[0]
    named = repr(mine.derivations["tpot"])
    assert str(own) in named

    far = roofline.analyze("llama-3.1-8b", "h100-sxm", **asked | {"batch": 200}, profile=own)
    assert "200 of 1,000 are beyond those, and the intervals wider" in far.notes[-1]
    elsewhere = roofline.analyze("llama-3.1-8b", "h100-sxm", weights="fp8", profile=own)
    assert "no log of this deployment narrows" in elsewhere.notes[-1]

    traffic: dict[str, Any] = {"prompt": 500, "output": 300, "requests": 40, "concurrency": 8}
    served = roofline.simulate("llama-3.1-8b", **traffic, profile=own)
    assert str(own) in served.notes[-1]
    demand: dict[str, Any] = {"rate": 2.0, "prompt": 500, "output": 100, "requests": 200}
    planned = roofline.plan("llama-3.1-8b", gpus=2, slo="tpot=60ms", **demand, profile=own)
    assert any(str(own) in note and "any load" in note for note in planned.notes)
    assert f"--profile {own}" in json.dumps(planned.metadata, default=str)
    with pytest.raises(DocumentError, match="it is of vllm"):
        roofline.analyze("llama-3.1-8b", "h100-sxm", engine="sglang", profile=own)


@pytest.mark.slow
def test_json_has_the_steps_that_were_logged(capsys: Captured, slower: Path) -> None:
    out_path = slower.parent / "own.yaml"
    arguments = ("--out", out_path, "--format", "json")
    code, out, _ = ask(capsys, "calibrate", "--from-log", slower, *GIVEN, *arguments)
    assert code == 0
    result = json.loads(out)["result"]
    assert result["file"] == str(out_path)
    rows = result["logged"]
    assert [round(row["batch"]) for row in rows] == [2, 8, 32]
    assert all(abs(row["held out"]) < 0.05 < abs(row["shipped"]) for row in rows)


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (("--from-log", "none.log", *GIVEN), "none.log does not exist", "spelling"),
        (("--from-log", "LOG"), "does not say the model, the GPU, how many GPUs", "give --model"),
        (("--from-log", "LOG", "--given", "model=gpt-9,gpu=h100-sxm,gpus=1"), "gpt-9", ""),
        (("--from-log", "LOG", "--from", "LOG"), "one at a time", "leave one of them out"),
        (("--from-log", "README.md", *GIVEN), "of an engine's statistics", "it is read where"),
    ],
)
def test_what_cannot_be_learnt_from_is_one_clear_line(
    capsys: Captured, tmp_path: Path, arguments: tuple[str, ...], said: str, hint: str
) -> None:
    line = (
        "INFO Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 400.0 tokens/s, "
        "Running: 4 reqs, Waiting: 0 reqs, GPU KV cache usage: 2.0%, Prefix cache hit rate: 0.0%"
    )
    log = written(tmp_path / "engine.log", iter([line] * 3))
    named = [str(log) if each == "LOG" else each for each in arguments]
    code, out, err = ask(capsys, "calibrate", *named)
    assert code == 2
    assert not out
    assert said in err
    assert hint in err
    assert "Traceback" not in err
