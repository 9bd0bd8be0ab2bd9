"""Periodic statistics that vLLM's V1 engine logs, every ten seconds unless told otherwise.

Source: vLLM 0.8 to 0.16, ``vllm/v1/metrics/loggers.py``, ``LoggingStatLogger.log``: tokens since
the line before over the time since then; sequences and cache as the last step had them. With
``--aggregate-engine-logging`` sequences are those of all engines, the cache is the mean of them.
``vllm/v1/core/kv_cache_utils.py`` logs the size of the cache. Tokens of prompts count with their
first token; those that a prefix cache had are among them up to 0.13 (``num_prompt_tokens``), and
later are not (``prompt_token_stats.computed``), so that they are taken to be half among them where
prefixes hit. Lines of V0 (0.5 to 0.7) differ in what is in their middle alone.
"""

import re
from collections.abc import Iterable

from roofline.interop.engine_logs.log import LogReader, between
from roofline.serving.logged_step import LoggedStep

_LINE = re.compile(
    r"(?:Engine (?P<engine>\d+): |(?P<many>\d{1,9}) Engines Aggregated: )?"
    r"Avg prompt throughput: (?P<prompt>[\d.]+) tokens/s, "
    r"Avg generation throughput: (?P<output>[\d.]+) tokens/s, "
    r"Running: (?P<running>\d+) reqs,.*?"
    r"GPU KV cache usage: (?P<usage>[\d.]+)%"
    r"(?:, Prefix cache hit rate: (?P<hits>[\d.]+)%)?"
)
_SIZE = re.compile(r"GPU KV cache size: ([\d,]+) tokens")


class VllmReader(LogReader):
    """vLLM's periodic line."""

    title = "statistics that vLLM logs"
    engine = "vllm"
    words = ("Avg generation throughput:", "SpecDecoding metrics:", "Speculative metrics:")
    facts = ("GPU KV cache size:",)

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[str, float] = {}

    def learn_fact(self, text: str) -> None:
        """Size of the cache of one engine."""
        if found := _SIZE.search(text):
            self.capacity = float(found[1].replace(",", ""))

    def read(self, text: str, line: int) -> Iterable[LoggedStep]:
        """Mean step between the line before and this one.

        The sequences of both ends are taken, on average: each decodes one token in a step.
        """
        if "SpecDecoding metrics:" in text or "Speculative metrics:" in text:
            self.drafts = True
            return
        found = _LINE.search(text)
        try:
            prompt, output, running, usage = (
                float(found[name])  # type: ignore[index]  # caught below
                for name in ("prompt", "output", "running", "usage")
            )
        except (TypeError, ValueError):
            self.cut += 1
            return
        assert found is not None, "its groups were read"
        engines = max(int(found["many"] or 1), 1)
        running, output, prompt = (each / engines for each in (running, output, prompt))
        before = self._before.get(found["engine"] or "")
        self._before[found["engine"] or ""] = running
        mean = None if before is None or not output else between(before, running)
        if mean is None:
            self.unsteady += 1
            return
        self.used += 1
        sequences, sd = mean
        seconds = sequences / output
        hits = min(float(found["hits"] or 0.0) / 100.0, 1.0)
        computed = 1.0 - hits / 2.0
        yield LoggedStep(
            line,
            running=sequences,
            seconds=seconds,
            usage=usage / 100.0,
            prompt_tokens=prompt * computed * seconds,
            doubt=hits / 2.0 / computed,
            running_sd=sd,
        )
