"""Formats that the names of quantised checkpoints end with."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from roofline.model.mixes import MIXES, spelled
from roofline.model.precision.formats import BLOCKS as IN_BLOCKS

ENDINGS: Final = {
    "-awq-int4": "int4-awq",
    "-awq": "int4-awq",
    "-gptq-int8": "int8-wo",
    "-gptq-int4": "int4-gptq",
    "-gptq-4bit": "int4-gptq",
    "-gptq": "int4-gptq",
    "-quantized.w4a16": "int4-gptq",
    "-quantized.w8a16": "int8-wo",
    "-quantized.w8a8": "int8",
    "-w4a16": "int4-gptq",
    "-w8a8": "int8",
    "-int8": "int8",
    "-int4": "int4-gptq",
    "-unsloth-bnb-4bit": "nf4",
    "-bnb-4bit": "nf4",
    "-bnb-8bit": "llm.int8",
    "-4bit": "int4-g64",
    "-8bit": "int8-g64",
    "-fp8-block": "fp8-block",
    "-fp8-dynamic": "fp8-row",
    "-fp8-kv": "fp8",
    "-fp8": "fp8",
    "-nvfp4-v2": "nvfp4",
    "-nvfp4": "nvfp4",
    "-fp4": "nvfp4",
    "-mxfp4-preview": "mxfp4",
    "-mxfp4": "mxfp4",
}
"""Formats of weights by how names end. Source: ``quantization_config`` of casper-hansen's and
Qwen's AWQ and GPTQ checkpoints, of RedHatAI's (groups of 128; a scale for each channel and token),
of unsloth's (bitsandbytes), of mlx-community's (groups of 64), of AMD's (Quark) and of NVIDIA's
(``hf_quant_config.json``: one scale for each tensor)."""
BLOCKS: Final = frozenset({"qwen", "deepseek-ai", "zai-org"})
"""Owners whose FP8 checkpoints have a scale for each block of 128 × 128 weights. Source:
``weight_block_size`` of Qwen3-32B-FP8, DeepSeek-V3 and GLM-4.5-FP8."""
GGUF: Final = "-gguf"
USUAL: Final = "q4_k_m"
"""File of a GGUF repository that llama.cpp takes where none is named (its ``-hf`` option)."""
_MIX: Final = r"(?:ud-)?(?P<format>(?:i?q|tq)\d_(?:k|\d|xxs|xs|s|m|nl))(?:_[smlx]+)?"
_MIXES: Final = re.compile(_MIX)
_ENDING: Final = re.compile(f"-(?P<mix>{_MIX})$")
PLAIN: Final = {"bf16": "bf16", "fp16": "fp16", "f16": "fp16", "f32": "fp32", "mxfp4": "mxfp4"}
"""Formats of others that a GGUF file holds bit for bit, by how names of files spell them."""
_TUNED: Final = re.compile(r"-(?:instruct|chat|it|base|hf)$")
_RELEASE: Final = re.compile(r"-(?:preview|v\d(?:\.\d)?)$")


def bases(short: str, *, releases: bool = False) -> list[str]:
    """Names of the networks that a checkpoint may be of: its own, and without what it is tuned for.

    With `releases`, also without the number of its release.

    >>> bases("meta-llama-3.1-8b-instruct")
    ['meta-llama-3.1-8b-instruct', 'llama-3.1-8b-instruct', 'llama-3.1-8b']
    """
    out = [short, short.removeprefix("meta-")]
    while True:
        plain = _TUNED.sub("", out[-1])
        plain = _RELEASE.sub("", plain) if releases else plain
        if plain == out[-1]:
            return list(dict.fromkeys(out))
        out.append(plain)


class CheckpointName(NamedTuple):
    """Network that a name may stand for, its format, and the ending that says so."""

    base: str
    weight_format: str
    ending: str
    mixed: bool
    """True where some matrices of such files are in another format."""

    @property
    def mix(self) -> str:
        """Name of such a file as llama.cpp has it; its usual format where it has none."""
        own = spelled(self.ending.removeprefix("-").removeprefix("ud-"))
        return own if own in MIXES else self.weight_format


def gguf_weights(file: str) -> str:
    """`weights` of a GGUF file by the format in its name; empty where that is not modelled.

    >>> gguf_weights("Q4_K_M"), gguf_weights("UD-Q6_K_XL"), gguf_weights("F16"), gguf_weights("Q9")
    ('q4-k-m', 'q6-k', 'fp16', '')
    """
    mix = file.lower()
    own = spelled(mix.removeprefix("ud-"))
    return own if own in MIXES else _gguf_format(mix)


def _gguf_format(mix: str) -> str:
    """Format of most matrices of a file; empty where it is not modelled."""
    if found := _MIXES.fullmatch(mix):
        kind = found["format"].replace("_", "-")
        return kind if kind in IN_BLOCKS else ""
    return PLAIN.get(mix, "")


def readings(name: str) -> Iterator[CheckpointName]:
    """Readings of the name of a quantised checkpoint, the likeliest first.

    Args:
        name: Lower case, with or without an owner; after a colon the file of a GGUF repository,
            or at its end the format of a GGUF file.

    Examples:
        >>> next(readings("qwen/qwen3-32b-awq"))[:3]
        ('qwen/qwen3-32b', 'int4-awq', '-awq')
        >>> next(readings("unsloth/qwen3-8b-gguf:q6_k"))[:3]
        ('unsloth/qwen3-8b', 'q6-k', '-q6_k')
        >>> next(readings("qwen3-8b-q6_k"))[:3]
        ('qwen3-8b', 'q6-k', '-q6_k')
    """
    repository, colon, file = name.partition(":")
    owner, slash, short = repository.rpartition("/")
    named = None if colon else _ENDING.search(short)
    if short.endswith(GGUF) or named:
        mix = named["mix"] if named else file or USUAL
        kind = _gguf_format(mix)
        if not kind:
            return
        short = short[: named.start()] if named else short.removesuffix(GGUF)
        ending, mixed = f"-{mix}", kind in IN_BLOCKS
    else:
        ending = next((each for each in ENDINGS if short.endswith(each)), "")
        if not ending or colon:
            return
        short, kind, mixed = short.removesuffix(ending), ENDINGS[ending], False
        if ending == "-fp8" and owner in BLOCKS:
            kind, ending = "fp8-block", "-fp8-block"
    for base in bases(short, releases=True):
        for whole in (f"{owner}{slash}{base}", base):
            yield CheckpointName(whole, kind, ending, mixed)
