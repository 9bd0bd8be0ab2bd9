"""``roofline calibrate`` and ``bench`` on a GPU that is made up, and where there is none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from roofline.bench import probe as probe_module
from roofline.bench.profile_file import load
from roofline.cli import run
from tests.bench.gpu.fake_gpu import FakeGpu, installed
from tests.bench.gpu.planted import PLANTED, seconds
from tests.bench.gpu.test_campaign import thinned

ROOT = Path(__file__).parents[2]
SOME = ("gemm-bf16", "gemm-fp8", "copy", "rmsnorm-bf16", "all-reduce")


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An H100, a few probes, and a folder for what is found."""
    installed(monkeypatch, FakeGpu(seconds))
    some = [thinned(name) for name in SOME]
    monkeypatch.setattr(probe_module, "probes", lambda: some)
    monkeypatch.setenv("ROOFLINE_HOME", str(tmp_path))
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    return tmp_path


@pytest.mark.slow
def test_a_gpu_is_calibrated_from_probe_to_profile(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["calibrate", "--backend", "cupy", "--budget", "40s"]) == 0
    out, err = capsys.readouterr()
    assert "cupy-h100-sxm: cupy on NVIDIA H100 80GB HBM3" in out
    assert "NVIDIA H100 80GB HBM3 as h100-sxm" in err
    assert "all-reduce was not measured." in err
    assert "it takes 2 GPUs, there is 1" in err
    (path,) = (home / "calibrations").glob("*.yaml")
    assert f"wrote {path}" in err
    found = load(path)
    assert set(found.fits) == {*SOME} - {"all-reduce"}
    for name in ("gemm-bf16", "gemm-fp8"):
        fitted = found.fits[name]
        planted = PLANTED[fitted.form]["compute"]
        assert fitted.model.constants["compute"] == pytest.approx(planted, rel=0.01)
    # What changed: shares of 989.4 and 1978.9 TFLOP/s and of 3.35 TB/s are told as rates.
    lines = [line.split() for line in out.splitlines()]
    told = {tuple(line[:2]): line[2:5] for line in lines if len(line) > 5}
    for kernel, constant, share, whole, unit in (
        ("gemm-bf16", "compute", "75%", 989.4, "TFLOP/s"),
        ("gemm-fp8", "compute", "65%", 1.9789, "PFLOP/s"),
        ("copy", "memory", "93%", 3.35, "TB/s"),
    ):
        value, *rest = told[kernel, constant]
        assert rest == [unit, share]
        assert float(value) == pytest.approx(whole * float(share[:-1]) / 100.0, rel=0.01)


@pytest.mark.slow
def test_probes_are_run_and_fitted_apart(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(home / "run")
    command = ["bench", "run", "copy", "--backend", "auto", "--records", folder, "--budget", "15s"]
    assert run([*command, "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert "backend cupy: there is a GPU" in err
    rows = {row["point"]: row for row in json.loads(out)["result"]["points"]}
    moved, planted = 2.0 * 2**28, PLANTED["memory"]
    expected = planted["start"] + moved / (planted["memory"] * 3.35e12)
    large = rows["copy size=268435456 cold"]
    assert large["seconds"] == pytest.approx(expected, rel=0.01)
    assert large["bytes_per_s"] == moved / large["seconds"]
    assert run(["bench", "fit", folder, "--format", "json"]) == 0
    fitted = json.loads(capsys.readouterr().out)["result"]
    assert fitted["datasheet"] == "h100-sxm"
    (memory,) = [c for c in fitted["changes"] if c["constant"] == "memory"]
    assert memory["value"] == pytest.approx(0.93 * 3.35e12, rel=0.01)
    assert memory["unit"] == "B/s"


@pytest.mark.slow
def test_a_run_is_gone_on_with(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(home / "run")
    command = ["bench", "run", "copy", "--backend", "cupy", "--records", folder]
    assert run(command) == 0
    before = {path.name: path.read_bytes() for path in Path(folder).glob("*.parquet")}
    assert len(before) > 12
    assert run(command) == 0
    assert {path.name: path.read_bytes() for path in Path(folder).glob("*.parquet")} == before


@pytest.mark.slow
def test_a_gpu_that_is_not_known_is_one_line_and_can_be_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed(monkeypatch, FakeGpu(seconds, multiprocessors=96), title="NVIDIA H100 64GB")
    command = ["bench", "run", "copy", "--backend", "cupy", "--budget", "5s"]
    assert run(command) == 2
    error, hint = capsys.readouterr().err.strip().splitlines()
    assert error.startswith("error: no GPU of the catalog is NVIDIA H100 64GB with compute")
    assert "--gpu NAME" in hint
    assert run([*command, "--gpu", "h100-sxm"]) == 0


def test_numpy_cannot_be_a_gpu(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", "--backend", "numpy", "--gpu", "h100-sxm"]) == 2
    assert "NumPy does not run on h100-sxm" in capsys.readouterr().err


def roofline(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "roofline", *arguments],
        cwd=ROOT,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("command", [("calibrate",), ("bench", "run", "copy")])
def test_no_gpu_is_one_line_and_exit_code_three(command: tuple[str, ...]) -> None:
    """In a process of its own, with whatever is or is not installed here."""
    done = roofline(*command, "--backend", "cupy")
    assert done.returncode == 3
    error, hint = done.stderr.strip().splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")
    assert done.stdout == ""


@pytest.mark.slow
def test_without_a_gpu_auto_takes_numpy_and_says_so(tmp_path: Path) -> None:
    done = roofline("bench", "run", "call", "--budget", "5s", "--records", str(tmp_path / "run"))
    assert done.returncode == 0
    assert done.stderr.startswith("backend numpy: no GPU is measured: ")
