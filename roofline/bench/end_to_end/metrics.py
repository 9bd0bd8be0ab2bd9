"""Metrics of measured rows at several vectors of constants, in one pass over the rows.

Rows of one deployment come one after the other, so that its measured kernels are looked up once;
where there are many rows, deployments are shared out over the processors. A fit asks about the same
rows at one vector after the other: within `workers_of` a deployment stays with one process, which
keeps its kernels.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.bench.end_to_end.engines import CONSTANTS, KERNELS, PROFILES
from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import EngineCosts, EngineProfile
from roofline.cost.work import Array
from roofline.hardware.serving_engine import Engine
from roofline.serving.simulate.prices import StepPrices, keep_kernels
from roofline.study.executors import cores

S = TypeVar("S")
T = TypeVar("T")
Metrics: TypeAlias = Mapping[str, float]
NAMES: Final = (
    *(f"{engine}.{constant}" for engine in PROFILES for constant in CONSTANTS),
    *KERNELS,
)
PLACE: Final = {name: place for place, name in enumerate(NAMES)}
MANY: Final = 500
"""Rows from which on more than one process serves them. [1]"""
_WORK: list[Callable[[Any], Any]] = []
"""Work that forked processes inherit, so that rows and constants are not sent."""


class Predictable(Protocol):
    """Measurement whose metrics follow from the prices of steps: a row, or a log."""

    @property
    def engine(self) -> Engine:
        """Engine of the catalog, whose profile has its constants."""

    @property
    def deployment(self) -> Deployment:
        """Deployment that served the row."""

    def prices(self, profile: EngineProfile) -> StepPrices:
        """Steps under some constants of its engine."""

    def predicted_by(self, prices: StepPrices) -> Metrics:
        """Every metric, at such prices."""


def profile_of(each: Predictable, logs: Array) -> EngineProfile:
    """Constants of a row's engine, from logarithms in the order of `NAMES`."""
    return assembled(logs, each.engine)


def assembled(
    logs: Array, engine: Engine, misses: tuple[tuple[str, float, float], ...] = ()
) -> EngineProfile:
    """Constants of an engine as one record.

    Args:
        logs: Logarithms of all constants.
        engine: Whose. One that runs no CUDA graphs has kernels as they were believed to be before
            any row.
        misses: Spreads by kind of network, as in `EngineProfile`.
    """
    own: dict[str, Any] = {
        name: float(np.exp(logs[PLACE[f"{engine.profile}.{name}"]])) for name in CONSTANTS
    }
    kernels: dict[str, Any] = {
        name: float(np.exp(logs[PLACE[name]])) if engine.graph_kernels else known.prior
        for name, known in KERNELS.items()
    }
    return EngineProfile(
        **own,
        **kernels,
        fused_inputs=engine.fused_inputs,
        reach_bytes_per_s=engine.decode_reach_bytes_per_s,
        spreads=misses,
    )


def predictions(rows: Sequence[Predictable], logs: Array) -> list[Metrics]:
    """Every metric of each row, at given constants."""
    return [metrics for (metrics,) in predictions_at(rows, logs[None])]


def predictions_at(
    rows: Sequence[Predictable], logs: Array, wanted: NDArray[np.bool_] | None = None
) -> list[list[Metrics]]:
    """Every metric of each row, at several vectors of constants.

    Args:
        rows: To be predicted.
        logs: Logarithms of all constants, of shape (vectors, constants).
        wanted: Which rows are predicted at which constants, of shape (vectors, rows); None for all
            at all.

    Returns:
        list: For each row its metrics at each vector; empty where they are not wanted.
    """
    every = np.ones((len(logs), len(rows)), dtype=np.bool_) if wanted is None else wanted
    out: list[list[Metrics]] = [[]] * len(rows)

    def predicted(places: Sequence[int]) -> list[list[Metrics]]:
        return [_predicted(rows[place], logs, every[:, place]) for place in places]

    workers = next((each for each in _WORKERS if each.rows is rows), None)
    shares = by_deployment(rows) if workers is None else workers.shares
    if workers is None:
        found_in = shared_out(predicted, shares, rows=len(rows), many=MANY)
    else:
        found_in = workers.predicted(logs, every)
    for share, found in zip(shares, found_in, strict=True):
        for place, metrics in zip(share, found, strict=True):
            out[place] = metrics
    return out


def by_deployment(rows: Sequence[Predictable]) -> list[list[int]]:
    """Places of the rows of each deployment, those of most rows first."""
    deployments: dict[int, list[int]] = {}
    for place, each in enumerate(rows):
        deployments.setdefault(id(each.deployment), []).append(place)
    return sorted(deployments.values(), key=len, reverse=True)


class _Workers(Struct, frozen=True, eq=False):
    """Processes that have some rows, each its deployments, from one prediction to the next."""

    rows: Sequence[Predictable]
    shares: Sequence[Sequence[int]]
    """Places of the rows of each deployment."""
    processes: Sequence[ProcessPoolExecutor]
    owners: list[int]
    """Process of each deployment; empty until something was predicted."""

    def predicted(self, logs: Array, wanted: NDArray[np.bool_]) -> list[list[list[Metrics]]]:
        """Metrics of the rows of each deployment.

        The first time each goes to the process that is free first, as some rows take a hundred
        times as long as others.
        """
        asked: list[Future[list[list[Metrics]]]] = []
        busy: dict[Future[list[list[Metrics]]], int] = {}
        number, first = _WORKERS.index(self), not self.owners
        for place, share in enumerate(self.shares):
            if first:
                full = len(busy) == len(self.processes)
                self.owners.append(busy.pop(next(as_completed(busy))) if full else len(busy))
            owner = self.owners[place]
            metrics = self.processes[owner].submit(_share_of, number, share, logs, wanted[:, share])
            asked.append(metrics)
            if first:
                busy[metrics] = owner
        return [each.result() for each in asked]


_WORKERS: list[_Workers] = []
"""Workers of all contexts that are open, also in their processes, which are forked."""


@contextmanager
def workers_of(rows: Sequence[Predictable]) -> Iterator[None]:
    """Context within which `predictions_at` of the very same sequence of rows keeps its processes.

    Each has its deployments to itself, and looks their kernels up once. It holds some megabytes for
    each of them.
    """
    if len(rows) < MANY or cores() == 1 or not hasattr(os, "fork"):
        yield
        return
    shares = by_deployment(rows)
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                ProcessPoolExecutor(1, get_context("fork"), keep_kernels, (len(shares),))
            )
            for _ in range(cores())
        ]
        _WORKERS.append(_Workers(rows, shares, processes, []))
        try:
            yield
        finally:
            _WORKERS.pop()


def _share_of(
    number: int, places: Sequence[int], logs: Array, wanted: NDArray[np.bool_]
) -> list[list[Metrics]]:
    """Metrics of some rows of one of `_WORKERS`, by a process of it."""
    rows = _WORKERS[number].rows
    pairs = zip(places, wanted.T, strict=True)
    return [_predicted(rows[place], logs, asked) for place, asked in pairs]


def shared_out(
    work: Callable[[S], T], shares: Sequence[S], *, rows: int, many: int, chunk: int = 1
) -> list[T]:
    """Results of shares of some rows, by forked processes where there are many rows.

    Args:
        work: Computes one share; it is not sent to the processes.
        shares: In the order of the results.
        rows, many: Rows of all shares, and from which number on processes are worth it. [1]
        chunk: Shares that a process takes at a time. [1]
    """
    if rows < many or cores() == 1 or not hasattr(os, "fork"):
        return [work(share) for share in shares]
    _WORK.append(work)
    try:
        with ProcessPoolExecutor(cores(), get_context("fork")) as pool:
            return list(pool.map(_inherited, shares, chunksize=chunk))
    finally:
        _WORK.pop()


def _inherited(share: Any) -> Any:
    return _WORK[-1](share)


def _predicted(each: Predictable, logs: Array, wanted: NDArray[np.bool_]) -> list[Metrics]:
    """Metrics of a row at several constants: once where its prices are the same."""
    known: dict[tuple[int, EngineCosts], Metrics] = {}
    out: list[Metrics] = []
    held = []  # tables, so that no other has the place of one in memory
    for vector, asked in zip(logs, wanted, strict=True):
        if not asked:
            out.append({})
            continue
        prices = each.prices(profile_of(each, vector))
        held.append(prices.decode_s)
        key = id(prices.decode_s), prices.engine
        if key not in known:
            known[key] = each.predicted_by(prices)
        out.append(known[key])
    return out
