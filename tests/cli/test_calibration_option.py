"""``--calibration``: measured kernels, the datasheet's rates, a file, or one clear error."""

import json
from pathlib import Path
from typing import Any

import pytest

from roofline.bench.calibrating import fit_probe
from roofline.bench.profile import Profile, write
from roofline.cli import run
from tests.bench.test_calibrating import MACHINE, PUBLISHED, planted
from tests.cli.test_own_calibration import mine

Captured = pytest.CaptureFixture[str]


def ask(capsys: Captured, words: str) -> tuple[int, str, str]:
    code = run(words.split())
    out, err = capsys.readouterr()
    return code, out, err


def answer(capsys: Captured, words: str) -> dict[str, Any]:
    code, out, err = ask(capsys, f"{words} --format json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)["result"]
    return found


def test_the_default_is_measured_with_an_interval_around_it(capsys: Captured) -> None:
    found = answer(capsys, "analyze")
    assert (found["basis"], found["calibration"]) == ("calibrated", "h100-sxm")
    for name, metric in found["metrics"].items():
        assert metric["low"] < metric["value"] < metric["high"], name
    for row in found["ops"]:
        assert row["low_s"] <= row["seconds"] <= row["high_s"]


def test_none_is_the_datasheet_with_its_two_bounds(capsys: Captured) -> None:
    found = answer(capsys, "analyze --calibration none")
    assert (found["basis"], found["calibration"]) == ("datasheet", "none")
    assert all(
        metric["value"] <= metric["serial"] or "tok" in name or "user" in name
        for name, metric in found["metrics"].items()
    )
    assert {row["basis"] for row in found["ops"]} == {"datasheet"}


def test_a_gpu_that_was_not_measured_says_where_its_times_are_from(capsys: Captured) -> None:
    found = answer(capsys, "analyze --gpu h800-sxm")
    assert found["calibration"] == "kernels of h100-sxm"
    assert "transferred" in {row["basis"] for row in found["ops"]}


def test_a_gpu_unlike_all_that_were_measured_has_the_datasheet(capsys: Captured) -> None:
    assert answer(capsys, "analyze --gpu gaudi3")["basis"] == "datasheet"


def test_a_gpu_on_which_serving_was_measured_says_what_its_kernels_are(capsys: Captured) -> None:
    found = answer(capsys, "analyze --gpu mi300x --engine sglang")
    assert found["calibration"] == "usual kernels"
    kernels = {row["basis"] for row in found["ops"] if row["op"] != "engine"}
    assert kernels == {"assumed"}
    assert all(
        each["low"] < each["value"] < each["high"]
        for name, each in found["metrics"].items()
        if name in ("ttft_idle_s", "tpot_s")
    )


def test_closed_forms_have_no_calibration(capsys: Captured) -> None:
    one = answer(capsys, "analyze llama-2-13b --convention textbook")
    other = answer(capsys, "analyze llama-2-13b --convention textbook --calibration none")
    assert one["metrics"] == other["metrics"]


def test_an_unknown_calibration_is_one_clear_error(capsys: Captured, tmp_path: Path) -> None:
    code, _, err = ask(capsys, "analyze --calibration h100x")
    assert code == 2
    assert "there is no calibration 'h100x'" in err
    assert err.count("error:") == 1
    code, _, err = ask(capsys, f"analyze --calibration {tmp_path / 'no.yaml'}")
    assert code == 2
    assert "no.yaml" in err


@pytest.mark.slow
def test_a_calibration_of_a_processor_has_no_kernel_of_a_gpu(
    capsys: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    fitted = fit_probe(planted("gemm"), PUBLISHED, 1, "numpy")
    environment = {"machine": "here"}
    write(
        Profile(
            "mine", "numpy", "here", "today", "0", environment, MACHINE, "assumed", {"gemm": fitted}
        ),
        path,
    )
    code, _, err = ask(capsys, f"analyze --calibration {path}")
    assert code == 2
    assert "no kernel of" in err


@pytest.mark.slow
def test_one_kernel_of_a_file_prices_what_it_is_of(capsys: Captured, tmp_path: Path) -> None:
    path = mine(tmp_path)
    found = answer(capsys, f"analyze --calibration {path}")
    priced = {row["op"] for row in found["ops"] if row["basis"] != "datasheet"}
    assert priced == {"qkv", "attn-out", "gate-up", "down", "lm-head", "engine"}
