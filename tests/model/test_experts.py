"""Mixtures of experts: where they are, how wide, how many, and what else their layers have."""

import json
from typing import Any

import pytest

from roofline.errors import UnsupportedModelError
from roofline.model import parameters
from roofline.model.architecture import Architecture, Attention, Mlp, Moe
from roofline.model.catalog import architecture
from roofline.model.huggingface import from_config
from roofline.records import replace
from roofline.schema import parse_json

BASE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "max_position_embeddings": 64,
}
MIXTRAL = BASE | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
QWEN2 = BASE | {
    "model_type": "qwen2_moe",
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 12,
    "shared_expert_intermediate_size": 20,
}
QWEN3 = BASE | {
    "model_type": "qwen3_moe",
    "head_dim": 8,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 12,
}
GLM = BASE | {
    "model_type": "glm4_moe",
    "head_dim": 8,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 12,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
}
GPT_OSS = BASE | {
    "model_type": "gpt_oss",
    "head_dim": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "sliding_window": 8,
}
LLAMA4 = BASE | {
    "model_type": "llama4_text",
    "num_hidden_layers": 8,
    "head_dim": 8,
    "num_local_experts": 4,
    "num_experts_per_tok": 1,
    "intermediate_size_mlp": 64,
    "attention_chunk_size": 16,
}
MIMO = BASE | {
    "model_type": "mimo_v2_flash",
    "num_hidden_layers": 12,
    "head_dim": 12,
    "v_head_dim": 8,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 12,
    "sliding_window": 8,
}
GEMMA = BASE | {
    "model_type": "gemma4_text",
    "num_hidden_layers": 12,
    "head_dim": 8,
    "global_head_dim": 16,
    "sliding_window": 8,
    "hidden_size_per_layer_input": 0,
}
MINIMAX = BASE | {
    "model_type": "minimax_m3",
    "num_hidden_layers": 3,
    "head_dim": 16,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "dense_intermediate_size": 64,
    "moe_layer_freq": [0, 1, 1],
    "sparse_attention_config": {
        "use_sparse_attention": True,
        "sparse_attention_freq": [0, 1, 1],
        "sparse_block_size": 4,
        "sparse_topk_blocks": 2,
        "sparse_index_dim": 16,
        "sparse_num_index_heads": 2,
    },
}
ERNIE = BASE | {
    "model_type": "ernie4_5_moe",
    "moe_num_experts": 4,
    "moe_k": 2,
    "moe_intermediate_size": 12,
    "moe_num_shared_experts": 1,
}
HUNYUAN = BASE | {"model_type": "hunyuan_v1_moe", "num_experts": [4] * 6, "moe_topk": [2] * 6}
STEP = BASE | {
    "model_type": "step3p7",
    "num_hidden_layers": 5,
    "head_dim": 8,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 12,
    "share_expert_dim": 16,
    "sliding_window": 8,
}
DBRX: dict[str, Any] = {
    "model_type": "dbrx",
    "d_model": 32,
    "n_heads": 4,
    "n_layers": 2,
    "max_seq_len": 64,
    "vocab_size": 100,
    "attn_config": {"kv_n_heads": 2},
    "ffn_config": {"ffn_hidden_size": 12, "moe_num_experts": 4, "moe_top_k": 2},
}


def load(config: dict[str, Any], **changes: Any) -> Architecture:
    return from_config(parse_json(json.dumps(config | changes), "config.json"))


def sparse(network: Architecture) -> list[int]:
    return [i for i, block in enumerate(network.layers) if isinstance(block.feedforward, Moe)]


def moe(network: Architecture) -> Moe:
    return next(b.feedforward for b in network.layers if isinstance(b.feedforward, Moe))


def attentions(network: Architecture) -> list[Attention]:
    mixers = [block.mixer for block in network.layers]
    return [mixer for mixer in mixers if isinstance(mixer, Attention)]


def test_one_expert_of_one_has_the_parameters_of_a_dense_part_and_a_router() -> None:
    one = load(MIXTRAL, num_local_experts=1, num_experts_per_tok=1)
    dense = load(BASE | {"model_type": "llama"})
    router = BASE["hidden_size"] * BASE["num_hidden_layers"]
    assert parameters.total(one) == parameters.total(dense) + router
    assert parameters.active(one)["all"] == parameters.total(one)


def test_all_experts_active_is_every_parameter_active() -> None:
    network = load(MIXTRAL, num_experts_per_tok=8)
    assert parameters.active(network)["all"] == parameters.total(network)


def test_another_expert_adds_its_matrices_and_a_row_of_the_router_in_each_layer() -> None:
    more, less = load(MIXTRAL, num_local_experts=9), load(MIXTRAL)
    each = 3 * 32 * 48 + 32
    assert parameters.total(more) - parameters.total(less) == 6 * each


@pytest.mark.parametrize(
    ("network", "layers"),
    [
        (load(MIXTRAL), [0, 1, 2, 3, 4, 5]),
        (load(QWEN3, decoder_sparse_step=2), [1, 3, 5]),
        (load(QWEN3, decoder_sparse_step=2, mlp_only_layers=[1]), [3, 5]),
        (load(QWEN2, mlp_only_layers=[0, 5]), [1, 2, 3, 4]),
        (load(GLM, first_k_dense_replace=3), [3, 4, 5]),
        (load(GLM, first_k_dense_replace=0), [0, 1, 2, 3, 4, 5]),
        (load(LLAMA4, interleave_moe_layer_step=2), [1, 3, 5, 7]),
        (load(LLAMA4, moe_layers=[0, 7]), [0, 7]),
        (load(MIMO), list(range(1, 12))),
        (load(MIMO, moe_layer_freq=[0, 0] + [1] * 10), list(range(2, 12))),
        (load(MINIMAX), [1, 2]),
        (load(ERNIE), [1, 2, 3, 4, 5]),
        (load(ERNIE, moe_layer_interval=2, moe_layer_end_index=4), [1, 3]),
        (load(STEP), [3, 4]),
        (load(STEP, moe_layers_enum="1, 2,4"), [1, 2, 4]),
    ],
)
def test_experts_are_in_the_layers_the_config_says(
    network: Architecture, layers: list[int]
) -> None:
    assert sparse(network) == layers


def test_a_shared_expert_is_what_every_token_passes() -> None:
    network = load(GLM)
    assert moe(network).shared_width == 24
    alone = load(GLM, n_shared_experts=0)
    difference = 5 * 3 * 32 * 24
    assert parameters.parts(network)["shared_experts"] == difference
    assert parameters.active(network)["all"] - parameters.active(alone)["all"] == difference


def test_the_shared_expert_of_qwen_2_is_behind_a_gate() -> None:
    assert parameters.parts(load(QWEN2))["shared_experts"] == 6 * (3 * 32 * 20 + 32)


def test_an_expert_of_gpt_oss_has_biases_and_so_has_its_router() -> None:
    network = load(GPT_OSS)
    assert parameters.parts(network)["router"] == 6 * (32 * 8 + 8)
    assert parameters.parts(network)["experts"] == 6 * 8 * (3 * 32 * 48 + 2 * 48 + 32)


def test_every_other_layer_of_gpt_oss_slides_and_each_head_has_a_sink() -> None:
    mixers = attentions(load(GPT_OSS))
    assert [mixer.window for mixer in mixers] == [8, None] * 3
    assert {mixer.sink_parameters for mixer in mixers} == {4}


def test_llama_4_attends_in_chunks_where_it_rotates() -> None:
    mixers = attentions(load(LLAMA4))
    assert [mixer.chunk for mixer in mixers] == [16, 16, 16, None] * 2
    assert [mixer.rotary for mixer in mixers] == [True, True, True, False] * 2
    assert all(mixer.chunk is None for mixer in attentions(load(LLAMA4, attention_chunk_size=None)))
    assert attentions(load(LLAMA4, no_rope_layers=[0] * 8))[0].chunk is None


def test_dense_layers_of_llama_4_have_a_width_of_their_own() -> None:
    network = load(LLAMA4, interleave_moe_layer_step=2)
    dense = network.layers[0].feedforward
    assert isinstance(dense, Mlp)
    assert dense.width == 64
    assert moe(network).shared_width == moe(network).width == 48


def test_layers_of_mimo_that_slide_have_other_heads_and_sinks() -> None:
    full, sliding = attentions(load(MIMO))[:2]
    assert (full.window, full.kv_heads, full.sink_parameters) == (None, 2, 0)
    assert (sliding.window, sliding.kv_heads, sliding.sink_parameters) == (8, 4, 4)
    assert (sliding.head_dim, sliding.value_width, sliding.kv_elements) == (12, 8, 4 * (12 + 8))


def test_a_window_that_leaves_the_query_out_is_one_wider() -> None:
    network = load(MIMO, sliding_window_size=8)
    assert attentions(network)[1].window == 9
    assert any("9 keys" in note for note in network.notes)


def test_full_layers_of_gemma_4_have_wider_heads_and_the_last_layer_is_full() -> None:
    mixers = attentions(load(GEMMA, layer_types=["sliding_attention"] * 12))
    assert [mixer.head_dim for mixer in mixers] == [8] * 11 + [16]
    assert mixers[-1].window is None


def test_keys_that_are_values_are_projected_once_and_cached_twice() -> None:
    apart = attentions(load(GEMMA))[5]
    same = attentions(load(GEMMA, attention_k_eq_v=True))[5]
    assert same.kv_elements == apart.kv_elements == 2 * apart.projected_kv // 2
    assert 2 * same.projected_kv == apart.projected_kv
    fewer = load(GEMMA, attention_k_eq_v=True, num_global_key_value_heads=1)
    assert attentions(fewer)[5].kv_heads == 1
    assert attentions(load(GEMMA, num_global_key_value_heads=1))[5].kv_heads == 2


def test_layers_that_share_a_cache_neither_project_nor_cache() -> None:
    network = load(GEMMA, num_kv_shared_layers=4, use_double_wide_mlp=True)
    mixers = attentions(network)
    assert [mixer.reuses_kv for mixer in mixers] == [False] * 8 + [True] * 4
    assert all(mixer.kv_elements == mixer.projected_kv == 0 for mixer in mixers[8:])
    assert all(mixer.kv_read_elements > 0 for mixer in mixers[8:])
    widths = [b.feedforward.width for b in network.layers if isinstance(b.feedforward, Mlp)]
    assert widths == [48] * 8 + [96] * 4


def test_experts_of_gemma_4_run_beside_a_dense_part() -> None:
    experts = {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 12}
    network = load(GEMMA | experts, enable_moe_block=True)
    assert moe(network).shared_width == 48
    assert all(block.norm_parameters == 7 * 32 for block in network.layers)


def test_inputs_per_layer_are_looked_up_and_counted_apart() -> None:
    inner = {"hidden_size_per_layer_input": 4, "vocab_size_per_layer_input": 90}
    network = load(GEMMA | inner)
    assert network.other_parameters == {"per-layer embeddings": 90 * 12 * 4}
    assert parameters.parts(network)["other"] == 12 * 3 * 32 * 4


def test_minimax_m3_chooses_blocks_of_keys_after_its_first_layers() -> None:
    first, second, _ = attentions(load(MINIMAX))
    assert first.index is None
    assert second.index is not None
    assert second.index.top_k == 2 * 4
    assert second.index.bytes_per_token == 2 * 16
    assert parameters.parts(load(MINIMAX))["indexer"] == 2 * (32 * 16 * (2 + 1) + 2 * 16)


def test_more_heads_where_step_slides_are_gated_by_head() -> None:
    words = ["full_attention", "sliding_attention"] * 2 + ["full_attention"]
    other = {"attention_type": "sliding_attention", "num_attention_heads": 6}
    network = load(STEP, layer_types=words, attention_other_setting=other)
    assert [mixer.heads for mixer in attentions(network)] == [4, 6, 4, 6, 4]
    plain = replace(attentions(network)[0], head_gate=False)
    gated = sum(linear.parameters for linear in attentions(network)[0].linears(32))
    assert gated - sum(linear.parameters for linear in plain.linears(32)) == 4 * 32


def test_lists_for_layers_that_predict_may_go_on() -> None:
    words = ["full_attention", "sliding_attention"] * 2 + ["full_attention"] * 3
    network = load(STEP, layer_types=words, num_nextn_predict_layers=2)
    assert [mixer.window for mixer in attentions(network)] == [None, 8, None, 8, None]


def test_predicting_layers_and_copies_make_up_the_published_checkpoint() -> None:
    # Parameters of zai-org/GLM-4.5 and GLM-4.5-Air as the hub counts them: with a copy of
    # embedding and LM head for the predicting layer, and biases of scores.
    for name, published in (("glm-4.5", 358_337_791_296), ("glm-4.5-air", 110_468_824_832)):
        network = architecture(name)
        part = moe(network)
        copies = 2 * network.vocab * network.d_model
        biases = (len(sparse(network)) + 1) * part.experts
        apart = network.other_parameters["multi-token prediction"]
        assert parameters.total(network) + apart + copies + biases == published


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("mixtral-8x7b-v0.1", 12.9),
        ("qwen1.5-moe-a2.7b", 2.7),
        ("qwen2-57b-a14b", 14),
        ("deepseek-v2", 21),
        ("olmoe-1b-7b", 1.3),
        ("phi-3.5-moe", 6.6),
        ("dbrx", 36),
        ("llama-4-maverick", 17),
        ("mimo-v2-flash", 15),
        ("gemma-4-26b-a4b", 3.8),
        ("ling-lite-1.5", 2.8),
        ("ling-mini-2.0", 1.4),
    ],
)
def test_active_parameters_are_those_the_model_cards_say(name: str, billions: float) -> None:
    # To as many digits as the card prints; cards differ in which embeddings they count.
    digits = 1 if isinstance(billions, float) else 0
    found = parameters.active(architecture(name)).values()
    assert any(round(value / 10**9, digits) == billions for value in found)


@pytest.mark.parametrize(
    ("config", "change", "names"),
    [
        (MIXTRAL, {"num_experts_per_tok": 9}, "9 of 8 experts"),
        (MIXTRAL, {"num_experts_per_tok": None}, "num_experts_per_tok"),
        (MIXTRAL, {"num_local_experts": 0}, "num_local_experts"),
        (MIXTRAL, {"num_local_experts": "8"}, "num_local_experts"),
        (MIXTRAL, {"num_local_experts": [8, 4]}, "num_local_experts"),
        (MIXTRAL, {"num_local_experts": []}, "num_local_experts"),
        (MIXTRAL, {"num_local_experts": [True] * 6}, "num_local_experts"),
        (MIXTRAL, {"num_experts": 4}, "contradicts"),
        (MIXTRAL, {"shared_expert_intermediate_size": 4}, "shared_expert_intermediate_size"),
        (QWEN3, {"mlp_only_layers": 3}, "mlp_only_layers"),
        (QWEN3, {"mlp_only_layers": ["1"]}, "mlp_only_layers"),
        (QWEN3, {"mlp_only_layers": [True]}, "mlp_only_layers"),
        (QWEN3, {"decoder_sparse_step": 0}, "decoder_sparse_step"),
        (QWEN3, {"shared_expert_intermediate_size": 8}, "shared_expert_intermediate_size"),
        (GLM, {"first_k_dense_replace": 7}, "first_k_dense_replace"),
        (GLM, {"moe_layer_freq": 2}, "moe_layer_freq"),
        (GLM, {"moe_layer_freq": [0, 1]}, "moe_layer_freq"),
        (GLM, {"moe_layer_freq": [0, 1, 2, 1, 1, 1]}, "moe_layer_freq"),
        (GLM, {"moe_layer_freq": [0, True, 1, 1, 1, 1]}, "moe_layer_freq"),
        (GLM, {"mlp_layer_types": [["dense"]] * 6}, "mlp_layer_types"),
        (LLAMA4, {"moe_layers": {"a": 1}}, "moe_layers"),
        (LLAMA4, {"no_rope_layers": [1, 2]}, "no_rope_layers"),
        (LLAMA4, {"layer_types": ["sliding_attention"] * 8}, "layer_types"),
        (MIMO, {"swa_num_key_value_heads": 3}, "do not divide"),
        (MIMO, {"attention_chunk_size": 9}, "attention_chunk_size"),
        (MIMO, {"sliding_window_size": 9}, "sliding_window"),
        (GEMMA, {"num_kv_shared_layers": 12}, "leaves no layer"),
        (GEMMA, {"use_bidirectional_attention": "all"}, "use_bidirectional_attention"),
        (GEMMA, {"enable_moe_block": True}, "num_experts"),
        (MINIMAX, {"sparse_attention_config": 3}, "sparse_attention_config"),
        (MINIMAX, {"sparse_attention_config": {"new_key": 3}}, "sparse_attention"),
        (MINIMAX, {"attention_output_gate": True}, "attention_output_gate"),
        (ERNIE, {"use_bias": True}, "use_bias"),
        (HUNYUAN, {"use_cla": True}, "use_cla"),
        (HUNYUAN, {"moe_intermediate_size": [48, 24]}, "moe_intermediate_size"),
        (HUNYUAN, {"num_shared_expert": 2}, "num_shared_expert"),
        (STEP, {"moe_layers_enum": "1,two"}, "moe_layers_enum"),
        (STEP, {"attention_other_setting": 3}, "attention_other_setting"),
        (STEP, {"attention_other_setting": {"num_attention_heads": 5}}, "heads"),
        (STEP, {"attention_other_setting": {"head_dim": 16}}, "head_dim"),
        (STEP, {"share_expert_dim": None, "text_config": 3}, "text_config"),
        (DBRX, {"ffn_config": None}, "ffn_config"),
        (DBRX, {"attn_config": {"kv_n_heads": 3}}, "heads"),
        (DBRX, {"ffn_config": {**DBRX["ffn_config"], "x": 1}}, "x"),
    ],
)
def test_what_is_not_understood_is_refused_at_its_place(
    config: dict[str, Any], change: dict[str, Any], names: str
) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        load(config, **change)
    assert names in f"{caught.value} {caught.value.where}"
    assert caught.value.hint
    assert caught.value.where.startswith("config.json:")
