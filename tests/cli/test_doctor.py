"""``roofline doctor`` as a person meets it."""

import json
from pathlib import Path

import pytest

from roofline.cli import run

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROOFLINE_HOME", str(tmp_path))


def ask(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    code = run(["doctor", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_it_answers_on_a_page(capsys: Captured) -> None:
    code, out, err = ask(capsys)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 100
    assert "own calibration" in out


def test_what_is_needed_and_missing_is_exit_code_3(capsys: Captured) -> None:
    code, out, _ = ask(capsys, "--need", "own calibration", "--need", "home")
    assert code == 3
    assert out.splitlines()[-1] == "needed and not there: own calibration"
    assert ask(capsys, "--need", "home")[0] == 0


@pytest.mark.slow
def test_json_has_every_check(capsys: Captured) -> None:
    code, out, _ = ask(capsys, "--gpu", "h100-sxm", "--format", "json")
    assert code == 0
    document = json.loads(out)
    assert document["command"] == "doctor"
    named = {check["check"]: check for check in document["result"]["checks"]}
    assert named["calibration"]["state"] == "ok"
    assert set(named["python"]) == {"check", "state", "found", "hint"}


def test_a_mistake_is_an_error(capsys: Captured) -> None:
    code, out, err = ask(capsys, "--need", "luck")
    assert (code, out) == (2, "")
    assert err.startswith("error: need is 'luck'\nhint: ")


@pytest.mark.parametrize("gpu", ["", "h100-sxm", "mi300x"])
def test_looking_makes_nothing(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu: str
) -> None:
    monkeypatch.setenv("ROOFLINE_HOME", str(tmp_path / "not" / "there"))
    code, out, _ = ask(capsys, "--gpu", gpu, "--need", "home", "--format", "json")
    assert code == 0
    checks = {check["check"]: check for check in json.loads(out)["result"]["checks"]}
    assert checks["home"]["found"].endswith(", made when needed")
    assert not any(tmp_path.iterdir())
