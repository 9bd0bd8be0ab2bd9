"""Prices and rules as the compiled loop takes them."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from roofline.cost.work import Array
from roofline.serving.quadrature import between
from roofline.serving.simulate.compiled.state import PriceTables, Rules
from roofline.serving.simulate.prices import StepPrices
from roofline.serving.simulate.server import BATCHED, UNLIMITED, Server


class _Kernels(NamedTuple):
    """Tables of kernels with an entry for every integer from 0, without an engine's overheads. [s]

    Entries are of sequences, in the columns of ``others`` of tokens.
    """

    contexts: Array
    decode: Array
    alone: Array
    windows: Array
    seen: Array
    others: Array
    slope: Array
    passing: Array
    passing_slope: float
    head: Array
    chunks: Array
    cached: Array
    attention: Array


class _Same:
    """Prices that are equal only where their tables are the same objects."""

    __slots__ = ("prices",)

    def __init__(self, prices: StepPrices) -> None:
        self.prices = prices

    def __hash__(self) -> int:
        return id(self.prices.decode_s)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.prices.decode_s is self.prices.decode_s


@lru_cache(maxsize=16)
def _kernels(same: _Same, sequences: int) -> _Kernels:
    """Tables of kernels up to a number of sequences, kept for engines that share them."""
    prices = same.prices
    every = np.arange(1.0, sequences + 1.0)
    contexts, decode = _two(prices.contexts, prices.decode_s)
    windows, seen = _two(prices.windows, prices.window_s)
    tokens, others = _two(prices.tokens, prices.others_s)
    whole = np.arange(1.0, tokens[-1] + 1.0)
    staged = prices.stages > 1
    passing = _two(prices.tokens, prices.passing_s) if staged else (tokens, np.zeros(len(tokens)))
    chunks, attention = _two(prices.chunks, prices.attention_s.T)
    cached, attention = _two(prices.cached, attention.T)
    return _Kernels(
        contexts=contexts,
        decode=_after_none(straight(prices.batches, decode, every)),
        alone=_after_none(straight(prices.batches, prices.alone_s, every)),
        windows=windows,
        seen=_after_none(straight(prices.batches, seen, every)),
        others=np.stack([_after_none(np.interp(whole, tokens, row)) for row in others]),
        slope=(others[:, -1] - others[:, -2]) / (tokens[-1] - tokens[-2]),
        passing=_after_none(np.interp(whole, *passing)),
        passing_slope=float(np.diff(passing[1][-2:])[0] / np.diff(passing[0][-2:])[0]),
        # Rows of the busiest group, of decode and of prompts, each rounded up for all.
        head=_after_none(
            straight(prices.rows, prices.head_s, np.arange(1.0, sequences + 2.0 * prices.groups))
        ),
        chunks=chunks,
        cached=cached,
        attention=np.ascontiguousarray(attention),
    )


def dense(prices: StepPrices, sequences: int, server: Server) -> PriceTables:
    """Tables with an entry for every integer, and the engine's costs in them.

    They reach to the most sequences of a step [1]; the server says whether tokens are sent
    together, and whether it has just started.
    """
    engine, kernels = prices.engine, _kernels(_Same(prices), sequences)
    decode = engine.decode_gain * kernels.decode
    software = engine.step_s + engine.sequence_s * np.arange(sequences + 1.0)
    beside = engine.prefill_gain * kernels.alone
    return PriceTables(
        contexts=kernels.contexts,
        alone=decode + software[:, None],
        mixed=decode - beside[:, None],
        windows=kernels.windows,
        seen=engine.decode_gain * kernels.seen,
        shares=prices.shares,
        others=engine.prefill_gain * kernels.others,
        others_slope=engine.prefill_gain * kernels.slope,
        stages=prices.stages,
        passing=engine.prefill_gain * kernels.passing,
        passing_slope=float(engine.prefill_gain * kernels.passing_slope),
        head=engine.prefill_gain * kernels.head,
        chunks=kernels.chunks,
        cached=kernels.cached,
        attention=engine.prefill_gain * kernels.attention,
        step_s=float(engine.step_s),
        sequence_s=float(engine.sequence_s),
        prefill_s=float(engine.prefill_s),
        launch_s=float(engine.launch_s),
        token_s=float(engine.front_end_s) / server.stream_interval,
        cold_s=float(engine.cold_s) if server.cold else 0.0,
    )


def rules(
    server: Server, prices: StepPrices, concurrency: int, ramp_s: float, *, uniform: bool
) -> Rules:
    """A server in numbers.

    Args:
        server, prices: Policy, and what a request takes before it waits.
        concurrency: Clients; 0 where requests come by themselves. [1]
        ramp_s: Time until the last of them has started. [s]
        uniform: Whether all priorities are known to be equal.
    """
    contiguous = server.kv == "contiguous"
    return Rules(
        batched=server.policy in BATCHED,
        padded=server.policy != "packed",
        waits=server.policy != "dynamic",
        timeout_s=float(server.timeout_s),
        chunked=server.policy == "chunked",
        grown=server.admission == "chunk",
        fits=server.oversized == "waits",
        decode_first=server.first == "decode",
        max_sequences=server.max_sequences,
        budget=server.token_budget or UNLIMITED,
        drafted=server.drafted,
        pages=server.kv_tokens if contiguous else server.pages,
        page=1 if contiguous else server.page,
        contiguous=contiguous,
        groups=prices.groups,
        region=("longest", "power", "exact").index(server.region),
        longest=server.longest,
        reservation=float(server.reservation),
        swap=server.preemption == "swap",
        host_tokens=server.host_tokens,
        swap_s=float(server.swap_s_per_token),
        sharing=server.sharing,
        tier_pages=server.tier_pages,
        disk_pages=server.disk_tokens // server.page,
        disk_s=float(server.disk_s_per_token),
        pooled=server.pooled,
        request_s=float(prices.engine.request_s),
        serial_s=float(prices.engine.serial_s),
        look=server.recv_interval,
        hold=server.hold_steps,
        together=server.hold_prompts,
        concurrency=concurrency,
        ramp_s=float(ramp_s),
        uniform=uniform,
        window=prices.window,
    )


def _after_none(values: Array) -> Array:
    """Values, or rows of a table, after one for none: it takes no time. [s]"""
    return np.concatenate([np.zeros((1, *values.shape[1:])), values])


def _two(points: Array, values: Array) -> tuple[Array, Array]:
    """Table with at least two points of the last axis: one of a single point is flat."""
    if len(points) > 1:
        return points, np.ascontiguousarray(values, dtype=float)
    return np.array([points[0], points[0] + 1.0]), np.repeat(values, 2, axis=-1)


def straight(points: Array, values: Array, at: Array) -> Array:
    """Values, or rows of a table, straight between points and straight on beyond the last."""
    if len(points) == 1:
        return np.repeat(values, len(at), axis=0)
    i, share = between(points, at)
    share = share.reshape(-1, *[1] * (values.ndim - 1))
    rows: Array = values[i] * (1.0 - share) + values[i + 1] * share
    return rows
