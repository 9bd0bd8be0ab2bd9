"""Reading configs: what is understood, what is refused, and where."""

import json
import re
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import DocumentError, UnsupportedModelError
from roofline.model.architecture import Architecture, Attention
from roofline.model.catalog import architecture, entry, names
from roofline.model.huggingface import from_config
from roofline.schema import parse_json
from tests.cases import examples

LLAMA: Final[dict[str, Any]] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def load(config: object) -> Architecture:
    return from_config(parse_json(json.dumps(config, indent=1), "config.json"), "net")


def refusal(config: dict[str, Any]) -> UnsupportedModelError:
    with pytest.raises(UnsupportedModelError) as caught:
        load(config)
    assert re.fullmatch(r"config\.json:\d+:\d+", caught.value.where)
    assert caught.value.hint
    return caught.value


def line_of(config: dict[str, Any], key: str) -> int:
    lines = json.dumps(config, indent=1).splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.strip().startswith(f'"{key}"'))


def windows(config: dict[str, Any]) -> list[int | None]:
    return [block.mixer.window for block in load(config).layers if block.mixer]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_experts", 8),
        ("num_local_experts", 8),
        ("n_routed_experts", 64),
        ("num_experts_per_tok", 2),
        ("mlp_only_layers", [1]),
        ("kv_lora_rank", 512),
        ("num_kv_shared_layers", 2),
        ("cla_share_factor", 2),
        ("some_new_switch", True),
        ("block_configs", [{"attention": {"no_op": True}}]),
        ("sliding_window", 4096),
        ("is_encoder_decoder", True),
        ("vision_config", {"depth": 3}),
    ],
)
def test_a_field_that_may_change_the_cost_is_refused_by_name(key: str, value: object) -> None:
    config = LLAMA | {key: value}
    error = refusal(config)
    assert key in error.message
    assert error.where.split(":")[1] == str(line_of(config, key))


@pytest.mark.parametrize("value", [None, False, 0, 0.0, "", {}, []])
def test_an_empty_field_is_harmless(value: object) -> None:
    assert load(LLAMA | {"num_experts": value}).layers == load(LLAMA).layers


def test_a_word_that_is_not_understood_is_noted() -> None:
    assert any("brand_new" in note for note in load(LLAMA | {"brand_new": "warp"}).notes)


@pytest.mark.parametrize(
    "key",
    ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size"],
)
@pytest.mark.parametrize(
    "value",
    [0, -1, 1e30, 10**30, 2.5, True, "64", [64], {"a": 1}, None],
    ids=repr,
)
def test_an_absurd_number_is_refused_where_it_stands(key: str, value: object) -> None:
    config = LLAMA | {key: value}
    error = refusal(config)
    assert key in error.message
    assert error.where.split(":")[1] == str(line_of(config, key))


@pytest.mark.parametrize(
    "key",
    ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size"],
)
def test_a_missing_number_is_asked_for(key: str) -> None:
    config = {name: value for name, value in LLAMA.items() if name != key}
    assert f"{key} is missing" in refusal(config).message


def test_a_billion_layers_are_refused_before_they_are_built() -> None:
    assert "num_hidden_layers" in refusal(LLAMA | {"num_hidden_layers": 10**9}).message


@pytest.mark.parametrize(
    "change",
    [
        {"num_key_value_heads": 3},
        {"num_key_value_heads": 16},
        {"hidden_size": 65},
    ],
)
def test_heads_that_do_not_divide_are_refused(change: dict[str, int]) -> None:
    assert "divide" in refusal(LLAMA | change).message


def test_an_explicit_head_width_need_not_divide_the_model_width() -> None:
    mixer = load(LLAMA | {"hidden_size": 65, "head_dim": 16}).layers[0].mixer
    assert isinstance(mixer, Attention)
    assert mixer.query_width == 128


@pytest.mark.parametrize("model_type", ["mixtral", "lama", "", None, 3, "x" * 10_000, "../../x"])
def test_an_unknown_model_type_is_refused(model_type: object) -> None:
    refusal(LLAMA | {"model_type": model_type})


def test_a_mistyped_model_type_gets_a_suggestion() -> None:
    assert "did you mean llama?" in refusal(LLAMA | {"model_type": "lama"}).hint


@pytest.mark.parametrize("config", [[], 3, "llama", None, {}])
def test_what_is_no_config_is_refused(config: object) -> None:
    with pytest.raises(UnsupportedModelError):
        load(config)


def test_every_number_says_where_it_was_read() -> None:
    provenance = load(LLAMA).provenance
    line = line_of(LLAMA, "hidden_size")
    assert re.fullmatch(rf"hidden_size = 64, config\.json:{line}:\d+", provenance["d_model"])
    assert provenance["attention_bias"] == (
        "attention_bias = false, default of model_type llama when absent"
    )
    assert provenance["head_dim"] == "head_dim = 8, width 64 over 8 heads"


QWEN: Final = {key: value for key, value in LLAMA.items() if key != "model_type"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"model_type": "qwen2"}, [None] * 4),
        ({"model_type": "qwen2", "use_sliding_window": False, "sliding_window": 8}, [None] * 4),
        (
            {
                "model_type": "qwen3",
                "use_sliding_window": True,
                "sliding_window": 8,
                "max_window_layers": 3,
            },
            [None, None, None, 8],
        ),
        (
            {
                "model_type": "qwen2",
                "use_sliding_window": True,
                "sliding_window": 8,
                "max_window_layers": 0,
                "layer_types": ["full_attention", "sliding_attention"] * 2,
            },
            [None, 8, None, 8],
        ),
        ({"model_type": "mistral", "sliding_window": 8}, [8] * 4),
        ({"model_type": "mistral", "sliding_window": None}, [None] * 4),
        ({"model_type": "mistral"}, [None] * 4),
        ({"model_type": "phi3", "sliding_window": 8}, [8] * 4),
        ({"model_type": "gemma2", "sliding_window": 8}, [8, None, 8, None]),
        ({"model_type": "gemma2"}, [4096, None, 4096, None]),
        (
            {"model_type": "gemma3_text", "sliding_window": 8, "sliding_window_pattern": 3},
            [8, 8, None, 8],
        ),
        (
            {
                "model_type": "gemma3_text",
                "sliding_window": 8,
                "sliding_window_pattern": 3,
                "layer_types": ["full_attention"] * 3 + ["sliding_attention"],
            },
            [None, None, None, 8],
        ),
    ],
)
def test_windows_follow_the_rule_of_the_model_type(
    change: dict[str, Any], expected: list[int | None]
) -> None:
    assert windows(QWEN | change) == expected


@pytest.mark.parametrize(
    "types",
    [
        ["sliding_attention"] * 4,
        ["full_attention"] * 3,
        ["linear_attention"] * 4,
        [None] * 4,
        "full_attention",
        [["full_attention"]] * 4,
    ],
)
def test_layer_types_that_do_not_fit_are_refused(types: object) -> None:
    assert "layer" in refusal(LLAMA | {"layer_types": types}).message


@pytest.mark.parametrize(
    ("name", "parallel"),
    [
        ("gpt-j-6b", True),
        ("gpt-neox-20b", True),
        ("phi-2", True),
        ("falcon-7b", True),
        ("falcon-40b", True),
        ("command-r", True),
        ("command-r7b", True),
        ("stablelm-2-12b", True),
        ("stablelm-2-1_6b", False),
        ("falcon-rw-1b", False),
        ("llama-3.1-8b", False),
        ("gpt2", False),
        ("bloom", False),
        ("opt-13b", False),
    ],
)
def test_parts_are_parallel_where_the_network_adds_them_at_once(name: str, parallel: bool) -> None:
    assert {block.parallel for block in architecture(name).layers} == {parallel}


@pytest.mark.parametrize(
    ("name", "rotary"),
    [
        ("llama-3.1-8b", [True] * 4),
        ("gpt-j-6b", [True] * 4),
        ("falcon-7b", [True] * 4),
        ("baichuan2-7b", [True] * 4),
        ("chatglm3-6b", [True] * 4),
        ("falcon-rw-1b", [False] * 4),
        ("baichuan2-13b", [False] * 4),
        ("mpt-7b", [False] * 4),
        ("bloom", [False] * 4),
        ("gpt2", [False] * 4),
        ("starcoder", [False] * 4),
        ("opt-13b", [False] * 4),
        ("command-r7b", [True, True, True, False]),
        ("smollm3-3b", [True, True, True, False]),
    ],
)
def test_layers_rotate_where_positions_are_rotary(name: str, rotary: list[bool]) -> None:
    mixers = [block.mixer for block in architecture(name).layers[:4]]
    assert [mixer.rotary for mixer in mixers if isinstance(mixer, Attention)] == rotary


def test_equal_layers_are_one_object() -> None:
    layers = load(LLAMA).layers
    assert all(layer is layers[0] for layer in layers)


@pytest.mark.parametrize(
    ("change", "linear", "plain"),
    [
        ({"torch_dtype": "float16"}, "fp16", "fp16"),
        ({"torch_dtype": None, "dtype": "float32"}, "fp32", "fp32"),
        ({"quantization_config": {"quant_method": "fp8"}}, "fp8", "bf16"),
        (
            {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}},
            "int4",
            "bf16",
        ),
        (
            {"quantization_config": {"quant_algo": "NVFP4", "ignore": ["lm_head"]}},
            "nvfp4",
            "bf16",
        ),
    ],
)
def test_the_weight_format_is_that_of_the_checkpoint(
    change: dict[str, Any], linear: str, plain: str
) -> None:
    network = load(LLAMA | change)
    assert (network.weight_format, network.plain_format) == (linear, plain)


@pytest.mark.parametrize(
    "change",
    [
        {"torch_dtype": "int3"},
        {"torch_dtype": 16},
        {"dtype": "float16"},
        {"quantization_config": 3},
        {"quantization_config": {"quant_method": "secret"}},
        {"quantization_config": {"quant_method": ["fp8"]}},
        {"quantization_config": {"quant_method": "gptq", "bits": 5, "group_size": 128}},
        {"quantization_config": {"quant_algo": "FP8", "ignore": ["lm_head", "model.secret.0"]}},
    ],
)  # fmt: skip
def test_a_format_that_is_not_understood_is_refused(change: dict[str, Any]) -> None:
    refusal(LLAMA | change)


GEMMA3: Final[dict[str, Any]] = {
    "model_type": "gemma3",
    "torch_dtype": "bfloat16",
    "mm_tokens_per_image": 256,
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    },
    "vision_config": {
        "model_type": "siglip_vision_model",
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "image_size": 896,
        "patch_size": 14,
    },
}


def test_a_nested_decoder_takes_the_defaults_of_its_type_and_the_outer_dtype() -> None:
    network = load(GEMMA3)
    mixer = network.layers[0].mixer
    assert isinstance(mixer, Attention)
    assert (mixer.heads, mixer.kv_heads, mixer.head_dim, network.vocab) == (8, 4, 256, 262_208)
    assert network.weight_format == "bf16"
    assert network.tied_embeddings
    assert "text_config" not in network.provenance["d_model"]
    assert network.provenance["weight_format"].startswith('torch_dtype = "bfloat16"')


def test_a_vision_tower_that_is_not_understood_is_left_out_and_said() -> None:
    network = load(GEMMA3 | {"vision_config": {"hidden_size": "wide"}})
    assert not network.other_parameters
    assert any("left out" in note for note in network.notes)


@pytest.mark.parametrize("part", [None, 3, [], {"model_type": "llama"}, {"model_type": 3}])
def test_a_nested_decoder_of_another_type_is_refused(part: object) -> None:
    refusal(GEMMA3 | {"text_config": part})


def test_an_expert_hidden_in_a_nested_decoder_is_refused() -> None:
    assert (
        "num_experts"
        in refusal(GEMMA3 | {"text_config": GEMMA3["text_config"] | {"num_experts": 4}}).message
    )


def attentions(network: Architecture) -> list[Attention]:
    return [block.mixer for block in network.layers if isinstance(block.mixer, Attention)]


LLAVA: Final[dict[str, Any]] = {
    "model_type": "llava",
    "image_token_index": 32000,
    "text_config": {"model_type": "llama", "vocab_size": 32064},
    "vision_config": {
        "model_type": "clip_vision_model",
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "image_size": 336,
        "patch_size": 14,
    },
}


def test_llava_says_which_decoder_it_has_and_leaves_its_sizes_out() -> None:
    seven, mistral = load(LLAVA), load(LLAVA | {"text_config": {"model_type": "mistral"}})
    assert [len(network.layers) for network in (seven, mistral)] == [32, 32]
    assert [attentions(network)[0].kv_heads for network in (seven, mistral)] == [32, 8]
    assert set(seven.other_parameters) == {"vision tower", "projector"}
    bare = load(LLAVA | {"vision_config": LLAVA["vision_config"] | {"model_type": "other"}})
    assert not bare.other_parameters
    assert any("left out" in note for note in bare.notes)
    assert "t5" in refusal(LLAVA | {"text_config": {"model_type": "t5"}}).message
    assert "vision_feature_layer" in refusal(LLAVA | {"vision_feature_layer": [-2, -5]}).message


QWEN_VL: Final[dict[str, Any]] = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "intermediate_size": 40,
    "vocab_size": 97,
    "max_position_embeddings": 128,
    "sliding_window": 32768,
    "use_sliding_window": False,
}


def test_a_decoder_beside_its_tower_is_the_one_inside_a_mapping_or_in_both_places() -> None:
    tower = {"depth": 2, "hidden_size": 16, "intermediate_size": 20, "out_hidden_size": 32}
    outer = {"model_type": "qwen2_5_vl", "vision_config": tower}
    flat = load(outer | QWEN_VL)
    for nested in (outer, outer | QWEN_VL):
        other = load(nested | {"text_config": QWEN_VL | {"model_type": "qwen2_5_vl_text"}})
        assert (other.layers, other.other_parameters) == (flat.layers, flat.other_parameters)
    wrong = outer | QWEN_VL | {"num_hidden_layers": 4, "text_config": QWEN_VL}
    assert "num_hidden_layers" in refusal(wrong).message


@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen2", "qwen3", "phi3", "mixtral"])
@pytest.mark.parametrize(
    "inert",
    [
        {"sliding_window": 0},
        {"sliding_window": 4096, "use_sliding_window": False, "max_window_layers": 2},
        {"num_nextn_predict_layers": 0},
    ],
)
def test_a_window_that_is_off_and_no_predicting_layers_change_nothing(
    model_type: str, inert: dict[str, Any]
) -> None:
    config = LLAMA | {"model_type": model_type, "num_key_value_heads": 2}
    if model_type == "mixtral":
        config |= {"num_local_experts": 4, "num_experts_per_tok": 2}
    plain = load(config | {"sliding_window": None})
    assert load(config | {"sliding_window": None} | inert).layers == plain.layers


def test_a_window_in_a_network_that_has_none_is_refused_by_name() -> None:
    assert "sliding_window" in refusal(LLAMA | {"sliding_window": 4096}).message


def test_every_fourth_layer_of_exaone_4_is_full_and_does_not_rotate() -> None:
    config = LLAMA | {"model_type": "exaone4", "num_hidden_layers": 8, "sliding_window": 16}
    for pattern in (4, "LLLG"):
        mixers = attentions(load(config | {"sliding_window_pattern": pattern}))
        assert [mixer.window for mixer in mixers] == [16, 16, 16, None] * 2
        assert [mixer.rotary for mixer in mixers] == [True, True, True, False] * 2
    off = attentions(load(config | {"sliding_window": None, "sliding_window_pattern": 0}))
    assert {(mixer.window, mixer.rotary) for mixer in off} == {(None, True)}


PUBLISHED: Final[list[dict[str, Any]]] = [
    {"add_bias_linear": False, "add_qkv_bias": True, "apply_query_key_layer_scaling": True,
     "apply_residual_connection_post_layernorm": False, "attention_dropout": 0.0,
     "attention_softmax_in_fp32": True, "bias_dropout_fusion": True, "ffn_hidden_size": 13696,
     "fp32_residual_connection": False, "hidden_dropout": 0.0, "hidden_size": 4096,
     "kv_channels": 128, "layernorm_epsilon": 1e-05, "multi_query_attention": True,
     "multi_query_group_num": 2, "num_attention_heads": 32, "num_layers": 28,
     "original_rope": True, "padded_vocab_size": 65024, "post_layer_norm": True, "rmsnorm": True,
     "seq_length": 8192, "use_cache": True, "torch_dtype": "float16", "model_type": "chatglm",
     "tie_word_embeddings": False, "eos_token_id": 2, "pad_token_id": 0},
    {"attn_dropout_prob": 0.0, "bf16": True, "emb_dropout_prob": 0.0, "fp16": False,
     "hidden_size": 4096, "intermediate_size": 22016, "initializer_range": 0.02,
     "kv_channels": 128, "layer_norm_epsilon": 1e-06, "max_position_embeddings": 32768,
     "model_type": "qwen", "no_bias": True, "num_attention_heads": 32, "num_hidden_layers": 32,
     "onnx_safe": None, "rotary_emb_base": 10000, "rotary_pct": 1.0, "scale_attn_weights": True,
     "seq_length": 8192, "tie_word_embeddings": False, "tokenizer_class": "QWenTokenizer",
     "use_cache": True, "use_dynamic_ntk": True, "use_flash_attn": "auto",
     "use_logn_attn": True, "vocab_size": 151936},
    {"attn_config": {"alibi": True, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0,
                     "attn_type": "multihead_attention", "attn_uses_sequence_id": False,
                     "clip_qkv": None, "prefix_lm": False, "qk_ln": False, "softmax_scale": None},
     "d_model": 4096, "emb_pdrop": 0, "embedding_fraction": 1.0, "expansion_ratio": 4,
     "init_config": {"emb_init_std": None, "init_div_is_residual": True}, "init_device": "cpu",
     "learned_pos_emb": True, "logit_scale": None, "max_seq_len": 2048, "model_type": "mpt",
     "n_heads": 32, "n_layers": 32, "no_bias": True, "norm_type": "low_precision_layernorm",
     "resid_pdrop": 0, "use_cache": False, "verbose": 0, "vocab_size": 50432},
    {"add_classification_head": False, "attention_bias": False, "attention_head_dim": 128,
     "cla_share_factor": 2, "class_num": 0, "dense_list": [4096, 0], "eod_token_id": 127967,
     "group_limited_greedy": False, "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096,
     "im_end_id": 5, "im_newline_id": 11, "im_start_id": 4, "intermediate_size": 14336,
     "kv_lora_rank": None, "mask_init_id": 12, "max_position_embeddings": 32768,
     "mlp_bias": False, "model_type": "hunyuan_v1_dense", "moe_layer_num_skipped": 0,
     "moe_topk": 1, "norm_topk_prob": False, "norm_type": "rms", "num_attention_heads": 32,
     "num_experts": 1, "num_hidden_layers": 32, "num_key_value_heads": 8,
     "num_media_embeds": 257, "num_shared_expert": 1, "org_vocab_size": 128167,
     "pool_type": "last", "q_lora_rank": None, "rope_scaling": {"alpha": 1000.0, "factor": 1.0},
     "text_end_id": 7, "text_start_id": 6, "tie_word_embeddings": True, "use_cla": False,
     "use_mixed_mlp_moe": False, "use_mla": False, "use_qk_norm": True,
     "use_rotary_pos_emb": True, "video_end_id": 9, "vit_input_resolution": 224, "vit_patch": 1,
     "vit_token": 64, "vocab_size": 128167},
    {"attention_bias": False, "attention_head_dim": 128, "cla_share_factor": 2, "class_num": 0,
     "dense_list": [4096, 0], "eod_token_id": 3, "group_limited_greedy": False, "head_dim": 128,
     "hidden_act": "silu", "hidden_size": 4096, "im_end_id": 5, "intermediate_size": 3072,
     "mask_init_id": 12, "max_position_embeddings": 32768, "mlp_bias": False,
     "model_type": "hunyuan_v1_moe", "moe_drop_tokens": False,
     "moe_intermediate_size": [3072] * 32, "moe_layer_num_skipped": 0, "moe_topk": [8] * 32,
     "n_group": False, "norm_topk_prob": True, "norm_type": "rms", "num_attention_heads": 32,
     "num_experts": 64, "num_hidden_layers": 32, "num_key_value_heads": 8,
     "num_media_embeds": 257, "num_shared_expert": [1] * 32, "org_vocab_size": 128167,
     "pool_type": "last", "routed_scaling_factor": False, "tie_word_embeddings": True,
     "topk_group": False, "use_cla": False, "use_mixed_mlp_moe": True, "use_mla": False,
     "use_qk_norm": True, "use_rotary_pos_emb": True, "vit_patch": 1, "vocab_size": 128167},
    {"architectures": ["BailingMoeV2ForCausalLM"], "attention_dropout": 0.0,
     "embedding_dropout": 0.0, "first_k_dense_replace": 1, "head_dim": 128, "hidden_act": "silu",
     "hidden_size": 2048, "intermediate_size": 5120, "max_position_embeddings": 32768,
     "max_window_layers": 20, "model_type": "bailing_moe", "moe_intermediate_size": 512,
     "moe_router_enable_expert_bias": True, "moe_shared_expert_intermediate_size": 512,
     "mtp_loss_scaling_factor": 0, "n_group": 8, "norm_topk_prob": True,
     "num_attention_heads": 16, "num_experts": 256, "num_experts_per_tok": 8,
     "num_hidden_layers": 20, "num_key_value_heads": 4, "num_nextn_predict_layers": 0,
     "num_shared_experts": 1, "output_dropout": 0.0, "output_router_logits": False,
     "partial_rotary_factor": 0.5, "rope_theta": 600000, "rotary_dim": 64,
     "routed_scaling_factor": 2.5, "router_dtype": "fp32", "score_function": "sigmoid",
     "tie_word_embeddings": False, "topk_group": 4, "use_bias": False, "use_qk_norm": True,
     "use_qkv_bias": False, "use_rmsnorm": True, "vocab_size": 157184},
    {"block_auto_adjust_ff_dim": True, "block_dim": 2048, "block_ff_dim": 12288,
     "block_ffn_dim_multiplier": 1.0, "block_mlp_init_scale": 1.0, "block_multiple_of": 256,
     "block_norm_eps": 1e-05, "block_out_init_scale": 1.0, "block_use_swiglu": True,
     "block_use_xavier_init": True, "conv_L_cache": 3, "conv_bias": False, "conv_dim": 2048,
     "conv_dim_out": 2048, "conv_use_xavier_init": True,
     "full_attn_idxs": [2, 5, 8, 10, 12, 14], "hidden_size": 2048, "initializer_range": 0.02,
     "max_position_embeddings": 128000, "model_type": "lfm2", "norm_eps": 1e-05,
     "num_attention_heads": 32, "num_heads": 32, "num_hidden_layers": 16,
     "num_key_value_heads": 8, "rope_theta": 1000000.0, "torch_dtype": "bfloat16",
     "use_cache": True, "use_pos_enc": True, "vocab_size": 65536},
]  # fmt: skip


@pytest.mark.parametrize("config", PUBLISHED, ids=lambda config: config["model_type"])
def test_a_config_with_all_its_published_fields_is_not_refused(config: dict[str, Any]) -> None:
    load(config)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("alibi", False),
        ("qk_ln", True),
        ("attn_type", "grouped_query_attention"),
        ("kv_n_heads", 8),
    ],
)
def test_mpt_with_another_attention_is_refused(key: str, value: object) -> None:
    mpt = PUBLISHED[2]
    assert key in refusal(mpt | {"attn_config": mpt["attn_config"] | {key: value}}).message


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("hunyuan-7b-instruct", "use_cla", True),
        ("hunyuan-7b-instruct", "num_experts", 16),
        ("hunyuan-7b-instruct", "attention_head_dim", 64),
        ("ling-mini-2.0", "norm_head", True),
        ("ling-mini-2.0", "moe_shared_expert_intermediate_size", 1024),
        ("ling-mini-2.0", "sliding_window", 4096),
        ("apertus-8b", "post_norm", True),
        ("exaone-4.0-32b", "sliding_window_pattern", "LLXG"),
        ("minicpm3-4b", "num_experts", 8),
        ("gemma-3n-e4b", "num_experts", 8),
        ("whisper-large-v3", "num_experts", 8),
        ("qwen2-audio-7b", "num_experts", 8),
        ("voxtral-mini-3b-2507", "hidden_size", 1024),
        ("distilbert-base-uncased", "type_vocab_size", 2),
        ("rwkv7-2.9b-world", "attn", {"layers": [3]}),
        ("qwen2.5-vl-7b", "num_experts", 8),
    ],
)
def test_a_field_that_makes_another_network_is_refused_by_name(
    name: str, key: str, value: object
) -> None:
    assert key in refusal({**entry(name)[0].config, key: value}).message


@pytest.mark.parametrize(
    ("key", "value"), [("intermediate_size", [16384, 8192]), ("num_kv_shared_layers", 35)]
)
def test_a_field_of_the_decoder_inside_is_refused_by_name(key: str, value: object) -> None:
    config = entry("gemma-3n-e4b")[0].config
    text = {**config["text_config"], key: value}
    assert key in refusal({**config, "text_config": text}).message


CATALOG: Final = [entry(name)[0].config for name in names()]
JSON: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@pytest.mark.slow
@settings(max_examples=examples(400), deadline=None)
@given(st.sampled_from(CATALOG), st.data())
def test_a_mutated_config_loads_or_is_refused_at_its_place(
    config: dict[str, Any], data: st.DataObject
) -> None:
    known = sorted({*config, "layer_types", "num_key_value_heads", "head_dim", "sliding_window",
                    "text_config", "vision_config", "quantization_config", "tie_word_embeddings",
                    "no_rope_layers", "attn_config"})  # fmt: skip
    changed = dict(config)
    for key in data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3)):
        if data.draw(st.booleans()):
            changed.pop(key, None)
        else:
            changed[key] = data.draw(JSON)
    # Layers are built one by one: keep what is legal but slow out of a test of errors.
    if isinstance(changed.get("num_hidden_layers"), int):
        changed["num_hidden_layers"] = min(changed["num_hidden_layers"], 50)
    error: DocumentError | None = None
    try:
        load(changed)
    except DocumentError as refused:
        error = refused
    assert error is None or re.fullmatch(r"config\.json:\d+:\d+", error.where)
