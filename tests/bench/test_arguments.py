"""Command lines of the modules that make what is shipped: their usage, and one error."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULES = {
    "end_to_end.ablation": "file",
    "end_to_end.making": "file",
    "end_to_end.given": "file",
    "shipping.making": "folder",
    "shipping.carrying": "folder",
    "shipping.scatter": "folder",
    "shipping.coverage": "",
    "operators": "",
}


def ran(module: str, *given: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", f"roofline.bench.{module}", *given],
        env=os.environ | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_help_says_what_a_module_takes(module: str) -> None:
    done = ran(module, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: python -m roofline.bench.{module} [-h]")


@pytest.mark.slow
@pytest.mark.parametrize(("module", "kind"), [each for each in MODULES.items() if each[1]])
def test_what_is_missing_is_one_error(module: str, kind: str, tmp_path: Path) -> None:
    absent = str(tmp_path / "none")
    for given, said in (
        ([], "the following arguments are required"),
        ([absent], f"no {kind} {absent!r}"),
    ):
        done = ran(module, *given)
        assert done.returncode == 2
        assert done.stderr.count("error: ") == 1
        assert said in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "kind", "said"),
    [
        ("shipping.making", "gemn", "no kind 'gemn'; kinds: gemm, attention-prefill"),
        ("shipping.making", "gemm/cublas", "gemm.parquet"),
        ("shipping.carrying", "gemm/cublas", "no kind 'gemm/cublas'"),
    ],
)
def test_kinds_that_are_not_there_are_one_error(
    module: str, kind: str, said: str, tmp_path: Path
) -> None:
    done = ran(module, str(tmp_path), kind)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_network_that_is_not_there_is_one_error() -> None:
    done = ran("operators", "llama-9")
    assert done.returncode == 2
    assert "llama-9" in done.stderr
    assert "Traceback" not in done.stderr
