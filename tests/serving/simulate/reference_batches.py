"""Static, packed and dynamic batches as plainly as can be."""

import math

from tests.serving.simulate.reference_prices import step_s
from tests.serving.simulate.reference_steps import Asked, Outcome, Reference


class Batches:
    def __init__(self, base: Reference) -> None:
        self.base, self.server = base, base.server

    def run(self) -> Outcome:
        base = self.base
        while True:
            base.arrive()
            soonest = base.next_arrival()
            if len(base.waiting) < self.server.max_sequences and soonest < math.inf:
                until = math.inf
                if self.server.policy == "dynamic" and base.waiting:
                    until = min(one.ready for one in base.waiting) + self.server.timeout_s
                if base.now < until:
                    base.pass_time(max(min(soonest, until) - base.now, 0.0))
                    continue
            if not base.waiting:
                return base.outcome
            self.batch()

    def room(self, some: list[Asked]) -> int:
        if self.server.policy == "packed":
            return sum(self.base.paged(one.whole) for one in some)
        longest = max(one.prompt for one in some) + max(one.output for one in some) - 1
        return len(some) * self.base.paged(longest)

    def batch(self) -> None:
        base, some = self.base, list[Asked]()
        while base.waiting and len(some) < self.server.max_sequences:
            if some and self.room([*some, base.waiting[0]]) > self.server.pages:
                break
            some.append(base.waiting.pop(0))
        padded = self.server.policy != "packed"
        prompt, output = max(one.prompt for one in some), max(one.output for one in some)
        for one in some:
            one.admitted = base.now
        self.step(some, some, 0, (0, 0), [(prompt if padded else one.prompt, 0) for one in some])
        for one in some:
            one.first, one.made, one.stored = base.now + base.behind, 1, one.prompt
        active = some
        for k in range(1, output + 1):
            for one in [one for one in active if not padded and one.output == k]:
                base.end(one)
            active = [one for one in active if padded or one.output > k]
            if k == output or not active:
                break
            keys = [(prompt if padded else one.prompt) + k for one in active]
            seen = sum(min(each, base.prices.window) for each in keys)
            for one in active:
                one.stored += one.output > k
            self.step(some, active, len(active), (sum(keys), seen), [])
        if padded:
            for one in some:
                base.end(one)

    def step(
        self,
        some: list[Asked],
        active: list[Asked],
        decoding: int,
        keys: tuple[int, int],
        chunks: list[tuple[int, int]],
    ) -> None:
        base, out = self.base, self.base.outcome
        loads = [0] * base.groups
        places = []
        for tokens, _ in chunks:
            places.append(loads.index(min(loads)))
            loads[places[-1]] += tokens
        took = step_s(base.prices, decoding, keys[0], chunks, keys[1], places)
        took += base.start(bool(chunks))
        base.pass_time(took, decoding or len(chunks))
        out.busy_s += took
        out.steps += 1
        held = self.room(active) * self.server.page
        out.held += held
        out.peak = max(out.peak, held)
        out.final += sum(one.whole for one in active)
        out.stored += sum(one.prompt if chunks else one.stored for one in active)
        out.prefilled += sum(new for new, _ in chunks)
        out.decoded += decoding
