"""Number formats of a checkpoint: ``dtype``, ``torch_dtype`` and ``quantization_config``.

`methods` reads what each quantiser writes into a `StorageScheme`, `patterns` and `spellings` say
which matrices its lists of modules mean, `assigning` gives every matrix of a network its format.
"""

from typing import TYPE_CHECKING, Final

from roofline.model.architecture import Architecture
from roofline.model.huggingface.fields import Fields
from roofline.model.huggingface.storage.assigning import assign
from roofline.model.huggingface.storage.methods import scheme_of
from roofline.model.huggingface.storage.patterns import DocumentPlace

if TYPE_CHECKING:
    from roofline.schema import Document

__all__ = ["DTYPES", "formatted", "plain_format"]

DTYPES: Final = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
KEYS: Final = ("quantization_config", "compression_config")
INNER: Final = ("text_config", "language_config", "llm_config")
"""Keys of the text decoder in the config of a network that does more than read text."""


def plain_format(fields: Fields) -> str:
    """Number format of everything a quantiser leaves alone; what it changed is in `formatted`.

    Raises:
        UnsupportedModelError: A type that is not understood.
    """
    plain = _dtype(_having(fields, "dtype", "torch_dtype"))
    holder = _having(fields, *KEYS)
    if holder.get(*KEYS) is not None:
        for each in (fields, holder):
            each.seen.add("expert_dtype")
    return plain


def formatted(
    fields: Fields, architecture: Architecture, sibling: "Document | None"
) -> Architecture:
    """The network with the number format of every matrix, as its quantiser left it.

    Args:
        fields: The whole config.
        architecture: What was built from it.
        sibling: The ``hf_quant_config.json`` beside the config; it holds where the config says
            nothing.

    Raises:
        UnsupportedModelError: A quantisation, or a module it names, that is not understood.
    """
    place, expert_dtype = _quantisation(fields, sibling)
    if place is None:
        return architecture
    scheme = scheme_of(place, expert_dtype)
    fields.provenance["weight_format"] = f"{place.name}: {scheme.label}, {place.where()}"
    return assign(architecture, scheme, fields.notes)


def _quantisation(
    fields: Fields, sibling: "Document | None"
) -> tuple[DocumentPlace | None, object]:
    """Place of the quantisation, and ``expert_dtype`` of the same config."""
    outer = fields.data
    for inner in ("", *INNER):
        config = outer.get(inner) if inner else outer
        if not isinstance(config, dict):
            continue
        step = (inner,) if inner else ()
        for key in KEYS:
            if config.get(key) is not None:
                place = DocumentPlace(fields.document, (*fields.path, *step, key))
                return place, config.get("expert_dtype")
    if sibling is None:
        return None, None
    nested = isinstance(sibling.data, dict) and "quantization" in sibling.data
    return DocumentPlace(sibling, ("quantization",) if nested else ()), outer.get("expert_dtype")


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
