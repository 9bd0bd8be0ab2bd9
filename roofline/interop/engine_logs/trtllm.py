"""Iterations that TensorRT-LLM logs: lines of ``print_iter_log``, and statistics as JSON.

Source: TensorRT-LLM 0.18 to 1.2, ``tensorrt_llm/_torch/pyexecutor/py_executor.py``: a line for each
iteration, with the time of the host's loop (``host_step_time``, in which it waits for the device)
and ``states`` of what was run; older ones have the scheduled requests at their end and no use of
the cache. ``/metrics`` and ``LLM.get_stats`` (docs: ``trtllm-serve``, metrics endpoint) have
``iterLatencyMS``, ``inflightBatchingStats`` and ``kvCacheStats``, a document for an iteration.
The C++ runtime logs the size of the cache (``[MemUsageChange]``).
"""

import re
from collections.abc import Iterable
from math import nan
from typing import Final

from roofline.interop.engine_logs.log import IterationWindow, LogReader
from roofline.serving.logged_step import LoggedStep

WINDOW: Final = 40
"""Iterations of a mean. [1]"""
LEAST: Final = 8
"""Fewest of them. [1]"""
DRAFTED: Final = 1.5
"""Tokens of a sequence in an iteration from which on it drafts. [1]"""
_NUMBER: Final = r"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
_RANK = re.compile(r"global_rank = (\d+)")
_SCHEDULED = re.compile(r"num_scheduled_requests\s*[:=] (\d+)")
_HOST = re.compile(rf"host_step_time = {_NUMBER}ms")
_STATES = re.compile(
    r"'num_ctx_requests': (\d+), 'num_ctx_tokens': (\d+), 'num_generation_tokens': (\d+)[,}]"
)
_UTIL = re.compile(rf"kv_cache_util = {_NUMBER}")
_SIZE = re.compile(r"max tokens in paged KV cache \((\d+)\)")


def _field(name: str) -> re.Pattern[str]:
    return re.compile(rf"""["']{name}["']:\s*{_NUMBER}""")


_APART = re.compile(r"\},?\s*(?=\{[^{}]*iterLatencyMS)")
_LATENCY, _CONTEXTS, _CONTEXT_TOKENS, _GENERATING, _BLOCKS, _BLOCK, _DRAFTED = (
    _field(name)
    for name in (
        "iterLatencyMS",
        "numContextRequests",
        "numCtxTokens",
        "numGenRequests",
        "usedNumBlocks",
        "tokensPerBlock",
        "numDraftTokens",
    )
)


class _Iterations(LogReader):
    """Iterations, averaged over some of them for each rank."""

    engine = "trtllm"

    def __init__(self) -> None:
        super().__init__()
        self._windows: dict[str, IterationWindow] = {}
        self._drafted = self._sequences = 0.0
        self._line = 0

    def _taken(self, rank: str, one: LoggedStep, line: int) -> Iterable[LoggedStep]:
        window, self._line = self._windows.setdefault(rank, IterationWindow(WINDOW)), line
        idle = not one.running or not one.seconds
        if idle or not window.steady(one.running):
            self.unsteady += idle
            yield from self._closed(window, line)
        if idle:
            return
        window.add(one)
        if window.steps == window.most:
            yield from self._closed(window, line)

    def _closed(self, window: IterationWindow, line: int) -> Iterable[LoggedStep]:
        if window.steps >= LEAST:
            self.used += window.steps
            yield window.mean(line)
        else:
            self.unsteady += window.steps
            window.clear()

    def finish(self) -> Iterable[LoggedStep]:
        """Iterations that no others followed."""
        for window in self._windows.values():
            yield from self._closed(window, self._line)


class TrtllmReader(_Iterations):
    """Lines of ``print_iter_log``."""

    title = "iterations that TensorRT-LLM logs"
    words = ("host_step_time =",)
    facts = ("max tokens in paged KV cache",)

    def learn_fact(self, text: str) -> None:
        """Size of the cache; the last one told is the one that serves."""
        if found := _SIZE.search(text):
            self.capacity = float(found[1])

    def read(self, text: str, line: int) -> Iterable[LoggedStep]:
        """Mean iteration, where enough of them are told."""
        host, states, scheduled = (each.search(text) for each in (_HOST, _STATES, _SCHEDULED))
        if not (host and states and scheduled):
            self.cut += 1
            return
        contexts, prompt, generated = (float(each) for each in states.groups())
        sequences = max(float(scheduled[1]) - contexts, 0.0)
        self._drafted += generated
        self._sequences += sequences
        self.drafts = self._drafted > DRAFTED * self._sequences > 0
        usage, rank = _UTIL.search(text), _RANK.search(text)
        one = LoggedStep(
            line,
            running=generated,
            seconds=float(host[1]) / 1000.0,
            usage=float(usage[1]) if usage else nan,
            prompt_tokens=prompt,
            prompts=contexts,
        )
        yield from self._taken(rank[1] if rank else "", one, line)


class TrtllmStatsReader(_Iterations):
    """Statistics of iterations as JSON, one a line."""

    title = "iteration statistics of TensorRT-LLM"
    words = ("iterLatencyMS",)

    def read(self, text: str, line: int) -> Iterable[LoggedStep]:
        """Mean iteration, where enough of them are told."""
        if text.count("iterLatencyMS") > 1:  # an array of iterations
            parts = _APART.split(text)
            self.cut += len(parts) == 1
            for part in parts if len(parts) > 1 else ():
                yield from self.read(f"{part}}}", line)
            return
        needed = [each.search(text) for each in (_LATENCY, _CONTEXTS, _CONTEXT_TOKENS, _GENERATING)]
        if not all(needed) or not text.rstrip().endswith(("}", "]", ",")):
            self.cut += 1
            return
        drafted = _DRAFTED.search(text)
        self.drafts |= drafted is not None and float(drafted[1]) > 0
        latency, contexts, prompt, running = (float(each[1]) for each in needed if each)
        used, block = _BLOCKS.search(text), _BLOCK.search(text)
        tokens = float(used[1]) * float(block[1]) if used and block else nan
        one = LoggedStep(
            line,
            running=running,
            seconds=latency / 1000.0,
            tokens=tokens,
            prompt_tokens=prompt,
            prompts=contexts,
        )
        yield from self._taken("", one, line)
