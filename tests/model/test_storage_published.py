"""Formats of published checkpoints: what their lists exempt, and what they weigh."""

import json
import random
import re
from pathlib import Path
from typing import Final

import pytest

from roofline.errors import UnsupportedModelError
from roofline.model import parameters
from roofline.model.architecture import Architecture
from roofline.model.huggingface import from_config
from roofline.model.precision import named
from roofline.schema import parse_json, read

ROOT: Final = Path(__file__).resolve().parents[2]
CONFIGS: Final = ROOT.parent / "shared" / "hf-configs" / "real"
QUANTISED: Final = [
    path
    for path in sorted(CONFIGS.glob("*.json"))
    if re.search(r'"quantization_config":\s*\{', path.read_text(encoding="utf-8"))
]
needs_configs = pytest.mark.skipif(not QUANTISED, reason="published configs are not at hand")

ROLES: Final = {
    # Of each file: format of attention, routed experts, shared experts, head, cache.
    "nvidia--GLM-5.1-NVFP4": ("bf16", "nvfp4", "bf16", "", "fp8"),
    "nvidia--Kimi-K2.5-NVFP4": ("bf16", "nvfp4", "nvfp4", "", "fp8"),
    "nvidia--Kimi-K2.6-NVFP4": ("bf16", "nvfp4", "bf16", "", "fp8"),
    "nvidia--Gemma-4-26B-A4B-NVFP4": ("bf16", "nvfp4", "bf16", "", "fp8"),
    "nvidia--Qwen3.6-35B-A3B-NVFP4": ("fp8", "nvfp4-w4a16", "nvfp4-w4a16", "nvfp4-w4a16", ""),
    "moonshotai--Kimi-K2.5": ("bf16", "int4-g32-sym", "bf16", "", ""),
    "deepseek-ai--DeepSeek-V3": ("fp8-block", "fp8-block", "fp8-block", "", ""),
    "deepseek-ai--DeepSeek-V4-Flash": ("fp8-block", "mxfp4-w4a8", "fp8-block", "", ""),
    "nvidia--DeepSeek-V4-Flash-NVFP4": ("fp8-block", "nvfp4", "fp8-block", "", ""),
    "openai--gpt-oss-120b": ("bf16", "mxfp4", None, "", ""),
}
SIZES: Final = {
    # Published size of the checkpoint [B], and parameters in it that are not the text decoder.
    "openai--gpt-oss-120b": (60.8 * 2**30, 0, 0.01),  # model card, table 1
    "openai--gpt-oss-20b": (12.8 * 2**30, 0, 0.01),  # model card, table 1
    # Total of the files on the hub: 11.5 G parameters of the last layer in fp8, and its own copies
    # of the embedding and the head in bf16 (README_WEIGHTS.md).
    "deepseek-ai--DeepSeek-V3": (688_586_727_753, 11.5e9 + 2 * 2 * 129_280 * 7168, 0.002),
    "moonshotai--Kimi-K3": (1.56e12, 0, 0.01),  # files on the hub, tower included
}


def published(path: Path) -> Architecture:
    return from_config(read(path, infinity=True))


@pytest.mark.slow
@needs_configs
@pytest.mark.parametrize("path", QUANTISED, ids=lambda path: path.stem)
def test_every_published_quantisation_is_understood(path: Path) -> None:
    network = published(path)
    assert named(network.weight_format).bits < 16
    counted = network.formats
    assert counted[network.weight_format] == max(counted.values())
    plain = 2 * parameters.total(network)
    width = named(network.weight_format).width / 2
    assert width * plain < parameters.weight_bytes(network) < plain
    assert any("stored as" in note for note in network.notes)


@needs_configs
@pytest.mark.parametrize("name", ROLES)
def test_published_lists_exempt_what_they_say(name: str) -> None:
    attention, experts, shared, head, kv = ROLES[name]
    network = published(CONFIGS / f"{name}_config.json")
    block = network.layers[-1]
    roles = set(block.roles(network.d_model))
    assert block.stored("attn-out" if "attn-out" in roles else "attn-out-up",
                        network.weight_format) == attention  # fmt: skip
    assert block.stored("experts-down", network.weight_format) == experts
    if shared is not None:
        assert block.stored("shared-down", network.weight_format) == shared
    assert (network.head_format, network.kv_format) == (head, kv)
    assert block.stored("router", network.weight_format) == "bf16"


@needs_configs
@pytest.mark.parametrize("name", SIZES)
def test_checkpoints_weigh_what_is_published(name: str) -> None:
    size, beside, tolerance = SIZES[name]
    network = published(CONFIGS / f"{name}_config.json")
    assert parameters.weight_bytes(network) + beside == pytest.approx(size, rel=tolerance)


@needs_configs
def test_layers_left_out_by_a_long_list_are_counted_one_by_one() -> None:
    network = published(CONFIGS / "nvidia--GLM-5.1-NVFP4_config.json")
    dense = [i for i, block in enumerate(network.layers) if "down" in block.roles(1)]
    assert dense == [0, 1, 2]
    for i in dense:
        assert network.layers[i].stored("down", network.weight_format) == "bf16"


@pytest.mark.slow
@pytest.mark.stress
@needs_configs
def test_damaged_lists_are_refused_or_understood() -> None:
    seed = random.Random("storage")
    path = CONFIGS / "nvidia--Kimi-K2.6-NVFP4_config.json"
    config = read(path).data
    for _ in range(100):
        damaged = json.loads(json.dumps(config))
        listed = damaged["quantization_config"]["ignore"]
        at = seed.randrange(len(listed))
        kind = seed.randrange(5)
        word = listed[at]
        cut = seed.randrange(len(word))
        listed[at] = (
            word[:cut] + seed.choice("*?[.(x\\") + word[cut + 1 :],
            "re:" + word,
            seed.choice([None, 3, [], {}, "", "re:", "*", "re:(?P<a>.)"]),
            word[cut:],
            word + seed.choice(["*" * 20, ".*", "[!a]*", "[", "é"]),
        )[kind]
        try:
            network = from_config(parse_json(json.dumps(damaged), "config.json"))
        except UnsupportedModelError as error:
            assert re.fullmatch(r"config\.json:\d+:\d+", error.where)  # noqa: PT017  # reading it is right too: see else
        else:
            assert parameters.weight_bytes(network) > 0
