"""``roofline calibrate --from`` as a person meets it."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.api import RunOptions, learning
from roofline.bench.end_to_end.learning import LearntConstants, learn
from roofline.bench.end_to_end.replay import PreparedRow
from roofline.cli import run
from roofline.errors import InputError
from tests.interop.results.test_formats import DATA

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOFLINE_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module", autouse=True)
def _learnt_once() -> Iterator[None]:
    """Searches of the same runs are made once."""
    found: dict[str, LearntConstants] = {}

    def once(rows: list[PreparedRow]) -> LearntConstants:
        key = repr([each.row for each in rows])
        if key not in found:
            found[key] = learn(rows)
        return found[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "learn", once)
        yield


def shifted(path: Path, seconds: float) -> Path:
    """Runs whose every token takes so much longer than predicted."""
    loads = (1, 2, 4, 8, 16, 32, 64)
    names = ["model", "gpu", "gpus", "engine", "concurrency", "requests", "prompt", "output",
             "ttft_s", "tpot_s"]  # fmt: skip

    def written(figures: list[tuple[float, float]]) -> None:
        rows = [
            ["llama-3.1-8b", "h100-sxm", 1, "vllm", many, 10 * many, 512, 128, *each]
            for many, each in zip(loads, figures, strict=True)
        ]
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([names, *rows])

    written([(0.1, 0.01)] * len(loads))
    table = roofline.compare_measured(path).tables["figures"]
    guessed = {(entry["run"], entry["metric"]): entry["predicted"] for entry in table.rows()}
    places = range(1, len(loads) + 1)
    written(
        [(guessed[place, "ttft"] + seconds, guessed[place, "tpot"] + seconds) for place in places]
    )
    return path


@pytest.fixture
def slower(tmp_path: Path) -> Path:
    """A host where each step takes 3 ms more."""
    return shifted(tmp_path / "slower.csv", 3e-3)


def ask(capsys: Captured, *arguments: object) -> tuple[int, str, str]:
    code = run(["calibrate", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.slow
def test_what_changed_and_how_well_it_holds_is_said(
    capsys: Captured, slower: Path, tmp_path: Path
) -> None:
    code, out, err = ask(capsys, "--from", slower)
    assert code == 0
    path = tmp_path / "home" / "engines" / "vllm.yaml"
    assert f"wrote {path}" in err
    for word in ("Shipped", "Learnt", "Told", "left out", "one run at a time", "one deployment"):
        assert word in out
    assert max(len(line) for line in out.splitlines()) <= 100
    ttft, tpot, _ = roofline.compare_measured(slower).tables["summary"]["median"]
    learnt = roofline.compare_measured(slower, profile=path).tables["summary"]["median"]
    assert learnt[1] < tpot / 2
    assert learnt[0] < ttft


@pytest.mark.slow
def test_json_has_constants_errors_and_the_file(capsys: Captured, slower: Path) -> None:
    out_path = slower.parent / "own.yaml"
    code, out, _ = ask(capsys, "--from", slower, "--out", out_path, "--format", "json")
    assert code == 0
    result = json.loads(out)["result"]
    assert result["engine"] == "vllm"
    assert result["file"] == str(out_path)
    assert out_path.exists()
    step = next(entry for entry in result["constants"] if entry["constant"] == "step_s")
    assert step["learnt"] > step["shipped"]
    whole = result["errors"][-1]
    assert whole["held out"] < whole["shipped"]


@pytest.mark.slow
def test_what_does_no_better_is_not_written(capsys: Captured, tmp_path: Path) -> None:
    code, out, err = ask(capsys, "--from", shifted(tmp_path / "alike.csv", 0.0))
    assert code == 0
    assert "no better than by the shipped profile, which stays" in " ".join(out.split())
    assert "wrote" not in err
    assert not (tmp_path / "home" / "engines").exists()


@pytest.mark.slow
def test_a_simulation_takes_a_learnt_profile(slower: Path, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    roofline.learn_engine(slower, out=path)
    asked: dict[str, Any] = {"prompt": 400, "output": 40, "requests": 40, "concurrency": 4}
    plain = roofline.simulate("llama-3.1-8b", **asked)
    own = roofline.simulate("llama-3.1-8b", **asked, profile=path)
    gaps = [
        next(e["mean"] for e in each.tables["headline"].rows() if e["metric"] == "tpot_s")
        for each in (plain, own)
    ]
    assert gaps[1] > gaps[0] + 1e-3
    with pytest.raises(InputError, match="goes with measured kernels"):
        roofline.simulate("llama-3.1-8b", **asked, profile=path, calibration="none")


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (("--from", DATA / "vllm_serve.json"), "does not say the GPU", "give --gpu"),
        (
            ("--from", DATA / "vllm_serve.json", "--given", "gpu=h100-sxm,gpus=1"),
            "1 runs are too few to learn from", "give 3 or more",
        ),
        (("--from", DATA / "tidy.csv", "--given", "colour=red"), "says nothing", "names are model"),
        (("--from", DATA / "tidy.csv", "--given", "gpus=many"), "no number above 0", "gpus=2"),
        (("--from", DATA / "tidy.csv", "--given", "gpus=-1"), "no number above 0", "gpus=2"),
        (("--from", DATA / "tidy.csv", "--given", "model=gpt-9"), "none of 3 runs", "says it of"),
        (("--from", DATA / "none.csv"), "does not exist", "spelling"),
        (("--given", "gpus=1"), "--given is for results", "--from"),
    ],
)  # fmt: skip
def test_what_cannot_be_learnt_from_is_one_clear_line(
    capsys: Captured, arguments: tuple[object, ...], said: str, hint: str
) -> None:
    code, out, err = ask(capsys, *arguments)
    assert code == 2
    assert not out
    assert said in err
    assert hint in err


def test_runs_of_several_engines_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = ["model,gpu,gpus,engine,concurrency,prompt,output,ttft_s"]
    rows += [f"llama-3.1-8b,h100-sxm,1,{name},1,99,99,0.1" for name in ("vllm", "sglang", "trtllm")]
    path.write_text("\n".join(rows) + "\n", "utf-8")
    with pytest.raises(InputError, match="several engines: sglang, trtllm, vllm"):
        roofline.learn_engine(path)
    with pytest.raises(InputError, match="too few"):
        roofline.learn_engine(DATA / "llama_bench_old.md", given=RunOptions(
            model="llama-3.1-8b", gpu="rtx-4090", gpus=1))  # fmt: skip
