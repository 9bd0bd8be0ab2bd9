"""Latent and sparse attention: DeepSeek, Kimi, GLM."""

import json
from typing import Any

import pytest

from roofline.errors import UnsupportedModelError
from roofline.model import parameters
from roofline.model.architecture import Architecture, Indexer, Mla
from roofline.model.catalog import architecture
from roofline.model.huggingface import from_config
from roofline.schema import parse_json

V3 = {
    "model_type": "deepseek_v3",
    "hidden_size": 32,
    "intermediate_size": 48,
    "moe_intermediate_size": 12,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "max_position_embeddings": 64,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "q_lora_rank": 16,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 5,
}
GLM = V3 | {"model_type": "glm_moe_dsa", "index_n_heads": 2, "index_head_dim": 8, "index_topk": 4}


def load(config: dict[str, Any], **changes: Any) -> Architecture:
    return from_config(parse_json(json.dumps(config | changes), "config.json"))


def latents(network: Architecture) -> list[Mla]:
    return [block.mixer for block in network.layers if isinstance(block.mixer, Mla)]


def own(network: Architecture) -> list[bool]:
    indexers = [mixer.index for mixer in latents(network)]
    return [index.computes for index in indexers if isinstance(index, Indexer)]


def test_the_cache_is_the_latent_and_one_rotated_key_whatever_the_heads() -> None:
    assert parameters.kv_elements_per_token(load(V3)) == 6 * (8 + 4)
    assert parameters.kv_elements_per_token(load(V3, num_attention_heads=8)) == 6 * (8 + 4)


def test_matrices_of_a_layer_are_those_of_the_paper() -> None:
    names = {linear.name: (linear.n, linear.k) for linear in latents(load(V3))[0].linears(32)}
    assert names == {
        "latent-down": (16 + 8 + 4, 32),
        "q-up": (4 * (6 + 4), 16),
        "kv-up": (4 * (6 + 5), 8),
        "attn-out": (32, 4 * 5),
    }


def test_queries_can_be_projected_directly() -> None:
    names = {linear.name: linear.n for linear in latents(load(V3, q_lora_rank=None))[0].linears(32)}
    assert names["q"] == 4 * (6 + 4)
    assert names["latent-down"] == 8 + 4


@pytest.mark.parametrize(
    ("name", "published"),
    [("deepseek-v2", 235_741_434_880), ("deepseek-v2-lite", 15_706_484_224)],
)
def test_deepseek_v2_has_the_published_parameters(name: str, published: int) -> None:
    assert parameters.total(architecture(name)) == published


def test_deepseek_v3_with_its_predicting_layer_is_the_published_checkpoint() -> None:
    # Parameters in BF16 and in FP8 of deepseek-ai/DeepSeek-V3, as the hub counts them. The
    # checkpoint has a copy of embedding and LM head for the predicting layer.
    network = architecture("deepseek-v3")
    copies = 2 * network.vocab * network.d_model
    found = parameters.total(network) + sum(network.other_parameters.values()) + copies
    assert found == 3_918_786_560 + 680_571_043_840


def test_the_indexer_of_deepseek_v3_2_is_all_it_has_beyond_v3() -> None:
    with_index, without = architecture("deepseek-v3.2"), architecture("deepseek-v3")
    apart = parameters.parts(with_index)["indexer"]
    # Queries of 64 heads, a key, the weight of each head, and a norm with biases; 128 wide.
    assert apart == 61 * (1536 * 64 * 128 + 7168 * 128 + 7168 * 64 + 2 * 128)
    assert parameters.total(with_index) - apart == parameters.total(without)
    assert parameters.index_bytes_per_token(with_index) == 61 * (128 + 4)
    assert parameters.index_bytes_per_token(without) == 0


def test_every_layer_has_an_indexer_of_its_own_unless_the_config_shares() -> None:
    assert own(load(GLM)) == [True] * 6


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"index_topk_freq": 4, "index_skip_topk_offset": 3}, "FFFSSS"),
        ({"index_topk_freq": 2}, "FFSFSF"),
        ({"index_topk_pattern": "FSFSSF"}, "FSFSSF"),
        ({"indexer_types": ["full", "shared", "shared", "full", "shared", "full"]}, "FSSFSF"),
    ],
)
def test_layers_take_over_the_choice_of_earlier_ones(change: dict[str, Any], expected: str) -> None:
    network = load(GLM, **change)
    assert own(network) == [letter == "F" for letter in expected]
    each = parameters.parts(load(GLM))["indexer"] // 6
    assert parameters.parts(network)["indexer"] == expected.count("F") * each
    assert parameters.index_bytes_per_token(network) == expected.count("F") * (8 + 4)


def test_the_rule_of_glm_5_2_is_its_list() -> None:
    # As its config writes them out: three, then every fourth.
    assert [i for i, full in enumerate(own(architecture("glm-5.2"))) if full] == [
        0,
        1,
        *range(2, 78, 4),
    ]


def test_a_predicting_layer_chooses_for_itself() -> None:
    shared = load(GLM, index_topk_freq=4, num_nextn_predict_layers=1)
    every = load(GLM, num_nextn_predict_layers=1)
    assert shared.other_parameters == every.other_parameters
    assert load(GLM, num_nextn_predict_layers=0).other_parameters == {}


def test_biases_are_on_the_latents_and_the_output() -> None:
    biased, plain = load(V3, attention_bias=True), load(V3)
    assert parameters.total(biased) - parameters.total(plain) == 6 * (16 + 8 + 4 + 32)


def test_kimi_k2_5_is_kimi_k2_with_a_tower() -> None:
    seeing, reading = architecture("kimi-k2.5"), architecture("kimi-k2-instruct")
    assert parameters.total(seeing) == parameters.total(reading)
    assert latents(seeing)[0] == latents(reading)[0]
    assert set(seeing.other_parameters) == {"vision tower"}


@pytest.mark.parametrize(
    ("config", "change", "names"),
    [
        (V3, {"kv_lora_rank": None}, "kv_lora_rank"),
        (V3, {"kv_lora_rank": 0}, "kv_lora_rank"),
        (V3, {"q_lora_rank": -1}, "q_lora_rank"),
        (V3, {"mlp_bias": True}, "mlp_bias"),
        (V3, {"index_topk": 4}, "index_topk"),
        (V3, {"moe_layer_freq": 2}, "moe_layer_freq"),
        (GLM, {"q_lora_rank": None}, "q_lora_rank"),
        (GLM, {"indexer_types": ["shared"] + ["full"] * 5}, "first layer"),
        (GLM, {"indexer_types": ["full"] * 5}, "indexer_types"),
        (GLM, {"indexer_types": ["full"] * 5 + ["none"]}, "none"),
        (GLM, {"index_topk_pattern": "FFX"}, "index_topk_pattern"),
        (GLM, {"index_topk_pattern": 3}, "index_topk_pattern"),
        (GLM, {"index_topk_freq": 0}, "index_topk_freq"),
        (GLM, {"layer_types": ["full_attention"] * 6}, "full_attention"),
    ],
)
def test_what_is_not_understood_is_refused_at_its_place(
    config: dict[str, Any], change: dict[str, Any], names: str
) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        load(config, **change)
    assert names in str(caught.value)
    assert caught.value.hint
    assert caught.value.where.startswith("config.json:")


def test_a_direct_projection_must_be_said() -> None:
    config = {key: value for key, value in V3.items() if key != "q_lora_rank"}
    with pytest.raises(UnsupportedModelError, match="q_lora_rank"):
        load(config)
