"""Networks that are not plain decoders: searched, diffusing, encoding, compressing."""

from collections import Counter
from typing import Any

import pytest

from roofline.errors import UnsupportedModelError
from roofline.model import parameters
from roofline.model.architecture import Attention, CompressedAttention, Mlp
from roofline.model.catalog import architecture

from .reading import load, refusal


def searched(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {
        "model_type": "nemotron-nas",
        "hidden_size": 512,
        "num_hidden_layers": len(blocks),
        "num_attention_heads": 8,
        "vocab_size": 100,
        "block_configs": list(blocks),
    }


def block(attention: dict[str, Any], ffn: dict[str, Any]) -> dict[str, Any]:
    return {"attention": attention, "ffn": ffn}


WHOLE = block({"n_heads_in_group": 4}, {"ffn_mult": 2.0})


def test_nemotron_super_attends_in_49_of_80_layers_with_eight_queries_to_a_key() -> None:
    layers = architecture("llama-3.3-nemotron-super-49b").layers
    mixers = [layer.mixer for layer in layers if isinstance(layer.mixer, Attention)]
    assert (len(layers), len(mixers)) == (80, 49)
    assert {mixer.kv_heads for mixer in mixers} == {8}
    widths = Counter(b.feedforward.width for b in layers if isinstance(b.feedforward, Mlp))
    assert widths[28_672] == 49  # 5.25 is the factor of Llama 3 70B


def test_a_part_that_is_left_out_takes_its_norm_with_it() -> None:
    network = load(searched(WHOLE, block({"no_op": True}, {"ffn_mult": 1.0})))
    assert [layer.norms for layer in network.layers] == [2, 1]
    assert network.layers[1].mixer is None


def test_a_part_may_be_one_matrix() -> None:
    linear = {"replace_with_linear": True}
    network = load(searched(block(linear, linear)))
    assert parameters.parts(network)["other"] == 2 * 512 * 512
    assert parameters.kv_elements_per_token(network) == 0


def test_inner_widths_are_multiples_of_256_above_two_thirds() -> None:
    part = load(searched(WHOLE)).layers[0].feedforward
    assert isinstance(part, Mlp)
    assert part.width == 768  # 2 · 2.0 · 512 / 3 = 682.67


@pytest.mark.parametrize(
    "wrong",
    [
        block({"n_heads_in_group": 3}, {"ffn_mult": 1.0}),
        block({"n_heads_in_group": None}, {"ffn_mult": 1.0}),
        block({"n_heads_in_group": 4}, {"ffn_mult": 0}),
        block({"n_heads_in_group": 4}, {"ffn_mult": True}),
        block({"n_heads_in_group": 4, "window_length": 8}, {"ffn_mult": 1.0}),
        block({"n_heads_in_group": 4, "no_op": 1}, {"ffn_mult": 1.0}),
        block({"n_heads_in_group": 4}, {"ffn_mult": 1.0, "sparsify": ["x"]}),
        {"attention": {"no_op": True}},
        {},
    ],
)
def test_a_layer_that_is_not_understood_is_refused_where_it_is(wrong: dict[str, Any]) -> None:
    refusal(searched(WHOLE, wrong), "block_configs")


def test_blocks_are_as_many_as_layers() -> None:
    refusal(searched(WHOLE) | {"num_hidden_layers": 2}, "block_configs")


@pytest.mark.parametrize("name", ["llada-8b", "dream-7b", "bert-base-uncased"])
def test_tokens_of_diffusion_networks_and_encoders_see_each_other(name: str) -> None:
    assert not architecture(name).causal


def test_diffusion_networks_have_the_shape_of_those_they_are_like() -> None:
    dream, qwen = architecture("dream-7b"), architecture("qwen2.5-7b")
    assert parameters.parts(dream) == parameters.parts(qwen)
    assert parameters.kv_elements_per_token(dream) == parameters.kv_elements_per_token(qwen)


def test_an_encoder_keeps_no_cache() -> None:
    assert parameters.kv_elements_per_token(architecture("bert-base-uncased")) == 0


def test_the_head_of_bert_is_the_embedding_behind_one_more_matrix() -> None:
    network = architecture("bert-base-uncased")
    assert parameters.parts(network)["other"] == 768 * 768 + 768
    assert parameters.parts(network)["lm_head"] == network.vocab


def test_both_halves_of_t5_are_there() -> None:
    network = architecture("t5-base")
    assert len(network.layers) == len(network.encoder) == len(network.encoder_projector) == 12
    assert parameters.total(network) + sum(network.other_parameters.values()) == 222_903_552
    assert parameters.kv_elements_per_token(network) == 12 * 2 * 12 * 64


BERT = {
    "model_type": "bert",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 100,
    "max_position_embeddings": 64,
}
T5 = {
    "model_type": "t5",
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "vocab_size": 100,
}
LLADA = {
    "model_type": "llada",
    "d_model": 32,
    "n_layers": 2,
    "n_heads": 4,
    "n_kv_heads": 4,
    "mlp_hidden_size": 48,
    "embedding_size": 100,
    "max_sequence_length": 64,
}
V4: dict[str, Any] = {
    "model_type": "deepseek_v4",
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "head_dim": 128,
    "q_lora_rank": 16,
    "o_groups": 2,
    "o_lora_rank": 8,
    "index_n_heads": 2,
    "index_head_dim": 16,
    "index_topk": 4,
    "moe_intermediate_size": 12,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "vocab_size": 100,
    "num_nextn_predict_layers": 0,
    "compress_ratios": [0, 4, 128],
}


def test_a_compressed_layer_keeps_an_entry_for_every_few_tokens() -> None:
    network = load(V4)
    plain, sparse, heavy = (layer.mixer for layer in network.layers)
    assert isinstance(plain, CompressedAttention)
    assert isinstance(sparse, CompressedAttention)
    assert isinstance(heavy, CompressedAttention)
    assert [m.entry_elements for m in (plain, sparse, heavy)] == [0, 128 // 4, 128 // 128]
    assert [m.index is not None for m in (plain, sparse, heavy)] == [False, True, False]
    assert parameters.kv_elements_per_token(network) == 3 * 128 + 32 + 1
    assert parameters.kv_elements_per_token(network, beyond_window=True) == 32 + 1


@pytest.mark.parametrize(
    ("ratios", "word"),
    [([4, 128], "compressed_sparse_attention"), ([128, 4], "heavily_compressed_attention")],
)
def test_the_first_layer_that_is_not_understood_is_named(ratios: list[int], word: str) -> None:
    change = {"num_hidden_layers": 2, "compress_ratios": ratios, "compress_rates": []}
    with pytest.raises(UnsupportedModelError, match=f"gives no number of tokens for {word}"):
        load(V4 | change)


def test_an_index_of_entries_costs_a_fourth_of_one_of_tokens() -> None:
    # 128 channels in fp8 and a scale, for four tokens, in 21 of 43 layers.
    assert parameters.index_bytes_per_token(architecture("deepseek-v4-flash")) == 21 * 33


def test_a_group_of_heads_is_projected_apart() -> None:
    mixer = load(V4).layers[0].mixer
    assert isinstance(mixer, CompressedAttention)
    down, up = mixer.linears(32)[-2:]
    assert (down.n, down.k, up.n, up.k) == (2 * 8, 4 * 128 // 2, 32, 2 * 8)


def test_four_streams_are_mixed_before_and_after_both_parts() -> None:
    first = load(V4).layers[0]
    assert first.streams == 4
    assert [(linear.n, linear.k) for linear in first.extra] == [((2 + 4) * 4, 4 * 32)] * 2


@pytest.mark.parametrize(
    ("config", "change", "key"),
    [
        (BERT, {"is_decoder": True}, "is_decoder"),
        (BERT, {"position_embedding_type": "relative_key"}, "position_embedding_type"),
        (BERT, {"tie_word_embeddings": False}, "tie_word_embeddings"),
        (T5, {"feed_forward_proj": "gated-gelu-new"}, "feed_forward_proj"),
        (T5, {"feed_forward_proj": 3}, "feed_forward_proj"),
        (LLADA, {"block_type": "sequential"}, "block_type"),
        (LLADA, {"alibi": True}, "alibi"),
        (V4, {"compress_ratios": [0, 4]}, "compress_ratios"),
        (V4, {"compress_ratios": [0, 4, 5]}, "compress_ratios"),
        (V4, {"o_groups": 3}, "o_groups"),
        (V4, {"compress_rates": {"compressed_sparse_attention": 3}}, "compress_rates"),
        (V4, {"compress_rates": [4]}, "compress_rates"),
        (V4, {"num_key_value_heads": 2}, "num_key_value_heads"),
    ],
)
def test_what_is_not_understood_is_refused_at_its_place(
    config: dict[str, Any], change: dict[str, Any], key: str
) -> None:
    refusal(config | change, key)


@pytest.mark.parametrize(
    "change",
    [
        {"full_attn_layers": [1], "kda_layers": [1, 2]},
        {"full_attn_layers": [1], "kda_layers": [3]},
        {"full_attn_layers": ["1"], "kda_layers": [2]},
        {"full_attn_layers": [[1]], "kda_layers": [2]},
        {"head_dim": "8", "full_attn_layers": [1], "kda_layers": [2]},
        {"rank": 3, "full_attn_layers": [1], "kda_layers": [2]},
        {"use_full_rank_gate": 1, "full_attn_layers": [1], "kda_layers": [2]},
        [],
    ],
)
def test_layers_of_kimi_linear_are_named_once_each(change: object) -> None:
    config = {
        "model_type": "kimi_linear",
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "moe_intermediate_size": 12,
        "num_experts": 4,
        "num_experts_per_token": 2,
        "vocab_size": 100,
        "linear_attn_config": change,
    }
    refusal(config, "linear_attn_config")
