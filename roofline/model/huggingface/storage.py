"""Number format of a checkpoint: ``dtype``, ``torch_dtype`` and ``quantization_config``."""

from dataclasses import dataclass
from typing import Any, Final

from roofline.model.huggingface.fields import Fields

DTYPES: Final = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


@dataclass(frozen=True, slots=True)
class Storage:
    """Formats of the linear layers, and of everything a quantiser leaves alone."""

    linear: str
    plain: str


def weight_storage(fields: Fields) -> Storage:
    """Read the formats of a checkpoint.

    Raises
    ------
    UnsupportedModelError
        A type or a quantisation that is not understood.
    """
    plain = _dtype(_having(fields, "dtype", "torch_dtype"))
    fields = _having(fields, "quantization_config", "compression_config")
    found = fields.get("quantization_config", "compression_config")
    if found is None:
        return Storage(plain, plain)
    key, config = found
    linear = _quantised(fields, key, config)
    method = config.get("quant_method") or config.get("quant_algo")
    fields.provenance["weight_format"] = f"{key}: {method}, {fields.where(key)}"
    fields.notes.append(
        f"linear layers are stored as {linear}; embeddings, LM head, norms and biases as {plain}"
    )
    return Storage(linear, plain)


def _having(fields: Fields, *keys: str) -> Fields:
    """The config that has one of the keys: this one, or the larger one it is a part of."""
    if fields.outer and not any(fields.data.get(key) is not None for key in keys):
        return fields.outer
    return fields


def _dtype(fields: Fields) -> str:
    found = fields.get("dtype", "torch_dtype")
    if found is None:
        fields.say("weight_format", "dtype", "bfloat16", "assumed where the config has no dtype")
        fields.notes.append("the config has no dtype: weights are taken to be bf16")
        return "bf16"
    key, value = found
    name = value.removeprefix("torch.") if isinstance(value, str) else ""
    if name not in DTYPES:
        fields.refuse(
            key, f"{key} = {value!r:.40} is not understood", f"it may be {', '.join(DTYPES)}"
        )
    fields.cite("weight_format", key)
    return DTYPES[name]


def _quantised(fields: Fields, key: str, config: Any) -> str:
    """Format of the linear layers under a quantisation."""
    if not isinstance(config, dict):
        fields.refuse(key, f"{key} is not a mapping", "give it as the checkpoint has it")
    if config.get("lm_head") is True:
        fields.refuse(key, "a quantised LM head is not understood", "use the unquantised network")
    method = config.get("quant_method")
    if method in (None, "modelopt"):
        return _modelopt(fields, key, config)
    if method == "fp8":
        return "fp8"
    if method in ("awq", "gptq"):
        return _grouped(fields, key, method, config)
    return fields.refuse(
        key,
        f"quantisation method {method!r:.40} is not understood",
        "methods: fp8, awq, gptq, modelopt (FP8, NVFP4)",
    )


def _grouped(fields: Fields, key: str, method: str, config: dict[str, Any]) -> str:
    bits = config.get("bits", config.get("w_bit"))
    group = config.get("group_size", config.get("q_group_size"))
    if (bits, group) != (4, 128):
        fields.refuse(
            key,
            f"{method} with {bits!r:.20} bits in groups of {group!r:.20} is not understood",
            "4 bits in groups of 128 can be costed",
        )
    return "int4"


def _modelopt(fields: Fields, key: str, config: dict[str, Any]) -> str:
    known = {"FP8": "fp8", "NVFP4": "nvfp4"}
    algorithm = config.get("quant_algo")
    if not isinstance(algorithm, str) or algorithm not in known:
        fields.refuse(
            key,
            f"quantisation algorithm {algorithm!r:.40} is not understood",
            f"algorithms of modelopt: {', '.join(known)}",
        )
    kept = config.get("ignore", config.get("exclude_modules")) or []
    for module in kept if isinstance(kept, list) else [kept]:
        if module != "lm_head":
            fields.refuse(
                key,
                f"module {module!r:.60} is left out of the quantisation, which is not understood",
                "only lm_head may be left out; give --weights for a uniform format instead",
            )
    return known[algorithm]
