"""Checkpoints of mixed formats: which matrix a quantiser left in which format."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from roofline.errors import UnsupportedModelError
from roofline.model import catalog, parameters
from roofline.model.architecture import Architecture
from roofline.model.huggingface import from_config
from roofline.model.precision import named
from roofline.records import replace
from roofline.schema import parse_json

DENSE: Final[dict[str, Any]] = {
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
QKV, OUT, UP, DOWN = 256 * 512, 256 * 256, 256 * 1024, 256 * 512
LAYER: Final = QKV + OUT + UP + DOWN
PLAIN: Final = 2 * (2 * 1000 * 256 + (2 * 4 + 1) * 256)
MOE: Final[dict[str, Any]] = {
    "model_type": "qwen3_moe",
    "torch_dtype": "bfloat16",
    "hidden_size": 256,
    "intermediate_size": 512,
    "moe_intermediate_size": 128,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}


def load(quantisation: object, base: dict[str, Any] = DENSE) -> Architecture:
    config = base | {"quantization_config": quantisation}
    return from_config(parse_json(json.dumps(config, indent=1), "config.json"), "net")


def refusal(quantisation: object, base: dict[str, Any] = DENSE) -> UnsupportedModelError:
    with pytest.raises(UnsupportedModelError) as caught:
        load(quantisation, base)
    assert re.fullmatch(r"config\.json:\d+:\d+", caught.value.where)
    assert caught.value.hint
    return caught.value


def formats(network: Architecture, layer: int = 0) -> dict[str, str]:
    block = network.layers[layer]
    return {role: block.stored(role, network.weight_format) for role in block.roles(256)}


TENSORS: Final = {"num_bits": 8, "type": "float", "strategy": "channel"}
CT: Final[dict[str, Any]] = {
    "quant_method": "compressed-tensors",
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32,
                        "symmetric": True},
            "input_activations": None,
        }
    },
    "ignore": ["lm_head"],
}  # fmt: skip


def tensors(weights: dict[str, Any], inputs: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    return CT | {"config_groups": {"group_0": group}} | more


@pytest.mark.parametrize(
    ("quantisation", "stored"),
    [
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block"),
        ({"quant_method": "fbgemm_fp8"}, "fp8-row"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "int4"),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, "int4-g64"),
        ({"quant_method": "gptq", "bits": 3, "group_size": 128, "sym": True}, "int3"),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "int8-row"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "int4-g32"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "llm.int8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
          "bnb_4bit_use_double_quant": True}, "nf4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4-single"),
        ({"quant_method": "bitnet", "quantization_mode": "offline"}, "ternary"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_algo": "FP8"}, "fp8"),
        ({"quant_algo": "W4A16_AWQ", "group_size": 128}, "int4-g128-sym"),
        (CT, "int4-g32-sym"),
        (tensors(TENSORS, {"num_bits": 8, "type": "float"}), "fp8-row"),
        (tensors(TENSORS, None), "fp8-wo"),
        (tensors({"num_bits": 8, "type": "int", "strategy": "channel"},
                 {"num_bits": 8, "type": "int"}), "int8"),
        (tensors({"num_bits": 8, "type": "int", "strategy": "channel"}, None), "int8-wo"),
        (tensors({"num_bits": 4, "type": "float", "group_size": 16}, None), "nvfp4-w4a16"),
        (tensors({"num_bits": 4, "type": "float", "group_size": 32}, None), "mxfp4-w4a16"),
        ({"quant_method": "quark", "global_quant_config": {
            "weight": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32},
            "input_tensors": {"dtype": "fp4"}}, "exclude": ["lm_head"]}, "mxfp4"),
        ({"quant_method": "quark", "global_quant_config": {
            "weight": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"},
            "input_tensors": {"dtype": "fp8_e4m3"}}}, "fp8"),
    ],
)  # fmt: skip
def test_each_quantiser_is_read(quantisation: dict[str, Any], stored: str) -> None:
    network = load(quantisation)
    assert set(formats(network).values()) == {stored}
    assert network.head_format == ""
    block = network.layers[0]
    matrices = sum(named(stored).matrix_bytes(one.n, one.k) for one in block.linears(256))
    assert parameters.weight_bytes(network) == -(-(4 * matrices + PLAIN) // 1)
    assert "quantization_config" in network.provenance["weight_format"]
    assert any(f"stored as {stored}" in note for note in network.notes)


@pytest.mark.parametrize(
    "listed",
    [
        ["model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.k_proj",
         "model.layers.1.self_attn.v_proj"],
        ["re:.*layers\\.1\\.self_attn\\.(q|k|v)_proj"],
        ["*layers.1.self_attn.[qkv]_proj"],
        ["model.layers.1.self_attn.qkv_proj"],
    ],
)  # fmt: skip
def test_a_list_of_one_layer_exempts_that_layer(listed: list[str]) -> None:
    network = load({"quant_algo": "FP8", "ignore": ["lm_head", *listed]})
    assert formats(network, 0)["qkv"] == "fp8"
    assert formats(network, 1) == formats(network, 0) | {"qkv": "bf16"}
    assert parameters.weight_bytes(network) == 4 * LAYER + QKV + PLAIN
    assert any("qkv (in 1 of 4 layers) as bf16" in note for note in network.notes)


@pytest.mark.parametrize(
    "listed",
    [
        ["model.layers.*.self_attn"],
        ["*.self_attn.*"],
        ["self_attn"],
        ["re:.*self_attn.*"],
        [f"model.layers.{i}.self_attn*" for i in range(4)],
        [f"language_model.model.layers.{i}.self_attn" for i in range(4)],
    ],
)
def test_a_list_of_all_layers_exempts_a_role(listed: list[str]) -> None:
    network = load({"quant_algo": "FP8", "exclude_modules": listed})
    assert len(network.kinds) == 1
    assert formats(network) == {"qkv": "bf16", "attn-out": "bf16", "gate-up": "fp8", "down": "fp8"}


def test_a_wildcard_after_a_number_also_means_the_numbers_it_begins() -> None:
    base = DENSE | {"num_hidden_layers": 12}
    plain = {"qkv": "bf16", "attn-out": "bf16", "gate-up": "bf16", "down": "bf16"}
    for word, exempt in (("layers.1*", {1, 10, 11}), ("layers.1.*", {1}), ("layers.1", {1})):
        network = load({"quant_algo": "FP8", "ignore": [f"model.{word}"]}, base)
        assert {i for i in range(12) if formats(network, i) == plain} == exempt


def test_a_part_of_a_fused_matrix_is_refused_at_its_name() -> None:
    listed = ["lm_head", "model.layers.0.self_attn.q_proj"]
    error = refusal({"quant_algo": "FP8", "ignore": listed})
    assert "q_proj" in error.message


def test_norms_towers_and_further_layers_in_a_list_change_nothing() -> None:
    listed = ["lm_head", "model.embed_tokens", "model.norm", "model.layers.0.input_layernorm",
              "visual*", "mtp.layers.0*", "model.layers.4*", "model.layers.99.mlp.gate",
              "model.layers.2.mlp.gate.e_score_correction_bias"]  # fmt: skip
    listed_network = load({"quant_method": "fp8", "modules_to_not_convert": listed})
    assert listed_network.layers == load({"quant_method": "fp8"}).layers


def test_only_what_is_named_is_quantised_under_mixed_precision() -> None:
    layers = {
        f"model.layers.{i}.mlp.{name}": {"quant_algo": "NVFP4", "group_size": 16}
        for i in range(4)
        for name in ("gate_proj", "up_proj", "down_proj")
    }
    layers |= {f"model.layers.{i}.self_attn.o_proj": {"quant_algo": "FP8"} for i in range(4)}
    layers["lm_head"] = {"quant_algo": "FP8"}
    network = load({"quant_algo": "MIXED_PRECISION", "quantized_layers": layers})
    assert formats(network) == {
        "qkv": "bf16", "attn-out": "fp8", "gate-up": "nvfp4", "down": "nvfp4"
    }  # fmt: skip
    assert (network.weight_format, network.head_format) == ("nvfp4", "fp8")
    by_hand = 4 * (2 * QKV + OUT + (UP + DOWN) * 9 // 16) + PLAIN - 1000 * 256
    assert parameters.weight_bytes(network) == by_hand


def test_routers_and_heads_stay_plain_unless_they_are_named() -> None:
    network = load({"quant_method": "fp8"}, MOE)
    assert formats(network)["router"] == "bf16"
    assert formats(network)["experts-down"] == "fp8"
    named_router = load({"quant_algo": "MIXED_PRECISION", "quantized_layers": {
        "model.layers.0.mlp.gate": {"quant_algo": "FP8"}}}, MOE)  # fmt: skip
    assert formats(named_router, 0)["router"] == "fp8"
    assert formats(named_router, 1)["router"] == "bf16"
    assert load(CT | {"ignore": []}).head_format == "int4-g32-sym"
    assert load(CT | {"ignore": []}, DENSE | {"tie_word_embeddings": True}).head_format == ""
    awq = {"quant_method": "gptq", "bits": 4, "group_size": 128, "lm_head": True}
    assert load(awq).head_format == "int4"


def test_mxfp4_quantises_routed_experts_only() -> None:
    network = load({"quant_method": "mxfp4"}, MOE)
    found = formats(network)
    assert {found.pop("experts-gate-up"), found.pop("experts-down")} == {"mxfp4"}
    assert set(found.values()) == {"bf16"}
    assert network.weight_format == "mxfp4"


@pytest.mark.parametrize(
    ("more", "kv"),
    [
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8"),
        ({"kv_cache_scheme": "FP8"}, "fp8"),
        ({"kv_cache_scheme": None}, ""),
        ({"kv_cache_quant_algo": "NVFP4"}, "nvfp4"),
        ({"kv_cache_quant_algo": "INT8"}, "int8"),
    ],
)
def test_a_cache_with_scales_is_read(more: dict[str, Any], kv: str) -> None:
    assert load({"quant_algo": "FP8"} | more).kv_format == kv


@pytest.mark.parametrize(
    "quantisation",
    [
        {},
        {"quant_method": "secret"},
        {"quant_method": None, "quant_algo": 8},
        {"quant_algo": "FP8", "ignore": ["model.layers.0.secret_proj"]},
        {"quant_algo": "FP8", "ignore": ["re:(a+)+$"]},
        {"quant_algo": "FP8", "ignore": ["re:(a|b"]},
        {"quant_algo": "FP8", "ignore": ["re:.*.*.*.*x"]},
        {"quant_algo": "FP8", "ignore": [3]},
        {"quant_algo": "FP8", "ignore": {"a": 1}},
        {"quant_algo": "FP8", "ignore": "x" * 1000},
        {"quant_algo": "FP8", "ignore": [f"gate{i}_proj" for i in range(1000)]},
        {"quant_algo": "MIXED_PRECISION"},
        {"quant_algo": "MIXED_PRECISION", "quantized_layers": []},
        {"quant_algo": "MIXED_PRECISION", "quantized_layers": {"lm_head": {}}},
        {"quant_algo": "FP8", "kv_cache_scheme": {"num_bits": 3}},
        {"quant_algo": "FP8", "kv_cache_scheme": [8]},
        {"quant_method": "awq", "bits": 4.0, "group_size": True},
        {"quant_method": "awq", "bits": 4, "group_size": 10**9},
        {"quant_method": "awq"},
        {"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*": {}}},
        {"quant_method": "fp8", "weight_block_size": [64, 64]},
        {"quant_method": "bitsandbytes"},
        {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "int5"},
        {"quant_method": "compressed-tensors"},
        tensors({"num_bits": 5, "type": "int"}, None),
        tensors({"num_bits": 4, "type": "float", "group_size": 64}, None),
        tensors({"num_bits": 8, "type": "complex"}, None),
        tensors(TENSORS, {"num_bits": 4, "type": "int"}),
        CT | {"config_groups": {"group_0": {"weights": None}}},
        CT | {"config_groups": {"group_0": [{"weights": {"num_bits": 4}}]}},
        CT | {"config_groups": {"group_0": "weights"}},
        CT | {"config_groups": {"group_0": None}},
        CT | {"sparsity_config": {"format": "sparse-24-bitmask"}},
        {"quant_method": "quark"},
        {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "int5"}}},
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_quantisation_that_is_not_understood_is_refused(quantisation: object) -> None:
    refusal(quantisation)


@pytest.mark.parametrize("value", ["fp6", 4, ["fp4"]])
def test_experts_of_another_type_are_refused(value: object) -> None:
    refusal({"quant_method": "fp8"}, MOE | {"expert_dtype": value})


def test_experts_may_be_narrower_than_the_rest() -> None:
    block = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    found = formats(load(block, MOE | {"expert_dtype": "fp4"}))
    assert (found["qkv"], found["experts-down"]) == ("fp8-block", "mxfp4-w4a8")


def test_a_file_beside_the_config_says_how_it_is_quantised(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(DENSE), encoding="utf-8")
    beside = tmp_path / "hf_quant_config.json"
    said = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    beside.write_text(json.dumps({"quantization": said}), encoding="utf-8")
    network = catalog.architecture(str(tmp_path))
    assert (network.weight_format, network.kv_format) == ("fp8", "fp8")
    assert parameters.weight_bytes(network) == 4 * LAYER + PLAIN
    said["exclude_modules"] = ["model.secret"]
    beside.write_text(json.dumps(said), encoding="utf-8")
    with pytest.raises(UnsupportedModelError, match="secret") as caught:
        catalog.architecture(str(tmp_path))
    assert "hf_quant_config.json:1:" in caught.value.where


def test_one_format_for_all_leaves_small_matrices_plain() -> None:
    network = load({"quant_method": "mxfp4"}, MOE).stored_as("fp8")
    assert formats(network) == {
        "qkv": "fp8", "attn-out": "fp8", "router": "bf16",
        "experts-gate-up": "fp8", "experts-down": "fp8",
    }  # fmt: skip
    plain = network.stored_as("bf16")
    assert parameters.weight_bytes(plain) == 2 * parameters.total(plain)


def test_a_network_without_exceptions_weighs_as_its_format_says() -> None:
    network = load({"quant_method": "fp8"})
    again = replace(network, layers=network.layers, weight_format="bf16")
    assert parameters.weight_bytes(network) == 4 * LAYER + PLAIN
    assert parameters.weight_bytes(again) == 2 * 4 * LAYER + PLAIN
