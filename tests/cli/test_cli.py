"""The command line as a person meets it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from roofline.cli import run

Captured = pytest.CaptureFixture[str]


def ask(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def test_the_default_question_is_answered(capsys: Captured) -> None:
    code, out, err = ask(capsys, "analyze")
    assert (code, err) == (0, "")
    assert "llama-3.1-8b on NVIDIA H100 SXM5 80GB" in out
    assert "Decode is bound by memory" in out


@pytest.mark.slow
def test_tables_fit_a_hundred_columns(capsys: Captured) -> None:
    for arguments in (
        ["analyze", "llama-3.1-70b", "--gpu", "a100-sxm", "--gpus", "8"],
        ["gpus"],
        ["gpus", "show", "h100-sxm"],
        ["models", "show", "gemma-2-9b"],
        ["analyze", "--explain", "latency"],
    ):
        _, out, _ = ask(capsys, *arguments)
        assert max(len(line) for line in out.splitlines()) <= 100, arguments


def test_json_is_one_versioned_document_without_nan(capsys: Captured) -> None:
    code, out, _ = ask(capsys, "analyze", "--format", "json", "--explain", "tpot")

    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} in JSON")

    document = json.loads(out, parse_constant=refuse)
    result = document["result"]
    assert code == 0
    assert document["schema"] == "roofline/result/1"
    assert result["metrics"]["tpot_s"]["unit"] == "s"
    assert result["derivation"]["name"] == "TPOT"
    assert {"ops", "memory", "capacity", "what_if", "assumptions"} <= set(result)


@pytest.mark.parametrize("style", ["csv", "md"])
def test_other_formats_carry_the_headline(capsys: Captured, style: str) -> None:
    code, out, _ = ask(capsys, "analyze", "--format", style)
    assert code == 0
    assert ("ttft_idle_s," in out) if style == "csv" else ("| TTFT idle |" in out)


@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze", "llama-3.1-8c"],
        ["analyze", "--gpu", "h1000"],
        ["analyze", "--gpu", "/nowhere/gpu.yaml"],
        ["analyze", "/nowhere/config.json"],
        ["analyze", "--batch", "0"],
        ["analyze", "--batch", "-1"],
        ["analyze", "--batch", "1e30"],
        ["analyze", "--batch", "9" * 30],
        ["analyze", "--batch", "nan"],
        ["analyze", "--prompt", "0"],
        ["analyze", "--prompt", "1000000000000000000000000000000"],
        ["analyze", "--output", "0"],
        ["analyze", "--output", "-5"],
        ["analyze", "--prompt", "131072"],
        ["analyze", "--prefix-hit", "1"],
        ["analyze", "--prefix-hit", "nan"],
        ["analyze", "--prefix-hit", "-0.1"],
        ["analyze", "--prefill-batch", "17"],
        ["analyze", "--prefill-batch", "-1"],
        ["analyze", "--tp", "3"],
        ["analyze", "--tp", "0"],
        ["analyze", "--gpus", "0"],
        ["analyze", "--gpus", "6", "--tp", "4"],
        ["analyze", "--gpus", "64"],
        ["analyze", "--weights", "fp3"],
        ["analyze", "--kv", "int4"],
        ["analyze", "--kv", ""],
        ["analyze", "--gpu", "t4"],
        ["analyze", "--engine", "warp"],
        ["analyze", "--memory-utilization", "0"],
        ["analyze", "--memory-utilization", "1.5"],
        ["analyze", "--memory-utilization", "nan"],
        ["analyze", "--price", "-1"],
        ["analyze", "--price", "inf"],
        ["analyze", "--explain", "everything"],
        ["analyze", "--format", "xml"],
        ["analyze", "--convention", "folk"],
        ["analyze", "gpt2", "--convention", "textbook"],
        ["analyze", "--bacth", "4"],
        ["analyze", "--block", "32"],
        ["analyze", "--mla", "expanded"],
        ["analyze", "--routing-skew", "1"],
        ["analyze", "--convention", "textbook", "--no-kv-cache"],
        ["analyze", "--convention", "textbook", "--prefix-hit", "0.5"],
        ["analyze", "--convention", "textbook", "--denoising-steps", "4"],
        ["analyze", "llada-8b-base", "--denoising-steps", "8", "--prefix-hit", "0.5"],
        ["analyze", "llada-8b-base", "--denoising-steps", "8", "--gpus", "8", "--tp", "1"],
        ["analyze", "deepseek-v2-lite", "--attention", "naive"],
        ["analyse"],
        ["gpus", "show", "h100_smx"],
        ["models", "show", "llama-3.1-8c"],
        ["models", "show", "llama-3.1-8b", "--kv", "potato"],
    ],
    ids=" ".join,
)
def test_a_mistake_is_an_error_and_a_hint_and_exit_code_2(
    capsys: Captured, arguments: list[str]
) -> None:
    code, out, err = ask(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert re.fullmatch(r"error: .+\nhint: .+\n", err), err


def test_a_hint_names_only_degrees_that_would_work(capsys: Captured) -> None:
    # phi-4 has 40 query and 10 key/value heads: 4 and 8 divide the first only.
    _, _, err = ask(capsys, "analyze", "phi-4", "--tp", "8")
    assert "hint: degrees that divide 40: 1, 2, 5" in err


def test_denoising_that_does_not_fit_is_a_result_with_exit_code_1(capsys: Captured) -> None:
    arguments = ["llada-8b-base", "--denoising-steps", "8", "--output", "8"]
    code, out, _ = ask(capsys, "analyze", *arguments, "--memory-utilization", "0.1")
    assert code == 1
    assert "Does not fit" in out


def test_an_encoder_runs_at_its_own_length(capsys: Captured) -> None:
    code, out, _ = ask(capsys, "analyze", "bert-base-uncased", "--prompt", "512")
    assert code == 0
    assert "no decode, and nothing is cached" in out


def test_no_arguments_print_the_help(capsys: Captured) -> None:
    code, out, _ = ask(capsys)
    assert code == 0
    assert "Usage:" in out


def test_a_layout_error_names_the_number_that_must_divide(capsys: Captured) -> None:
    _, _, err = ask(capsys, "analyze", "--tp", "3")
    assert "query heads 32 cannot be divided by" in err


def test_what_does_not_fit_is_a_result_with_exit_code_1(capsys: Captured) -> None:
    code, out, err = ask(capsys, "analyze", "llama-3.1-70b")
    assert (code, err) == (1, "")
    assert re.search(r"Does not fit: [\d.]+ GiB too much on the device\. It fits on 4 ", out)


def test_a_name_cannot_steer_the_terminal(capsys: Captured) -> None:
    _, _, err = ask(capsys, "analyze", "\x1b[31mred\x07")
    assert "\x1b" not in err
    assert "\x07" not in err


def test_a_dequantised_path_is_said_aloud(capsys: Captured) -> None:
    _, out, _ = ask(capsys, "analyze", "--gpu", "a100-sxm", "--weights", "fp8")
    assert "fp8 weights are converted and multiplied in bf16 (a100-sxm has no fp8" in out


def test_a_missing_arithmetic_says_what_there_is(capsys: Captured) -> None:
    _, _, err = ask(capsys, "analyze", "--gpu", "t4")
    assert "t4 has no bf16 arithmetic" in err
    assert "--weights fp16" in err


def test_textbook_convention_gives_the_lectures_numbers(capsys: Captured) -> None:
    """Stanford CS336 lecture 10: Llama-2-13B, B = 64, S = 1024, bf16, H100 at 3.35 TB/s."""
    _, out, _ = ask(
        capsys,
        *["analyze", "llama-2-13b", "--batch", "64", "--prompt", "1024", "--format", "json"],
        *["--convention", "textbook", "--calibration", "none", "--weights", "bf16"],
    )
    metrics = json.loads(out)["result"]["metrics"]
    assert metrics["parameters"]["value"] == 13015449600
    assert metrics["memory_bytes"]["value"] == 79717990400
    assert metrics["tpot_s"]["value"] == pytest.approx(0.02379641504477612, rel=1e-12)
    assert metrics["throughput_tok_s"]["value"] == pytest.approx(2689.480742354489, rel=1e-12)


def test_models_show_carries_the_promised_keys(capsys: Captured) -> None:
    _, out, _ = ask(capsys, "models", "show", "llama-3.1-8b", "--format", "json")
    result = json.loads(out)["result"]
    assert result["parameters"] == 8030261248
    assert set(result["active_parameters"]) == {"all", "minus_input_embedding", "minus_embeddings"}
    assert result["kv_bytes_per_token"] == 131072
    assert result["kv_bytes_per_token_beyond_window"] == 131072
    assert result["index_bytes_per_token"] == 0
    assert result["state_bytes_per_sequence"] == 0
    assert result["weight_bytes"] == 16060522496


def test_a_config_comes_from_standard_input(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 100,
    }
    path = tmp_path / "stdin"
    path.write_text(json.dumps(config), encoding="utf-8")
    with path.open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        code, out, _ = ask(capsys, "models", "show", "-", "--format", "json")
    assert code == 0
    # 2 · 100 · 64 + 2 · (4 · 64² + 3 · 64 · 128 + 2 · 64) + 64
    assert json.loads(out)["result"]["parameters"] == 95040


@pytest.mark.slow
def test_a_reader_that_stops_early_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m roofline models | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


def test_help_says_what_each_command_does(capsys: Captured) -> None:
    for arguments in ([], ["analyze"], ["gpus"], ["gpus", "show"], ["models"], ["models", "show"]):
        code, out, _ = ask(capsys, *arguments, "--help")
        assert code == 0
        assert "Usage:" in out


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from roofline.cli import run; run(['--help']);"
        "heavy = {'numpy', 'pandas', 'pydantic', 'plotly', 'scipy', 'rich', 'yaml', 'jinja2'};"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.slow
def test_an_analysis_loads_no_more_than_it_uses(tmp_path: Path) -> None:
    program = (
        "import sys; from roofline.cli import run;"
        "code = run(['analyze', 'llama-3.1-8b', '--gpu', 'h100-sxm', '--batch', '8']);"
        "unused = {'csv', 'hashlib', 'json', 'numba', 'numpy.random', 'pandas', 'plotly',"
        " 'pyarrow', 'pydantic', 'rich', 'scipy', 'secrets', 'yaml', 'zipfile',"
        " 'roofline.cli.plan', 'roofline.cli.report', 'roofline.hardware.carbon',"
        " 'roofline.model.huggingface',"
        " 'roofline.serving.diffusion', 'roofline.serving.running_cost',"
        " 'roofline.serving.facility',"
        " 'roofline.serving.paged', 'roofline.serving.paged_result', 'roofline.study.layouts',"
        " 'roofline.serving.simulate.steady.crowd'} & set(sys.modules);"
        "print(*sorted(unused), file=sys.stderr); sys.exit(code)"
    )
    environment = os.environ | {"ROOFLINE_CACHE": str(tmp_path)}
    first, again = (
        subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        for _ in range(2)
    )
    assert "pydantic" in first.stderr
    assert again.stderr == "\n"
    assert again.stdout == first.stdout


def test_the_version_is_printed(capsys: Captured) -> None:
    code, out, _ = ask(capsys, "--version")
    assert code == 0
    assert re.fullmatch(r"roofline \d+\.\d+\.\d+\n", out)
