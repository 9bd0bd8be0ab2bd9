"""Mixes of llama.cpp: formats that each matrix of a network has in a file such as ``Q4_K_M``.

Source: ``llama_tensor_get_type_impl`` in ``src/llama-quant.cpp`` of
https://github.com/ggml-org/llama.cpp at 007dbbf3, without an importance matrix. Values, which have
more bits in some mixes, are counted as queries are: a third of a percent of an 8B network.
"""

import re
from typing import Final

from roofline.model.architecture import UNQUANTISED, Architecture, Block
from roofline.model.precision.formats import BLOCKS
from roofline.records import replace

MIXES: Final = frozenset(
    ["q2-k-s", "q3-k-s", "q3-k-m", "q3-k-l", "q4-k-s", "q4-k-m", "q5-k-s", "q5-k-m"]
)
"""Names of files whose matrices are not all in the one format that they are called by."""
FILES: Final = MIXES | frozenset(BLOCKS) - {"q3-k", "q4-k", "q5-k", "q8-1", "q8-k"}
"""Formats that a file is called by: Q3_K, Q4_K and Q5_K are other names of mixes, and only inputs
are in the last two. Source: ``tools/quantize/quantize.cpp`` of llama.cpp at 00dc8057."""
OUTPUT_OF_FEWEST: Final = re.compile(r"iq[12]-|iq3-xxs")
EIGHT: Final = frozenset(["q2-k", "q3-k-s", "q3-k-m", "q4-k-s", "q4-k-m"])
"""Mixes in which eight experts are beside an output of attention with more bits."""


def spelled(name: str) -> str:
    """The name of a mix as `MIXES` has it; that of another format likewise."""
    return name.strip().lower().replace("_", "-")


def mixed(network: Architecture, mix: str) -> Architecture:
    """The network as llama.cpp quantises it.

    Args:
        network: Network in any format.
        mix: Name of a file: ``"q4_k_m"``; one of a single format, ``"q8_0"``, has its LM head and
            some matrices in others all the same.

    Examples:
        Values of the feed-forward part that goes down have 6 bits in the first eighth of the
        layers, the last, and every third between them:

        >>> from roofline.model.catalog import architecture
        >>> made = mixed(architecture("llama-3.1-8b"), "q4_k_m")
        >>> sum(dict(block.formats).get("down") == "q6-k" for block in made.layers)
        16
    """
    mix = spelled(mix)
    base = re.sub(r"(-k)-[sml]$", r"\1", mix)
    plain, number = network.stored_as(base), len(network.layers)
    made: dict[Block, Block] = {}
    layers = []
    for place, block in enumerate(plain.layers):
        own = dict.fromkeys(("down", "experts-down", "shared-down"), _down(mix, place, number))
        own["attn-out"] = _attention_output(mix, block.experts)
        own |= dict.fromkeys(UNQUANTISED, "fp32")
        formats = tuple(
            (role, own[role])
            for role in dict.fromkeys(block.roles(network.d_model))
            if own.get(role, "") not in ("", base)
        )
        changed = replace(block, formats=formats)
        layers.append(made.setdefault(changed, changed))
    head = base if base == "q8-0" else "q5-k" if OUTPUT_OF_FEWEST.match(base) else "q6-k"
    return replace(
        plain,
        layers=tuple(layers),
        mix=mix if mix in MIXES else "",
        head_format=head,
        plain_format=head if network.tied_embeddings else base,
    )


def _more(place: int, number: int) -> bool:
    """Whether a layer is one of those that take more bits."""
    eighth = number // 8
    return place < eighth or place >= 7 * number // 8 or (place - eighth) % 3 == 2


def _down(mix: str, place: int, number: int) -> str:
    """Format of the matrix that goes down in a feed-forward part; empty for the usual."""
    match mix:
        case "q2-k":
            return "q3-k"
        case "q2-k-s":
            return "q4-k" if place < number // 8 else ""
        case "q3-k-m":
            return "q5-k" if place < number // 16 else "q4-k"
        case "q3-k-l":
            return "q5-k"
        case "q4-k-s":
            return "q5-k" if place < number // 8 else ""
        case "q4-k-m" | "q5-k-m":
            return "q6-k" if _more(place, number) else ""
    return ""


def _attention_output(mix: str, experts: int) -> str:
    """Format of the output matrix of attention; empty for the usual."""
    if experts == 8:
        return "q5-k" if mix in EIGHT else ""
    return {"q2-k": "q3-k", "q3-k-m": "q4-k", "q3-k-l": "q5-k"}.get(mix, "")
