"""Giving out the cache and taking it back: pages, prefixes, regions; what is in use over time."""

from roofline.serving.simulate.compiled import prefix
from roofline.serving.simulate.compiled.compiler import compiled
from roofline.serving.simulate.compiled.state import ORDER, Rules, State


@compiled
def taken(s: State) -> int:
    """Pages that sequences use. [1]"""
    return int(s.counts[0].own + s.counts[0].used)


@compiled
def pages(g: Rules, tokens: int) -> int:
    """Pages that hold so many tokens of a sequence, and those that it drafts after them. [1]"""
    return (tokens + g.drafted + g.page - 1) // g.page


@compiled
def region(g: Rules, prompt: int, output: int) -> int:
    """Size of a request's region. [token]"""
    whole = prompt + output - 1 + g.drafted
    if g.region == 0:
        return g.longest
    if g.region == 2:
        return whole
    size = 1
    while size < whole:
        size *= 2
    return size


@compiled
def make_room(g: Rules, s: State) -> None:
    """Drop prefixes that nobody uses until what is given out fits."""
    n = s.counts[0]
    over = n.own + n.used + n.idle - g.pages
    while over > 0 and n.idle > 0:
        if g.tier_pages:
            keep_on_host(g, s, prefix.oldest(s.blocks))
        prefix.evict(s.chains, s.blocks)
        n.idle -= 1
        over -= 1


@compiled
def keep_on_host(g: Rules, s: State, key: int) -> None:
    """Keep a page that leaves the device, as the newest of those there.

    What has to leave the host goes to its drives, as the newest there; no page is on both. A pool
    has had it since it was computed.
    """
    place = prefix.find(s.tier_chains, s.tier_blocks, key)
    if place >= 0:
        prefix.use(s.tier_blocks, place)
    else:
        if g.disk_pages and not g.pooled:
            below = prefix.find(s.disk_chains, s.disk_blocks, key)
            if below >= 0:
                prefix.drop(s.disk_chains, s.disk_blocks, below)
        if prefix.full(s.tier_blocks):
            if g.disk_pages and not g.pooled:
                keep_on_disk(s, prefix.oldest(s.tier_blocks))
            prefix.evict(s.tier_chains, s.tier_blocks)
        place = prefix.insert(s.tier_chains, s.tier_blocks, key)
    prefix.leave(s.tier_blocks, place)


@compiled
def keep_on_disk(s: State, key: int) -> None:
    """Keep a page that leaves the host, as the newest of those on its drives."""
    if prefix.full(s.disk_blocks):
        prefix.evict(s.disk_chains, s.disk_blocks)
    prefix.leave(s.disk_blocks, prefix.insert(s.disk_chains, s.disk_blocks, key))


@compiled
def keep_in_pool(s: State, key: int, new: bool) -> None:
    """Make a page the newest of the pool; one that is not there comes there if it is new."""
    place = prefix.find(s.disk_chains, s.disk_blocks, key)
    if place >= 0:
        prefix.use(s.disk_blocks, place)
        prefix.leave(s.disk_blocks, place)
    elif new:
        keep_on_disk(s, key)


@compiled
def matched(g: Rules, s: State, i: int) -> tuple[int, int, int, int, int]:
    """Pages at the start of a prompt that are kept, and the tokens known by them.

    Those on the device, how many of them nobody uses, those after them that the host has; after the
    tokens, how many of the host's are on its drives. At least one token is computed. Where the
    pages hold the whole prompt, that is the last one, in a copy of the last page: the sequence will
    write to it.
    """
    r, hits, idle, loads, reads = s.rows, 0, 0, 0, 0
    if not g.sharing:
        return 0, 0, 0, 0, 0
    for at in range(r[i].blocks, r[i].blocks_end):
        place = -1 if loads else prefix.find(s.chains, s.blocks, s.hashes[at])
        if place < 0:
            key = s.hashes[at]
            there = g.tier_pages and prefix.find(s.tier_chains, s.tier_blocks, key) >= 0
            below = (
                not there and g.disk_pages and prefix.find(s.disk_chains, s.disk_blocks, key) >= 0
            )
            if not (there or below):
                break
            loads += 1
            reads += below
        if (hits + loads + (place >= 0)) * g.page >= r[i].goal:
            return hits, idle, loads, r[i].goal - 1, reads
        if place >= 0:
            s.places[at] = place
            hits += 1
            idle += s.blocks[place].users == 0
    return hits, idle, loads, (hits + loads) * g.page, reads


@compiled
def admit(g: Rules, s: State, i: int, ready: bool, left: int) -> bool:
    """Give a request the memory of its prompt, if there is enough; ``goal`` and ``done`` are set.

    ``ready`` is a request whose cache comes from elsewhere. What it will need beyond is pledged as
    far as the server reserves it. Where memory grows with chunks, the first one has so many tokens.
    """
    r, n = s.rows, s.counts[0]
    if g.contiguous:
        size = region(g, r[i].prompt, r[i].output)
        count = n.running
        place = _first_fit(s, count, size, g.pages)
        if place < 0:
            return False
        r[i].size = size
        _put(s, count, i, place)
        n.own += size
        n.final += r[i].prompt + r[i].output - 1
        r[i].done = r[i].goal if ready else 0
        n.stored += r[i].done
        n.running += 1
        return True
    hits, idle, loads, done, reads = (0, 0, 0, r[i].goal, 0) if ready else matched(g, s, i)
    tokens = min(r[i].goal, done + left) if g.grown else r[i].goal
    needed = pages(g, tokens) - hits
    if needed > g.pages - taken(s) - n.begun - idle:
        return False
    kept = max(r[i].goal, r[i].prompt + int(g.reservation * (r[i].output - 1)))
    pledge = pages(g, kept) - hits
    if g.reservation > 0.0 and n.pledged + pledge > g.pages and n.running > 0:
        return False
    n.copied += not ready and not loads and done > hits * g.page
    for at in range(r[i].blocks, r[i].blocks + hits):
        if prefix.use(s.blocks, s.places[at]):
            n.idle -= 1
            n.used += 1
            n.stored += g.page
    for at in range(r[i].blocks + hits, r[i].blocks + hits + loads):
        if g.tier_pages:
            keep_on_host(g, s, s.hashes[at])
        if g.pooled:
            keep_in_pool(s, s.hashes[at], False)
    n.loaded_tokens += loads * g.page
    n.read_tokens += reads * g.page
    n.swapping += (loads - reads) * g.page * g.swap_s + reads * g.page * g.disk_s
    r[i].shared, r[i].pledged = hits, pledge
    r[i].done = done
    n.own += needed
    n.pledged += pledge
    n.stored += r[i].done - hits * g.page
    n.running += 1
    make_room(g, s)
    return True


@compiled
def grow(g: Rules, s: State, i: int, tokens: int) -> bool:
    """Give a prompt that is partly prefilled the memory of its next tokens, if there is enough."""
    r, n = s.rows, s.counts[0]
    more = pages(g, r[i].done + tokens) - pages(g, r[i].done)
    if more > g.pages - taken(s) - n.begun:
        return False
    n.own += more
    make_room(g, s)
    return True


@compiled
def keep(g: Rules, s: State, i: int, other: int, tokens: int) -> None:
    """Let others find the whole pages of a request that hold its first tokens.

    Their ids are those of the prompt of a request, itself or the one that goes on from it.
    """
    r, n = s.rows, s.counts[0]
    shared, blocks = r[i].shared, r[other].blocks
    if other != i:
        for page in range(shared):
            s.places[blocks + page] = s.places[r[i].blocks + page]
    most = max(min(tokens // g.page, r[other].blocks_end - blocks), shared)
    for at in range(blocks + shared, blocks + most):
        place = prefix.find(s.chains, s.blocks, s.hashes[at])
        if place < 0:
            place = prefix.insert(s.chains, s.blocks, s.hashes[at])
            n.used += 1
        else:  # somebody else computed the same: one copy is enough
            n.stored -= g.page
            if prefix.use(s.blocks, place):
                n.idle -= 1
                n.used += 1
                n.stored += g.page
        s.places[at] = place
        if g.pooled:
            keep_in_pool(s, s.hashes[at], True)
    n.own -= most - shared
    r[i].shared = most


@compiled
def release(g: Rules, s: State, i: int, held: int, stored: int, other: int) -> None:
    """Take back the memory of a request: tokens that its pages were given for, and has stored.

    The places of its shared pages are those of the prompt of ``other``.
    """
    r, n = s.rows, s.counts[0]
    n.running -= 1
    if g.contiguous:
        _drop(s, n.running + 1, i)
        n.own -= r[i].size
        n.final -= r[i].prompt + r[i].output - 1
        n.stored -= stored
        return
    n.own -= pages(g, held) - r[i].shared
    n.pledged -= r[i].pledged
    n.stored -= stored - r[i].shared * g.page
    # Pages later in a prompt are of use to fewer others: they are to go first.
    for at in range(r[other].blocks + r[i].shared - 1, r[other].blocks - 1, -1):
        if prefix.leave(s.blocks, s.places[at]):
            n.used -= 1
            n.idle += 1
            n.stored -= g.page
    r[i].shared = 0


@compiled
def _first_fit(s: State, count: int, wanted: int, end: int) -> int:
    """Place among the regions, in order of their start, before which there is room.

    −1 where no hole is large enough.
    """
    free = 0
    for place in range(count):
        row = s.rows[s.lists[ORDER, place]]
        if row.start - free >= wanted:
            return place
        free = row.start + row.size
    return count if end - free >= wanted else -1


@compiled
def _put(s: State, count: int, i: int, place: int) -> None:
    """Lay the region of a row there; its size is known."""
    for at in range(count, place, -1):
        s.lists[ORDER, at] = s.lists[ORDER, at - 1]
    s.lists[ORDER, place] = i
    s.rows[i].start = 0
    if place:
        left = s.rows[s.lists[ORDER, place - 1]]
        s.rows[i].start = left.start + left.size


@compiled
def _drop(s: State, count: int, i: int) -> None:
    """Give back the region of a row."""
    place = 0
    while s.lists[ORDER, place] != i:
        place += 1
    for at in range(place, count - 1):
        s.lists[ORDER, at] = s.lists[ORDER, at + 1]


@compiled
def record(s: State, start: float, end: float, before: int, after: int) -> None:
    """Add a span of time [s] in which the tokens in use grow evenly from one number to another.

    In a run of decode steps they grow by pages, so many sequences at a time; the line through them
    is taken.
    """
    n, course = s.counts[0], s.course
    bins = len(course)
    while end * n.bins_per_s >= bins:
        for k in range(bins // 2):
            course[k, 0] = course[2 * k, 0] + course[2 * k + 1, 0]
            course[k, 1] = max(course[2 * k, 1], course[2 * k + 1, 1])
        course[bins // 2 :, :] = 0.0
        n.bins_per_s /= 2.0
    here, there = int(start * n.bins_per_s), int(end * n.bins_per_s)
    if here == there:
        course[here, 0] += (end - start) * (before + after) / 2.0
        course[here, 1] = max(course[here, 1], before, after)
        return
    slope = (after - before) / (end - start)
    for k in range(here, there + 1):
        low, high = max(start, k / n.bins_per_s), min(end, (k + 1) / n.bins_per_s)
        first, last = before + slope * (low - start), before + slope * (high - start)
        course[k, 0] += (high - low) * (first + last) / 2.0
        course[k, 1] = max(course[k, 1], first, last)
