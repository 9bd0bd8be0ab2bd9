"""``lmdeploy serve api_server``, flags of LMDeploy 0.18: read.

Names and defaults: ``lmdeploy/cli/serve.py``, ``lmdeploy/cli/utils.py`` and
``lmdeploy/messages.py`` of that release. Of use here:

- ``--cache-max-entry-count`` is a share of what the weights leave free, 0.8 unless said, or a
  number of blocks where it is 1 or more.
- ``--quant-policy`` is the cache: 8 and 4 are integers of so many bits, ``fp8`` is E4M3.
- TurboMind, which runs unless ``--backend pytorch`` is said, has no switch for CUDA graphs.
- Prefixes are kept with ``--enable-prefix-caching`` alone; prompts are cut to
  ``--max-prefill-token-num``.
"""

from typing import Final

from roofline.cost.layout import Layout
from roofline.interop.commands import shared
from roofline.interop.commands.flags import EngineFlags, GivenFlags
from roofline.interop.commands.reading import Files, ParsedCommand, Start, after, opened
from roofline.interop.commands.served import ReplicaServer, ServerMemory
from roofline.interop.commands.words import CommandLine

NAME: Final = "lmdeploy"
TITLE: Final = "LMDeploy"
VERSION: Final = "0.18"
SHARE: Final = 0.8
"""Share of the free memory that the cache takes unless told otherwise. [1]"""
BLOCK: Final = 64
"""Tokens of a block of the cache unless told otherwise. [token]"""
KV_READ: Final = {
    "0": "auto", "none": "auto", "4": "int4-kv", "int4": "int4-kv", "8": "int8-kv",
    "int8": "int8-kv", "fp8": "fp8", "fp8_e4m3": "fp8", "16": "fp8",
}  # fmt: skip
FORMATS: Final = {
    "hf": "", "awq": "int4", "gptq": "int4", "compressed-tensors": "", "fp8": "fp8-block",
    "mxfp4": "mxfp4",
}  # fmt: skip
KNOWN: Final = EngineFlags(
    {}, frozenset({"eager-mode", "language-model-only", "trust-remote-code", "allow-credentials"})
)


def starts(line: CommandLine) -> Start | None:
    """Place where a command starts an LMDeploy server."""
    return after(line, ("lmdeploy", "serve", "api_server"))


def read(line: CommandLine, files: Files) -> ParsedCommand:
    """Read a command; `files` is not asked.

    DocumentError at a flag whose value has no meaning, or that is not read.
    """
    given, ignored = opened(line, starts(line), KNOWN)
    if not given.positional:
        raise line.source.error(0, "no model is named", "write lmdeploy serve api_server MODEL")
    backend = given.text("backend") or "turbomind"
    served = ReplicaServer(
        NAME,
        given.positional[0].text,
        _layout(given),
        weights=given.chosen("model-format", FORMATS, "a format that is not modelled")
        or given.chosen("dtype", shared.DTYPES_READ, "no type that weights are computed in")
        or "",
        kv=given.chosen("quant-policy", KV_READ, "a cache that is not modelled") or "auto",
        max_sequences=given.whole("max-batch-size"),
        token_budget=given.whole("max-prefill-token-num"),
        max_context=given.whole("session-len"),
        memory=_memory(given),
        prefix_caching=given.switch("enable-prefix-caching"),
        cuda_graphs=not given.switch("eager-mode"),
    )
    notes: tuple[str, ...] = ()
    if backend != "turbomind":
        notes = (f"the {backend:.20} backend is priced as TurboMind, which was measured",)
    extra = [value.text for value in given.positional[1:]]
    return ParsedCommand(served, (*ignored, *given.unused(), *extra), notes)


def _layout(given: GivenFlags) -> Layout:
    for name in ("dp", "ep", "cp"):
        if (given.whole(name) or 1) > 1:
            given.refuse(
                name, "this degree of LMDeploy is not read", "say the layout to roofline itself"
            )
    return Layout(tp=given.whole("tp") or 1)


def _memory(given: GivenFlags) -> ServerMemory:
    block = given.whole("cache-block-seq-len") or BLOCK
    count = given.find("cache-max-entry-count")
    if count is not None and count.text.isdecimal() and int(count.text) > 0:
        return ServerMemory(float(int(count.text) * block), "tokens")
    share = given.share("cache-max-entry-count")
    return ServerMemory(SHARE if share is None else share, "free")
