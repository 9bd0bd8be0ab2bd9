"""Networks by the names of their quantised checkpoints."""

import pytest

import roofline
from roofline.errors import UnknownNameError
from roofline.model import parameters
from roofline.model.catalog import architecture
from roofline.model.checkpoint_names import ENDINGS, readings
from roofline.model.mixes import mixed
from roofline.model.precision import named
from roofline.records import replace


@pytest.mark.parametrize(
    ("name", "base", "weight_format"),
    [
        ("Qwen/Qwen3-32B-AWQ", "qwen3-32b", "int4-awq"),
        ("Qwen/Qwen3-32B-FP8", "qwen3-32b", "fp8-block"),
        ("Qwen/Qwen3-8B-GPTQ-Int8", "qwen3-8b", "int8-wo"),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", "llama-3.1-70b", "fp8"),
        ("nvidia/DeepSeek-R1-NVFP4-v2", "deepseek-r1", "nvfp4"),
        ("amd/Llama-3.1-70B-Instruct-FP8-KV", "llama-3.1-70b", "fp8"),
        ("hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", "llama-3.1-70b", "int4-awq"),
        ("unsloth/Llama-3.1-8B-Instruct-bnb-4bit", "llama-3.1-8b", "nf4"),
        ("mlx-community/Qwen3-8B-4bit", "qwen3-8b", "int4-g64"),
        ("unsloth/Qwen3-32B-GGUF", "qwen3-32b", "q4-k"),
        ("unsloth/Qwen3-8B-GGUF:UD-Q6_K_XL", "qwen3-8b", "q6-k"),
        ("TheBloke/Llama-2-7B-Chat-GGUF:IQ3_XXS", "llama-2-7b", "iq3-xxs"),
        ("Meta-Llama-3.1-8B-Instruct-Q4_K_M", "llama-3.1-8b", "q4-k"),
    ],
)
def test_a_name_is_a_network_in_a_format(name: str, base: str, weight_format: str) -> None:
    network, plain = architecture(name), architecture(base)
    assert network.weight_format == weight_format
    assert parameters.total(network) == parameters.total(plain)
    assert parameters.weight_bytes(network) < parameters.weight_bytes(plain)


@pytest.mark.parametrize("name", ["unsloth/Qwen3-8B", "NousResearch/Meta-Llama-3.1-8B-Instruct"])
def test_a_network_under_another_owner_is_the_one_it_is_called_after(name: str) -> None:
    plain = architecture("qwen3-8b" if "qwen" in name.lower() else "llama-3.1-8b")
    network = architecture(name)
    assert replace(network, notes=()) == replace(plain, notes=())
    assert f"taken to be {plain.name}" in network.notes[-1]


def test_every_ending_is_of_a_format_that_there_is() -> None:
    assert all(named(kind) for kind in ENDINGS.values())


def test_the_longest_ending_is_taken() -> None:
    for ending, kind in ENDINGS.items():
        assert next(readings(f"owner/net{ending}"))[1:3] == (kind, ending)


@pytest.mark.parametrize(
    "name",
    [
        "qwen3-8b-gguf:q9_k",
        "qwen3-8b-awq:q4_0",
        "nobody-knows-awq",
        "a/b/qwen3-8b",
        "a/qwen3-8b-v7",
        "./qwen3-8b",
        "/qwen3-8b",
        "a\n/qwen3-8b",
    ],
)
def test_a_name_that_says_nothing_known_is_refused(name: str) -> None:
    with pytest.raises(UnknownNameError):
        architecture(name)


PUBLISHED = {
    "q2-k-s": 2.9697,
    "q2-k": 3.1593,
    "q3-k-s": 3.6429,
    "q3-k-l": 4.2979,
    "q4-k-s": 4.6672,
    "q4-k-m": 4.8944,
    "q5-k-s": 5.5704,
    "q5-k-m": 5.7036,
    "q6-k": 6.5633,
    "q8-0": 8.5008,
    "iq4-xs": 4.4597,
}
"""Bits a weight of files of Llama 3.1 8B: ``tools/quantize/README.md`` of llama.cpp, 311c2c9f."""


@pytest.mark.parametrize(("mix", "bits"), PUBLISHED.items())
def test_files_of_llama_cpp_weigh_what_it_publishes(mix: str, bits: float) -> None:
    """Values of attention, an eighth of an eighth of the weights, are counted as queries."""
    made = mixed(architecture("llama-3.1-8b"), mix)
    own = float(parameters.weight_bytes(made)) * 8 / parameters.total(made)
    assert 0.985 * bits < own < bits


@pytest.mark.parametrize("mix", ["q2-k", "q3-k-l", "q4-k-m", "q6-k", "q8-0"])
def test_a_mix_is_a_format_of_weights(mix: str) -> None:
    asked = mix.replace("-", "_").upper()
    result = roofline.analyze("llama-3.1-8b", "l40s", weights=asked, calibration="none")
    rows = {row["part"]: row["bytes"] for row in result.tables["memory"].rows()}
    counted = parameters.weight_bytes(mixed(architecture("llama-3.1-8b"), mix))
    assert rows["weights"] == pytest.approx(float(counted), rel=2e-4)  # norms in 16 bits
    told = roofline.compare("llama-3.1-8b", [f"weights={asked}"], gpu="l40s", calibration="none")
    held = {row["variant"]: row["weight_bytes"] for row in told.tables["variants"].rows()}
    assert held[f"weights={asked}"] == pytest.approx(rows["weights"], rel=1e-9)
