"""Metrics of vLLM and SGLang in the text format of Prometheus, one scrape or several.

Source: vLLM 0.10 to 0.16, ``vllm/v1/metrics/loggers.py``, ``PrometheusStatLogger``; SGLang 0.4 to
0.5, ``srt/metrics/collector.py``; docs.vllm.ai, "Production metrics". Sums and counts only grow, so
that a scrape tells of what came since the one before it, the first of the server's whole life. A
step is as long as the mean gap between tokens, which vLLM calls ``time_per_output_token_seconds``
up to 0.10 and ``inter_token_latency_seconds`` since. TTFT has waits in it and tells nothing of a
step; its count is that of prompts. Hits of a prefix cache under
the name that vLLM gave them before, whose unit it calls blocks, are not understood.
"""

import re
from collections.abc import Iterable, Mapping
from math import isfinite, nan
from typing import ClassVar, Final

from roofline.interop.engine_logs.log import LogReader
from roofline.serving.logged_step import LoggedStep

_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(\{.*\})?\s+(\S+)(?:\s+-?\d+)?\s*$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
DRAFTS: Final = ("spec_decode_num_drafts_total", "spec_accept_length")
"""Samples above 0 where an engine drafts."""
GAPS: Final = ("inter_token_latency_seconds", "time_per_output_token_seconds")
"""Histograms of the time between tokens, the one that is preferred first."""


class _Scrapes(LogReader):
    """Samples of one engine, scrape by scrape."""

    prefix: ClassVar[str] = ""
    names: ClassVar[Mapping[str, str]] = {}
    """Our names for the engine's gauges and counters."""

    def __init__(self) -> None:
        super().__init__()
        self._now: dict[str, float] = {}
        self._engines: dict[str, int] = {}
        self._seen: set[str] = set()
        self._before: dict[str, float] = {}
        self._line = 0

    def claims(self, text: str) -> bool:
        """Whether a line is a sample of the engine."""
        return text.startswith(self.prefix)

    def read(self, text: str, line: int) -> Iterable[LoggedStep]:
        """Mean step of a scrape, when the next one begins: a sample that was there comes again."""
        sample = _SAMPLE.match(text)
        try:
            value = float(sample[3])  # type: ignore[index]  # caught below
        except (TypeError, ValueError):
            self.cut += 1
            return
        assert sample is not None, "its value was read"
        name, labels = sample[1].removeprefix(self.prefix), sample[2] or ""
        if name.endswith(("_bucket", "_created")):
            return
        self._configured(name, labels)
        if name + labels in self._seen:
            yield from self._scraped()
        self._seen.add(name + labels)
        # Engines of one server add up.
        self._now[name] = self._now.get(name, 0.0) + value
        self._engines[name] = self._engines.get(name, 0) + 1
        self._line = line

    def finish(self) -> Iterable[LoggedStep]:
        """Mean step of the last scrape."""
        return self._scraped()

    def _configured(self, name: str, labels: str) -> None:
        """Take what labels tell of the server."""

    def _scraped(self) -> Iterable[LoggedStep]:
        now, before, engines = self._now, self._before, self._engines
        self._now, self._before, self._engines, self._seen = {}, now, {}, set()
        if not now:
            return
        for name in (self.names["running"], self.names["usage"], self.names["tokens"]):
            if name in now:
                now[name] /= engines[name]
        gap = next((each for each in GAPS if f"{each}_count" in now), None)
        self.drafts |= any(now.get(name, 0.0) > 0 for name in DRAFTS)
        if gap is None or now.get(self.names["blocks"], 0.0) > 0:
            self.unsteady += 1
            return
        if now[f"{gap}_count"] < before.get(f"{gap}_count", 0.0):
            before = {}  # the server was started again

        def grown(name: str) -> float:
            return now.get(name, 0.0) - before.get(name, 0.0)

        tokens, seconds = grown(f"{gap}_count"), grown(f"{gap}_sum")
        steps, prompts = grown("iteration_tokens_total_count"), grown("prompt_tokens_total")
        ends = [each.get(self.names["running"], 0.0) for each in (before, now) if each]
        running = grown("generation_tokens_total") / steps if steps else sum(ends) / len(ends)
        requests = grown("time_to_first_token_seconds_count")
        if not (tokens > 0 and seconds > 0 and running >= 1):
            self.unsteady += 1
            return
        hits = grown("prefix_cache_hits_total") + grown("cached_tokens_total")
        new = max(prompts - hits, 0.0)
        self.used += 1
        yield LoggedStep(
            self._line,
            running=running,
            seconds=seconds / tokens,
            tokens=self._cached(now, running),
            usage=now.get(self.names["usage"], nan),
            prompt_tokens=new / tokens * running,
            chunk=new / requests if requests > 0 else 0.0,
        )

    def _cached(self, now: Mapping[str, float], running: float) -> float:
        """Tokens in the cache of so many sequences, where a gauge has them. [token]"""
        value, there = (now.get(self.names[name], nan) for name in ("tokens", "running"))
        return value / there * running if there and isfinite(value) else nan


class VllmMetricsReader(_Scrapes):
    """Metrics of vLLM."""

    title = "metrics of vLLM"
    engine = "vllm"
    prefix = "vllm:"
    names: ClassVar[Mapping[str, str]] = {
        "running": "num_requests_running",
        "usage": "kv_cache_usage_perc",
        "tokens": "",
        "blocks": "gpu_prefix_cache_hits_total",
    }

    def _configured(self, name: str, labels: str) -> None:
        if name == "cache_config_info":
            told = dict(_LABEL.findall(labels))
            pages, page = told.get("num_gpu_blocks", ""), told.get("block_size", "")
            if pages.isdigit() and page.isdigit():
                self.capacity = float(pages) * float(page)


class SglangMetricsReader(_Scrapes):
    """Metrics of SGLang."""

    title = "metrics of SGLang"
    engine = "sglang"
    prefix = "sglang:"
    names: ClassVar[Mapping[str, str]] = {
        "running": "num_running_reqs",
        "usage": "token_usage",
        "tokens": "num_used_tokens",
        "blocks": "",
    }
