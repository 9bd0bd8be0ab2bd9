"""Lines of SGLang's scheduler: one for each batch of prompts, one for every 40 decode steps.

Source: SGLang 0.4 to 0.5, ``srt/managers/scheduler.py`` and ``scheduler_metrics_mixin.py``,
``log_prefill_stats`` and ``log_decode_stats``: decoded tokens since the line before over the time
since then, in which batches of prompts ran as well; sequences and tokens in use as they are now.
``decode_log_interval`` of ``ServerArgs`` is 40 unless told otherwise. Lines of attention data
parallelism name the copy (``DP0``), those of a pipeline the stage (``PP0``): each is of one of the
batches that are on their way, and refused.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from roofline.interop.engine_logs.log import LogReader, between
from roofline.serving.logged_step import LoggedStep

EVERY: Final = 40
"""Decode steps of a line, unless the server's arguments say otherwise. [1]"""
_DECODE = re.compile(
    r"Decode batch(?: \[\d+\])?[.,] #running-req: (\d+), #(?:full )?token: (\d+), .*?"
    r"gen throughput \(token/s\): ([\d.]+), #queue-req: \d"
)
_PREFILL = re.compile(
    r"Prefill batch(?: \[\d+\])?[.,] #new-seq: (\d{1,9}), #new-token: (\d+), .*?"
    r"#running-req: (\d{1,9}), "
    r"#queue-req: \d"
)
_RANK = re.compile(r" DP(\d+)")
_STAGE = re.compile(r" PP\d")
_SIZE = re.compile(r"max_total_num_tokens=(\d+)")
_EVERY = re.compile(r"decode_log_interval=(\d{1,9})\b")


@dataclass(slots=True)
class _Since:
    """Prompts since the last decode line of a copy of attention."""

    running: float | None = None
    """Sequences at that line; None before the first."""
    prompt_tokens: float = 0.0
    prompts: int = 0
    batches: int = 0
    idle: bool = False
    """Tokens of prompts that came since, these prompts, the batches that they came in, and whether
    nothing ran before one of them."""


class SglangReader(LogReader):
    """SGLang's lines of batches."""

    title = "batches that SGLang logs"
    engine = "sglang"
    words = ("Decode batch", "Prefill batch")
    facts = ("max_total_num_tokens=", "decode_log_interval=")

    def __init__(self) -> None:
        super().__init__()
        self._every = EVERY
        self._since: dict[str, _Since] = {}

    def learn_fact(self, text: str) -> None:
        """Size of the cache, and how often decoding is logged."""
        if found := _SIZE.search(text):
            self.capacity = float(found[1])
        if (found := _EVERY.search(text)) and int(found[1]):
            self._every = int(found[1])

    def read(self, text: str, line: int) -> Iterable[LoggedStep]:
        """Mean decode step since the last line of decoding, with the prompts in between."""
        head = text.partition(" batch")[0]
        self.staged |= _STAGE.search(head) is not None
        rank = _RANK.search(head)
        since = self._since.setdefault(rank[1] if rank else "", _Since())
        if "Prefill batch" in text:
            if found := _PREFILL.search(text):
                since.prompt_tokens += float(found[2])
                since.prompts += int(found[1])
                since.batches += 1
                since.idle |= int(found[3]) == 0
            else:
                self.cut += 1
            return
        self.drafts |= "accept len:" in text
        found = _DECODE.search(text)
        try:
            running, tokens, output = (float(each) for each in found.groups())  # type: ignore[union-attr]  # caught below
        except (AttributeError, ValueError):
            self.cut += 1
            return
        last, new = since.running, since.prompt_tokens
        chunk = new / since.batches if since.batches else 0.0
        together = since.prompts / since.batches if since.batches else 1.0
        idle = since.idle
        self._since[rank[1] if rank else ""] = _Since(running)
        mean = None if last is None or idle or not output else between(last, running)
        if mean is None:
            self.unsteady += 1
            return
        self.used += 1
        sequences, sd = mean
        yield LoggedStep(
            line,
            running=sequences,
            seconds=sequences / output,
            tokens=tokens,
            prompt_tokens=new / self._every,
            chunk=chunk,
            running_sd=sd,
            prompts=max(together, 1.0),
        )
