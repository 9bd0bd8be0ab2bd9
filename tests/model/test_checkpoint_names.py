"""Networks by the names of their quantised checkpoints."""

import pytest

from roofline.errors import UnknownNameError
from roofline.model import parameters
from roofline.model.catalog import architecture
from roofline.model.checkpoint_names import ENDINGS, readings
from roofline.model.precision import named


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
    ],
)
def test_a_name_is_a_network_in_a_format(name: str, base: str, weight_format: str) -> None:
    network, plain = architecture(name), architecture(base)
    assert network.weight_format == weight_format
    assert parameters.total(network) == parameters.total(plain)
    assert parameters.weight_bytes(network) < parameters.weight_bytes(plain)


def test_every_ending_is_of_a_format_that_there_is() -> None:
    assert all(named(kind) for kind in ENDINGS.values())


def test_the_longest_ending_is_taken() -> None:
    for ending, kind in ENDINGS.items():
        assert next(readings(f"owner/net{ending}"))[1:3] == (kind, ending)


@pytest.mark.parametrize("name", ["qwen3-8b-gguf:q9_k", "qwen3-8b-awq:q4_0", "nobody-knows-awq"])
def test_a_name_that_says_nothing_known_is_refused(name: str) -> None:
    with pytest.raises(UnknownNameError):
        architecture(name)
