"""``roofline calibrate`` and ``roofline bench`` as users type them; a law drives the clock."""

import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest

from roofline.bench.engine import PointTimes
from roofline.bench.probe import find, points
from roofline.bench.profile_file import load
from roofline.bench.recorder import begin
from roofline.cli import run
from roofline.cli.calibrate import duration
from roofline.errors import InputError
from tests.bench.steady import BYTES_PER_S, CALL_S, steady


@dataclass(frozen=True, slots=True)
class Ended:
    """A command, and what it said."""

    returncode: int
    stdout: str
    stderr: str


def roofline(*arguments: str) -> Ended:
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err, steady():
        code = run([*arguments])
    return Ended(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder of what users keep, with one thread for NumPy."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROOFLINE_HOME", str(folder))
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            patch.setenv(name, "1")
        yield folder


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two points."""
    folder = tmp_path_factory.mktemp("few")
    about = {"processor": "Toy", "cores": "1", "cache": "1048576", "memory": "1", "threads": "1"}
    loaded = find("call")
    recorder = begin(folder, "numpy", {"machine": "toy", "date": "2026-01-01", **about}, [loaded])
    for point in list(points(loaded.probe))[:2]:
        recorder.keep(
            PointTimes(point, 1, 1, reuse=1024.0, samples=(1e-6,) * 10, stopped="converged")
        )
    return folder


@pytest.fixture(scope="module")
def measured(home: Path) -> Ended:
    """Two probes, quickly."""
    folder = str(home / "run")
    return roofline(
        *("bench", "run", "rmsnorm", "call", "--budget", "8s", "--records", folder),
        *("--format", "json"),
    )


@pytest.mark.slow
def test_running_probes_prints_what_they_measured(measured: Ended) -> None:
    assert measured.returncode == 0, measured.stderr
    found = json.loads(measured.stdout)
    rows = {row["point"]: row for row in found["result"]["points"]}
    for calls in (1, 4, 16):
        took = calls * CALL_S + 8.0 / BYTES_PER_S
        row = rows[f"call calls={calls} warm"]
        assert row["seconds"] == pytest.approx(took, rel=1e-9)
        assert 0.98 * took < row["low"] <= row["high"] < 1.02 * took
    assert all(row["low"] <= row["seconds"] <= row["high"] for row in rows.values())
    assert {row["stopped"] for row in rows.values()} <= {"converged", "time", "samples"}
    assert any("points were measured" in note for note in found["notes"])


@pytest.mark.slow
def test_a_run_is_fitted_without_measuring_again(measured: Ended, home: Path) -> None:
    assert measured.returncode == 0
    out = home / "mine.yaml"
    ended = roofline("bench", "fit", str(home / "run"), "--out", str(out), "--format", "json")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert [kernel["kernel"] for kernel in found["result"]["kernels"]] == ["rmsnorm"]
    assert any(note.startswith("call is measured, not fitted") for note in found["notes"])
    assert load(out).digest == found["result"]["digest"]


@pytest.mark.slow
def test_calibrate_says_what_it_left_out_and_where_it_put_the_rest(home: Path) -> None:
    ended = roofline("calibrate", "--budget", "10s")
    assert ended.returncode == 0, ended.stderr
    assert "Against the published figures" in ended.stdout
    assert "Errors on shapes that the fit did not see" in ended.stdout
    assert "points were left out" in ended.stderr
    assert "points were measured in" in ended.stderr
    (path,) = (home / "calibrations").glob("*.yaml")
    assert f"wrote {path}" in ended.stderr
    assert load(path).provider == "numpy"
    (folder,) = (home / "records").iterdir()
    dropped = (folder / "left-out.txt").read_text(encoding="utf-8").splitlines()
    assert all(": " in line for line in dropped)


def test_the_probes_are_listed(home: Path) -> None:
    ended = roofline("bench", "list", "--format", "json")
    found = {row["probe"]: row for row in json.loads(ended.stdout)["result"]["probes"]}
    assert {"gemm", "decode-attention", "copy"} <= set(found)
    assert found["gemm"]["kind"] == "gemm"


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
    ended = roofline(*(word.format(few=few) for word in arguments))
    assert ended.returncode == code
    error, hint = ended.stderr.strip().splitlines()
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
