"""Networks of GGUF files: shape by their metadata, number formats by their tensors.

Source of keys and of names of tensors: ``gguf-py/gguf/constants.py`` and ``tensor_mapping.py`` of
https://github.com/ggml-org/llama.cpp.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from roofline.errors import DocumentError, UnsupportedModelError
from roofline.model.architecture import Architecture, Block
from roofline.model.checkpoint import StoredTensors, warning
from roofline.model.checkpoint.gguf import GgufHeader, Tensor, table
from roofline.model.huggingface import from_config
from roofline.records import replace
from roofline.schema import parse_json

TYPES: Final[Mapping[str, str]] = {
    "deepseek2": "deepseek_v3",
    "gemma2": "gemma2",
    "gemma3": "gemma3_text",
    "gpt-oss": "gpt_oss",
    "llama": "llama",
    "phi3": "phi3",
    "qwen2": "qwen2",
    "qwen2moe": "qwen2_moe",
    "qwen3": "qwen3",
    "qwen3moe": "qwen3_moe",
}
"""``model_type`` of a config by ``general.architecture``; a llama with experts is a Mixtral."""
KEYS: Final[Mapping[str, str]] = {
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.sliding_window": "sliding_window",
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "attention.value_length_mla": "v_head_dim",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "expert_shared_count": "n_shared_experts",
    "expert_group_count": "n_group",
    "expert_group_used_count": "topk_group",
    "leading_dense_block_count": "first_k_dense_replace",
}
"""Field of a config by key of the metadata, without the architecture before it."""
EXPERTS: Final[Mapping[str, str]] = {
    "deepseek_v3": "n_routed_experts",
    "gpt_oss": "num_local_experts",
    "mixtral": "num_local_experts",
}
"""Field with the number of experts; ``num_experts`` elsewhere."""
NEEDED: Final = ("embedding_length", "block_count", "attention.head_count")
ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "qkv": ("attn_qkv", "attn_q", "attn_k", "attn_v"),
    "attn-out": ("attn_output",),
    "q": ("attn_q",),
    "q-up": ("attn_q_b",),
    "latent-down": ("attn_q_a", "attn_kv_a_mqa"),
    "kv-up": ("attn_kv_b", "attn_k_b", "attn_v_b"),
    "gate-up": ("ffn_gate", "ffn_up"),
    "down": ("ffn_down",),
    "router": ("ffn_gate_inp",),
    "experts-gate-up": ("ffn_gate_exps", "ffn_up_exps", "ffn_gate_up_exps"),
    "experts-down": ("ffn_down_exps",),
    "shared-gate": ("ffn_gate_inp_shexp",),
    "shared-gate-up": ("ffn_gate_shexp", "ffn_up_shexp"),
    "shared-down": ("ffn_down_shexp",),
}
"""Tensors of a layer that make up a matrix of ours; the largest of them says its format."""
FORMATS: Final[Mapping[str, str]] = {
    "F32": "fp32",
    "F16": "fp16",
    "BF16": "bf16",
    "MXFP4": "mxfp4-w4a16",
    "NVFP4": "nvfp4-w4a16",
}
"""Number format of a type of tensor where it is not called the same."""
_LAYER: Final = re.compile(r"blk\.(\d{1,9})\.")
_PART: Final = re.compile(r"(?P<name>.+)-\d{5}-of-(?P<parts>\d{5})\.gguf")


def gguf_network(path: Path) -> Architecture:
    """Network of a GGUF file, or of all parts of one that is split.

    Raises:
        DocumentError: The file is damaged or cannot be read, or a part is missing.
        UnsupportedModelError: Its architecture is not understood, or a number is missing.
    """
    try:
        tables = [table(part) for part in _parts(path)]
    except OSError as error:
        raise DocumentError(
            f"the GGUF file cannot be read: {error.strerror}",
            hint="check its path and permissions; a file in parts wants all of them",
            where=str(error.filename),
        ) from None
    keys = {key: value for each in reversed(tables) for key, value in each.keys.items()}
    found = GgufHeader(keys, {k: tensor for each in tables for k, tensor in each.tensors.items()})
    config, origins = _config(found, path)
    document = parse_json(json.dumps(config), str(path))
    try:
        made = _formatted(from_config(document, path.stem), found.tensors)
    except UnsupportedModelError as error:  # its place is in no file
        raise UnsupportedModelError(error.message, hint=error.hint, where=str(path)) from None
    provenance = {field: _origin(text, origins, path) for field, text in made.provenance.items()}
    sizes = {name: each.bytes for name, each in found.tensors.items()}
    unlike = warning(StoredTensors(str(path), "gguf", sum(sizes.values()), sizes), made)
    notes = (*made.notes, unlike) if unlike else made.notes
    return replace(made, provenance=provenance, notes=notes)


def _parts(path: Path) -> list[Path]:
    """Files that make up a model: all parts of a split one."""
    found = _PART.fullmatch(path.name)
    number = int(found["parts"]) if found else 0
    if found is None or not number:
        return [path]
    stem = found["name"]
    return [
        path.with_name(f"{stem}-{part:05}-of-{number:05}.gguf") for part in range(1, number + 1)
    ]


def _config(found: GgufHeader, path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Fields as a ``config.json`` has them, and the key that each was read from."""
    name = str(found.keys.get("general.architecture", ""))
    if name not in TYPES:
        raise UnsupportedModelError(
            f"architecture {name!r:.60} of a GGUF file is not understood",
            hint=f"give the network's config.json; understood: {', '.join(TYPES)}",
            where=str(path),
        )
    own = {
        key.removeprefix(f"{name}."): value
        for key, value in found.keys.items()
        if key.startswith(f"{name}.")
    }
    embedding = found.tensors.get("token_embd.weight")
    missing = next((key for key in NEEDED if key not in own), None)
    if missing is not None or embedding is None or len(embedding.shape) != 2:
        what = "tensor token_embd.weight" if missing is None else f"key {name}.{missing}"
        raise UnsupportedModelError(
            f"the GGUF file has no {what}",
            hint="give the file of the whole network, or its first part",
            where=str(path),
        )
    _check_tensors(own, found.tensors, path)
    kind = "mixtral" if name == "llama" and own.get("expert_count") else TYPES[name]
    origins = {KEYS[key]: f"{name}.{key}" for key in own if key in KEYS}
    config = {KEYS[key]: _same(own[key], f"{name}.{key}", path) for key in own if key in KEYS}
    if own.get("expert_count"):
        experts = EXPERTS.get(kind, "num_experts")
        config[experts], origins[experts] = own["expert_count"], f"{name}.expert_count"
    if kind == "deepseek_v3":
        # Files of before latent attention was told apart have keys and values as they are expanded.
        keys, values, rotated = (
            _whole(own, *names)
            for names in (
                ("attention.key_length_mla", "attention.key_length"),
                ("attention.value_length_mla", "attention.value_length"),
                ("rope.dimension_count",),
            )
        )
        config |= {
            "qk_rope_head_dim": rotated,
            "qk_nope_head_dim": keys - rotated,
            "v_head_dim": values,
        }
        config.setdefault("q_lora_rank", None)
    elif "attention.key_length" in own:
        config["head_dim"] = own["attention.key_length"]
        origins["head_dim"] = f"{name}.attention.key_length"
    if kind == "gpt_oss":  # its feed-forward part is that of an expert
        config["intermediate_size"] = config.pop("moe_intermediate_size", None)
    if kind in ("llama", "gpt_oss"):
        config["attention_bias"] = "blk.0.attn_q.bias" in found.tensors
    config |= {
        "model_type": kind,
        "vocab_size": embedding.shape[1],
        "tie_word_embeddings": "output.weight" not in found.tensors,
    }
    return config, origins


def _check_tensors(own: Mapping[str, Any], tensors: Mapping[str, Tensor], path: Path) -> None:
    """Refuse a file whose metadata tells of other layers, or another width, than its tensors."""
    layers = {int(found[1]) for name in tensors if (found := _LAYER.match(name))}
    told = {"block_count": len(layers), "embedding_length": tensors["token_embd.weight"].shape[0]}
    for key, counted in told.items():
        if own[key] != counted:
            raise UnsupportedModelError(
                f"the GGUF file says {key} is {own[key]!r:.40}, and its tensors have {counted}",
                hint="give the file of the whole network, or its first part",
                where=str(path),
            )


def _whole(own: Mapping[str, Any], *names: str) -> int:
    """First of some whole numbers that is there; 0 where none is."""
    return next((each for each in map(own.get, names) if isinstance(each, int)), 0)


def _same(value: Any, key: str, path: Path) -> Any:
    """A number that is the same in all layers.

    Raises:
        UnsupportedModelError: It is not.
    """
    if not isinstance(value, list):
        return value
    if len(set(value)) != 1:
        raise UnsupportedModelError(
            f"{key} differs from layer to layer",
            hint="give the network's config.json",
            where=str(path),
        )
    return value[0]


def _formatted(made: Architecture, tensors: Mapping[str, Tensor]) -> Architecture:
    """The network with the number formats of the tensors."""
    embedding = tensors["token_embd.weight"]
    common: Counter[str] = Counter()
    for name, tensor in tensors.items():
        if name.startswith("blk.") and len(tensor.shape) > 1:
            common[_format(tensor)] += tensor.bytes
    usual = max(common, key=lambda name: common[name], default=made.weight_format)
    blocks: dict[Block, Block] = {}
    layers = []
    for number, block in enumerate(made.layers):
        roles = (
            (role, _stored(tensors, f"blk.{number}.", role))
            for role in dict.fromkeys(block.roles(made.d_model))
        )
        formats = tuple((role, name) for role, name in roles if name and name != usual)
        changed = replace(block, formats=formats)
        layers.append(blocks.setdefault(changed, changed))
    head = tensors.get("output.weight", embedding)
    return replace(
        made,
        layers=tuple(layers),
        weight_format=usual,
        head_format=_format(head),
        plain_format=_format(embedding),
    )


def _stored(tensors: Mapping[str, Tensor], layer: str, role: str) -> str:
    """Format of the largest tensor of a role; empty where the layer has none."""
    own = (tensors.get(f"{layer}{name}.weight") for name in ROLES.get(role, ()))
    found = [tensor for tensor in own if tensor is not None]
    return _format(max(found, key=lambda tensor: tensor.bytes)) if found else ""


def _format(tensor: Tensor) -> str:
    return FORMATS.get(tensor.type, tensor.type.lower().replace("_", "-"))


def _origin(text: str, origins: Mapping[str, str], path: Path) -> str:
    """Origin of a field: the key of the file in place of that of the config made of it."""
    key, equals, rest = text.partition(" = ")
    value = rest.rpartition(", ")[0] or rest
    return f"{origins.get(key, key)}{equals}{value}, {path}"
