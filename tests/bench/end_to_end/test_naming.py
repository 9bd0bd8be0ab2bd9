"""Names of measured rows: rules first, aliases for what no rule can know."""

import pytest

from roofline.bench.end_to_end.naming import device, network, number_format, stored
from roofline.errors import UnknownNameError


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("LLaMA v2 70B", "llama-2-70b"),
        ("llama2-70b", "llama-2-70b"),
        ("LLaMA v3.1 8B", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3-70B", "llama-3-70b"),
        ("LLaMA v3.3 70B", "llama-3.3-70b-instruct"),
        ("LLaMA 70B", "llama-2-70b"),
        ("Llama 4 Scout", "llama-4-scout-17b-16e"),
        ("Mistral 7B", "mistral-7b-v0.1"),
        ("Mixtral-8x7B", "mixtral-8x7b-v0.1"),
        ("GPTJ 6B", "gpt-j-6b"),
        ("GPT-J 6B", "gpt-j-6b"),
        ("GPT-20B", "megatron-gpt-20b"),
        ("bloom-176b", "bloom"),
        ("bigscience/bloom-7b1", "bloom-7b1"),
        ("DeepSeek R1 0528", "deepseek-r1"),
        ("nvidia/DeepSeek-R1-NVFP4", "deepseek-r1"),
        ("nvidia/DeepSeek-V3.1-NVFP4", "deepseek-v3"),
        ("nvidia/Llama-3.1-8B-Instruct-FP8", "llama-3.1-8b"),
        ("Qwen3 235B A22B", "qwen3-235b-a22b"),
        ("zhipuai/GLM-5", "glm-5"),
    ],
)
def test_a_network_is_found_as_sources_write_it(written: str, name: str) -> None:
    assert network(written).name == name


@pytest.mark.parametrize("written", ["GPT-5", "LLaMA v2 71B", "llama", "", "7B"])
def test_a_network_that_is_not_there_is_not_guessed(written: str) -> None:
    with pytest.raises(UnknownNameError, match="no network of the catalog has the shape"):
        network(written)


@pytest.mark.parametrize(
    ("written", "name", "assumed"),
    [
        ("h100_sxm", "h100-sxm", False),
        ("gh200_96gb", "gh200-96gb", False),
        ("a100_argonne", "a100-sxm-40gb", True),
        ("a100_80gb_unspecified", "a100-sxm", True),
        ("a100_sxm_330w_hybridcube", "a100-sxm", True),
    ],
)
def test_a_device_says_what_was_assumed_of_it(written: str, name: str, assumed: bool) -> None:
    found, note = device(written)
    assert found.name == name
    assert bool(note) == assumed


@pytest.mark.parametrize(
    ("written", "engine", "name"),
    [
        ("fp8_block", "", "fp8-block"),
        ("fp4", "", "nvfp4"),
        ("F16", "llama.cpp", "fp16"),
        ("int8", "gpt-fast", "int8-wo"),
        ("int8", "trtllm", "int8"),
        ("bf16(assumed: quant field blank)", "", "bf16"),
        ("int4_wo", "vllm", "int4"),
    ],
)
def test_formats_of_sources_are_formats_of_the_cost_model(
    written: str, engine: str, name: str
) -> None:
    assert number_format(written, engine) == name


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("nvidia/Qwen3-32B-NVFP4", "nvfp4"),
        ("neuralmagic/Llama-3.1-70B-Instruct-FP8-dynamic", "fp8"),
        ("TheBloke/Llama-2-7B-AWQ", "int4"),
        ("Qwen/Qwen3-32B", ""),
    ],
)
def test_a_checkpoint_says_its_format_at_the_end_of_its_name(model: str, name: str) -> None:
    assert stored(model) == name
