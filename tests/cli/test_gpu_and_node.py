"""A GPU that is asked for is priced, or refused where the node has others; none is put aside."""

import pytest

from roofline.api.parameters import DEFAULT_GPU
from roofline.api.setting import machine_of
from roofline.cli import run
from roofline.errors import InputError
from roofline.hardware import catalog

Captured = pytest.CaptureFixture[str]
COMMANDS = {
    "analyze": ["analyze"],
    "layouts": ["layouts"],
    "paging": ["paging"],
    "plan": ["plan", "--rate", "1"],
    "simulate": ["simulate", "--rate", "1"],
    "speculate": ["speculate", "--draft", "ngram", "--acceptance", "0.5"],
    "disaggregate": ["disaggregate"],
    "serve-command": ["serve-command"],
    "parse-command": ["parse-command", "vllm serve meta-llama/Llama-3.1-8B"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("gpu", [DEFAULT_GPU, "l40s"])
def test_a_gpu_that_the_node_has_not_is_refused(capsys: Captured, command: str, gpu: str) -> None:
    code = run([*COMMANDS[command], "--gpu", gpu, "--node", "hgx-a100-8"])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert f"hgx-a100-8 has a100-sxm, not {gpu}" in err
    assert err.count("error:") == 1


def test_the_decode_pool_is_refused_likewise(capsys: Captured) -> None:
    code = run(["disaggregate", "--decode-gpu", DEFAULT_GPU, "--decode-node", "hgx-a100-8"])
    assert code == 2
    assert f"hgx-a100-8 has a100-sxm, not {DEFAULT_GPU}" in capsys.readouterr().err


@pytest.mark.parametrize("asked", [[], ["--gpu", "a100-sxm"]])
def test_a_node_is_of_its_own_gpu(capsys: Captured, asked: list[str]) -> None:
    assert run(["analyze", "--calibration", "none", "--node", "hgx-a100-8", *asked]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert "A100" in first
    assert "H100" not in first


@pytest.mark.parametrize("command", ["analyze", "plan", "simulate", "layouts"])
def test_help_says_which_gpu_is_taken(capsys: Captured, command: str) -> None:
    assert run([command, "--help"]) == 0
    assert f"[default: {DEFAULT_GPU}]" in " ".join(capsys.readouterr().out.split())


def test_without_either_it_is_the_default() -> None:
    assert machine_of(None, None, None) == (catalog.gpu(DEFAULT_GPU), None)


def test_a_price_is_one_of_the_node_too() -> None:
    device, box = machine_of(None, "hgx-a100-8", 3.0)
    assert box is not None
    assert box.gpu == device
    assert (device.name, device.usd_per_hour) == ("a100-sxm", 3.0)


def test_a_machine_is_compared_by_its_name() -> None:
    with pytest.raises(InputError, match="not h100-sxm"):
        machine_of(catalog.gpu(DEFAULT_GPU), catalog.node("hgx-a100-8"), None)
