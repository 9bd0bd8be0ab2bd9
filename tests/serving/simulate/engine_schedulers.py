"""Schedulers of engines as their code has them, one step at a time and in their own terms.

Written after reading the engines' code at the versions below; nothing of it is copied, and nothing
is shared with the simulator but the price of a step and the records of what is asked. What is left
out of each is told in the guide.

- vLLM: ``vllm/v1/core/sched/scheduler.py`` at 00024d31, ``Scheduler.schedule``.
- SGLang 0.5.23: ``srt/managers/schedule_policy.py``, ``PrefillAdder``, and
  ``srt/managers/scheduler.py``, ``get_next_batch_to_run``.
- TensorRT-LLM: ``tensorrt_llm/_torch/pyexecutor/scheduler.py`` at 034fffb0,
  ``PyMicroBatchScheduler.schedule`` behind a capacity scheduler that guarantees no eviction.
- llama.cpp: ``tools/server/server-context.cpp`` at 00dc8057, ``update_slots``.
"""

import math
from dataclasses import dataclass, field

from roofline.serving.requests import Requests
from roofline.serving.simulate.prices import StepPrices
from tests.serving.simulate.reference_prices import step_s


@dataclass(eq=False)
class Request:
    number: int
    arrival: float
    prompt: int
    output: int
    computed: int = 0
    made: int = 0
    again: bool = False
    """Whether it lost its place and is not yet computed again: its tokens are priced as a
    prompt's, the last one too."""
    admitted: float = math.nan
    first: float = math.nan
    finish: float = math.nan

    @property
    def tokens(self) -> int:
        """Tokens known so far: those of the prompt and of the answer."""
        return self.prompt + self.made

    @property
    def decodes(self) -> bool:
        return self.computed == self.tokens - 1 and self.made > 0 and not self.again


@dataclass
class Engine:
    """Clock, queue and memory that all of them have."""

    given: Requests
    prices: StepPrices
    max_running: int
    budget: int
    pages: int = 2**40
    page: int = 1
    now: float = 0.0
    waiting: list[Request] = field(default_factory=list)
    running: list[Request] = field(default_factory=list)
    preemptions: int = 0
    steps: int = 0

    def __post_init__(self) -> None:
        columns = (self.given.arrival, self.given.prompt, self.given.output)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        self.requests = [Request(number, *row) for number, row in enumerate(rows)]
        self.coming = list(self.requests)

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.page)

    @property
    def free(self) -> int:
        return self.pages - sum(self.blocks(each.computed) for each in self.running)

    def schedule(self) -> dict[Request, int]:
        """Tokens of each request in the next step."""
        raise NotImplementedError

    def receive(self) -> None:
        while self.coming and self.coming[0].arrival <= self.now:
            self.waiting.append(self.coming.pop(0))

    def run(self) -> "Engine":
        while self.coming or self.waiting or self.running:
            self.receive()
            if not (self.waiting or self.running):
                self.now = self.coming[0].arrival
                continue
            self.step(self.schedule())
        return self

    def step(self, scheduled: dict[Request, int]) -> None:
        assert scheduled, "a step without tokens"
        decoding = [each for each in scheduled if each.decodes]
        chunks = [(n, each.computed) for each, n in scheduled.items() if not each.decodes]
        context = [each.computed + 1 for each in decoding]
        seen = sum(min(keys, self.prices.window) for keys in context)
        for each in scheduled:
            if math.isnan(each.admitted):
                each.admitted = self.now
        self.now += step_s(self.prices, len(decoding), sum(context), chunks, seen)
        self.steps += 1
        for each, tokens in scheduled.items():
            each.computed += tokens
            if each.computed < each.tokens:
                continue
            each.again = False
            each.made += 1
            if each.made == 1:
                each.first = self.now
            if each.made == each.output:
                each.finish = self.now
                self.end(each)

    def end(self, one: Request) -> None:
        self.running.remove(one)


class Vllm(Engine):
    """Running requests in order, then waiting ones, until the budget is used up; the last running
    one is preempted where a block is missing, and then nobody is admitted.
    """

    def schedule(self) -> dict[Request, int]:
        budget, scheduled, preempted = self.budget, dict[Request, int](), False
        taken = 0
        place = 0
        while place < len(self.running) and budget > 0:
            one = self.running[place]
            new = min(one.tokens - one.computed, budget)
            wanted = self.blocks(one.computed + new) - self.blocks(one.computed)
            while wanted > self.free - taken:
                last = self.running.pop()
                last.computed, last.again, preempted = 0, True, True
                self.preemptions += 1
                self.waiting.insert(0, last)
                if last is one:
                    break
            if one not in self.running:
                break
            scheduled[one] = new
            taken += wanted
            budget -= new
            place += 1
        while not preempted and self.waiting and budget > 0:
            if len(self.running) == self.max_running:
                break
            one = self.waiting[0]
            new = min(one.tokens - one.computed, budget)
            if self.blocks(self.asked(one, new)) > self.free - taken:
                break
            self.running.append(self.waiting.pop(0))
            scheduled[one] = new
            taken += self.blocks(new)
            budget -= new
        return scheduled

    def asked(self, one: Request, new: int) -> int:
        """Tokens for which there must be room when a request is admitted."""
        return new


class ReservingVllm(Vllm):
    """With ``scheduler_reserve_full_isl``: the whole sequence has to have room, of which it takes
    what its chunks need.
    """

    def asked(self, one: Request, new: int) -> int:
        return one.tokens


class Sglang(Engine):
    """A batch of prompts as long as there are any, the last of them cut to what is left of a chunk
    and continued first; else all that run decode.
    """

    chunked: Request | None = None

    def schedule(self) -> dict[Request, int]:
        left, batch = self.budget, dict[Request, int]()
        if self.chunked is not None:
            one = self.chunked
            batch[one] = min(one.tokens - one.computed, left)
            left -= batch[one]
            self.chunked = None if one.computed + batch[one] == one.tokens else one
        while self.waiting and self.chunked is None and left > 0:
            if len(self.running) == self.max_running:
                break
            one = self.waiting.pop(0)
            self.running.append(one)
            batch[one] = min(one.tokens, left)
            left -= batch[one]
            if batch[one] < one.tokens:
                self.chunked = one
        return batch or {each: 1 for each in self.running if each.decodes}


class Trtllm(Engine):
    """In-flight batching of requests whose cache has room to their ends: in order, a token of each
    that generates, and whole prompts as far as the budget goes.
    """

    def schedule(self) -> dict[Request, int]:
        reserved, active = 0, list[Request]()
        for one in (*self.running, *self.waiting):
            need = self.blocks(one.prompt + one.output - 1)
            if reserved + need > self.pages or len(active) == self.max_running:
                break
            reserved += need
            active.append(one)
        scheduled, tokens = dict[Request, int](), 0
        for one in active:
            new = one.tokens - one.computed
            if tokens + new > self.budget:
                break
            tokens += new
            scheduled[one] = new
            if one in self.waiting:
                self.waiting.remove(one)
                self.running.append(one)
        return scheduled


class LlamaCpp(Engine):
    """Slots: a request has one until its end. A batch has the sampled tokens of all slots first,
    then prompts, slot by slot, until it is full.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.slots: list[Request | None] = [None] * self.max_running
        self.used = list(range(self.max_running))  # idle longest first

    def schedule(self) -> dict[Request, int]:
        while self.waiting and None in self.slots:
            slot = next(each for each in self.used if self.slots[each] is None)
            self.slots[slot] = self.waiting.pop(0)
        self.running = [each for each in self.slots if each is not None]
        batch = {each: 1 for each in self.running if each.decodes}
        left = self.budget - len(batch)
        for one in self.running:
            if one not in batch and left > 0:
                batch[one] = min(one.tokens - one.computed, left)
                left -= batch[one]
        return batch

    def end(self, one: Request) -> None:
        slot = self.slots.index(one)
        self.slots[slot] = None
        self.used.remove(slot)
        self.used.append(slot)
        super().end(one)
