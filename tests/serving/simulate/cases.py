"""Random requests, prices and servers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from roofline.cost.engine_costs import IDEAL, EngineCosts
from roofline.serving.requests import Requests
from roofline.serving.simulate.prices import StepPrices, loaded_groups
from roofline.serving.simulate.server import Server


def requests(
    arrival: ArrayLike,
    prompt: ArrayLike,
    output: ArrayLike,
    *,
    priority: ArrayLike = 0,
    after: ArrayLike = -1,
    think: ArrayLike = 0.0,
    joins: ArrayLike = -1,
    blocks: Sequence[Sequence[int]] = (),
    block: int = 0,
) -> Requests:
    """Requests from columns, or from single numbers that hold for all."""
    given = (arrival, prompt, output, priority, after, think, joins)
    columns = np.broadcast_arrays(*map(np.atleast_1d, given))
    kinds = (float, np.int64, np.int64, np.int64, np.int64, float, np.int64)
    own: list[Any] = [np.array(c, dtype=kind) for c, kind in zip(columns, kinds, strict=True)]
    sizes = [len(each) for each in blocks] or [0] * len(own[0])
    names = ("arrival", "prompt", "output", "priority", "after", "think", "joins")
    return Requests(
        **dict(zip(names, own, strict=True)),
        prefix=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        hashes=np.array([key for each in blocks for key in each], dtype=np.int64),
        block=block,
    )


def chat(count: int, rate: float, seed: int = 1) -> Requests:
    """A Poisson stream of short questions and answers, some of them long."""
    random = np.random.default_rng(seed)
    prompt = random.lognormal(5.5, 1.0, count).astype(int) + 1
    output = random.lognormal(5.0, 0.8, count).astype(int) + 1
    return requests(np.cumsum(random.exponential(1 / rate, count)), prompt, output)


def prices(random: np.random.Generator, engine: EngineCosts = IDEAL, groups: int = 1) -> StepPrices:
    """Tables of no machine in particular: uneven points, rising values."""

    def points(first: float, count: int) -> Any:
        return first + np.concatenate([[0.0], np.cumsum(random.integers(1, 9, count - 1))])

    def rising(*shape: int) -> Any:
        out = random.uniform(0.0, 1.0, shape)
        for axis in range(len(shape)):
            out = np.cumsum(out, axis=axis)
        return out / out.max()

    batches, contexts, tokens = points(1, 5), points(1, 6), points(1, 7)
    batches[-1] = max(batches[-1], 9.0)  # as many as any of the servers below runs
    window = int(random.integers(2, 50)) if random.random() < 0.5 else 0
    windows = np.unique([1, max(window // 3, 1), max(window, 1)]).astype(float)
    chunks, cached = points(1, 4), points(0, 5)
    shares = 1.0 / loaded_groups(float(groups))
    return StepPrices(
        batches=batches,
        contexts=contexts,
        decode_s=0.1 + rising(len(batches), len(contexts)),
        window=window,
        windows=windows,
        window_s=0.3 * rising(len(batches), len(windows)) * (window > 0),
        alone_s=0.1 * rising(len(batches)),
        shares=shares,
        tokens=tokens,
        others_s=0.2 + rising(len(shares), len(tokens)),
        rows=batches,
        head_s=0.1 * rising(len(batches)),
        chunks=chunks,
        cached=cached,
        attention_s=0.02 * rising(len(chunks), len(cached)),
        engine=engine,
    )


def some_engine(random: np.random.Generator) -> EngineCosts:
    """Overheads, or none."""
    if random.random() < 0.5:
        return IDEAL
    return EngineCosts(
        step_s=random.uniform(0, 0.1),
        sequence_s=random.uniform(0, 0.02),
        prefill_s=random.uniform(0, 0.1),
        launch_s=random.uniform(0, 2.0),
        cold_s=random.uniform(0, 9.0),
        front_end_s=random.uniform(0, 0.3),
        request_s=random.choice([0.0, random.uniform(0, 1.0)]),
        serial_s=random.choice([0.0, random.uniform(0, 0.3)]),
        decode_gain=random.uniform(0.8, 1.2),
        prefill_gain=random.uniform(0.8, 1.2),
    )


def trace(random: np.random.Generator, count: int, block: int) -> Requests:
    """Requests that come now and then: priorities, conversations, shared beginnings."""
    gaps = random.exponential(random.choice([0.1, 1.0, 10.0]), count)
    gaps[random.random(count) < 0.2] = 0.0
    prompt = random.integers(1, 30, count)
    output = random.integers(1, 25, count)
    output[random.random(count) < 0.1] = 1
    after = np.full(count, -1)
    if random.random() < 0.5:
        for i in range(1, count):
            if random.random() < 0.4:
                after[i] = random.integers(0, i)
    joins = np.full(count, -1)
    if (after >= 0).any() and random.random() < 0.6:
        for i in range(count):
            later = np.flatnonzero(after[i + 1 :] >= 0) + i + 1
            if len(later) and random.random() < 0.4:
                joins[i] = random.choice(later)
    blocks: list[list[int]] = []
    for i in range(count):
        whole = int(prompt[i]) // block
        own = [int(random.integers(2)) for _ in range(whole)]
        # An id stands for its block and all before it.
        ids = [hash((block, *own[: k + 1])) % 2**60 for k in range(whole)]
        before = after[i]
        if before >= 0 and random.random() < 0.7:
            grown = (int(prompt[before]) + int(output[before])) // block
            more = [hash((i, before, k)) % 2**60 for k in range(grown)]
            ids = (blocks[before] + more)[:whole]
            ids += [hash((i, k)) % 2**60 for k in range(whole - len(ids))]
        blocks.append(ids[: int(random.integers(0, whole + 1))] if random.random() < 0.3 else ids)
    return requests(
        np.cumsum(gaps),
        prompt,
        output,
        priority=random.integers(0, 3, count) if random.random() < 0.4 else 0,
        after=after,
        think=random.choice([0.0, 1.0]) * random.random(count),
        joins=joins,
        blocks=blocks,
        block=block,
    )


def server(random: np.random.Generator, block: int) -> Server:
    """Any policy, with memory that is short or not."""
    policy = str(random.choice(["continuous", "chunked", "chunked", "static", "packed", "dynamic"]))
    most = int(random.integers(1, 9))
    joined = policy in ("continuous", "chunked")
    contiguous = joined and random.random() < 0.2
    budget = int(random.integers(most, 40))
    short = int(random.integers(64, 110))
    sharing = bool(joined and not contiguous and random.random() < 0.5)
    tier = int(random.choice([0, 3 * block, 60, 2**30])) if sharing else 0
    return Server(
        policy=policy,  # type: ignore[arg-type]
        first=str(random.choice(["decode", "prefill"])),  # type: ignore[arg-type]
        max_sequences=most,
        token_budget=budget if random.random() < 0.8 or policy == "chunked" else 0,
        timeout_s=float(random.choice([0.0, 0.5, 5.0])),
        kv_tokens=short if random.random() < 0.7 else 2**30,
        kv="contiguous" if contiguous else "pages",
        page=block,
        region=str(random.choice(["longest", "power", "exact"])),  # type: ignore[arg-type]
        longest=60,
        reservation=float(random.choice([0.0, 0.0, 0.5, 1.0])),
        preemption=str(random.choice(["recompute", "swap"])),  # type: ignore[arg-type]
        host_tokens=int(random.choice([0, 60, 2**30])),
        swap_s_per_token=float(random.choice([0.0, 0.01])),
        recv_interval=int(random.choice([1, 1, 2, 7])),
        stream_interval=int(random.choice([1, 1, 3])),
        cold=bool(random.random() < 0.3),
        sharing=sharing,
        tier_tokens=tier,
        disk_tokens=int(random.choice([0, 2 * block, 60, 2**30])) if tier else 0,
        disk_s_per_token=float(random.choice([0.0, 0.03])),
        hold_steps=int(random.choice([0, 0, 1, 3, 12])),
        hold_prompts=int(random.choice([1, 2, 4])),
    )
