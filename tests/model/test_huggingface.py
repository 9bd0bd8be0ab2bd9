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


@pytest.mark.parametrize("value", [None, False, "", {}, []])
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


@settings(max_examples=400, deadline=None)
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
