"""Words of the doctor, where something is there and where nothing is."""

import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import roofline
from roofline.api import checking
from roofline.api.checking import EXTRAS, LIBRARIES, NEEDS, OLDEST_PYTHON
from roofline.bench.gpu import environment
from roofline.errors import InputError, UnknownNameError
from tests.bench.gpu.fake_nvml import NvmlError, fake_nvml
from tests.cli.test_own_calibration import mine

Checks = dict[str, dict[str, str]]
PROJECT = Path(roofline.__file__).parents[1] / "pyproject.toml"


@pytest.fixture(autouse=True)
def nothing_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No driver, no wheel, no home."""

    def missing() -> None:
        raise NvmlError("NVML Shared Library Not Found")

    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(nvmlInit=missing))
    monkeypatch.setenv("ROOFLINE_HOME", str(tmp_path / "home"))
    install(monkeypatch)


def install(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    def distribution(name: str) -> Any:
        if name not in names:
            raise PackageNotFoundError(name)
        return SimpleNamespace(version="1.2.3")

    monkeypatch.setattr(environment, "distribution", distribution)


def board(monkeypatch: pytest.MonkeyPatch, title: str, count: int = 1) -> None:
    library = fake_nvml(
        nvmlDeviceGetCount=lambda: count,
        nvmlDeviceGetName=lambda gpu: title.encode(),
        nvmlSystemGetCudaDriverVersion=lambda: 13010,
    )
    monkeypatch.setitem(sys.modules, "pynvml", library)


def checks(gpu: str = "", **given: Any) -> Checks:
    rows = roofline.doctor(gpu, **given).tables["checks"].rows()
    return {row["check"]: row for row in rows}


def test_where_nothing_is_there_everything_has_a_hint_and_nothing_fails() -> None:
    found = checks()
    for name in ("driver", "gpu", "cupy", "calibration", "own calibration", "ray", "numpy"):
        assert found[name]["state"] == "missing", name
        assert found[name]["hint"], name
    for name in ("roofline", "python", "GPUs", "networks", "workloads", "home"):
        assert found[name]["state"] == "ok", name
    assert found["roofline"]["found"] == roofline.__version__
    assert "made when needed" in found["home"]["found"]


@pytest.mark.slow
def test_only_what_is_asked_for_is_absent() -> None:
    assert roofline.doctor().metadata["absent"] == []
    assert roofline.doctor(need=["gpu", "home", "ray"]).metadata["absent"] == ["gpu", "ray"]
    assert roofline.doctor("h100-sxm", need=["calibration"]).metadata["absent"] == []
    with pytest.raises(InputError, match="need is 'luck'"):
        roofline.doctor(need=["luck"])
    with pytest.raises(UnknownNameError):
        roofline.doctor("h1000")


def test_everything_that_can_be_needed_is_checked() -> None:
    assert set(NEEDS) <= set(checks())


def test_a_gpu_is_recognised_and_its_calibration_found(monkeypatch: pytest.MonkeyPatch) -> None:
    board(monkeypatch, "NVIDIA H100 80GB HBM3", count=8)
    found = checks()
    assert found["driver"]["found"] == "580.65, CUDA 13.1"
    assert found["gpu"] == {
        "check": "gpu",
        "state": "ok",
        "found": "8 × NVIDIA H100 80GB HBM3: h100-sxm",
        "hint": "",
    }
    assert found["calibration"]["state"] == "ok"
    assert found["calibration"]["found"] == "h100-sxm under vllm: h100-sxm"
    used = dict(each.split(": ") for each in found["calibration"]["hint"].split("; "))
    assert next(iter(used)) == "vllm on h100-sxm"
    assert {"gemm", "decode-attention", "prefill-attention"} <= set(
        used["vllm on h100-sxm"].split(", ")
    )


def test_a_gpu_that_is_no_product_of_the_catalog_is_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    board(monkeypatch, "Tiny GPU 12345")
    found = checks()
    assert found["gpu"]["state"] == "ok"
    assert "`gpu`" in found["gpu"]["hint"]
    assert found["calibration"]["state"] == "missing"


@pytest.mark.slow
def test_the_gpu_that_is_named_is_the_one_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    board(monkeypatch, "NVIDIA H100 80GB HBM3")
    assert checks("a100-sxm")["calibration"]["found"].startswith("a100-sxm")
    said = checks("gaudi3")["calibration"]
    assert said["state"] == "missing"
    assert "datasheet" in said["hint"]
    served = checks("mi300x")["calibration"]
    assert served["state"] == "ok"
    assert "end to end" in served["hint"]


def test_both_wheels_of_cupy_are_wrong_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "cupy-cuda12x", "cupy-cuda13x")
    found = checks()["cupy"]
    assert found["state"] == "wrong"
    assert "overwrite each other" in found["found"]
    assert "pip uninstall" in found["hint"]


@pytest.mark.slow
def test_the_users_own_calibration_is_listed_with_how_to_use_it(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "calibrations"
    assert mine(tmp_path / "home", name="mine") == folder / "mine.yaml"
    (folder / "broken.yaml").write_text("a: 1\n", encoding="utf-8")
    found = checks("h100-sxm")
    assert found["own calibration"]["found"] == "mine"
    assert found["own calibration"]["hint"] == "priced with by `calibration=mine`"
    assert found["calibration broken"]["state"] == "wrong"
    assert found["calibration broken"]["hint"]
    assert checks("a100-sxm")["own calibration"]["state"] == "missing"
    # What it says works.
    priced = roofline.analyze("llama-3.1-8b", "h100-sxm", calibration="mine", batch=1, output=2)
    assert priced.tables["headline"]


def test_a_home_that_cannot_be_written_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("ROOFLINE_HOME", str(tmp_path / "file" / "home"))
    found = checks()["home"]
    assert found["state"] == "wrong"
    assert "ROOFLINE_HOME" in found["hint"]


@pytest.mark.skipif(not PROJECT.is_file(), reason="no pyproject.toml beside the package")
def test_the_libraries_are_those_that_the_project_declares() -> None:
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    assert tuple(sorted(name.split(">")[0] for name in project["dependencies"])) == LIBRARIES
    assert project["requires-python"] == ">=" + ".".join(map(str, OLDEST_PYTHON))
    extras = project["optional-dependencies"]
    declared = {each.split(">")[0] for listed in extras.values() for each in listed}
    assert {name for names, _ in EXTRAS.values() for name in names} <= declared


def test_the_module_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    checking.doctor()
    assert capsys.readouterr() == ("", "")
