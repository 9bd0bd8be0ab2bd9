"""``ollama run MODEL``, and ``ollama serve`` with its variables: read.

Variables: ``envconfig/config.go`` of github.com/ollama/ollama (0.12). Names are ``family:tag``, and
the tag says size and GGUF format, ``8b-instruct-q4_K_M``; without a format it is ``q4_K_M``. Ollama
runs llama.cpp's kernels or its own on the same formats. Of use here:

- ``OLLAMA_NUM_PARALLEL`` sequences at once, 1 unless said, of ``OLLAMA_CONTEXT_LENGTH`` tokens
  each, 4,096 unless said.
- ``OLLAMA_KV_CACHE_TYPE`` is the cache, ``f16`` unless said.
- Layers that do not fit on the devices stay on the host, which no variable says.
"""

import re
from typing import Final

from roofline.cost.layout import Layout
from roofline.interop.commands import gguf
from roofline.interop.commands.flags import EngineFlags, Value
from roofline.interop.commands.reading import (
    Files,
    ParsedCommand,
    Start,
    after,
    opened,
    variables,
    without,
)
from roofline.interop.commands.served import ReplicaServer
from roofline.interop.commands.words import CommandLine
from roofline.model.checkpoint_names import USUAL

NAME: Final = "ollama"
TITLE: Final = "Ollama"
VERSION: Final = "0.12"
CONTEXT: Final = 4096
"""Longest sequence unless told otherwise. [token]"""
PARALLEL: Final = 1
"""Sequences at once unless told otherwise. [1]"""
VARIABLES: Final = {
    "OLLAMA_NUM_PARALLEL": "parallel",
    "OLLAMA_CONTEXT_LENGTH": "context",
    "OLLAMA_KV_CACHE_TYPE": "kv",
}
KV_READ: Final = {"f16": "auto", "q8_0": "int8-kv", "q4_0": "int4-kv"}
KNOWN: Final = EngineFlags({}, frozenset({"verbose", "insecure", "nowordwrap"}))
_DASHED: Final = re.compile(r"^(llama|gemma|phi)(?=\d)")
_SIZE: Final = re.compile(r"(?:^|-)(\d+(?:\.\d+)?[bm]|\d+x\d+b)(?:-|$)")


def starts(line: CommandLine) -> Start | None:
    """Place where a command starts Ollama, or one of its models."""
    return after(line, ("ollama", "run"), ("ollama", "serve"))


def read(line: CommandLine, files: Files) -> ParsedCommand:
    """Read a command; `files` is not asked. DocumentError where it names no model."""
    start = starts(line)
    given, ignored = opened(line, start, KNOWN)
    for name, word in variables(line, start):
        if name in VARIABLES:
            given.values[VARIABLES[name]] = [Value(word.text, name, word.at, line.source)]
            ignored = without(ignored, name, word.text)
    if not given.positional:
        raise line.source.error(
            0, "no model is named", "write ollama run MODEL, with the variables of ollama serve"
        )
    model, stored = _named(given.positional[0].text)
    weights, notes = gguf.stored_as(stored)
    served = ReplicaServer(
        NAME,
        model,
        Layout(),
        weights=weights,
        kv=given.chosen("kv", KV_READ, "a cache that is not modelled") or "auto",
        max_sequences=given.whole("parallel") or PARALLEL,
        max_context=given.whole("context") or CONTEXT,
    )
    extra = [value.text for value in given.positional[1:]]
    return ParsedCommand(served, (*ignored, *given.unused(), *extra), notes)


def _named(name: str) -> tuple[str, str]:
    """Network by the name that most catalogs have, and GGUF format of a name of Ollama.

    >>> _named("llama3.1:8b"), _named("hf.co/org/Qwen2.5-7B-Instruct-GGUF:Q8_0")
    (('llama-3.1-8b', 'q4_k_m'), ('org/Qwen2.5-7B-Instruct', 'q8_0'))
    """
    path, _, tag = name.partition(":")
    if path.startswith(("hf.co/", "huggingface.co/")):
        return path.partition("/")[2].removesuffix("-GGUF"), (tag or USUAL).lower()
    _, stored = gguf.divided(tag)
    size = _SIZE.search(tag)
    family = _DASHED.sub(r"\1-", path.rpartition("/")[2].lower())
    return (f"{family}-{size[1]}" if size else family), stored.lower() or USUAL
