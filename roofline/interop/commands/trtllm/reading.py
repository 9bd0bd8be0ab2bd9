"""What a command tells TensorRT-LLM."""

from roofline.cost.layout import Layout
from roofline.interop.commands import shared
from roofline.interop.commands.flags import Given, flags, keys
from roofline.interop.commands.reading import Files, Read, Start, after, others
from roofline.interop.commands.served import Served, Share, Speculation
from roofline.interop.commands.trtllm import facts
from roofline.interop.commands.words import Line


def starts(line: Line) -> Start | None:
    """Where a command starts a TensorRT-LLM server."""
    return after(line.words, ("trtllm-serve", "serve"), ("trtllm-serve",))


def read(line: Line, files: Files) -> Read:
    """What a command and the file that it names tell TensorRT-LLM.

    Raises:
        DocumentError: At a flag or key whose value has no meaning, or that contradicts another; or
            the file cannot be read.
    """
    start = starts(line)
    assert start is not None, "not a command of TensorRT-LLM"
    given = flags(line.words[start.end :], facts.KNOWN, line.source)
    if not given.positional:
        raise line.source.error(0, "no model is named", "write trtllm-serve MODEL")
    model = given.positional[0].text
    graphs = True
    if (named := given.find("config")) is not None:
        document = files(named.text)
        given = given.merged(keys(document, (), facts.KEYS))
        # An empty configuration of CUDA graphs turns them off; none at all leaves them on.
        settings = document.data if isinstance(document.data, dict) else {}
        graphs = settings.get(facts.GRAPHS, {}) is not None
    layout = _layout_read(given)
    groups = int(layout.dp)
    sequences, tokens = given.whole("max-batch-size"), given.whole("max-num-tokens")
    free = given.share("free-gpu-memory-fraction")
    served = Served(
        facts.NAME,
        model,
        layout,
        weights=given.chosen("dtype", facts.DTYPE_READ, "no type that weights are computed in")
        or "",
        kv=given.chosen("kv-dtype", {word: name for name, word in facts.KV.items()}, "not modelled")
        or "auto",
        max_sequences=None if sequences is None else sequences * groups,
        token_budget=None if tokens is None else tokens * groups,
        max_context=given.whole("max-seq-len"),
        memory=None if free is None else Share(free, "free"),
        dp_timeout_iters=_waiting(given),
        chunked_prefill=given.switch("enable-chunked-prefill"),
        prefix_caching=given.switch("block-reuse", default=True),
        cuda_graphs=graphs,
        speculation=_speculation_read(given),
    )
    extra = [value.text for value in given.positional[1:]]
    unused = (*start.before(line), *others(line), *given.unused(), *extra)
    return Read(served, unused)


def _layout_read(given: Given) -> Layout:
    tp = given.whole("tp-size") or 1
    pp = given.whole("pp-size") or 1
    cp = given.whole("cp-size") or 1
    experts = given.whole("ep-size") or 1
    if (tp * cp) % experts:
        at = given.find("ep-size")
        assert at is not None
        at.refuse(f"{experts} does not divide the {tp * cp} devices of a stage", "give a divisor")
    dp = tp if given.switch("enable-attention-dp") else 1
    stages = shared.stages_of(given.find("stages"), pp)
    return Layout(tp=tp // dp, cp=cp, dp=dp, ep=experts, pp=pp, stages=stages)


def _waiting(given: Given) -> int:
    """Steps that prompts wait for others where copies of attention are balanced. [1]"""
    steps = given.whole("dp-timeout-iters")
    return (steps or facts.TIMEOUT_ITERS) if given.switch("dp-balance") else 0


def _speculation_read(given: Given) -> Speculation | None:
    name = given.find("draft")
    tokens = given.whole("draft-tokens")
    model = given.text("draft-model") or ""
    if name is None:
        return None
    method = facts.METHODS_READ.get(name.text)
    if method is None:
        name.refuse(f"{name.text!r:.40} is not modelled", f"known: {', '.join(facts.METHODS_READ)}")
    if method in facts.OVERLAPPED:
        given.find("no-overlap")
    if tokens is None:
        name.refuse("it does not say how many tokens are drafted", "give max_draft_len")
    return Speculation(method, tokens, model if method in ("eagle", "model") else "")
