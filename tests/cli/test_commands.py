"""``roofline serve-command`` and ``roofline parse-command`` as a person meets them."""

import io
import json
import re
from pathlib import Path

import pytest
import yaml

from roofline.cli import run

Captured = pytest.CaptureFixture[str]
TARGETS = ("vllm", "sglang", "trtllm", "llamacpp", "k8s", "ray-serve")


def ask(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("target", TARGETS)
def test_the_command_of_a_deployment_fits_a_page_and_is_read_again(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    arguments = ("qwen3-30b-a3b", "--tp", "2", "--no-prefix-caching", "--for", target)
    code, out, err = ask(capsys, "serve-command", *arguments)
    assert code == 0
    assert max(map(len, (out + err).splitlines())) <= 100
    assert all(line.startswith(("note: ", "name a")) for line in err.splitlines()), err
    stdin = io.TextIOWrapper(io.BytesIO(out.encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    code, out, err = ask(capsys, "parse-command", "-", "--model", "qwen3-30b-a3b")
    assert code == 0, err
    assert max(map(len, out.splitlines())) <= 100
    text = re.sub(r"[\s\\]+", " ", out)
    assert "layout TP 2 " in text
    assert "prefix caching no " in text
    assert "not used by the model: --port 8000" in text or target == "ray-serve"
    assert "roofline analyze qwen3-30b-a3b --gpu h100-sxm --layout tp2" in text


@pytest.mark.parametrize("target", ["k8s", "ray-serve"])
def test_a_manifest_is_yaml_as_it_is_printed(capsys: Captured, target: str) -> None:
    _, out, _ = ask(capsys, "serve-command", "--for", target)
    assert all(isinstance(document, dict) for document in yaml.safe_load_all(out))


def test_several_targets_are_told_apart(capsys: Captured) -> None:
    code, out, err = ask(
        capsys, "serve-command", "--gpus", "4", "--tp", "2", "--for", "vllm", "--for", "trtllm"
    )
    assert code == 0
    assert out.count("# benchmark") == 2
    assert re.search(r"(?m)^note: vllm: the command starts one of 2 replicas", err)
    assert re.search(r"(?m)^note: trtllm: the command starts one of 2 replicas", err)


def test_what_cannot_be_said_is_on_stderr(capsys: Captured) -> None:
    code, out, err = ask(capsys, "serve-command", "--for", "trtllm", "--kv", "int8-kv")
    assert code == 0
    assert "int8" not in out
    assert "note: TensorRT-LLM has no int8-kv cache" in err


def test_json_csv_and_markdown(capsys: Captured) -> None:
    _, out, err = ask(capsys, "serve-command", "--for", "trtllm", "--kv", "fp8", "--format", "json")
    document = json.loads(out)
    assert (document["command"], err) == ("serve-command", "")
    (made,) = document["result"]["commands"]
    assert made["command"][0] == "trtllm-serve"
    assert yaml.safe_load(made["files"]["trtllm.yaml"]) == {"kv_cache_config": {"dtype": "fp8"}}
    _, out, _ = ask(capsys, "serve-command", "--format", "csv")
    assert out.splitlines()[0] == "target,part,text"
    _, out, _ = ask(capsys, "serve-command", "--format", "md")
    assert out.startswith("```bash\n")
    assert out.endswith("\n```\n")
    line = "vllm serve meta-llama/Llama-3.1-8B --enforce-eager --async-scheduling"
    _, out, _ = ask(capsys, "parse-command", line, "--format", "json")
    result = json.loads(out)["result"]
    assert result["unused"] == ["--async-scheduling"]
    assert result["cuda_graphs"] is False
    assert "--no-cuda-graphs" in result["analyze"]
    assert result["memory_utilization"] == 0.92
    _, out, _ = ask(capsys, "parse-command", line, "--format", "csv")
    assert out.splitlines()[0] == "setting,value"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["serve-command", "llama-3.1-70b"], 1, "it may have of each device, before any cache"),
        (["serve-command", "mixtral-8x7b", "--layout", "tp4-ep2"], 2, "vLLM cannot do TP 4 × EP 2"),
        (["serve-command", "--for", "ollama"], 2, "ollama"),
        (["serve-command", "--for", "vllm", "--engine", "sglang"], 2, "the command is for vllm"),
        (["parse-command", "vllm serve m -tp 2 -tp 4"], 2, "command:1:20: -tp: said twice"),
        (["parse-command", "nothing.yaml"], 2, "nothing.yaml cannot be read"),
        (["parse-command", "ls -l"], 2, "starts no engine that is known"),
    ],
    ids=str,
)
def test_a_mistake_is_an_error_and_a_hint(
    capsys: Captured, arguments: list[str], code: int, said: str
) -> None:
    found, out, err = ask(capsys, *arguments)
    assert (found, out) == (code, "")
    assert re.fullmatch(r"error: .+\nhint: .+\n", err), err
    assert said in err


def test_a_file_is_read_and_named_in_its_errors(capsys: Captured, tmp_path: Path) -> None:
    _, out, _ = ask(capsys, "serve-command", "--tp", "2", "--for", "k8s")
    path = tmp_path / "pod.yaml"
    path.write_text(out, encoding="utf-8")
    code, out, _ = ask(capsys, "parse-command", str(path))
    assert code == 0
    assert "TP 2" in out
    path.write_text(path.read_text("utf-8").replace('gpu: "2"', 'gpu: "3"'), encoding="utf-8")
    code, _, err = ask(capsys, "parse-command", str(path))
    assert code == 2
    assert re.match(r"error: \S+pod.yaml:\d+:\d+: 3 devices, but TP 2 takes 2\n", err), err


def test_a_name_does_not_steer_the_terminal(capsys: Captured, tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b[31m"
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    code, out, err = ask(capsys, "parse-command", "vllm serve 'a\x1b[31m'")
    assert code == 2
    assert "\x1b" not in out + err
