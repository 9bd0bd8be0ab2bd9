"""Schemes from the ``quantization_config`` of each quantiser."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from roofline.model.huggingface.storage import patterns
from roofline.model.huggingface.storage.numbers import (
    cache_of,
    integers,
    of_algorithm,
    of_quark,
    of_tensors,
)
from roofline.model.huggingface.storage.patterns import DocumentPlace, Rule, StorageScheme

LINEAR: Final = "Linear"
"""Target that means every linear layer."""

KEPT: Final = (
    "modules_to_not_convert",
    "ignored_layers",
    "ignore",
    "exclude_modules",
    "exclude",
    "llm_int8_skip_modules",
)
"""Keys of lists of modules that are left as they were."""


def scheme_of(place: DocumentPlace, expert_dtype: object) -> StorageScheme:
    """Read a quantisation.

    Args:
        place: Where it is: ``quantization_config`` of a config, or a ``hf_quant_config.json``.
        expert_dtype: What the network's config says about its routed experts.

    Raises:
        UnsupportedModelError: Something in it is not understood.
    """
    method = place.data.get("quant_method")
    reader = READERS.get(method) if isinstance(method, str) else None
    if method is None and place.get("quant_algo") is not None:
        reader = _modelopt
    if reader is None:
        known = ", ".join(sorted(READERS))
        (place.at("quant_method") if method else place).refuse(
            f"quantisation method {method!r:.40} is not understood", hint=f"methods: {known}"
        )
    return reader(place, expert_dtype)


def _rules(place: DocumentPlace, format_name: str | None, *keys: str) -> Iterator[Rule]:
    """A rule for each module that is listed."""
    for here, word in place.words(*keys):
        if word != LINEAR:
            yield Rule(patterns.read(here, word), format_name)


def _kept(place: DocumentPlace) -> tuple[Rule, ...]:
    """Modules left as they were."""
    return tuple(rule for key in KEPT for rule in _rules(place, "", key))


def _fp8(place: DocumentPlace, expert_dtype: object) -> StorageScheme:
    """DeepSeek's, and what transformers writes after it; modelopt may have requantised parts."""
    block = place.get("weight_block_size")
    if block not in (None, [128, 128]):
        place.at("weight_block_size").refuse(
            f"weight_block_size = {block!r:.40} is not understood",
            hint="blocks of 128 by 128 can be costed",
        )
    rows = place.data["quant_method"] == "fbgemm_fp8"
    default = "fp8-block" if block else "fp8-row" if rows else "fp8"
    experts = {None: "", "fp8": "", "fp4": "mxfp4-w4a8"}
    if not (expert_dtype is None or isinstance(expert_dtype, str)) or expert_dtype not in experts:
        place.refuse(
            f"expert_dtype = {expert_dtype!r:.40} is not understood",
            hint="experts in fp8 or fp4 can be costed",
        )
    if place.get("quantized_layers") is not None:
        # The rest stays as the quantiser found it, which this method says.
        listed = (*_quantised_layers(place), *_rules(place, None, "ignore"))
        return StorageScheme(
            "fp8, parts requantised by modelopt", default, listed, kv=_cache(place)
        )
    return StorageScheme("fp8", default, _kept(place), experts=experts[expert_dtype])


def _grouped(place: DocumentPlace, expert_dtype: object) -> StorageScheme:
    """AWQ and GPTQ; GPTQ stores a packed zero even where it is always the same."""
    method = place.data["quant_method"]
    if place.get("dynamic"):
        place.at("dynamic").refuse("formats that change from module to module are not understood")
    bits, group = place.get("bits", "w_bit"), place.get("group_size", "q_group_size")
    zero = "-sym" if method == "awq" and place.data.get("zero_point") is False else ""
    name = integers(place, bits, 128 if group is None else group, zero=zero)
    return StorageScheme(method, name, _kept(place), head=place.data.get("lm_head") is True)


def _mxfp4(place: DocumentPlace, expert_dtype: object) -> StorageScheme:
    """Scheme of gpt-oss as transformers reads it: only the routed experts are quantised."""
    return StorageScheme("mxfp4", "", _kept(place), experts="mxfp4")


def _bitsandbytes(place: DocumentPlace, expert_dtype: object) -> StorageScheme:
    eight = place.data.get("load_in_8bit") is True or place.data.get("_load_in_8bit") is True
    four = place.data.get("load_in_4bit") is True or place.data.get("_load_in_4bit") is True
    if eight == four:
        place.refuse("bitsandbytes is asked for neither or both of 4 and 8 bits")
    if eight:
        return StorageScheme("bitsandbytes LLM.int8()", "llm.int8", _kept(place))
    kind = place.data.get("bnb_4bit_quant_type", "fp4")
    if kind not in ("nf4", "fp4"):
        place.at("bnb_4bit_quant_type").refuse(f"4-bit type {kind!r:.20} is not understood")
    double = place.data.get("bnb_4bit_use_double_quant") is True
    # Both types are 16 levels with the same scales.
    return StorageScheme(f"bitsandbytes {kind}", "nf4" if double else "nf4-single", _kept(place))


def _bitnet(place: DocumentPlace, expert_dtype: object) -> StorageScheme:
    """BitNet: weights of −1, 0 and 1, packed, in a checkpoint that was quantised before.

    Raises:
        UnsupportedModelError: The file is in 16 bits, and is quantised as it is loaded.
    """
    if place.data.get("quantization_mode", "offline") != "offline":
        place.at("quantization_mode").refuse(
            "weights that are quantised when loaded are not costed"
        )
    return StorageScheme("BitNet", "ternary", _kept(place))


def _compressed_tensors(place: DocumentPlace, expert_dtype: object) -> StorageScheme:
    default, rules = _groups(place)
    sparsity = place.get("sparsity_config")
    if isinstance(sparsity, dict) and sparsity.get("format") not in (None, "dense"):
        place.at("sparsity_config").refuse("sparse compressed-tensors are not understood")
    return StorageScheme(
        "compressed-tensors", default, (*_kept(place), *rules), head=True, kv=_cache(place)
    )


def _groups(place: DocumentPlace) -> tuple[str, tuple[Rule, ...]]:
    """Format of all linear layers, and of those that groups name."""
    default = ""
    rules: list[Rule] = []
    groups = place.at("config_groups") if place.get("config_groups") is not None else None
    if groups is None or not groups.data:
        place.refuse("config_groups is missing: there is no format")
    for name in groups.data:
        group = groups.at(name)
        stored = of_tensors(group)
        targets = [word for _, word in group.words("targets")] or [LINEAR]
        rules += _rules(group, stored, "targets")
        if LINEAR in targets and default not in ("", stored):
            group.refuse("two groups have all linear layers as target")
        default = stored if LINEAR in targets else default
    return default, tuple(rules)


def _modelopt(place: DocumentPlace, expert_dtype: object) -> StorageScheme:
    """The same in ``config.json`` and ``hf_quant_config.json``; head and routers are left out."""
    algorithm, cache = place.get("quant_algo"), _cache(place)
    if algorithm == "MIXED_PRECISION":
        if place.get("quantized_layers") is None:
            place.refuse("MIXED_PRECISION without quantized_layers does not say what is where")
        rules = (*_kept(place), *_quantised_layers(place))
        return StorageScheme("modelopt MIXED_PRECISION", "", rules, kv=cache)
    if algorithm is None and place.get("config_groups") is not None:
        default, rules = _groups(place)
        return StorageScheme("modelopt", default, (*_kept(place), *rules), kv=cache)
    if algorithm is None and cache:
        return StorageScheme("modelopt, cache only", "", (), kv=cache)
    here = place.at("quant_algo") if algorithm is not None else place
    name = of_algorithm(here, algorithm, place.get("group_size"))
    return StorageScheme(f"modelopt {algorithm}", name, _kept(place), kv=cache)


def _quantised_layers(place: DocumentPlace) -> Iterator[Rule]:
    layers = place.at("quantized_layers")
    for module in layers.data:
        here = layers.at(module)
        name = of_algorithm(here, here.get("quant_algo"), here.get("group_size"))
        yield Rule(patterns.read(here, module), name)


def _quark(place: DocumentPlace, expert_dtype: object) -> StorageScheme:
    whole = place.at("global_quant_config")
    if place.get("global_quant_config") is None:
        place.refuse("global_quant_config is missing: there is no format")
    rules = [*_kept(place)]
    if place.get("layer_type_quant_config"):
        place.at("layer_type_quant_config").refuse("formats by type of layer are not understood")
    if place.get("layer_quant_config"):
        layers = place.at("layer_quant_config")
        for module in layers.data:
            here = layers.at(module)
            rules.append(Rule(patterns.read(here, module), of_quark(here)))
    cache = ""
    if place.get("kv_cache_quant_config"):
        caches = place.at("kv_cache_quant_config")
        first = next(iter(caches.data))
        cache = cache_of(caches.at(first), "output_tensors")
    return StorageScheme("quark", of_quark(whole), tuple(rules), kv=cache)


def _cache(place: DocumentPlace) -> str:
    return cache_of(place, "kv_cache_scheme") or cache_of(place, "kv_cache_quant_algo")


READERS: Final[Mapping[str, Callable[[DocumentPlace, object], StorageScheme]]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fp8,
    "awq": _grouped,
    "gptq": _grouped,
    "mxfp4": _mxfp4,
    "bitsandbytes": _bitsandbytes,
    "bitnet": _bitnet,
    "compressed-tensors": _compressed_tensors,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "quark": _quark,
}
"""Quantisers by ``quant_method``."""
