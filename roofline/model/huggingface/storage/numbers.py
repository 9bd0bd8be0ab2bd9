"""Number formats as quantisers describe them: bits, type, strategy, group."""

from typing import Any, Final

from roofline.model.huggingface.storage.patterns import DocumentPlace
from roofline.model.precision import named

LARGEST_GROUP: Final = 65_536
_MODELOPT: Final = {
    "FP8": "fp8",
    "FP8_PER_TENSOR": "fp8",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8-row",
    "FP8_PB_REAL": "fp8-block",
    "FP8_PB_WO": "fp8-block",
    "FP8_BLOCK_SCALES": "fp8-block",
    "NVFP4": "nvfp4",
    "NVFP4_AWQ": "nvfp4",
    "NVFP4_SVDQUANT": "nvfp4",
    "W4A16_NVFP4": "nvfp4-w4a16",
    "MXFP4": "mxfp4",
    "W4A16_MXFP4": "mxfp4-w4a16",
    "W4A8_MXFP4_FP8": "mxfp4-w4a8",
    "MXFP8": "mxfp8",
    "INT8_SQ": "int8",
    "W8A8_SQ_PER_CHANNEL": "int8",
    "W8A16": "int8-wo",
    "W4A8_AWQ": "int4-w4a8",
}
_GROUPED_ALGORITHMS: Final = ("INT4_AWQ", "W4A16_AWQ", "W4A16", "W4A16_GPTQ")
CACHES: Final = {"FP8": "fp8", "INT8": "int8", "NVFP4": "nvfp4", "NONE": ""}


def of_algorithm(place: DocumentPlace, algorithm: Any, group: Any) -> str:
    """Format of an algorithm of modelopt.

    Raises:
        UnsupportedModelError: It is not understood.
    """
    if isinstance(algorithm, str) and algorithm.upper() in _MODELOPT:
        return _MODELOPT[algorithm.upper()]
    if isinstance(algorithm, str) and algorithm.upper() in _GROUPED_ALGORITHMS:
        return integers(place, 4, 128 if group is None else group, zero="-sym")
    return place.refuse(
        f"quantisation algorithm {algorithm!r:.40} is not understood",
        hint=f"algorithms: {', '.join((*_MODELOPT, *_GROUPED_ALGORITHMS))}",
    )


def integers(place: DocumentPlace, bits: Any, group: Any, *, zero: str = "") -> str:
    """Weight-only integers in groups; a group of -1 or null is a row.

    Raises:
        UnsupportedModelError: Bits or group are not those of a format.
    """
    if bits not in (2, 3, 4, 8) or isinstance(bits, bool):
        place.refuse(
            f"{bits!r:.20} bits are not understood", hint="2, 3, 4 or 8 bits can be costed"
        )
    if group is None or group == -1:
        return named(f"int{bits}-row{zero}").name
    if not isinstance(group, int) or isinstance(group, bool) or not 2 <= group <= LARGEST_GROUP:
        place.refuse(
            f"groups of {group!r:.20} are not understood",
            hint=f"a group is of 2 to {LARGEST_GROUP} weights, or -1 for a row",
        )
    return named(f"int{bits}-g{group}{zero}").name


def of_tensors(place: DocumentPlace) -> str:
    """Format of a group of compressed-tensors: ``weights`` and ``input_activations``.

    Raises:
        UnsupportedModelError: The numbers are not those of a format that is known.
    """
    weights = place.at("weights")
    spec = weights.data
    inputs = place.get("input_activations")
    if inputs is not None and not isinstance(inputs, dict):
        place.at("input_activations").refuse("input_activations is not a mapping")
    bits, kind, group = spec.get("num_bits"), spec.get("type", "int"), spec.get("group_size")
    strategy, symmetric = spec.get("strategy"), spec.get("symmetric", True)
    into = None if inputs is None else (inputs.get("type", "int"), inputs.get("num_bits"))
    if kind == "float":
        return _floats(weights, bits, strategy, group, into)
    if kind == "int" and into is None:
        if bits == 8 and strategy in ("channel", "tensor"):
            return "int8-wo"
        size = None if strategy == "channel" else 128 if group is None else group
        return integers(weights, bits, size, zero="-sym" if symmetric else "")
    if (kind, bits, into) == ("int", 8, ("int", 8)):
        return "int8"
    if (kind, bits, into) == ("int", 4, ("float", 8)):
        return "int4-w4a8"
    return weights.refuse(f"{kind!r:.20} weights of {bits!r:.20} bits are not understood here")


def _floats(
    place: DocumentPlace, bits: Any, strategy: Any, group: Any, into: tuple[Any, Any] | None
) -> str:
    """Format of floating-point weights, and of activations where they are converted too."""
    if bits == 8 and into in (None, ("float", 8)):
        if group == 32:
            return "mxfp8"
        if into is None:
            return "fp8-wo"
        known = {None: "fp8", "tensor": "fp8", "channel": "fp8-row", "block": "fp8-block"}
        if strategy is None or (isinstance(strategy, str) and strategy in known):
            return known[strategy]
    if bits == 4 and group in (16, 32):
        family = "nvfp4" if group == 16 else "mxfp4"
        if into is None:
            return f"{family}-w4a16"
        if into == ("float", 4):
            return family
        if into == ("float", 8) and family == "mxfp4":
            return "mxfp4-w4a8"
    return place.refuse(
        f"floating-point weights of {bits!r:.20} bits, strategy {strategy!r:.20}, in groups of "
        f"{group!r:.20} are not understood"
    )


def of_quark(place: DocumentPlace) -> str:
    """Format of a quantisation of quark: ``weight`` and ``input_tensors``.

    Raises:
        UnsupportedModelError: The numbers are not those of a format that is known.
    """
    weight = place.at("weight") if place.get("weight") is not None else place
    spec = weight.data
    quantised = place.get("input_tensors") is not None
    kind, scheme, group = spec.get("dtype"), spec.get("qscheme"), spec.get("group_size")
    if kind in ("fp8_e4m3", "fp8_e5m2"):
        known = {"per_tensor": "fp8", "per_channel": "fp8-row", "per_block": "fp8-block"}
        if isinstance(scheme, str) and scheme in known:
            return known[scheme] if quantised else "fp8-wo"
        if scheme == "per_group" and group == 32:
            return "mxfp8"
    if kind == "fp4" and group == 32:
        return "mxfp4" if quantised else "mxfp4-w4a16"
    if kind == "int8" and scheme in ("per_channel", "per_tensor"):
        return "int8" if quantised else "int8-wo"
    if kind in ("int4", "uint4", "int3", "uint3", "int2", "uint2") and not quantised:
        size = group if scheme == "per_group" else None
        return integers(weight, int(kind[-1]), size, zero="" if kind[0] == "u" else "-sym")
    return weight.refuse(
        f"weights of type {kind!r:.20}, {scheme!r:.20}, in groups of {group!r:.20} are not "
        "understood"
    )


def cache_of(place: DocumentPlace, key: str) -> str:
    """Format of the cache under a key: null, a name, or bits and type.

    Raises:
        UnsupportedModelError: It is not understood.
    """
    value = place.get(key)
    if value is None:
        return ""
    if isinstance(value, str) and value.upper() in CACHES:
        return CACHES[value.upper()]
    if isinstance(value, dict):
        bits, kind = value.get("num_bits"), value.get("type", "int")
        known = {(8, "float"): "fp8", (8, "int"): "int8", (4, "float"): "nvfp4"}
        if isinstance(bits, int) and isinstance(kind, str) and (bits, kind) in known:
            return known[bits, kind]
        dtype = value.get("dtype")
        if dtype in ("fp8_e4m3", "fp8_e5m2"):
            return "fp8"
    return place.at(key).refuse(
        f"{key} is not understood", hint="caches in fp8, int8 and nvfp4 can be costed"
    )
