"""``--calibration auto``: the user's own measurements of a GPU first, then what is shipped."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofline.api import sweep as swept
from roofline.bench.calibrations import calibration_of
from roofline.bench.held_out import Errors
from roofline.bench.profile import FittedProbe, Profile, write
from roofline.bench.shipping.files import fit_of
from roofline.cli import run
from roofline.cost.calibration.kernel import FitLabel
from roofline.cost.kernels.decode import KERNELS, USUAL, decode_dims, scheduled
from roofline.errors import InputError, RooflineError
from roofline.hardware import catalog as hardware
from roofline.records import replace
from tests.bench.test_calibrating import MACHINE
from tests.study.scenario.documents import BATCH, scenario

Captured = pytest.CaptureFixture[str]
GEMMS = ("qkv", "attn-out", "gate-up", "down", "lm-head")
ENGINES = ("vllm", "sglang", "trtllm")
SLOWER = 2.0


def answer(capsys: Captured, words: str) -> dict[str, Any]:
    code = run(f"analyze {words} --format json".split())
    out, err = capsys.readouterr()
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def seconds(found: dict[str, Any]) -> dict[tuple[str, str], float]:
    return {(row["phase"], row["op"]): row["seconds"] for row in found["result"]["ops"]}


def mine(
    home: Path,
    *,
    device: str = "h100-sxm",
    date: str = "2026-01-01",
    scale: float = SLOWER,
    name: str = "",
    probes: tuple[str, ...] = ("gemm-bf16",),
    provider: str = "vllm",
) -> Path:
    """A calibration as `roofline calibrate` writes them: an engine's fits, so much slower."""
    kinds = {
        "gemm-bf16": ("gemm", "bfloat16", "product-2"),
        "paged-decode": ("decode-attention", "bfloat16-bfloat16", "decode"),
    }
    fits: dict[str, FittedProbe] = {}
    for probe in probes:
        kind, variant, form = kinds[probe]
        shipped = fit_of(FitLabel("h100-sxm", provider, kind, variant))
        model = replace(shipped.model, scale=scale, source="my own")
        known = Errors(0.03, 0.04, 0.09)
        fits[probe] = FittedProbe(
            probe, 1, kind, shipped.arithmetic, form, model, known, known, 0.8
        )
    name = name or f"cupy-{device}"
    profile = Profile(
        name, "cupy", device, date, "0" * 16, {"machine": device}, MACHINE, device, fits
    )
    path = home / "calibrations" / f"{name}.yaml"
    write(profile, path)
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROOFLINE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.slow
def test_own_kernels_price_what_they_are_of_and_shipped_ones_the_rest(
    home: Path, capsys: Captured
) -> None:
    shipped = seconds(answer(capsys, "--engine trtllm"))
    mine(home, provider="trtllm")
    found = answer(capsys, "--engine trtllm")
    ratio = {op: time / shipped[op] for op, time in seconds(found).items()}
    for (phase, op), share in ratio.items():
        wanted = SLOWER if op in GEMMS else 1.0
        assert share == pytest.approx(wanted, rel=1e-3), (phase, op)
    told = {row["op"]: row["basis"] for row in found["result"]["ops"]}
    assert "transferred" not in {told[op] for op in GEMMS}


@pytest.mark.slow
def test_it_says_which_kernels_are_own_and_which_are_shipped(home: Path, capsys: Captured) -> None:
    assert answer(capsys, "")["result"]["calibration"] == "h100-sxm"
    mine(home)
    found = answer(capsys, "")
    assert found["result"]["calibration"] == "cupy-h100-sxm, else h100-sxm"
    (note,) = [note for note in found["notes"] if "your own calibration" in note]
    own, _, shipped = note.partition("; shipped with this program: ")
    assert own == "By your own calibration cupy-h100-sxm: gemm bfloat16"
    assert "decode-attention bfloat16-bfloat16" in shipped
    assert run(["analyze"]) == 0
    assert "cupy-h100-sxm" in "".join(capsys.readouterr())


@pytest.mark.slow
def test_a_calibration_of_another_device_is_left_alone(home: Path, capsys: Captured) -> None:
    shipped = seconds(answer(capsys, ""))
    mine(home, device="h200-sxm")
    assert seconds(answer(capsys, "")) == shipped


@pytest.mark.slow
def test_own_kernels_come_before_those_of_a_like_device(home: Path, capsys: Captured) -> None:
    carried = answer(capsys, "--gpu h800-sxm")
    mine(home, device="h800-sxm", scale=1.0)
    found = answer(capsys, "--gpu h800-sxm")
    assert found["result"]["calibration"] == "cupy-h800-sxm, else kernels of h100-sxm"
    rows = {row["op"]: row for row in found["result"]["ops"]}
    before = {row["op"]: row for row in carried["result"]["ops"]}
    assert before["gate-up"]["basis"] == "transferred" != rows["gate-up"]["basis"]
    assert rows["attention"]["basis"] == before["attention"]["basis"]


@pytest.mark.slow
def test_the_latest_of_several_is_taken(home: Path, capsys: Captured) -> None:
    shipped = seconds(answer(capsys, ""))
    mine(home, name="b", date="2026-03-01", scale=3.0)
    mine(home, name="a", date="2026-01-01", scale=2.0)
    mine(home, name="c", date="2026-02-01", scale=4.0)
    found = answer(capsys, "")
    assert seconds(found)["decode", "gate-up"] == pytest.approx(
        3.0 * shipped["decode", "gate-up"], rel=1e-3
    )
    assert found["result"]["calibration"] == "b, else h100-sxm"


@pytest.mark.slow
def test_an_engine_s_own_attention_stays_where_it_was_measured(
    home: Path, capsys: Captured
) -> None:
    """The probe's attention is no engine's: it stands in for those that were not measured."""
    asked = [(gpu, engine) for gpu in ("h100-sxm", "h800-sxm") for engine in ENGINES]

    def attention() -> dict[tuple[str, str], float]:
        found = {key: answer(capsys, "--gpu {} --engine {}".format(*key)) for key in asked}
        return {key: seconds(each)["decode", "attention"] for key, each in found.items()}

    before = attention()
    for device in ("h100-sxm", "h800-sxm"):
        mine(home, device=device, probes=("paged-decode",), scale=10.0)
    after = attention()
    for engine in ENGINES:
        assert after["h100-sxm", engine] == before["h100-sxm", engine], engine
        assert after["h800-sxm", engine] > 5.0 * before["h800-sxm", engine], engine


@pytest.mark.slow
def test_a_damaged_own_calibration_is_one_error_that_names_it(home: Path, capsys: Captured) -> None:
    path = mine(home)
    path.write_text(path.read_text().replace("form: product-2", "form: product-3"))
    assert run(["analyze"]) == 2
    err = capsys.readouterr().err
    assert err.count("error:") == 1
    assert f"{path}:" in err


@pytest.mark.slow
def test_a_file_that_is_named_serves_by_the_same_names(home: Path, capsys: Captured) -> None:
    path = mine(home)
    found = answer(capsys, f"--calibration {path}")
    priced = {row["op"] for row in found["result"]["ops"] if row["basis"] != "datasheet"}
    assert priced == {*GEMMS, "engine"}


def test_columns_of_decoding_are_as_the_kernel_schedules_it() -> None:
    one = np.ones(2)
    shape = (4 * one, one, 4096 * one, 32 * one, 8 * one, 128 * one, 0 * one, 2 * one, 2 * one)
    usual = decode_dims(*shape)
    for kernel in (*KERNELS, ""):
        for name, column in scheduled(usual, kernel).items():
            np.testing.assert_array_equal(column, decode_dims(*shape, kernel=kernel)[name])
    assert scheduled(usual, "roofline")["slots"].tolist() != [USUAL.slots] * 2


@pytest.mark.slow
def test_one_object_stands_for_a_device_until_the_user_measures_it_anew(home: Path) -> None:
    gpu = hardware.gpu("h100-sxm")
    first = calibration_of("auto", gpu, "vllm")
    assert calibration_of("auto", gpu, "vllm") is first
    assert calibration_of("auto", gpu, "sglang") is not first
    path = mine(home)
    own = calibration_of("auto", gpu, "vllm")
    assert own is not first
    assert own is calibration_of("auto", gpu, "vllm")
    path.touch()
    assert calibration_of("auto", gpu, "vllm") is not own
    named = calibration_of(str(path), gpu, "vllm")
    assert calibration_of(str(path), gpu, "vllm") is named
    path.unlink()
    assert calibration_of("auto", gpu, "vllm") is first
    with pytest.raises(RooflineError, match=path.name):
        calibration_of(str(path), gpu, "vllm")


@pytest.mark.slow
@pytest.mark.parametrize("named", ["auto", "cupy-h100-sxm"])
def test_a_sweep_is_not_gone_on_with_after_another_calibration(
    home: Path, tmp_path: Path, named: str
) -> None:
    asked, out = scenario(BATCH, batch=[1, 64], calibration=named), tmp_path / "out"
    mine(home)
    first = swept(asked, out=out, workers=1)
    assert swept(asked, out=out, workers=1).table.equals(first.table)
    mine(home, device="a100-sxm")  # nothing of it is asked for
    assert swept(asked, out=out, workers=1).table.equals(first.table)
    mine(home, scale=2 * SLOWER)
    with pytest.raises(InputError, match="another sweep"):
        swept(asked, out=out, workers=1)


@pytest.mark.parametrize("named", [True, False])
def test_kernels_that_a_calibration_of_an_amd_device_lacks_are_as_without_it(
    home: Path, capsys: Captured, named: bool
) -> None:
    without = seconds(answer(capsys, "--gpu mi300x"))
    path = mine(home, device="mi300x")
    found = answer(capsys, "--gpu mi300x" + (f" --calibration {path}" if named else ""))
    rest = {key: time for key, time in seconds(found).items() if key[1] not in (*GEMMS, "engine")}
    assert rest == pytest.approx({key: without[key] for key in rest}, rel=1e-9)
    told = {row["op"]: row["basis"] for row in found["result"]["ops"]}
    assert "datasheet" not in told.values()
    assert told["down"] != "assumed"
