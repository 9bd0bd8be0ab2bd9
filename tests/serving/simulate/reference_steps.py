"""A server one step at a time, as plainly as can be."""

import math
from collections import OrderedDict
from dataclasses import dataclass, field

from roofline.serving.requests import Requests
from roofline.serving.simulate.prices import StepPrices
from roofline.serving.simulate.server import Server
from tests.serving.simulate.reference_prices import step_s


@dataclass(eq=False)
class Asked:
    number: int
    arrival: float
    prompt: int
    output: int
    priority: int
    rank: int
    think: float
    blocks: list[int]
    children: "list[Asked]" = field(default_factory=list)
    meets: "list[Asked]" = field(default_factory=list)
    unanswered: "set[int]" = field(default_factory=set)
    ready: float = math.nan
    admitted: float = math.nan
    first: float = math.nan
    finish: float = math.nan
    cached: int = 0
    preemptions: int = 0
    made: int = 0
    stored: int = 0
    goal: int = 0
    swapped: bool = False
    pages: list["Page"] = field(default_factory=list)
    region: tuple[int, int] = (0, 0)
    hits: int = 0
    place: int = 0  # group of devices in which it is prefilled

    @property
    def order(self) -> tuple[int, float, int]:
        return (self.priority, self.ready, self.rank)

    @property
    def whole(self) -> int:
        return self.prompt + self.output - 1


@dataclass(eq=False)
class Page:
    key: int | None = None
    users: int = 1


@dataclass
class Outcome:
    requests: list[Asked]
    steps: int = 0
    busy_s: float = 0.0
    preemptions: int = 0
    prefilled: int = 0
    decoded: int = 0
    recomputed: int = 0
    swapped: int = 0
    loaded: int = 0
    read: int = 0
    copied: int = 0
    peak: int = 0
    held: int = 0
    stored: int = 0
    final: int = 0
    external: int = 0


@dataclass
class Drafts:
    """Drafts that follow the batch: lengths by sequences that decode, and who accepts what."""

    lengths: list[int]
    rates: list[list[float]]
    keys: list[int]
    tokens: list[int]

    def chance(self, number: int, position: int) -> float:
        """SplitMix64 of a key and a position, its upper 53 bits."""
        mask = 2**64 - 1
        x = (self.keys[number] + position * 0x9E3779B97F4A7C15) & mask
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        return ((x ^ (x >> 31)) >> 11) / 2**53

    def yields(self, number: int, position: int, length: int) -> int:
        rates = self.rates[number]
        right = 0
        for at in range(length):
            if self.chance(number, position + at) >= rates[at]:
                break
            right += 1
        return right + 1


class Reference:
    def __init__(
        self,
        given: Requests,
        prices: StepPrices,
        server: Server,
        concurrency: int = 0,
        transferred: bool = False,
        ranks: list[int] | None = None,
        ramp_s: float = 0.0,
        drafts: "Drafts | None" = None,
    ) -> None:
        self.drafts = drafts
        self.real = dict.fromkeys(range(len(given)), 0)  # tokens, where a step may yield several
        self.starts = [i * ramp_s / concurrency for i in range(concurrency) if ramp_s]
        self.started = 0 if ramp_s else concurrency
        self.prices, self.server, self.clients = prices, server, concurrency
        self.budget = server.token_budget or 2**60
        self.requests = [
            Asked(
                i,
                float(given.arrival[i]),
                int(given.prompt[i]),
                int(given.output[i]),
                int(given.priority[i]),
                i if ranks is None else ranks[i],
                float(given.think[i]),
                [int(k) for k in given.hashes[given.prefix[i] : given.prefix[i + 1]]],
            )
            for i in range(len(given))
        ]
        if transferred:
            for one in self.requests:
                one.swapped, one.made = True, 1
        self.roots = [one for one in self.requests if given.after[one.number] < 0]
        for one in self.requests:
            if given.after[one.number] >= 0:
                self.requests[int(given.after[one.number])].children.append(one)
                one.unanswered.add(int(given.after[one.number]))
            if given.joins[one.number] >= 0:
                met = self.requests[int(given.joins[one.number])]
                one.meets = [met]
                met.unanswered.add(one.number)
        self.future: list[Asked] = []  # on their way to the front end
        self.inside: list[Asked] = []  # it takes one after the other
        self.front = 0.0
        self.behind = 0.0  # what it still has to do for tokens, now
        self.unseen = self.held = 0
        self.cold = server.cold
        self.waiting: list[Asked] = []
        self.decoding: list[Asked] = []
        self.partial: list[Asked] = []
        self.groups = round(1 / prices.shares[0])
        self.kept: OrderedDict[int, Page] = OrderedDict()  # by id
        self.idle: OrderedDict[int, Page] = OrderedDict()  # those nobody uses, oldest first
        self.host: OrderedDict[int, None] = OrderedDict()  # ids of pages, oldest first
        self.disk: OrderedDict[int, None] = OrderedDict()  # and of those on its drives
        self.open = 0
        self.now = 0.0
        self.swapping = 0.0
        self.outcome = Outcome(self.requests)

    # --- requests come

    def arrive(self) -> None:
        costs = self.prices.engine
        while self.roots and self.clients:
            one = self.roots[0]
            if one.arrival > self.now:
                break
            if self.starts and self.starts[0] <= self.now:
                one.arrival = self.starts.pop(0)
                self.started += 1
            elif self.open < self.started:
                one.arrival = self.now + self.behind
            else:
                break
            self.open += 1
            self.roots.pop(0)
            one.ready = one.arrival + costs.request_s
            self.future.append(one)
        idle = not (self.decoding or self.partial)
        if not idle and self.unseen < self.server.recv_interval:
            return
        self.unseen = 0
        while self.roots and not self.clients:
            one = self.roots[0]
            if one.arrival + costs.request_s > self.now:
                break
            self.roots.pop(0)
            one.ready = one.arrival + costs.request_s
            self.future.append(one)
        at_the_door = [one for one in self.future if one.ready <= self.now]
        for one in sorted(at_the_door, key=lambda one: (one.ready, one.number)):
            self.future.remove(one)
            self.front = max(self.front, one.ready) + costs.serial_s
            one.ready = self.front
            self.inside.append(one)
        for one in [one for one in self.inside if one.ready <= self.now]:
            self.inside.remove(one)
            self.waiting.append(one)
        self.waiting.sort(key=lambda one: one.order)

    def next_arrival(self) -> float:
        times = [one.ready for one in self.future + self.inside]
        if self.roots and not self.clients:
            times.append(self.roots[0].arrival + self.prices.engine.request_s)
        elif self.roots:
            start = self.starts[0] if self.starts else math.inf
            waits = start if self.open >= self.started else 0.0
            times.append(max(self.roots[0].arrival, waits))
        return min(times, default=math.inf)

    # --- memory

    @property
    def running(self) -> list[Asked]:
        return [*self.decoding, *self.partial, *self.planned]

    def used_pages(self) -> int:
        return len({id(page) for one in self.running for page in one.pages})

    def free_pages(self) -> int:
        return self.server.pages - self.used_pages() - len(self.idle)

    def take(self, one: Asked, count: int) -> None:
        for _ in range(count):
            if self.free_pages() < 1:
                key, _page = self.idle.popitem(last=False)
                del self.kept[key]
                self.keep_on_host(key)
            one.pages.append(Page())

    def keep_on_host(self, key: int) -> None:
        most = self.server.tier_tokens // self.server.page
        if key in self.host:
            self.host.move_to_end(key)
        elif most:
            if not self.server.pooled:
                self.disk.pop(key, None)
            if len(self.host) == most:
                left, _ = self.host.popitem(last=False)
                if not self.server.pooled:
                    self.keep_on_disk(left)
            self.host[key] = None

    def keep_on_disk(self, key: int) -> None:
        most = self.server.disk_tokens // self.server.page
        if key in self.disk:  # a pool's
            self.disk.move_to_end(key)
        elif most:
            if len(self.disk) == most:
                self.disk.popitem(last=False)
            self.disk[key] = None

    def known(self, one: Asked) -> tuple[list[int], list[int], int]:
        """Ids of leading pages that are there, of those that the host has after them, and the
        tokens that need not be computed.
        """
        hits: list[int] = []
        loads: list[int] = []
        if self.server.sharing:
            for key in one.blocks:
                if key in self.kept and not loads:
                    hits.append(key)
                elif key in self.host or key in self.disk:
                    loads.append(key)
                else:
                    break
                if (len(hits) + len(loads)) * self.server.page >= one.goal:
                    return (hits if loads else hits[:-1]), loads, one.goal - 1
        return hits, loads, (len(hits) + len(loads)) * self.server.page

    def paged(self, tokens: int) -> int:
        """Pages of a sequence of so many tokens with the drafted ones after them."""
        return math.ceil((tokens + self.server.drafted) / self.server.page)

    def begins(self, one: Asked) -> bool:
        """Whether its last drafted token of the next step lies in a page that it has not."""
        return self.paged(one.stored + 1) > self.paged(one.stored)

    def pledged(self, one: Asked) -> int:
        share = one.prompt + int(self.server.reservation * (one.output - 1))
        return self.paged(max(one.goal, share)) - one.hits

    def admit(self, one: Asked) -> bool:
        server = self.server
        if server.kv == "contiguous":
            return self.lay(one)
        hits, loads, done = ([], [], one.goal) if one.swapped else self.known(one)
        needed = self.paged(one.goal) - len(hits)
        unused = sum(self.kept[key].users == 0 for key in hits)
        if needed > self.free_pages() + len(self.idle) - unused - self.begun:
            return False
        one.hits = len(hits)
        if server.reservation and self.running:
            promised = sum(self.pledged(other) for other in self.running)
            if promised + self.pledged(one) > server.pages:
                return False
        self.outcome.copied += done > len(hits) * server.page and not (one.swapped or loads)
        reads = sum(key in self.disk and key not in self.host for key in loads)
        for key in loads:
            self.keep_on_host(key)
            if self.server.pooled and key in self.disk:
                self.disk.move_to_end(key)
        self.outcome.loaded += len(loads) * server.page
        self.outcome.read += reads * server.page
        self.swapping += (len(loads) - reads) * server.page * server.swap_s_per_token
        self.swapping += reads * server.page * server.disk_s_per_token
        for key in hits:
            page = self.kept[key]
            page.users += 1
            self.idle.pop(key, None)
            one.pages.append(page)
        self.planned.append(one)
        self.take(one, needed)
        one.stored = done
        return True

    def lay(self, one: Asked) -> bool:
        size = self.server.most_tokens(one.prompt, one.output)
        regions = sorted(other.region for other in self.running)
        start = 0
        for begin, length in regions:
            if begin - start >= size:
                break
            start = begin + length
        if start + size > self.server.kv_tokens:
            return False
        one.region = (start, size)
        one.stored = one.goal if one.swapped else 0
        self.planned.append(one)
        return True

    def keep(self, one: Asked, blocks: list[int], tokens: int) -> None:
        for place, key in enumerate(blocks[: tokens // self.server.page]):
            page = one.pages[place]
            if page.key is not None:
                continue
            if key in self.kept:
                one.pages[place] = self.kept[key]
                self.kept[key].users += 1
                self.idle.pop(key, None)
            else:
                page.key = key
                self.kept[key] = page
            if self.server.pooled:
                self.keep_on_disk(key)

    def give_back(self, one: Asked) -> None:
        for page in reversed(one.pages):
            page.users -= 1
            if page.key is not None and page.users == 0:
                self.idle[page.key] = page
        one.pages = []
        one.region = (0, 0)

    def physical(self) -> int:
        """Tokens stored, those in shared pages once."""
        seen: dict[int, int] = {}
        for one in self.running:
            if self.server.kv == "contiguous":
                seen[id(one)] = one.stored
            for place, page in enumerate(one.pages):
                inside = min(max(one.stored - place * self.server.page, 0), self.server.page)
                seen[id(page)] = max(seen.get(id(page), 0), inside)
        return sum(seen.values())

    # --- steps

    def room_to_decode(self) -> bool:
        calm = True
        while self.decoding and self.server.kv == "pages":
            wanted = sum(map(self.begins, self.decoding))
            if wanted <= self.free_pages() + len(self.idle):
                break
            calm = False
            self.preempt()
        return calm

    def preempt(self) -> None:
        victim = max(self.running, key=lambda one: one.order)
        self.outcome.preemptions += 1
        victim.preemptions += 1
        self.give_back(victim)
        host = sum(
            one.stored for one in self.waiting if one.swapped and not math.isnan(one.admitted)
        )
        if victim in self.partial:
            self.partial.remove(victim)
            self.outcome.recomputed += victim.stored
        else:
            self.decoding.remove(victim)
            swap = self.server.preemption == "swap"
            if swap and host + victim.stored <= self.server.host_tokens:
                victim.swapped = True
                self.outcome.swapped += victim.stored
                self.swapping += victim.stored * self.server.swap_s_per_token
            else:
                self.outcome.recomputed += victim.stored
        self.waiting.append(victim)
        self.waiting.sort(key=lambda one: one.order)

    def prefill(self, decoding: int) -> tuple[list[tuple[Asked, int, int]], bool]:
        drafted = self.drafts.lengths[decoding] if self.drafts else self.server.drafted
        beside = math.ceil(decoding * (1 + drafted) / self.groups)
        left = [max(self.budget // self.groups, 1) - beside] * self.groups
        met = [False] * self.groups
        chunks: list[tuple[Asked, int, int]] = []

        def compute(one: Asked, most: int) -> None:
            tokens = min(one.goal - one.stored, most)
            left[one.place] -= tokens
            met[one.place] = True
            chunks.append((one, tokens, one.stored))
            if one.stored + tokens == one.goal and self.server.sharing:
                self.keep(one, one.blocks, one.prompt)

        for one in [one for one in self.partial if left[one.place] > 0]:
            self.partial.remove(one)
            self.planned.append(one)
            compute(one, left[one.place])
        while self.waiting and max(left) > 0 and len(self.running) < self.server.max_sequences:
            place = left.index(max(left))
            one = self.waiting[0]
            one.goal = one.prompt + one.made - one.swapped
            cut = self.server.policy == "chunked"
            beyond = one.goal - self.known(one)[2] > left[place]
            if not cut and met[place] and not one.swapped and beyond:
                break
            if not self.admit(one):
                return chunks, True
            self.waiting.pop(0)
            if math.isnan(one.admitted):
                one.admitted, one.cached = self.now, one.stored
            elif one.swapped:
                self.swapping += one.stored * self.server.swap_s_per_token
            if not one.swapped:
                one.place = place
                compute(one, left[place] if cut else one.goal)
        return chunks, False

    def step(self) -> None:
        self.planned: list[Asked] = []
        self.swapping = 0.0
        chunks: list[tuple[Asked, int, int]] = []
        blocked = False
        decode_first = self.server.first == "decode"
        idle = not (self.decoding or self.partial)
        calm = self.room_to_decode() if decode_first else True
        self.begun = sum(map(self.begins, self.decoding)) * decode_first
        held = self.holds(idle)
        if calm and not held:
            chunks, blocked = self.prefill(len(self.decoding) if decode_first else 0)
        joining = [one for one in self.planned if one.swapped]
        decode = decode_first or not (chunks or joining)
        if decode and not decode_first:
            self.room_to_decode()
        batch = list(self.decoding) if decode else []
        for one in batch:
            if self.server.kv == "pages" and self.begins(one):
                self.take(one, 1)
        context = sum(one.stored + 1 for one in batch)
        out = self.outcome
        if batch or chunks:
            seen = sum(min(one.stored + 1, self.prices.window) for one in batch)
            parts = [(n, s) for _, n, s in chunks]
            places = [one.place for one, _, _ in chunks]
            took = step_s(self.prices, len(batch), context, parts, seen, places)
            took += self.start(bool(parts))
            out.steps += 1
        else:
            took = 0.0
        out.busy_s += took + self.swapping
        for one in batch:
            one.stored += 1
            one.made += 1
            if self.drafts:
                number, length = one.number, self.drafts.lengths[len(batch)]
                self.real[number] += self.drafts.yields(number, self.real[number], length)
        for one, tokens, _ in chunks:
            one.stored += tokens
        tokens = len(batch) + sum(one.stored == one.goal for one, _, _ in chunks)
        self.pass_time(took + self.swapping, tokens)
        self.unseen = self.server.recv_interval if chunks else self.unseen + len(batch[:1])
        if batch or chunks:
            self.count(len(batch), sum(n for _, n, _ in chunks), blocked)
        self.finish_step(batch, chunks, joining)

    def holds(self, idle: bool) -> bool:
        server = self.server
        if not server.hold_steps or idle or self.partial:
            return False
        self.held += 1
        if len(self.waiting) >= server.hold_prompts or self.held >= server.hold_steps:
            self.held = 0
        return self.held > 0

    def count(self, batch: int, new: int, blocked: bool) -> None:
        out, server = self.outcome, self.server
        out.prefilled += new
        out.decoded += batch
        if server.kv == "contiguous":
            held = sum(one.region[1] for one in self.running)
            out.final += sum(one.whole for one in self.running)
            out.external += (server.kv_tokens - held) * blocked
        else:
            held = self.used_pages() * server.page
        out.held += held
        out.stored += self.physical()
        out.peak = max(out.peak, held)

    def whole(self, one: Asked) -> bool:
        """Whether it has its last token."""
        if self.drafts:
            return self.real[one.number] >= self.drafts.tokens[one.number]
        return one.made == one.output

    def finish_step(
        self, batch: list[Asked], chunks: list[tuple[Asked, int, int]], joining: list[Asked]
    ) -> None:
        self.planned = []
        ended = sorted((one for one in batch if self.whole(one)), key=lambda o: o.number)
        self.decoding = [one for one in self.decoding if one not in ended]
        prefilled = []
        for one, _, _ in chunks:
            if one.stored == one.goal:
                prefilled.append(one)
                one.made += 1
                self.real[one.number] += 1
            else:
                self.partial.append(one)
        for one in batch + prefilled:
            if math.isnan(one.first):
                one.first = self.now + self.behind
        ended += [one for one in prefilled if self.whole(one)]
        for one in ended:
            self.end(one)
        for one in prefilled + joining:
            if not self.whole(one):
                one.swapped = False
                self.decoding.append(one)

    def end(self, one: Asked) -> None:
        one.finish = self.now + self.behind
        longer = [
            child.blocks for child in one.children if child.blocks[: len(one.blocks)] == one.blocks
        ]
        if self.server.sharing and longer:
            self.keep(one, longer[-1], one.stored)
        self.give_back(one)
        self.open -= 1
        for child in dict.fromkeys(one.children + one.meets):
            child.unanswered.discard(one.number)
            if child.unanswered:
                continue
            child.arrival = one.finish + child.think
            child.ready = child.arrival + self.prices.engine.request_s
            self.future.append(child)
            self.open += 1

    def start(self, prompts: bool) -> float:
        """Time added to the first step with prompts of a server that has just started."""
        first, self.cold = self.cold and prompts, self.cold and not prompts
        return self.prices.engine.cold_s * first

    def pass_time(self, took: float, tokens: int = 0) -> None:
        """Time goes by, and tokens come to the front end, which hands over several together."""
        self.now += took
        each = float(self.prices.engine.front_end_s) / self.server.stream_interval
        self.behind = max(self.behind + tokens * each - took, 0.0)

    def run(self) -> Outcome:
        while self.goes_on():
            pass
        return self.outcome

    def goes_on(self) -> bool:
        """One step, or a wait; False where nothing is left to do."""
        self.planned = []
        self.arrive()
        if self.decoding or self.partial or self.waiting:
            self.step()
            return True
        soonest = self.next_arrival()
        self.pass_time(max(soonest - self.now, 0.0) if soonest < math.inf else 0.0)
        return soonest < math.inf
