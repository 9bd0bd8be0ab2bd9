"""``text-generation-launcher`` of Hugging Face's TGI 3.3, alone or as its image starts it: read.

Flags: ``docs/source/reference/launcher.md`` of github.com/huggingface/text-generation-inference.
Every flag is a variable of the environment too, in capitals. Of use here:

- ``--num-shard`` is tensor parallelism; without it all devices that it sees.
- ``--max-total-tokens`` is the longest sequence, ``--max-batch-prefill-tokens`` the prompts of a
  step, ``--max-batch-total-tokens`` the whole cache; ``--max-concurrent-requests`` counts those
  that wait too and is no limit of a step.
- ``--cuda-memory-fraction`` is a share of the whole device.
"""

from typing import Final

from roofline.cost.layout import Layout
from roofline.interop.commands import shared
from roofline.interop.commands.flags import EngineFlags, GivenFlags, Value
from roofline.interop.commands.reading import (
    Files,
    ParsedCommand,
    Start,
    after,
    opened,
    variables,
    without,
)
from roofline.interop.commands.served import DraftSettings, ReplicaServer, ServerMemory
from roofline.interop.commands.words import CommandLine

NAME: Final = "tgi"
TITLE: Final = "TGI"
VERSION: Final = "3.3"
IMAGE: Final = "huggingface/text-generation-inference"
KV_READ: Final = {"fp8_e4m3fn": "fp8", "fp8_e5m2": "fp8-e5m2"}
QUANTISED: Final = {
    "fp8": "fp8",
    "awq": "int4",
    "gptq": "int4",
    "marlin": "int4",
    "bitsandbytes-nf4": "int4",
    "bitsandbytes-fp4": "int4",
    "eetq": "int8",
    "bitsandbytes": "int8",
    "compressed-tensors": "",
}
KNOWN: Final = EngineFlags(
    {"-p": "port", "--max-input-length": "max-input-tokens"},
    frozenset({"json-output", "ngrok", "usage-stats", "env"}),
)
VARIABLES: Final = frozenset(
    {
        "model-id", "num-shard", "sharded", "quantize", "dtype", "kv-cache-dtype", "speculate",
        "max-total-tokens", "max-batch-prefill-tokens", "max-batch-total-tokens", "max-batch-size",
        "cuda-memory-fraction", "cuda-graphs",
    }
)  # fmt: skip
"""Flags that variables of the environment may say."""


def starts(line: CommandLine) -> Start | None:
    """Place where a command starts the launcher, or its image whose entry point that is."""
    found = after(line, ("text-generation-launcher",))
    if found is None:
        for place, word in enumerate(line.words):
            if word.text.partition(":")[0].endswith(IMAGE):
                return Start(place, place + 1)
    return found


def read(line: CommandLine, files: Files) -> ParsedCommand:
    """Read a command; `files` is not asked.

    DocumentError at a flag whose value has no meaning, or that contradicts another.
    """
    start = starts(line)
    given, ignored = opened(line, start, KNOWN)
    for name, word in variables(line, start):
        flag = name.lower().replace("_", "-")
        if flag in VARIABLES:
            given.values.setdefault(flag, [Value(word.text, name, word.at, line.source)])
            ignored = without(ignored, name, word.text)
    model = given.text("model-id")
    if model is None:
        raise line.source.error(0, "no model is named", "give --model-id")
    notes: list[str] = []
    served = ReplicaServer(
        NAME,
        model,
        Layout(tp=_shards(given, notes)),
        weights=_weights(given),
        kv=given.chosen("kv-cache-dtype", KV_READ, "a cache that is not modelled") or "auto",
        max_sequences=given.whole("max-batch-size"),
        token_budget=given.whole("max-batch-prefill-tokens"),
        max_context=given.whole("max-total-tokens"),
        memory=_memory(given),
        cuda_graphs=given.text("cuda-graphs") != "0",
        speculation=_speculation(given),
    )
    extra = [value.text for value in given.positional]
    return ParsedCommand(served, (*ignored, *given.unused(), *extra), tuple(notes))


def _shards(given: GivenFlags, notes: list[str]) -> int:
    alone = given.find("sharded") is not None and not given.switch("sharded", default=True)
    shards = given.whole("num-shard")
    if alone:
        return 1
    if shards is None:
        notes.append("TGI takes all devices that it sees where --num-shard does not say: read as 1")
    return shards or 1


def _weights(given: GivenFlags) -> str:
    method = given.chosen("quantize", QUANTISED, "a quantisation that is not modelled")
    dtype = given.chosen("dtype", shared.DTYPES_READ, "no type that weights are computed in")
    return method or dtype or ""


def _memory(given: GivenFlags) -> ServerMemory | None:
    tokens, share = given.whole("max-batch-total-tokens"), given.share("cuda-memory-fraction")
    if tokens is not None:
        return ServerMemory(float(tokens), "tokens")
    return None if share is None else ServerMemory(share)


def _speculation(given: GivenFlags) -> DraftSettings | None:
    tokens = given.whole("speculate", least=0)
    return DraftSettings("ngram", tokens) if tokens else None
