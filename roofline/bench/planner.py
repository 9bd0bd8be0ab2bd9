"""Plan of the points to measure in a given time, so that every probe and regime is covered.

What is left out is listed with its reason: a cut is never silent.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from roofline.bench.backend import Backend
from roofline.bench.engine import SPENT as SPENT
from roofline.bench.engine import Footprint, footprint
from roofline.bench.forms import NUMPY, form_of, least, needed
from roofline.bench.prices import REFERENCES
from roofline.bench.probe import Probe, ProbePoint, points
from roofline.bench.stopping import Stop
from roofline.cost.kernels.form import Machine
from roofline.units import parse

SLOWER: Final[Mapping[str, tuple[float, float]]] = {"numpy": (2.0, 10.0), "cupy": (1.6, 1.6)}
"""Times the datasheet's roofline that a point is expected to take, by backend: where arithmetic
binds it, and where traffic does; assumed."""
FAR_BELOW: Final[Mapping[tuple[str, str], float]] = {("cupy", "prefill-attention"): 4.0}
"""The same of arithmetic, by backend and kind, where kernels stay far below the peak: ``mma.sync``
on Hopper reaches a quarter."""
OVERHEAD_S: Final = parse("15 ms", "s")
"""Time of a point besides its samples: arguments, and a file on the disk; assumed."""
FIRST: Final = ("gemm", "decode-attention", "prefill-attention")
"""Kinds that have their points before the others."""
STAYING: Final = 0.5
"""Share of the last-level cache in which what is touched surely stays."""
SETTLING: Final = 3
"""Timed runs before the first sample."""
BUILDING: Final = 0.3
"""Share of the budget that libraries may take for compiling and tuning their kernels; assumed."""
POINT_SHARE: Final = 0.015
"""Most that one point may take of the whole budget, or the time of a point that is not dear."""


class DroppedPoint(Struct, frozen=True):
    """A point that is not measured, and why."""

    point: ProbePoint
    reason: str


class ProbePlan(Struct, frozen=True):
    """Points to measure, and those that are left out."""

    points: tuple[ProbePoint, ...]
    """Points by importance: should time run out after all, the last ones are the least loss."""
    dropped: tuple[DroppedPoint, ...]
    """Points that are left out."""
    seconds: float
    """Expected time. [s]"""


def plan(
    probes: Iterable[Probe],
    backend: Backend,
    machine: Callable[[str], Machine],
    budget_s: float,
    stop: Stop,
    lost: float = 0.0,
) -> ProbePlan:
    """Choose points for a time budget.

    Every regime of every probe gives its first point. Then one probe after the other gives as many
    as can be fitted, those first that a network spends its time on: little time then makes few fits
    rather than none. Then all of them, in rounds, give as many as their fits need; then those that
    have many points give more of them in a round, as the square root of their number. Probes that
    price nothing (`roofline.bench.prices.REFERENCES`) wait until the others have what they need.
    Each gives points in an order that spreads over its axes from the first on. A point that does
    not fit is left out, and the next one tried: one dear point does not end the plan. What a
    library compiles or tunes first counts with the first point that needs it.

    Args:
        probes: To cover.
        backend, machine: Where they run, and what it is expected to do in an arithmetic type.
        budget_s: For everything. [s]
        stop: Rule for one point.
        lost: Share of the time that others take: no point may then take as much of the rest. [1]
    """
    spent, reserved, building = 0.0, 0.0, 0.0
    chosen: list[ProbePoint] = []
    built = set()
    able, dropped = _able(probes, backend, machine, budget_s * (1.0 - lost), stop)
    for each in _ordered(able, backend):
        point = each.point
        build = 0.0 if point.build in built else point.probe.build_s
        cost = each.seconds + build + max(0.0, each.needs - reserved) / backend.fill_bytes_per_s
        if spent + cost > budget_s or (build and building + build > BUILDING * budget_s):
            dropped.append(DroppedPoint(point, SPENT))
        else:
            spent, reserved, building = spent + cost, max(reserved, each.needs), building + build
            chosen.append(point)
            built.add(point.build)
    return ProbePlan(tuple(chosen), tuple(dropped), spent)


def seconds(
    point: ProbePoint,
    backend: Backend,
    machine: Machine,
    stop: Stop,
    footing: Footprint | None = None,
) -> float:
    """Expected time of measuring a point. [s]

    Args:
        point: What is measured.
        backend, machine: Where.
        stop: When it ends.
        footing: Its argument sets, where the backend runs each of them in every sample.
    """
    work = point.probe.work(point.at)
    by_arithmetic, by_traffic = SLOWER[backend.name]
    below = FAR_BELOW.get((backend.name, point.probe.kind), by_arithmetic)
    arithmetic = below * float(work.flops) / machine.flops_per_s
    traffic = by_traffic * float(work.hbm_bytes) / machine.hbm_bytes_per_s
    sets = footing.sets if footing is not None and backend.whole_rounds else 1
    once = sets * max(arithmetic, traffic)
    sample = backend.passes * max(once, backend.span_s)
    # A device that arithmetic takes to its power limit has its slowed samples put aside at first.
    capped = arithmetic > max(traffic, backend.span_s)
    samples = stop.least * (max(1, stop.patience) if capped else 1)
    begin = point.probe.busy_s + (1 + SETTLING * backend.passes) * once + sample
    return OVERHEAD_S + begin + max(stop.budget_s, samples * sample)


class _PlannedPoint(Struct, frozen=True):
    """A point that can be measured, memory that it needs [B] and time that it takes [s]."""

    point: ProbePoint
    needs: float
    seconds: float


def _able(
    probes: Iterable[Probe],
    backend: Backend,
    machine: Callable[[str], Machine],
    budget_s: float,
    stop: Stop,
) -> tuple[list[_PlannedPoint], list[DroppedPoint]]:
    """Points that can be measured there without taking too much of the budget, and the others."""
    most = max(POINT_SHARE * budget_s, OVERHEAD_S + 2.0 * stop.budget_s)
    able: list[_PlannedPoint] = []
    dropped: list[DroppedPoint] = []
    for point in (p for probe in probes if backend.name in probe.backends for p in points(probe)):
        footing = footprint(point, backend.cache_bytes, backend.memory_bytes)
        cost = seconds(point, backend, machine(point.probe.arithmetic), stop, footing)
        refusal = _refusal(point, footing, backend)
        if not refusal and cost - point.probe.busy_s > most:
            refusal = f"takes about {cost:.1f} s, too long for one point"
        if refusal:
            dropped.append(DroppedPoint(point, refusal))
        else:
            able.append(_PlannedPoint(point, footing.total_bytes, cost))
    return able, dropped


def _refusal(point: ProbePoint, footing: Footprint, backend: Backend) -> str:
    if footing.total_bytes > backend.memory_bytes:
        return "does not fit into memory"
    if point.state == "near" and footing.total_bytes > STAYING * backend.cache_bytes:
        return "does not stay in the last-level cache"
    return backend.refusal(point)


def _ordered(able: Iterable[_PlannedPoint], backend: Backend) -> list[_PlannedPoint]:
    """The most important first."""
    queues: dict[str, dict[str, list[_PlannedPoint]]] = {}
    probes: dict[str, Probe] = {}
    for each in able:
        probe, regime = each.point.probe, each.point.regime
        probes[probe.name] = probe
        queues.setdefault(probe.name, {}).setdefault(regime, []).append(each)
    held_against = () if backend.name == NUMPY else tuple(REFERENCES)
    turns: list[tuple[tuple[float, ...], _PlannedPoint]] = []
    for index, (name, regimes) in enumerate(queues.items()):
        kind, lengths = probes[name].kind, [len(queue) for queue in regimes.values()]
        form = form_of(kind, probes[name].arithmetic, backend.name, probes[name].form)
        wanted = _each(lengths, least(form)), _each(lengths, needed(form))
        rank = name in held_against, FIRST.index(kind) if kind in FIRST else len(FIRST), index
        for queue in regimes.values():
            turns += (
                (_turn(turn, len(queue), wanted, rank), queue[place])
                for turn, place in enumerate(spread(len(queue)))
            )
    return [entry for _, entry in sorted(turns, key=lambda turn: turn[0])]


def _each(lengths: Sequence[int], wanted: int) -> int:
    """So many of each queue are together as many as are wanted; all, if there are not so many.

    >>> _each([2, 10, 10], 12), _each([2, 10, 10], 100)
    (5, 10)
    """
    levels = range(1, max(lengths))
    enough = (k for k in levels if sum(min(k, length) for length in lengths) >= wanted)
    return next(enough, max(lengths))


def _turn(
    place: int, length: int, wanted: tuple[int, int], rank: tuple[bool, int, int]
) -> tuple[float, ...]:
    """Turn of a point of a queue: the first, for a fit, for a good one, or later."""
    few, enough = wanted
    last, *probe = rank
    if place >= enough:
        return 2.0, (place - enough + 0.5) / math.sqrt(length)
    if place == 0:
        return float(last), 0.0
    if place < few:
        return float(last), 1.0, *probe, place / few
    return float(last), 2.0, (place - few) / (enough - few)


def spread(count: int) -> list[int]:
    """Order of so many places in which every beginning is spread over all of them.

    Multiples of the golden ratio, modulo one, are as even as any sequence can be.

    >>> spread(8)
    [0, 4, 1, 6, 3, 5, 2, 7]
    """
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    order = [int(count * ((i * golden) % 1.0)) for i in range(4 * count)]
    seen = dict.fromkeys(order)
    return [*seen, *(i for i in range(count) if i not in seen)]
