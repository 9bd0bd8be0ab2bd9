"""LoRA adapters in commands, and the engine that is the fastest."""

from typing import Any

import pytest

from roofline import api
from roofline.errors import InputError, RooflineError
from roofline.table import Result


def written(target: str, **asked: Any) -> Result:
    return api.serve_command("llama-3.1-8b", "h100-sxm", target=target, **asked)


@pytest.mark.parametrize("target", ["vllm", "sglang"])
def test_adapters_of_a_command_are_those_it_was_written_for(target: str) -> None:
    """A hundred to choose from, eight of them on the device: the server has eight places."""
    result = written(target, adapters=100, lora_rank=16, max_loras=8)
    assert not result.metadata["lost"]
    found = api.parse_command(result.metadata["script"], "h100-sxm")
    settings = dict(
        zip(found.tables["settings"]["setting"], found.tables["settings"]["value"], strict=True)
    )
    assert settings["LoRA adapters"] == "8 in a step, of rank 16"
    assert "--adapters 8 --lora-rank 16" in found.metadata["analyze"]
    plain = api.parse_command(written(target).metadata["script"], "h100-sxm")
    assert "--adapters" not in plain.metadata["analyze"]


def test_a_rank_that_an_engine_has_no_room_for_is_said() -> None:
    result = written("vllm", adapters=4, lora_rank=24)
    assert "--max-lora-rank 32" in result.metadata["script"]
    assert result.metadata["lost"] == ["adapters"]
    assert any("24 takes 32" in note for note in result.notes)
    with pytest.raises(RooflineError, match="larger than vLLM has room for"):
        written("vllm", adapters=4, lora_rank=600)
    assert "adapters" in written("trtllm", adapters=4).metadata["lost"]


@pytest.mark.slow
def test_auto_is_the_engine_with_most_tokens_and_says_what_others_do() -> None:
    result = written("auto", prompt=512, output=64, concurrency=8)
    rates = {
        name: next(
            row["value"]
            for row in api.analyze(
                "llama-3.1-8b", "h100-sxm", engine=name, prompt=512, output=64, batch=8
            ).tables["headline"].rows()
            if row["metric"] == "throughput_tok_s"
        )
        for name in ("vllm", "sglang", "trtllm")
    }  # fmt: skip
    assert result.metadata["target"] == max(rates, key=rates.__getitem__)
    for name, rate in rates.items():
        assert f"{name} {rate:,.0f} (" in result.notes[0]
    with pytest.raises(RooflineError, match="the engine is vllm"):
        written("auto", engine="vllm")


def test_auto_compares_no_bound_with_a_prediction() -> None:
    """TensorRT-LLM was not measured on AMD's devices: its bound is less than anyone can take."""
    there = api.serve_command("llama-3.1-8b", "mi325x", target="auto")
    assert there.metadata["target"] in ("vllm", "sglang")
    assert any(note.startswith("trtllm is left out: it was not measured") for note in there.notes)
    bounded = api.serve_command("llama-3.1-8b", "gaudi3", target="auto")
    assert "left out" not in " ".join(bounded.notes)


def test_auto_says_of_a_mistake_what_an_engine_says_of_it() -> None:
    """It is no fault of the engines that a network or a format is not known."""
    for wrong in ({"model": "lama-3.1-8b"}, {"kv": "fp9"}):
        asked: dict[str, Any] = {"model": "llama-3.1-8b"} | wrong
        told = []
        for target in ("vllm", "auto"):
            with pytest.raises(InputError) as refused:
                api.serve_command(gpu="h100-sxm", target=target, **asked)
            told.append(str(refused.value))
        assert told[0] == told[1]


def test_hints_of_targets_name_parameters() -> None:
    for target, engine in (("dynamo", "trtllm"), ("llm-d", "sglang")):
        with pytest.raises(InputError) as refused:
            written(target, engine=engine)
        assert "`engine`" in refused.value.hint
    notes = api.parse_command("ollama run llama3.1:8b-text-q4_0_4_4").notes
    assert any("`weights`" in note for note in notes)


def test_pools_of_a_deployment_share_the_longest_sequence() -> None:
    """Two devices hold less than four: both pools take the shorter length."""
    result = api.serve_command(
        "llama-3.1-70b", "h100-sxm", target="dynamo", layout="tp4", prefill="tp2",
        prefill_replicas=2, gpus=8,
    )  # fmt: skip
    (text,) = result.metadata["files"].values()
    lengths = text.split("--max-model-len")[1:]
    assert len(lengths) == 2
    assert len({part.splitlines()[1] for part in lengths}) == 1
    assert result.metadata["gpus"] == 8 + 2 * 2
    with pytest.raises(RooflineError, match="without `prefill`"):
        written("dynamo", prefill_replicas=2)
