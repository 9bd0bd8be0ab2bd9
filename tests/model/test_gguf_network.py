"""GGUF files as networks: files with the tables of published networks, whose tensors are holes."""

import struct
from math import prod
from pathlib import Path
from typing import Any, Final

import pytest

from roofline.errors import DocumentError, UnsupportedModelError
from roofline.model import parameters
from roofline.model.catalog import architecture
from roofline.model.checkpoint import gguf, stored_bytes
from roofline.model.precision import named

Tensors = dict[str, tuple[list[int], str]]
NUMBERS: Final = {name: number for number, (name, _, _) in gguf.TYPES.items()}
LLAMA: Final = {
    "context_length": 131072,
    "embedding_length": 4096,
    "block_count": 32,
    "feed_forward_length": 14336,
    "attention.head_count": 32,
    "attention.head_count_kv": 8,
    "rope.dimension_count": 128,
}
"""Llama 3.1 8B."""
SMALL: Final = {**LLAMA, "block_count": 2}
QWEN3_MOE: Final = {
    "context_length": 40960,
    "embedding_length": 2048,
    "block_count": 48,
    "feed_forward_length": 6144,
    "attention.head_count": 32,
    "attention.head_count_kv": 4,
    "attention.key_length": 128,
    "attention.value_length": 128,
    "expert_count": 128,
    "expert_used_count": 8,
    "expert_feed_forward_length": 768,
}
"""Qwen3 30B-A3B."""


def more_bits(layer: int, layers: int) -> bool:
    """True for layers of which Q4_K_M keeps values and ``down`` in 6 bits: an eighth at either
    end, and every third between (``use_more_bits``, src/llama-quant.cpp of llama.cpp)."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def llama_tensors(keys: dict[str, Any], vocab: int, usual: str = "Q4_K") -> Tensors:
    d, wide = keys["embedding_length"], keys["feed_forward_length"]
    kv = d // keys["attention.head_count"] * keys["attention.head_count_kv"]
    out: Tensors = {
        "token_embd.weight": ([d, vocab], usual),
        "output.weight": ([d, vocab], "Q6_K"),
        "output_norm.weight": ([d], "F32"),
    }
    for layer in range(keys["block_count"]):
        better = "Q6_K" if more_bits(layer, keys["block_count"]) else usual
        out |= {
            f"blk.{layer}.attn_norm.weight": ([d], "F32"),
            f"blk.{layer}.ffn_norm.weight": ([d], "F32"),
            f"blk.{layer}.attn_q.weight": ([d, d], usual),
            f"blk.{layer}.attn_k.weight": ([d, kv], usual),
            f"blk.{layer}.attn_v.weight": ([d, kv], better),
            f"blk.{layer}.attn_output.weight": ([d, d], usual),
            f"blk.{layer}.ffn_gate.weight": ([d, wide], usual),
            f"blk.{layer}.ffn_up.weight": ([d, wide], usual),
            f"blk.{layer}.ffn_down.weight": ([wide, d], better),
        }
    return out


def write(path: Path, name: str, keys: dict[str, Any], tensors: Tensors) -> Path:
    """A file with that table, and a hole where its tensors are."""
    text = [("general.architecture", name)]
    content = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys) + len(text))
    for key, word in text:
        content += packed(key) + struct.pack("<I", 8) + packed(word)
    for key, value in keys.items():
        content += packed(f"{name}.{key}")
        if isinstance(value, list):
            content += struct.pack(f"<IIQ{len(value)}I", 9, 4, len(value), *value)
        else:
            content += struct.pack("<II", 4, value)
    at = 0
    for tensor, (shape, kind) in tensors.items():
        _, values, size = gguf.TYPES[NUMBERS[kind]]
        content += packed(tensor) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        content += struct.pack("<IQ", NUMBERS[kind], at)
        at += -(-(prod(shape) // values * size) // 32) * 32
    path.write_bytes(content)
    with path.open("r+b") as file:
        file.truncate(-(-len(content) // 32) * 32 + at)
    return path


def packed(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    path = tmp_path / "Llama-3.1-8B-Instruct-Q4_K_M.gguf"
    return write(path, "llama", LLAMA, llama_tensors(LLAMA, 128256))


def test_a_file_is_the_network_that_it_was_made_of(llama: Path) -> None:
    made, published = architecture(str(llama)), architecture("llama-3.1-8b")
    assert parameters.parts(made) == parameters.parts(published)
    assert made.max_context == published.max_context
    assert made.provenance["d_model"] == f"llama.embedding_length = 4096, {llama}"


def test_a_file_weighs_what_its_tensors_do(llama: Path) -> None:
    """4.92 GB, as the published file of that quantisation.

    Values are counted in the format of queries, norms in that of the embedding.
    """
    made, stored = architecture(str(llama)), stored_bytes(llama)
    assert stored is not None
    assert stored.bytes == pytest.approx(4.92e9, rel=2e-3)
    values = 16 * 4096 * 1024 * (named("q6-k").width - named("q4-k").width)
    norms = 65 * 4096 * (named("fp32").width - named("q4-k").width)
    assert parameters.weight_bytes(made) == pytest.approx(stored.bytes - values - norms, abs=1)
    assert made.weight_format == "q4-k"
    assert made.head_format == "q6-k"
    downs = [block.stored("down", made.weight_format) for block in made.layers]
    assert downs.count("q6-k") == 16


def test_experts_have_their_own_formats(tmp_path: Path) -> None:
    tensors: Tensors = {
        "token_embd.weight": ([2048, 151936], "Q4_K"),
        "output.weight": ([2048, 151936], "Q6_K"),
    }
    for layer in range(48):
        tensors |= {
            f"blk.{layer}.attn_q.weight": ([2048, 4096], "Q8_0"),
            f"blk.{layer}.attn_output.weight": ([4096, 2048], "Q8_0"),
            f"blk.{layer}.ffn_gate_inp.weight": ([2048, 128], "F32"),
            f"blk.{layer}.ffn_gate_exps.weight": ([2048, 768, 128], "IQ4_XS"),
            f"blk.{layer}.ffn_down_exps.weight": ([768, 2048, 128], "IQ4_XS"),
        }
    made = architecture(str(write(tmp_path / "moe.gguf", "qwen3moe", QWEN3_MOE, tensors)))
    assert parameters.parts(made) == parameters.parts(architecture("qwen3-30b-a3b"))
    block = made.layers[0]
    assert made.weight_format == "iq4-xs"
    assert block.stored("qkv", made.weight_format) == "q8-0"
    assert block.stored("router", made.weight_format) == "fp32"
    assert block.stored("experts-down", made.weight_format) == "iq4-xs"


@pytest.mark.parametrize(
    ("name", "keys", "drop", "said"),
    [
        ("whisper", SMALL, "", "architecture 'whisper'"),
        ("llama", {**SMALL, "embedding_length": None}, "", "no key llama.embedding_length"),
        ("llama", SMALL, "token_embd.weight", "no tensor token_embd.weight"),
        ("llama", {**SMALL, "attention.head_count_kv": [8, 4]}, "", "differs from layer to layer"),
        ("llama", LLAMA, "", "block_count is 32, and its tensors have 2"),
        ("llama", {**SMALL, "embedding_length": 2048}, "", "is 2048, and its tensors have 4096"),
        ("deepseek2", SMALL, "", "v_head_dim = 0"),
    ],
)
def test_a_file_that_says_too_little_is_refused(
    tmp_path: Path, name: str, keys: dict[str, Any], drop: str, said: str
) -> None:
    tensors = llama_tensors(SMALL, 1000)
    tensors.pop(drop, None)
    there = {key: value for key, value in keys.items() if value is not None}
    path = write(tmp_path / "m.gguf", name, there, tensors)
    with pytest.raises(UnsupportedModelError, match=said) as caught:
        architecture(str(path))
    assert caught.value.where == str(path)
    assert caught.value.hint


def test_sizes_that_do_not_follow_from_the_metadata_are_told(tmp_path: Path) -> None:
    wide = {**SMALL, "feed_forward_length": 99_999}
    path = write(tmp_path / "m.gguf", "llama", wide, llama_tensors(SMALL, 1000))
    assert any("the checkpoint has" in note for note in architecture(str(path)).notes)


def test_latent_attention_of_files_before_and_after_it_was_told_apart(tmp_path: Path) -> None:
    """DeepSeek-V2-Lite: queries are projected directly."""
    published = architecture("deepseek-v2-lite")
    common = {
        "context_length": 163840,
        "embedding_length": 2048,
        "block_count": 27,
        "feed_forward_length": 10944,
        "attention.head_count": 16,
        "attention.kv_lora_rank": 512,
        "rope.dimension_count": 64,
        "expert_count": 64,
        "expert_used_count": 6,
        "expert_shared_count": 2,
        "expert_feed_forward_length": 1408,
        "leading_dense_block_count": 1,
    }
    tensors: Tensors = {
        "token_embd.weight": ([2048, 102400], "F16"),
        "output.weight": ([2048, 102400], "F16"),
    }
    for layer in range(27):
        tensors[f"blk.{layer}.attn_q.weight"] = ([2048, 3072], "F16")
    before = {"attention.key_length": 192, "attention.value_length": 128}
    after = {
        "attention.key_length": 576,
        "attention.value_length": 512,
        "attention.key_length_mla": 192,
        "attention.value_length_mla": 128,
    }
    for lengths in (before, after):
        path = write(tmp_path / "v2.gguf", "deepseek2", {**common, **lengths}, tensors)
        assert parameters.total(architecture(str(path))) == parameters.total(published)


def test_a_damaged_file_and_a_missing_part_are_refused(tmp_path: Path) -> None:
    broken = tmp_path / "m.gguf"
    broken.write_bytes(b"GGUF" + bytes(40))
    with pytest.raises(DocumentError, match="version 0"):
        architecture(str(broken))
    part = write(tmp_path / "m-00001-of-00002.gguf", "llama", LLAMA, {})
    with pytest.raises(DocumentError, match="cannot be read") as caught:
        architecture(str(part))
    assert caught.value.where == str(tmp_path / "m-00002-of-00002.gguf")
