"""What a command tells SGLang."""

from roofline.cost.layout import Layout
from roofline.interop.commands import shared
from roofline.interop.commands.flags import Given, Value, flags
from roofline.interop.commands.reading import Files, Read, Start, after, others, told
from roofline.interop.commands.served import Offloaded, Served, Share, Speculation
from roofline.interop.commands.sglang import facts
from roofline.interop.commands.words import Line


def starts(line: Line) -> Start | None:
    """Where a command starts an SGLang server."""
    modules = tuple((python, "-m", "sglang.launch_server") for python in ("python", "python3"))
    return after(line.words, *modules, ("sglang", "serve"))


def read(line: Line, files: Files) -> Read:
    """What a command tells SGLang; `files` is not asked.

    Raises:
        DocumentError: At a flag whose value has no meaning, or that contradicts another.
    """
    start = starts(line)
    assert start is not None, "not a command of SGLang"
    given = flags(line.words[start.end :], facts.KNOWN, line.source)
    notes: list[str] = []
    model = given.text("model-path")
    if model is None:
        raise line.source.error(0, "no model is named", "give --model-path")
    stages = told(line, facts.STAGES)
    if stages is not None:
        given.values["stages"] = [Value(stages.text, facts.STAGES, stages.at, line.source)]
    layout, replicas = _layout_read(given, notes)
    static = given.share("mem-fraction-static")
    chunked, budget = _budget_read(given)
    served = Served(
        facts.NAME,
        model,
        layout,
        replicas=replicas,
        weights=shared.weights_of(given, facts.QUANTISED),
        kv=given.chosen("kv-cache-dtype", facts.KV_READ, "a cache that is not modelled") or "auto",
        max_sequences=given.whole("max-running-requests"),
        token_budget=budget,
        max_context=given.whole("context-length"),
        memory=None if static is None else Share(static, "static"),
        recv_interval=given.whole("scheduler-recv-interval") or 1,
        stream_interval=given.whole("stream-interval") or 1,
        chunked_prefill=chunked,
        prefix_caching=not given.switch("disable-radix-cache"),
        cuda_graphs=not given.switch("disable-cuda-graph"),
        offloaded=_offloaded_read(given),
        speculation=_speculation_read(given),
    )
    extra = [value.text for value in given.positional]
    return Read(
        served,
        (*start.before(line), *others(line, facts.STAGES), *given.unused(), *extra),
        tuple(notes),
    )


def _layout_read(given: Given, notes: list[str]) -> tuple[Layout, int]:
    """Layout and replicas: data parallelism without shared experts is replicas."""
    whole = given.whole("tp-size") or 1
    pp = given.whole("pp-size") or 1
    cp = given.whole("attn-cp-size") or 1
    outer = given.whole("dp-size") or 1
    groups = given.whole("attn-dp-size") or 1
    if given.switch("enable-dp-attention"):
        older = given.find("enable-dp-attention")
        if older is not None and groups not in (1, outer):
            older.refuse(f"--attn-dp-size {groups} contradicts --dp-size {outer}", "say one")
        groups, outer = outer, 1
    given.find("enable-prefill-cp")
    if whole % (groups * cp):
        anchor = given.find("attn-dp-size") or given.find("attn-cp-size") or given.find("dp-size")
        assert anchor is not None
        anchor.refuse(
            f"{whole} devices (--tp-size) cannot be divided into {groups * cp} attention groups",
            "make --tp-size a multiple of the attention groups",
        )
    experts = given.whole("ep-size") or 1
    if whole % experts:
        anchor = given.find("ep-size")
        assert anchor is not None
        anchor.refuse(f"{experts} does not divide --tp-size {whole}", "give a divisor of it")
    if cp > 1:
        notes.append(
            "SGLang's context parallelism does not divide the cache; the model's does: it counts "
            f"{cp} times too few bytes of it"
        )
    given.find("nnodes")
    tp = whole // (groups * cp)
    stages = shared.stages_of(given.find("stages"), pp)
    return Layout(tp=tp, cp=cp, dp=groups, ep=experts, pp=pp, stages=stages), outer


def _budget_read(given: Given) -> tuple[bool, int | None]:
    """Whether prompts are cut, and new tokens of a step."""
    chunk = given.find("chunked-prefill-size")
    if chunk is not None and chunk.text == "-1":
        return False, given.whole("max-prefill-tokens")
    return True, given.whole("chunked-prefill-size")


def _offloaded_read(given: Given) -> Offloaded | None:
    size = given.whole("cpu-offload-gb", least=0)
    return Offloaded(size * facts.GIB, "bytes") if size else None


def _speculation_read(given: Given) -> Speculation | None:
    name = given.find("speculative-algorithm")
    model = given.text("speculative-draft-model-path") or ""
    steps = given.whole("speculative-num-steps")
    drafted = given.whole("speculative-num-draft-tokens", least=2)
    width = given.find("speculative-eagle-topk")
    if name is None:
        return None
    method = facts.METHODS_READ.get(name.text.upper())
    if method is None:
        name.refuse(f"{name.text!r:.40} is not modelled", f"known: {', '.join(facts.METHODS_READ)}")
    if width is not None and width.text != "1":
        width.refuse("a tree of drafts is not read", "roofline speculate --tree prices one")
    row = None if drafted is None else drafted - 1
    if steps is not None and row is not None and steps != row and method != "ngram":
        at = given.find("speculative-num-draft-tokens")
        assert at is not None
        at.refuse(f"{steps} steps draft {steps + 1} tokens with one alternative each", "say one")
    tokens = row if row is not None else steps
    if tokens is None:
        name.refuse("it does not say how many tokens are drafted", "give --speculative-num-steps")
    if method == "eagle" and not model:
        method = "mtp"  # without a head of its own it is the target's that drafts
    return Speculation(method, tokens, model if method in ("eagle", "model") else "")
