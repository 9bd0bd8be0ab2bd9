"""``roofline calibrate`` and ``roofline bench`` as a user types them, in processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from roofline.bench.engine import Measurement
from roofline.bench.probe import find, points
from roofline.bench.profile_file import load
from roofline.bench.recorder import begin
from roofline.cli.calibrate import duration
from roofline.errors import InputError

ROOT = Path(__file__).parents[2]


def roofline(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "roofline", *arguments],
        cwd=ROOT,
        env=os.environ | threads | {"ROOFLINE_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two points."""
    folder = tmp_path_factory.mktemp("few")
    about = {"processor": "Toy", "cores": "1", "cache": "1048576", "memory": "1", "threads": "1"}
    loaded = find("call")
    recorder = begin(folder, "numpy", {"machine": "toy", "date": "2026-01-01", **about}, [loaded])
    for point in list(points(loaded.probe))[:2]:
        recorder.keep(
            Measurement(point, 1, 1, reuse=1024.0, samples=(1e-6,) * 10, stopped="converged")
        )
    return folder


@pytest.fixture(scope="module")
def measured(home: Path) -> subprocess.CompletedProcess[str]:
    """Two probes, quickly."""
    folder = str(home / "run")
    return roofline(
        home,
        *("bench", "run", "rmsnorm", "call", "--budget", "8s", "--records", folder),
        *("--format", "json"),
    )


@pytest.mark.slow
def test_running_probes_prints_what_they_measured(
    measured: subprocess.CompletedProcess[str],
) -> None:
    assert measured.returncode == 0, measured.stderr
    found = json.loads(measured.stdout)
    rows = {row["point"]: row for row in found["result"]["points"]}
    assert rows["call calls=16 warm"]["seconds"] > rows["call calls=1 warm"]["seconds"] > 0
    assert all(row["low"] <= row["seconds"] <= row["high"] for row in rows.values())
    assert all(
        row["stopped"] in ("converged", "time", "samples", "slowed") for row in rows.values()
    )
    assert any("points were measured" in note for note in found["notes"])


@pytest.mark.slow
def test_a_run_is_fitted_without_measuring_again(
    measured: subprocess.CompletedProcess[str], home: Path
) -> None:
    assert measured.returncode == 0
    out = home / "mine.yaml"
    run = roofline(home, "bench", "fit", str(home / "run"), "--out", str(out), "--format", "json")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert [kernel["kernel"] for kernel in found["result"]["kernels"]] == ["rmsnorm"]
    assert any(note.startswith("call is measured, not fitted") for note in found["notes"])
    assert load(out).digest == found["result"]["digest"]


@pytest.mark.slow
def test_calibrate_says_what_it_left_out_and_where_it_put_the_rest(home: Path) -> None:
    run = roofline(home, "calibrate", "--budget", "10s")
    # Ten seconds of a core that others have may end before three points do: nothing is shown then.
    if "too few to fit anything" in run.stderr:
        pytest.skip(f"THE MACHINE IS TOO BUSY: {run.stderr}")
    assert run.returncode == 0, run.stderr
    assert "Against the published figures" in run.stdout
    assert "Errors on shapes that the fit did not see" in run.stdout
    assert "points were left out" in run.stderr
    assert "points were measured in" in run.stderr
    (path,) = (home / "calibrations").glob("*.yaml")
    assert f"wrote {path}" in run.stderr
    assert load(path).provider == "numpy"
    (folder,) = (home / "records").iterdir()
    dropped = (folder / "left-out.txt").read_text(encoding="utf-8").splitlines()
    assert all(": " in line for line in dropped)


def test_the_probes_are_listed(home: Path) -> None:
    run = roofline(home, "bench", "list", "--format", "json")
    found = {row["probe"]: row for row in json.loads(run.stdout)["result"]["probes"]}
    assert {"gemm", "decode-attention", "copy"} <= set(found)
    assert found["gemm"]["kind"] == "gemm"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("calibrate", "--budget", "soon"), 2, "--budget 'soon' is no time"),
        (("calibrate", "--budget", "1s"), 2, "nothing can be measured in 1 s"),
        (("calibrate", "--threads", "0"), 2, "0 threads cannot compute"),
        (("calibrate", "--backend", "abacus"), 2, "abacus"),
        (("bench", "run", "gem"), 2, "there is no probe 'gem'"),
        (("bench", "fit", "."), 2, "holds no run"),
        (("bench", "fit", "{few}"), 2, "points are too few to fit anything"),
    ],
)
def test_a_mistake_is_an_error_and_a_hint(
    home: Path, few: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    run = roofline(home, *(word.format(few=few) for word in arguments))
    assert run.returncode == code
    error, hint = run.stderr.strip().splitlines()
    assert error.startswith("error: ")
    assert said in error
    assert hint.startswith("hint: ")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("3min", 180), ("1.5 m", 90), ("1h", 3600)]
)
def test_times_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "-5s", "3 weeks", "1e3", "nan", "9" * 400, "7" * 99_999 + "x"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InputError) as refused:
        duration(text)
    assert len(refused.value.message) < 100
