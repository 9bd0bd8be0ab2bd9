"""Laws of counting."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from roofline.model import parameters
from roofline.model.architecture import Architecture
from roofline.model.catalog import architecture
from roofline.model.huggingface import from_config
from roofline.records import replace
from roofline.schema import parse_json
from tests.model.matrices import matmul_parameters


def network(**config: Any) -> Architecture:
    return from_config(parse_json(json.dumps(config), "config.json"))


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    heads = draw(st.integers(1, 64))
    kv_heads = draw(st.sampled_from([k for k in range(1, heads + 1) if heads % k == 0]))
    return {
        "model_type": "llama",
        "num_hidden_layers": draw(st.integers(1, 100)),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "hidden_size": heads * draw(st.integers(1, 256)),
        "head_dim": draw(st.integers(1, 256)),
        "intermediate_size": draw(st.integers(1, 10**5)),
        "vocab_size": draw(st.integers(1, 10**6)),
        "attention_bias": draw(st.booleans()),
        "mlp_bias": draw(st.booleans()),
        "tie_word_embeddings": draw(st.booleans()),
    }


@given(configs())
def test_a_llama_has_the_parameters_of_its_closed_form(config: dict[str, Any]) -> None:
    d, f, v = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    query = config["num_attention_heads"] * config["head_dim"]
    key = config["num_key_value_heads"] * config["head_dim"]
    matrices = d * (query + 2 * key) + query * d + 3 * d * f
    biases = (query + 2 * key + d) * config["attention_bias"] + (2 * f + d) * config["mlp_bias"]
    layers = config["num_hidden_layers"]
    embeddings = v * d * (1 if config["tie_word_embeddings"] else 2)
    found = network(**config)
    assert parameters.total(found) == layers * (matrices + biases + 2 * d) + d + embeddings
    assert matmul_parameters(found) == layers * matrices + v * d
    assert parameters.kv_elements_per_token(found) == layers * 2 * key


@given(configs())
def test_the_parts_are_the_whole(config: dict[str, Any]) -> None:
    found = network(**config)
    assert tuple(parameters.parts(found)) == parameters.PARTS
    assert sum(parameters.parts(found).values()) == parameters.total(found)


@given(configs())
def test_as_many_kv_heads_as_query_heads_is_mha(config: dict[str, Any]) -> None:
    grouped = network(**config | {"num_key_value_heads": config["num_attention_heads"]})
    without = {key: value for key, value in config.items() if key != "num_key_value_heads"}
    assert network(**without).layers == grouped.layers
    assert network(**without | {"num_key_value_heads": None}).layers == grouped.layers


@given(configs())
def test_untying_adds_one_embedding(config: dict[str, Any]) -> None:
    tied = network(**config | {"tie_word_embeddings": True})
    untied = network(**config | {"tie_word_embeddings": False})
    head = config["vocab_size"] * config["hidden_size"]
    assert parameters.total(untied) - parameters.total(tied) == head
    assert matmul_parameters(untied) == matmul_parameters(tied)
    inner = parameters.active(tied)["minus_embeddings"]
    assert inner == parameters.active(tied)["minus_input_embedding"]
    assert inner == parameters.active(untied)["minus_embeddings"]


@given(configs(), st.integers(1, 10**6))
def test_a_window_changes_no_parameter_and_only_late_cache_growth(
    config: dict[str, Any], window: int
) -> None:
    plain = {key: value for key, value in config.items() if not key.endswith("_bias")}
    plain["model_type"] = "mistral"
    full = network(**plain | {"sliding_window": None})
    slides = network(**plain | {"sliding_window": window})
    assert parameters.parts(full) == parameters.parts(slides)
    assert parameters.kv_bytes_per_token(full) == parameters.kv_bytes_per_token(slides)
    assert 2 * parameters.kv_elements_per_token(slides, beyond_window=True) == 0
    assert 2 * parameters.kv_elements_per_token(
        full, beyond_window=True
    ) == parameters.kv_bytes_per_token(full)


def test_a_narrow_embedding_is_projected_in_and_out() -> None:
    found = architecture("opt-350m")
    assert parameters.parts(found)["other"] == 2 * 512 * 1024
    assert parameters.parts(found)["embedding"] == 50272 * 512
    assert parameters.parts(found)["position_embedding"] == 2050 * 1024


def test_a_quantised_checkpoint_keeps_embeddings_norms_and_head_in_16_bits() -> None:
    plain = architecture("llama-2-7b")
    linear = 32 * (4 * 4096 * 4096 + 3 * 4096 * 11008)
    rest = parameters.total(plain) - linear
    assert parameters.weight_bytes(plain) == 2 * parameters.total(plain)
    assert parameters.weight_bytes(replace(plain, weight_format="fp8")) == linear + 2 * rest
    # 4 bits, and for each group of 128 a 16-bit scale and a 4-bit zero: 133 bits for 32 weights.
    int4 = linear * 133 // 32 // 8
    assert parameters.weight_bytes(replace(plain, weight_format="int4")) == int4 + 2 * rest


def test_an_fp32_cache_is_twice_a_bf16_one() -> None:
    found = architecture("gemma-2-9b")
    assert parameters.kv_bytes_per_token(found) == 344_064
    assert parameters.kv_bytes_per_token(found, 4) == 2 * 344_064
    assert 2 * parameters.kv_elements_per_token(found, beyond_window=True) == 344_064 // 2


def test_softmax_attention_has_no_recurrent_state_and_no_index() -> None:
    found = architecture("llama-3.1-8b")
    assert parameters.state_elements_per_sequence(found) == 0
    assert parameters.index_bytes_per_token(found) == 0
