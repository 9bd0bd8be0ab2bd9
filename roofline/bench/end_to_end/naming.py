"""Meaning of the names in measured rows: networks, devices, number formats and engines.

Sources write "LLaMA v2 70B", "nvidia/DeepSeek-R1-NVFP4" or "a100_argonne". General rules come
first, aliases only for what no rule can know.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from roofline.errors import RooflineError, UnknownNameError
from roofline.hardware.catalog import gpu
from roofline.hardware.machine import Gpu
from roofline.model import catalog, mixes
from roofline.model.architecture import Architecture
from roofline.model.precision import named

STORED: Final = re.compile(
    r"[-_ ](nvfp4|mxfp4|fp4|fp8|w8a8|w4a16|awq|gptq|int8|int4|bf16|fp16)(?:[-_ ](?:v\d+|dynamic))?$"
)
"""Ending of a checkpoint's name that says its format."""
_VARIANTS: Final = re.compile(r"[-_ ](instruct|chat|base|it|hf|thinking|\d{4})(?=$|[-_ ])")
_EDITIONS: Final = re.compile(r"[-_ ]v\d+(?:\.\d+)?$")
NETWORKS: Final[Mapping[str, str]] = {
    "deepseek3.1": "deepseek-v3",
    "kimik2": "kimi-k2-instruct",
    "llama70b": "llama-2-70b",
}
"""By bare name, where the catalog calls a network of that shape otherwise."""
DEVICES: Final[Mapping[str, tuple[str, str]]] = {
    "a100_argonne": ("a100-sxm-40gb", "the source states no memory size; ALCF's A100 have 40 GB"),
    "gh200_argonne": ("gh200-96gb", "the source states no variant; 96 GB is assumed"),
    "a100_80gb_unspecified": ("a100-sxm", "the source states no form factor; SXM is assumed"),
    "a100_sxm_330w_hybridcube": (
        "a100-sxm",
        "limited to 330 W and without NVSwitch in the source; priced as other A100",
    ),
}
"""Names of sources that are no name of the catalog, and what was assumed."""
FORMATS: Final[Mapping[str, str]] = {
    "fp4": "nvfp4",
    "f16": "fp16",
    "int4_wo": "int4",
    "int8_wo": "int8-wo",
    "fp8_block": "fp8-block",
    "fp8_static": "fp8",
    "w4a16_mxfp4": "mxfp4-w4a16",
    "w4a8_mxfp4_mxfp8": "mxfp4-w4a8",
    "w4afp8": "int4-w4a8",
}
"""Formats by the names of sources."""
WEIGHT_ONLY: Final = frozenset({"gpt-fast", "llama.cpp", "exllamav2", "ctranslate2"})
"""Engines whose int8 and int4 are formats of weights only."""


def network(name: str) -> Architecture:
    """Network by hub id or as people write it.

    Raises:
        UnknownNameError: The catalog has none of that shape.

    Examples:
        >>> network("LLaMA v2 70B").name, network("nvidia/Qwen3-32B-NVFP4").name
        ('llama-2-70b', 'qwen3-32b')
    """
    return _network(str(name).strip())


@cache
def _network(name: str) -> Architecture:
    try:
        return catalog.architecture(STORED.sub("", name.lower()))  # rows tell formats in a column
    except RooflineError:
        pass
    lower = name.rpartition("/")[2].lower()
    shorter = [bare(text) for text in (lower, *_shortened(STORED.sub("", lower)))]
    for text in shorter:
        if (stem := _stems().get(text)) is not None:
            return catalog.architecture(stem)
    wanted = shorter[-1]
    longer = [stem for key, stem in _stems().items() if key.startswith(wanted)]
    if len(set(longer)) == 1 and len(wanted) >= len("llama4"):
        return catalog.architecture(longer[0])
    raise UnknownNameError(
        f"no network of the catalog has the shape of {name!r:.60}",
        hint="add its config as a file of scenarios/models",
    )


def bare(name: str) -> str:
    """Letters, digits and points of a name; a v before a number says nothing.

    >>> bare("LLaMA v2 70B") == bare("Llama-2-70b"), bare("llama3_1-405b") == bare("Llama-3.1-405B")
    (True, True)
    """
    lower = re.sub(r"^meta[-_ ]", "", name.strip().lower())
    lower = re.sub(r"(?<=\d)_(?=\d)", ".", lower)
    plain = re.sub(r"(?<![a-z])v(?=\d)", "", lower)
    return re.sub(r"[^a-z0-9.]", "", plain)


@cache
def _stems() -> Mapping[str, str]:
    """Short name of a network by bare name of itself, without its variant and edition."""
    out: dict[str, str] = dict(NETWORKS)
    names = sorted(catalog.names(), key=lambda name: (len(name), name))
    for shortened in zip(*map(_shortened, names), strict=True):
        for name, text in zip(names, shortened, strict=True):
            out.setdefault(bare(text), name)
    return out


def _shortened(name: str) -> tuple[str, str, str]:
    """A name: itself, without its variant, and without its edition too."""
    plain = _VARIANTS.sub("", name)
    return name, plain, _EDITIONS.sub("", plain)


def device(name: str) -> tuple[Gpu, str]:
    """GPU of a source's name, and what was assumed about it.

    Raises:
        UnknownNameError: The catalog has none of that name.
    """
    known, note = DEVICES.get(str(name).strip().lower(), (str(name), ""))
    return gpu(known), note


def stored(name: str) -> str:
    """Number format that a checkpoint's name ends in; empty where it says none.

    >>> stored("nvidia/DeepSeek-R1-NVFP4"), stored("Qwen/Qwen3-32B")
    ('nvfp4', '')
    """
    found = STORED.search(name.lower())
    return number_format(found[1]) if found else ""


def number_format(name: str, engine: str = "") -> str:
    """Number format of the cost model, or mix of a GGUF file, by the name of a source.

    Raises:
        UnknownNameError: There is none.

    Examples:
        >>> number_format("fp8_block"), number_format("Q4_K_M"), number_format("int8", "gpt-fast")
        ('fp8-block', 'q4-k-m', 'int8-wo')
    """
    text = name.strip().lower().partition("(")[0].strip()
    text = FORMATS.get(text, text)
    if engine in WEIGHT_ONLY and text == "int8":
        text = "int8-wo"
    mix = mixes.spelled(text)
    return mix if mix in mixes.FILES else named(text).name


def alike(one: str, other: str) -> bool:
    """Whether two formats of fewer than 16 bits have one arithmetic, as fp8 with any scales has.

    >>> alike("fp8", "fp8-block"), alike("nvfp4", "int4"), alike("bf16", "bf16")
    (True, False, False)
    """
    a, b = named(one), named(other)
    return a.element_bits == b.element_bits < 16 and a.arithmetic == b.arithmetic
