"""State-space layers and linear attention: where they are, and what they keep."""

from collections import Counter
from math import inf
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import DocumentError, UnsupportedModelError
from roofline.model import parameters
from roofline.model.architecture import Attention, Mla, Mlp, Moe, Recurrent
from roofline.model.catalog import architecture
from roofline.model.huggingface import from_config
from roofline.schema import parse_json, read

from .reading import load, refusal

MAMBA: dict[str, Any] = {
    "model_type": "mamba",
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "state_size": 8,
    "vocab_size": 100,
}
MAMBA2: dict[str, Any] = {
    "model_type": "mamba2",
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_heads": 8,
    "head_dim": 8,
    "state_size": 16,
    "n_groups": 2,
    "vocab_size": 100,
    "time_step_limit": [0.0, 1e308],
}


def kinds(name: str) -> Counter[str]:
    """Layers of a network of the catalog by what mixes their tokens."""
    return Counter(
        block.mixer.kind if isinstance(block.mixer, Recurrent) else type(block.mixer).__name__
        for block in architecture(name).layers
    )


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("mamba-2.8b", {"mamba1": 64}),
        ("mamba2-2.7b", {"mamba2": 64}),
        ("jamba-v0.1", {"mamba1": 28, "Attention": 4}),
        ("nemotron-h-8b", {"mamba2": 24, "Attention": 4, "NoneType": 24}),
        ("nemotron-3-nano", {"mamba2": 23, "Attention": 6, "NoneType": 23}),
        ("granite-4.0-h-small", {"mamba2": 36, "Attention": 4}),
        ("bamba-9b-v1", {"mamba2": 29, "Attention": 3}),
        ("lfm2-1.2b", {"short-convolution": 10, "Attention": 6}),
        ("lfm2-8b-a1b", {"short-convolution": 18, "Attention": 6}),
        # Both in every layer.
        ("falcon-h1-34b", {"mamba2": 72, "Attention": 72}),
        ("qwen3-next-80b-a3b", {"gated-delta": 36, "Attention": 12}),
        ("qwen3.5-27b", {"gated-delta": 48, "Attention": 16}),
        ("minimax-text-01", {"lightning": 70, "Attention": 10}),
        ("kimi-linear-48b-a3b", {"kimi-delta": 20, "Mla": 7}),
        ("kimi-k3", {"kimi-delta": 69, "Mla": 24}),
    ],
)
def test_layers_are_as_many_of_each_kind_as_the_papers_say(
    name: str, layers: dict[str, int]
) -> None:
    assert kinds(name) == layers


@pytest.mark.parametrize(
    ("name", "elements"),
    [
        # Channels times state, and the last three inputs of the convolution.
        ("mamba-2.8b", 64 * 5120 * (16 + 3)),
        ("jamba-v0.1", 28 * 8192 * (16 + 3)),
        # Heads times width times state; the convolution is over values, keys and queries.
        ("mamba2-2.7b", 64 * (80 * 64 * 128 + (5120 + 2 * 128) * 3)),
        ("nemotron-h-8b", 24 * (128 * 64 * 128 + (8192 + 2 * 8 * 128) * 3)),
        ("qwen3-next-80b-a3b", 36 * (32 * 128 * 128 + (2 * 16 * 128 + 32 * 128) * 3)),
        ("minimax-text-01", 70 * 64 * 128 * 128),
        ("kimi-k3", 69 * (96 * 128 * 128 + 3 * 96 * 128 * 3)),
        # A short convolution keeps nothing but its last two inputs.
        ("lfm2-1.2b", 10 * 2048 * 2),
        ("falcon-h1-7b", 44 * (24 * 128 * 256 + (3072 + 2 * 256) * 3)),
        ("llama-3.1-8b", 0),
    ],
)
def test_the_state_of_a_sequence_follows_from_its_sizes(name: str, elements: int) -> None:
    assert parameters.state_elements_per_sequence(architecture(name)) == elements


def test_a_state_in_32_bits_is_told_in_its_bytes() -> None:
    """Qwen3.5 27B by hand: 48 layers of 48 heads, 128 × 128; three inputs of 10,240 channels."""
    network = architecture("qwen3.5-27b")
    by_hand = 48 * (48 * 128 * 128 * 4 + 3 * 10_240 * 2)
    assert parameters.state_bytes_per_sequence(network) == by_hand == 153_944_064


def test_only_layers_with_attention_grow_a_cache() -> None:
    jamba = architecture("jamba-v0.1")
    assert parameters.kv_elements_per_token(jamba) == 4 * 2 * 8 * 128
    assert parameters.kv_elements_per_token(architecture("mamba-2.8b")) == 0
    assert architecture("mamba-2.8b").max_context is None


def test_jamba_attends_in_the_fifth_of_eight_layers_and_has_experts_in_every_second() -> None:
    layers = architecture("jamba-v0.1").layers
    attending = [i for i, block in enumerate(layers) if isinstance(block.mixer, Attention)]
    sparse = [i for i, block in enumerate(layers) if isinstance(block.feedforward, Moe)]
    assert attending == [4, 12, 20, 28]
    assert sparse == list(range(1, 32, 2))


FALCON: dict[str, Any] = {
    "model_type": "falcon_h1",
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "mamba_d_ssm": 48,
    "mamba_n_heads": 6,
    "mamba_d_head": 8,
    "mamba_d_state": 16,
    "vocab_size": 100,
}
LFM2: dict[str, Any] = {
    "model_type": "lfm2",
    "hidden_size": 32,
    "intermediate_size": 60,
    "block_multiple_of": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "full_attn_idxs": [1],
    "vocab_size": 100,
}


RWKV: dict[str, Any] = {
    "model_type": "rwkv7",
    "head_dim": 64,
    "tie_word_embeddings": False,
    "norm_first": True,
    "norm_bias": True,
    "vocab_size": 65536,
}
LOW_RANKS = ("decay_low_rank_dim", "a_low_rank_dim", "v_low_rank_dim", "gate_low_rank_dim")


@pytest.mark.parametrize(
    ("width", "depth", "ranks", "published"),
    [
        (768, 12, (64, 64, 32, 128), 191_034_624),
        (1024, 24, (64, 64, 32, 128), 450_767_872),
        (2048, 24, (96, 96, 64, 256), 1_527_404_544),
        (2560, 32, (96, 96, 64, 320), 2_947_735_040),
    ],
)
def test_rwkv_7_has_the_totals_that_its_authors_give(
    width: int, depth: int, ranks: tuple[int, ...], published: int
) -> None:
    sizes = {
        "hidden_size": width,
        "num_hidden_layers": depth,
        **dict(zip(LOW_RANKS, ranks, strict=True)),
    }
    network = load(RWKV | sizes)
    assert parameters.total(network) == published
    assert parameters.kv_elements_per_token(network) == 0
    # A square of each head, and the last input of both parts.
    assert parameters.state_elements_per_sequence(network) == depth * (64 * width + 2 * width)


def test_both_mixers_of_falcon_h1_share_a_norm() -> None:
    assert [block.norms for block in load(FALCON).layers] == [0, 2] * 3


def test_matrices_of_falcon_h1_have_their_own_biases() -> None:
    """In: values, gates, keys and queries, and steps; out: the width. Both in each of three."""
    plain = parameters.total(load(FALCON))
    state = load(FALCON).layers[1].mixer
    into, out = state.projections  # type: ignore[union-attr]
    for key, outputs in (("mamba_proj_bias", into.n), ("projectors_bias", out.n)):
        assert parameters.total(load(FALCON | {key: True})) - plain == 3 * outputs
    assert out.n == 32


def test_a_layer_of_falcon_h1_that_is_left_alone_is_both_of_its_halves() -> None:
    kept = ["model.layers.1.self_attn", "model.layers.1.mamba.in_proj"]
    quantised = {"quant_method": "fp8", "modules_to_not_convert": kept}
    layers = load(FALCON | {"quantization_config": quantised}).layers
    assert [dict(block.formats) for block in layers] == [
        {},
        {},
        {"qkv": "bf16", "attn-out": "bf16"},
        {"ssm-in": "bf16"},
        {},
        {},
    ]


def test_a_convolution_of_lfm2_is_found_by_its_name() -> None:
    quantised = {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.2.conv.in_proj"]}
    layers = load(LFM2 | {"quantization_config": quantised}).layers
    assert [dict(block.formats) for block in layers] == [{}, {}, {"conv-in": "bf16"}]


def test_an_mlp_of_lfm2_is_two_thirds_of_what_is_written_rounded_up() -> None:
    part = load(LFM2).layers[0].feedforward
    assert isinstance(part, Mlp)
    assert part.width == 48  # 40, in multiples of 16


def test_every_channel_of_mamba_reads_with_the_same_key() -> None:
    mixer = load(MAMBA).layers[0].mixer
    assert isinstance(mixer, Recurrent)
    assert (mixer.heads, mixer.key_dim, mixer.value_dim, mixer.key_heads) == (64, 8, 1, 1)
    assert mixer.chunk == 1


def test_the_latent_of_the_time_step_is_a_sixteenth_of_the_width_rounded_up() -> None:
    mixer = load(MAMBA | {"hidden_size": 40, "time_step_rank": "auto"}).layers[0].mixer
    assert isinstance(mixer, Recurrent)
    step = next(linear for linear in mixer.projections if linear.name == "ssm-step")
    assert step.k == 3


def test_the_inner_width_is_the_one_that_is_written() -> None:
    both = load(MAMBA | {"expand": 16, "intermediate_size": 64})
    assert parameters.total(both) == parameters.total(load(MAMBA))


def test_a_layer_of_nemotron_h_has_one_part_and_one_norm() -> None:
    for block in architecture("nemotron-3-nano").layers:
        assert len(block.parts) == block.norms == 1


def test_mlps_of_nemotron_have_no_gate() -> None:
    parts = {block.feedforward for block in architecture("nemotron-h-8b").layers}
    assert {part.gated for part in parts if isinstance(part, Mlp)} == {False}


def test_experts_of_nemotron_super_work_at_a_quarter_of_the_width() -> None:
    network = architecture("nemotron-3-super")
    part = next(b.feedforward for b in network.layers if isinstance(b.feedforward, Moe))
    up, down = part.expert_linears(network.d_model)
    assert (up.k, up.n, down.k, down.n) == (1024, 2688, 2688, 1024)


PATTERN: dict[str, Any] = {
    "model_type": "nemotron_h",
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 48,
    "mamba_num_heads": 8,
    "mamba_head_dim": 8,
    "ssm_state_size": 8,
    "n_groups": 2,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 12,
    "moe_shared_expert_intermediate_size": 20,
    "vocab_size": 100,
    "hybrid_override_pattern": "M-M*E",
}


def test_a_pattern_and_a_list_of_words_say_the_same() -> None:
    words = [{"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}[c] for c in "M-M*E"]
    listed = {key: value for key, value in PATTERN.items() if key != "hybrid_override_pattern"}
    assert load(PATTERN).layers == load(listed | {"layers_block_type": words}).layers
    assert load(PATTERN).layers == load(PATTERN | {"layers_block_type": words}).layers


def test_layers_that_predict_further_tokens_are_counted_apart() -> None:
    plain = load(PATTERN)
    more = load(PATTERN | {"num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "*E"})
    attention, experts = plain.layers[3], plain.layers[4]
    blocks = [
        parameters.total(load(PATTERN | {"hybrid_override_pattern": "M-M*E" + extra}))
        - parameters.total(plain)
        for extra in "*E"
    ]
    assert (attention.norms, experts.norms) == (1, 1)
    assert parameters.total(more) == parameters.total(plain)
    assert sum(more.other_parameters.values()) == sum(blocks) + 2 * 32 * 32 + 3 * 32
    assert more.provenance["layer_types"].startswith("hybrid_override_pattern")


def test_qwen_gates_attention_and_norms_each_head() -> None:
    network = architecture("qwen3-next-80b-a3b")
    full = next(b.mixer for b in network.layers if isinstance(b.mixer, Attention))
    assert full.gate
    assert full.norm_parameters == 2 * 256
    assert sum(linear.n for linear in full.linears(2048)[:1]) == (2 * 16 + 2 * 2) * 256


def test_the_gate_of_kimi_k3_has_full_rank_and_that_of_kimi_linear_that_of_a_head() -> None:
    names = []
    for name in ("kimi-k3", "kimi-linear-48b-a3b"):
        mixer = architecture(name).layers[0].mixer
        assert isinstance(mixer, Recurrent)
        names.append([p.name for p in mixer.projections if p.name.startswith("linear-gate")])
    assert names == [["linear-gate"], ["linear-gate-down", "linear-gate-up"]]


def test_kimi_k3_mixes_more_sums_the_deeper_a_layer_is() -> None:
    layers = architecture("kimi-k3").layers
    assert [layers[i].streams for i in (0, 11, 12, 92)] == [2, 2, 3, 9]
    latent = next(block.mixer for block in layers if isinstance(block.mixer, Mla))
    assert latent.gate


INFINITE = '{"model_type": "mamba2", "hidden_size": 32, "time_step_limit": [0.0, Infinity]}'


def test_infinity_is_read_where_it_is_asked_for() -> None:
    document = parse_json(INFINITE, "config.json", infinity=True)
    assert document.data["time_step_limit"] == [0.0, inf]
    with pytest.raises(DocumentError, match="Infinity"):
        parse_json(INFINITE, "config.json")


@pytest.mark.parametrize("word", ["-Infinity", "NaN", "infinity", "inf", "Infinityx", "1Infinity"])
def test_other_words_are_refused_even_then(word: str) -> None:
    with pytest.raises(DocumentError):
        parse_json(f'{{"a": {word}}}', "config.json", infinity=True)


def test_a_file_on_disk_may_say_infinity_if_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(INFINITE)
    assert read(path, infinity=True).data["time_step_limit"][1] == inf
    with pytest.raises(DocumentError, match="Infinity"):
        read(path)


@pytest.mark.parametrize(
    "field",
    ['"hidden_size": Infinity', '"rope_scaling": {"a": [Infinity]}', '"dropout": Infinity'],
)
def test_infinity_anywhere_else_is_refused_at_its_place(field: str) -> None:
    text = f'{{"model_type": "mamba",\n{field}}}'
    with pytest.raises(UnsupportedModelError, match="Infinity") as caught:
        from_config(parse_json(text, "config.json", infinity=True))
    assert caught.value.where == f"config.json:2:{field.index('Infinity') + 1}"


@pytest.mark.parametrize(
    ("config", "change", "key"),
    [
        (MAMBA, {"state_size": 0}, "state_size"),
        (MAMBA, {"time_step_rank": "some"}, "time_step_rank"),
        (MAMBA, {"num_experts": 4}, "num_experts"),
        (MAMBA2, {"n_groups": 3}, "n_groups"),
        (PATTERN, {"hybrid_override_pattern": "M-X"}, "hybrid_override_pattern"),
        (PATTERN, {"hybrid_override_pattern": ""}, "hybrid_override_pattern"),
        (PATTERN, {"layers_block_type": ["mamba"]}, "hybrid_override_pattern"),
        (PATTERN, {"num_hidden_layers": 4}, "num_hidden_layers"),
        (PATTERN, {"num_experts_per_tok": 5}, "num_experts_per_tok"),
        (PATTERN, {"sliding_window": 8}, "sliding_window"),
        (PATTERN, {"n_shared_experts": 2}, "n_shared_experts"),
        (PATTERN, {"mamba_ssm_cache_dtype": "float8"}, "mamba_ssm_cache_dtype"),
        (FALCON, {"mamba_d_ssm": 64}, "mamba_d_ssm"),
        (FALCON, {"attn_layer_indices": [1]}, "attn_layer_indices"),
        (LFM2, {"conv_dim": 64}, "conv_dim"),
        (LFM2, {"block_ffn_dim_multiplier": -1}, "block_ffn_dim_multiplier"),
        (LFM2, {"layer_types": ["conv", "mamba", "conv"]}, "layer_types"),
    ],
)
def test_what_is_not_understood_is_refused_at_its_place(
    config: dict[str, Any], change: dict[str, Any], key: str
) -> None:
    refusal(config | change, key)
