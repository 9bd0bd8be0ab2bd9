"""A shell completes names, and does not wait for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from roofline.cli import completing
from roofline.hardware import catalog as machines
from roofline.hardware.engine import engine_names
from roofline.model import catalog as networks
from roofline.serving.traffic.presets import preset_names
from roofline.study.scenario.reading import scenario_names

HEAVY = ("numpy", "pandas", "scipy", "yaml", "numba", "pyarrow", "rich", "plotly")


def shell(line: str, *flags: str, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Completions that the script of bash asks for the last word of a line."""
    words = line.split(" ")
    environment = {
        **os.environ,
        "_ROOFLINE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "PYTHONPATH": os.pathsep.join(sys.path),
        **({"HOME": str(home)} if home else {}),
    }
    command = [sys.executable, *flags, "-m", "roofline"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


def test_names_are_those_of_the_catalogs() -> None:
    assert completing.gpus("") == machines.gpu_names()
    assert completing.nodes("") == machines.node_names()
    assert completing.engines("") == engine_names()
    assert completing.models("") == sorted([*networks.names(), *networks.patched()])
    assert completing.workloads("") == preset_names()
    assert completing.scenarios("") == scenario_names()


def test_what_is_typed_already_is_in_any_case() -> None:
    assert completing.gpus("H100-s") == ["h100-sxm"]
    assert completing.models("no such") == []


def test_calibrations_are_two_words_and_the_users_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ROOFLINE_HOME", str(tmp_path))
    assert completing.calibrations("") == ["auto", "none"]
    (tmp_path / "calibrations").mkdir()
    (tmp_path / "calibrations" / "mine.yaml").touch()
    assert completing.calibrations("m") == ["mine"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("roofline serve-c", ["serve-command"]),
        ("roofline analyze llama-3.1-8", ["llama-3.1-8b"]),
        ("roofline serve-command m --gpu h100-n", ["h100-nvl"]),
        ("roofline simulate --workload cod", ["code-completion"]),
        ("roofline gpus show b20", ["b200-sxm"]),
        ("roofline serve-command m --for ray", ["ray-serve"]),
    ],
)
def test_a_shell_is_told_the_names(line: str, wanted: list[str]) -> None:
    assert shell(line).stdout.split() == wanted


@pytest.mark.slow
def test_nothing_heavy_is_imported_for_a_name() -> None:
    loaded = shell("roofline analyze lla", "-X", "importtime").stderr
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in loaded.splitlines()}
    assert "roofline" in imported
    assert not imported & set(HEAVY)


@pytest.mark.slow
def test_completion_installs_itself(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    program = tmp_path / "roofline"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m roofline "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    # The shell is the one that it is started from: a test's ancestors need not have one.
    subprocess.run(
        ["bash", "-c", f"{program} --install-completion; exit $?"],
        env=environment,
        capture_output=True,
        check=True,
    )
    script = tmp_path / ".bash_completions" / "roofline.sh"
    assert str(script) in (tmp_path / ".bashrc").read_text("utf-8")
    # A real bash, with what was installed.
    asked = (
        f"source {script}; COMP_WORDS=(roofline analyze qwen3-30b-a); COMP_CWORD=2; "
        f"_roofline_completion {program}; echo ${{COMPREPLY[@]}}"
    )
    answer = subprocess.run(
        ["bash", "-c", asked], env=environment, capture_output=True, text=True, check=True
    )
    assert "qwen3-30b-a3b" in answer.stdout.split()
