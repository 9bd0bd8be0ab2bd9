"""Headers of checkpoints: sizes by counting, and headers that lie."""

import json
import random
import struct
import time
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any, Final

import pytest

from roofline.errors import DocumentError
from roofline.model import catalog, parameters
from roofline.model.architecture import Architecture, Attention, Block, Mlp
from roofline.model.checkpoint import StoredTensors, gguf, safetensors, stored_bytes, warning

WEIGHTS: Final = {"a.weight": ("BF16", [4, 8]), "b.weight": ("F8_E4M3", [16]), "c": ("F4", [2, 6])}


def header_of(tensors: dict[str, tuple[str, list[int]]]) -> dict[str, Any]:
    at, out = 0, {}
    for name, (dtype, shape) in tensors.items():
        size = prod(shape) * safetensors.BITS[dtype] // 8
        out[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return out


def packed(header: Any, data: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    if data is None:
        entries = header.values() if isinstance(header, dict) else ()
        data = max((entry["data_offsets"][1] for entry in entries), default=0)
    return struct.pack("<Q", len(text)) + text + bytes(data)


def write(folder: Path, tensors: dict[str, tuple[str, list[int]]], name: str) -> Path:
    file = folder / name
    file.write_bytes(packed(header_of(tensors)))
    return file


def text(value: str | bytes) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(content)) + content


def gguf_file(
    tensors: list[tuple[str, list[int], int]],
    keys: list[bytes] | None = None,
    *,
    version: int = 3,
    count: int | None = None,
    align: int = 32,
) -> bytes:
    keys = [] if keys is None else keys
    number = len(tensors) if count is None else count
    out = b"GGUF" + struct.pack("<IQQ", version, number, len(keys)) + b"".join(keys)
    at = 0
    for name, shape, kind in tensors:
        out += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        out += struct.pack("<IQ", kind, at)
        _, values, size = gguf.TYPES.get(kind, ("", 1, 1))
        at += -(-(prod(shape) // values * size) // align) * align
    return out + bytes(-len(out) % align) + bytes(at)


TENSORS: Final = [("token_embd.weight", [64, 10], 1), ("blk.0.ffn_up.weight", [256, 4], 12)]
KEYS: Final = [
    text("general.architecture") + struct.pack("<I", 8) + text("llama"),
    text("tokens") + struct.pack("<IIQ", 9, 8, 3) + text("a") + text("") + text("ccc"),
    text("scores") + struct.pack("<IIQ3f", 9, 6, 3, 0, 1, 2),
    text("big") + struct.pack("<Id", 12, 1.0),
]


def test_tensors_are_added_up_from_the_header_alone(tmp_path: Path) -> None:
    write(tmp_path, WEIGHTS, "model.safetensors")
    found = stored_bytes(tmp_path)
    assert found is not None
    assert (found.kind, found.bytes) == ("safetensors", 64 + 16 + 6)
    assert found.types == {"BF16": 64, "F8_E4M3": 16, "F4": 6}
    assert found.sizes["a.weight"] == 64


def test_files_of_an_index_are_added_up_and_others_left(tmp_path: Path) -> None:
    write(tmp_path, {"a": ("F32", [3])}, "model-1.safetensors")
    write(tmp_path, {"b": ("F32", [5])}, "model-2.safetensors")
    write(tmp_path, {"a": ("F32", [3])}, "consolidated.safetensors")
    places = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    index = {"metadata": {"total_size": 99}, "weight_map": places}
    with pytest.raises(DocumentError, match="two files"):
        stored_bytes(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    found = stored_bytes(tmp_path)
    assert found is not None
    assert found.bytes == 12 + 20
    (tmp_path / "model-1.safetensors").unlink()
    with pytest.raises(DocumentError, match="1 of the 2 files"):
        stored_bytes(tmp_path)
    (tmp_path / "model-2.safetensors").unlink()
    found = stored_bytes(tmp_path)
    assert found is not None
    assert (found.kind, found.bytes) == ("index", 99)


@pytest.mark.parametrize("name", ["../secret.safetensors", "a/b.safetensors", "", 3, "x.bin"])
def test_an_index_names_only_files_beside_it(tmp_path: Path, name: object) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(DocumentError, match="index"):
        stored_bytes(tmp_path)


def test_where_there_is_no_checkpoint_there_is_no_size(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    for path in (tmp_path, tmp_path / "config.json", tmp_path / "nowhere", "bad\0path"):
        assert stored_bytes(path) is None


ENTRY: Final = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
LIARS: Final[dict[str, bytes]] = {
    "empty": b"",
    "short": b"\x01\x02",
    "header beyond the end": struct.pack("<Q", 10**6) + b"{}",
    "absurd header": struct.pack("<Q", 2**63) + b"{}",
    "no JSON": packed(b"{'a': 1}"),
    "a list": packed(b"[]"),
    "bad UTF-8": packed(b'{"\xff": {}}'),
    "NaN": packed(b'{"a": NaN}'),
    "deep": packed(b"[" * 100_000),
    "many digits": packed(b'{"a": ' + b"9" * 10_000 + b"}"),
    "twice": packed(b'{"a": {"dtype": "F32", "dtype": "F32"}}'),
    "same tensor": packed(
        b'{"a": ' + json.dumps(ENTRY).encode() + b', "a": ' + json.dumps(ENTRY).encode() + b"}", 8
    ),
    "no entry": packed(b'{"a": 3}'),
    "half an entry": packed(b'{"a": {"dtype": "F32"}}'),
    "unknown type": packed({"a": ENTRY | {"dtype": "F33"}}),
    "type is a list": packed({"a": ENTRY | {"dtype": ["F32"]}}),
    "negative shape": packed({"a": ENTRY | {"shape": [-2]}}),
    "shape of truths": packed({"a": ENTRY | {"shape": [True, 2]}}),
    "huge shape": packed({"a": ENTRY | {"shape": [2**63] * 4}}),
    "many dimensions": packed({"a": ENTRY | {"shape": [1] * 100 + [2]}}),
    "negative offset": packed({"a": ENTRY | {"data_offsets": [-8, 0]}}, 8),
    "backwards": packed({"a": ENTRY | {"data_offsets": [8, 0]}}, 8),
    "wrong size": packed({"a": ENTRY | {"shape": [3]}}),
    "overlap": packed({"a": ENTRY, "b": ENTRY}),
    "gap": packed({"a": ENTRY, "b": ENTRY | {"data_offsets": [16, 24]}}),
    "truncated": packed({"a": ENTRY}, 7),
    "too long": packed({"a": ENTRY}, 9),
    "more": packed({"a": ENTRY | {"more": 1}}),
}


@pytest.mark.parametrize("name", LIARS)
def test_a_safetensors_header_that_lies_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(LIARS[name])
    with pytest.raises(DocumentError) as caught:
        stored_bytes(tmp_path)
    assert caught.value.where == str(file)
    assert caught.value.hint


def test_a_header_over_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", safetensors.LARGEST_HEADER + 1))
        stream.truncate(2 * safetensors.LARGEST_HEADER)  # sparse: takes no room
    with pytest.raises(DocumentError, match=f"more than {safetensors.LARGEST_HEADER}"):
        stored_bytes(file)


def test_a_gguf_table_is_added_up(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(gguf_file(TENSORS, KEYS))
    found = stored_bytes(tmp_path)
    assert found is not None
    # 16-bit embedding; blocks of 256 weights in 144 bytes.
    assert (found.kind, found.bytes) == ("gguf", 2 * 640 + 4 * 144)
    assert found.types == {"F16": 1280, "Q4_K": 576}


def test_parts_of_a_gguf_model_are_added_up_and_two_models_are_not(tmp_path: Path) -> None:
    for part in (1, 2):
        content = gguf_file([(f"blk.{part}.w", [32], 8)])
        (tmp_path / f"m-0000{part}-of-00002.gguf").write_bytes(content)
    found = stored_bytes(tmp_path)
    assert found is not None
    assert found.bytes == 2 * 34
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(DocumentError, match="1 of 2 parts"):
        stored_bytes(tmp_path)
    (tmp_path / "other.gguf").write_bytes(gguf_file(TENSORS))
    with pytest.raises(DocumentError, match="2 GGUF models"):
        stored_bytes(tmp_path)
    assert stored_bytes(tmp_path / "other.gguf") is not None


GOOD: Final = gguf_file(TENSORS, KEYS)
GGUF_LIARS: Final[dict[str, bytes]] = {
    "empty": b"",
    "magic": b"GGML" + GOOD[4:],
    "version": gguf_file(TENSORS, version=1),
    "big-endian": gguf_file(TENSORS, version=3 << 24),
    "count": gguf_file(TENSORS, count=2**63),
    "one too many": gguf_file(TENSORS, count=3),
    "keys": b"GGUF" + struct.pack("<IQQ", 3, 0, 2**40) + bytes(100),
    "long key": gguf_file([], [struct.pack("<Q", 2**50)]),
    "key is not UTF-8": gguf_file([], [text(b"\xff\xfe") + struct.pack("<IB", 0, 1)]),
    "type of value": gguf_file([], [text("a") + struct.pack("<IQ", 77, 1)]),
    "array of arrays": gguf_file([], [text("a") + struct.pack("<IIQ", 9, 9, 1) + bytes(64)]),
    "long array": gguf_file([], [text("a") + struct.pack("<IIQ", 9, 4, 2**62)]),
    "long text": gguf_file([], [text("a") + struct.pack("<IQ", 8, 2**62)]),
    "alignment": gguf_file(
        TENSORS, [text("general.alignment") + struct.pack("<II", 4, 33)]
    ),
    "alignment of nothing": gguf_file(
        TENSORS, [text("general.alignment") + struct.pack("<II", 4, 0)]
    ),
    "type": gguf_file([("a", [32], 99)]),
    "removed type": gguf_file([("a", [32], 4)]),
    "dimensions": gguf_file([("a", [1] * 9, 0)]),
    "no whole block": gguf_file([("a", [33], 8)]),
    "twice": gguf_file([("a", [32], 0), ("a", [32], 0)]),
    "truncated": GOOD[:-40],
    "cut in the table": GOOD[:100],
    "huge": gguf_file([("a", [1], 0)])[:24]
    + text("a")
    + struct.pack("<I2QIQ", 2, 2**60, 2**60, 0, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", GGUF_LIARS)
def test_a_gguf_table_that_lies_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(GGUF_LIARS[name])
    with pytest.raises(DocumentError) as caught:
        stored_bytes(file)
    assert caught.value.where == str(file)


def test_tensors_that_overlap_in_a_gguf_file_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    content = bytearray(gguf_file([("a", [32], 0), ("b", [32], 0)]))
    at = content.index(b"b" + struct.pack("<IQIQ", 1, 32, 0, 128)) + 1 + 4 + 8 + 4
    content[at : at + 8] = struct.pack("<Q", 96)
    file.write_bytes(content)
    with pytest.raises(DocumentError, match="within another"):
        stored_bytes(file)


def tiny() -> Architecture:
    block = Block(Attention(2, 2, 4), Mlp(16, gated=True), norms=2, norm_parameters=16)
    return Architecture("tiny", "llama", 8, 10, (block, block), False, 8, final_norm_parameters=8)


@pytest.mark.parametrize(
    ("share", "warns"), [(1.0, False), (1.009, False), (0.991, False), (1.02, True), (0.5, True)]
)
def test_a_checkpoint_that_differs_by_more_than_one_percent_is_worth_a_warning(
    share: float, warns: bool
) -> None:
    network = tiny()
    size = round(parameters.weight_bytes(network) * share)
    said = warning(StoredTensors("here", "safetensors", size, {"model.layers.0.w": size}), network)
    assert bool(said) == warns
    assert not warns or ("here" in said and "%" in said)


def test_towers_and_layers_that_predict_further_are_not_the_decoder() -> None:
    sizes = {
        "model.layers.0.mlp.up_proj.weight": 100,
        "model.layers.1.mlp.up_proj.weight": 100,
        "model.layers.2.eh_proj.weight": 7,
        "mtp.layers.0.w": 5,
        "visual.blocks.0.attn.qkv.weight": 3,
        "model.vision_tower.x": 2,
        "lm_head.weight": 50,
    }
    found = StoredTensors("", "safetensors", sum(sizes.values()), sizes)
    assert found.decoder_bytes(2) == 250


def test_a_network_in_a_folder_weighs_what_its_checkpoint_does(tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "torch_dtype": "bfloat16", "hidden_size": 8,
        "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "vocab_size": 10, "max_position_embeddings": 64,
        "tie_word_embeddings": False,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    layer = "model.layers.0."
    write(tmp_path, {
        "model.embed_tokens.weight": ("BF16", [10, 8]), "lm_head.weight": ("BF16", [10, 8]),
        layer + "self_attn.q_proj.weight": ("BF16", [8, 8]),
        layer + "self_attn.k_proj.weight": ("BF16", [4, 8]),
        layer + "self_attn.v_proj.weight": ("BF16", [4, 8]),
        layer + "self_attn.o_proj.weight": ("BF16", [8, 8]),
        layer + "mlp.gate_proj.weight": ("BF16", [16, 8]),
        layer + "mlp.up_proj.weight": ("BF16", [16, 8]),
        layer + "mlp.down_proj.weight": ("BF16", [8, 16]),
        layer + "input_layernorm.weight": ("BF16", [8]),
        layer + "post_attention_layernorm.weight": ("BF16", [8]),
        "model.norm.weight": ("BF16", [8]),
    }, "model.safetensors")  # fmt: skip
    network, found = catalog.architecture(str(tmp_path)), stored_bytes(tmp_path)
    assert found is not None
    assert found.bytes == parameters.weight_bytes(network)
    assert warning(found, network) == ""


@pytest.mark.slow
@pytest.mark.stress
@pytest.mark.parametrize(
    ("suffix", "content", "read"),
    [
        (".safetensors", packed(header_of(WEIGHTS)), safetensors.tensors),
        (".gguf", GOOD, gguf.tensors),
    ],
)
def test_damaged_headers_are_refused_or_read(
    tmp_path: Path, suffix: str, content: bytes, read: Callable[[Path], dict[str, tuple[str, int]]]
) -> None:
    seed = random.Random(suffix)
    file = tmp_path / f"model{suffix}"
    for _ in range(1000):
        damaged = bytearray(content)
        for _ in range(seed.randint(1, 4)):
            at = seed.randrange(len(damaged))
            if seed.random() < 0.3:
                del damaged[at : at + seed.randint(1, 9)]
            else:
                damaged[at] = seed.choice((0, 1, 0x7F, 0x80, 0xFF, seed.randrange(256)))
        file.write_bytes(damaged)
        try:
            found = read(file)
        except DocumentError as error:
            assert error.where == str(file)  # noqa: PT017  # reading it is right too: see else
        else:
            assert sum(size for _, size in found.values()) <= len(damaged)


def test_texts_of_all_arrays_together_have_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf.Reader.__init__, "__defaults__", (5,))

    def texts(key: bytes, number: int) -> bytes:
        head = struct.pack("<Q", len(key)) + key + struct.pack("<IIQ", 9, 8, number)
        return head + struct.pack("<Q", 1).join([b"", *[b"x"] * number])

    (tmp_path / "m.gguf").write_bytes(gguf_file(TENSORS, [texts(b"a", 2), texts(b"b", 3)]))
    assert stored_bytes(tmp_path) is not None
    (tmp_path / "m.gguf").write_bytes(gguf_file(TENSORS, [texts(b"a", 2), texts(b"b", 4)]))
    with pytest.raises(DocumentError, match="the file says it has 4 items in an array"):
        stored_bytes(tmp_path)


def test_a_vocabulary_that_none_has_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    key = struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 8, 4_000_000)
    with file.open("wb") as stream:
        stream.write(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key)
        stream.truncate(640_000_000)  # sparse: takes no room
    start = time.process_time()
    with pytest.raises(DocumentError, match="4000000 items in an array"):
        stored_bytes(tmp_path)
    assert time.process_time() - start < 0.5
