"""What a command tells vLLM."""

import json
from dataclasses import replace
from typing import Any

from roofline.cost.layout import Layout
from roofline.interop.commands import shared
from roofline.interop.commands.flags import Given, Value, flags
from roofline.interop.commands.reading import Files, Read, Start, after, others, told
from roofline.interop.commands.served import Offloaded, Served, Share, Speculation
from roofline.interop.commands.vllm import facts
from roofline.interop.commands.words import Line


def starts(line: Line) -> Start | None:
    """Where a command starts a vLLM server."""
    module = "vllm.entrypoints.openai.api_server"
    modules = tuple((python, "-m", module) for python in ("python", "python3"))
    found = after(line.words, ("vllm", "serve"), *modules)
    if found is None:
        # The image's entry point is the server: what follows its name are arguments.
        for place, word in enumerate(line.words):
            if word.text.partition(":")[0].endswith(facts.IMAGE.partition(":")[0]):
                return Start(place, place + 1)
    return found


def read(line: Line, files: Files) -> Read:
    """What a command tells vLLM; `files` is not asked.

    Raises:
        DocumentError: At a flag whose value has no meaning, or that contradicts another.
    """
    start = starts(line)
    assert start is not None, "not a command of vLLM"
    given = flags(line.words[start.end :], facts.KNOWN, line.source)
    named = given.find("model")
    if named is not None:
        given.positional.append(named)
    if not given.positional:
        raise line.source.error(0, "no model is named", "write vllm serve MODEL")
    model = given.positional[0]
    if named is not None and named.text != model.text:
        named.refuse(f"{model.text!r:.60} is served already", "name one model")
    stages = told(line, facts.STAGES)
    if stages is not None:
        given.values["stages"] = [Value(stages.text, facts.STAGES, stages.at, line.source)]
    found = from_settings(given, model.text)
    extra = [value.text for value in given.positional[1:] if value is not named]
    return replace(
        found, unused=(*start.before(line), *others(line, facts.STAGES), *given.unused(), *extra)
    )


def from_settings(given: Given, model: str) -> Read:
    """What engine arguments say, by their names with dashes."""
    notes: list[str] = []
    layout = _layout_read(given, notes)
    dp = int(layout.dp)
    sequences, tokens = given.whole("max-num-seqs"), given.whole("max-num-batched-tokens")
    context = given.find("max-model-len")
    automatic = context is not None and context.text in ("auto", "-1")
    length = None if automatic else given.whole("max-model-len")
    chunked = given.switch("enable-chunked-prefill", default=True)
    _check_step(given, tokens, sequences)
    if not chunked and tokens is not None and length is not None and tokens < length:
        notes.append(
            f"without chunked prefill vLLM wants --max-num-batched-tokens, {tokens} here, to be "
            f"--max-model-len, {length}, at least"
        )
    utilization = given.share("gpu-memory-utilization")
    served = Served(
        facts.NAME,
        model,
        layout,
        weights=shared.weights_of(given, facts.QUANTISED),
        kv=given.chosen("kv-cache-dtype", facts.KV_READ, "a cache that is not modelled") or "auto",
        max_sequences=None if sequences is None else sequences * dp,
        token_budget=None if tokens is None else tokens * dp,
        max_context=length,
        memory=None if utilization is None else Share(utilization),
        chunked_prefill=chunked,
        prefix_caching=given.switch("enable-prefix-caching", default=True),
        cuda_graphs=not given.switch("enforce-eager"),
        offloaded=_offloaded_read(given),
        speculation=_speculation_read(given),
    )
    return Read(served, notes=tuple(notes))


def _check_step(given: Given, tokens: int | None, sequences: int | None) -> None:
    """Refuse a step that the engine refuses to start with."""
    found = given.find("max-num-batched-tokens")
    if found is None or tokens is None or sequences is None or tokens >= sequences:
        return
    found.refuse(
        f"{tokens:,} new tokens of a step are fewer than the {sequences:,} of --max-num-seqs",
        "vLLM does not start so: give more tokens, or fewer sequences",
    )


def _layout_read(given: Given, notes: list[str]) -> Layout:
    tp = given.whole("tensor-parallel-size") or 1
    pp = given.whole("pipeline-parallel-size") or 1
    dp = given.whole("data-parallel-size") or 1
    cp = given.whole("prefill-context-parallel-size") or 1
    decode = given.find("decode-context-parallel-size")
    if decode is not None and (given.whole("decode-context-parallel-size") or 1) > 1:
        notes.append(
            "--decode-context-parallel-size splits caches within the tensor-parallel group, which "
            "is not modelled"
        )
    if cp > 1:
        notes.append(
            "vLLM's context parallelism does not divide the cache; the model's does: it counts "
            f"{cp} times too few bytes of it"
        )
    experts = tp * dp * cp if given.switch("enable-expert-parallel") else 1
    stages = shared.stages_of(given.find("stages"), pp)
    nodes = given.find("nnodes")
    if nodes is not None and (tp * cp * dp * pp) % (given.whole("nnodes") or 1):
        nodes.refuse(
            f"{tp * cp * dp * pp} devices do not spread evenly over {nodes.text} nodes",
            "make the degrees a multiple of the nodes",
        )
    return Layout(tp=tp, cp=cp, dp=dp, ep=experts, pp=pp, stages=stages)


def _offloaded_read(given: Given) -> Offloaded | None:
    found = given.find("cpu-offload-gb")
    if found is None or found.text == "0":
        return None
    size = given.share("cpu-offload-gb", most=2.0**20)
    return None if size is None else Offloaded(size * facts.GIB, "bytes")


def _speculation_read(given: Given) -> Speculation | None:
    """What drafts: one JSON text, keys of it with dots, or the short flags of 0.33."""
    config = given.find("speculative-config")
    named = {
        "method": given.find("spec-method") or given.find("speculative-config.method"),
        "model": given.find("spec-model") or given.find("speculative-config.model"),
        "num_speculative_tokens": given.find("spec-tokens")
        or given.find("speculative-config.num-speculative-tokens"),
    }
    given.find("speculative-config.prompt-lookup-max")
    said: dict[str, Any] = {key: found.text for key, found in named.items() if found is not None}
    anchor = config or next((found for found in named.values() if found is not None), None)
    if anchor is None:
        return None
    if config is not None:
        for key, value in _json(config).items():
            written = key.replace("-", "_")
            if written in said:
                repeated = named[written]
                assert repeated is not None
                repeated.refuse("--speculative-config says it too", "say it once")
            said[written] = value
    method = str(said.get("method", "draft_model" if said.get("model") else ""))
    if method not in facts.METHODS_READ:
        anchor.refuse(
            f"drafting by {method!r:.40} is not modelled", f"known: {', '.join(facts.METHODS_READ)}"
        )
    tokens = str(said.get("num_speculative_tokens", ""))
    if not tokens.isdecimal():
        anchor.refuse("it does not say num_speculative_tokens", "say how many tokens are drafted")
    ours = facts.METHODS_READ[method]
    model = str(said.get("model", "")) if ours in ("eagle", "model") else ""
    return Speculation(ours, int(tokens), model)


def _json(found: Value) -> dict[str, Any]:
    try:
        value = json.loads(found.text)
    except (RecursionError, ValueError):
        value = None
    if not isinstance(value, dict):
        found.refuse(
            "not a JSON object", 'write \'{"method": "mtp", "num_speculative_tokens": 1}\''
        )
    return value
