"""A calibration that prices an operator of a grid on the axes it depends on, and only once.

Most operators of a step see the batch and not the context, and deployments that differ in one
format have all other kernels in common.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.cost.engine_costs import EngineProfile
from roofline.cost.measured import Calibration, MeasuredTime
from roofline.cost.work import Number, Op, Work, counts_of
from roofline.errors import RooflineError
from roofline.hardware.machine import Gpu
from roofline.records import replace

MOST_BYTES: Final = 2**26
"""Memory of the prices that a process keeps. [B]"""
MOST_LINES: Final = 64
"""Columns whose repeats are known."""
MOST_DIFFERENT: Final = 0.8
"""Share of rows that differ, beyond which all are priced."""
MOST_SCOPES: Final = 64
"""Devices under an engine that it tells apart."""


class Repeats(Struct, frozen=True):
    """Rows of a line that differ from all others, and which of them each row is."""

    first: NDArray[np.intp]
    place: NDArray[np.intp]

    def hold(self, value: Number) -> bool:
        """Whether rows of a column that are to be one are equal."""
        if not isinstance(value, np.ndarray) or value.size == 1:
            return True
        return bool((value[self.first][self.place] == value).all())


@dataclass(slots=True)
class PriceCache:
    """Prices of operators, the last ones used."""

    scopes: OrderedDict[int, tuple[Calibration, Gpu]] = field(default_factory=OrderedDict)
    told_apart: int = 0
    known: OrderedDict[Hashable, MeasuredTime | None] = field(default_factory=OrderedDict)
    held: int = 0
    lines: OrderedDict[bytes, Repeats] = field(default_factory=OrderedDict)

    def repeats(self, line: Op) -> Repeats | None:
        """Rows that come again in an operator that sees a product of its axes; None if few do.

        Sixteen prompts of a thousand tokens are as many tokens as four of four thousand.
        """
        seen = next(
            (dim for dim in line.dims.values() if isinstance(dim, np.ndarray) and dim.size > 1),
            None,
        )
        if seen is None:
            return None
        key = seen.tobytes()
        if key not in self.lines:
            _, first, place = np.unique(seen, return_index=True, return_inverse=True)
            self.lines[key] = Repeats(first, place)
            if len(self.lines) > MOST_LINES:
                self.lines.popitem(last=False)
        found = self.lines[key]
        if len(found.first) > len(found.place) * MOST_DIFFERENT:
            return None
        return found if all(found.hold(value) for value in line.numbers) else None

    def scope(self, calibration: Calibration, gpu: Gpu) -> int:
        """Number of a device's calibration, by which its prices are told from those of others."""
        asked = (calibration, gpu)
        for number, each in self.scopes.items():
            if (each[0] is calibration and each[1] is gpu) or each == asked:
                return number
        # A number is never given again: somebody may still ask by it.
        self.told_apart += 1
        self.scopes[self.told_apart] = asked
        if len(self.scopes) > MOST_SCOPES:
            self.scopes.popitem(last=False)
        return self.told_apart

    def keep(self, key: Hashable, price: MeasuredTime | None) -> None:
        """Remember a price; what was not used for longest is forgotten."""
        self.known[key] = price
        self.held += _size(price)
        while self.held > MOST_BYTES:
            self.held -= _size(self.known.popitem(last=False)[1])


SHARED: Final = PriceCache()
"""Memory of the process."""


def _size(price: MeasuredTime | None) -> int:
    """About what is kept for a price: itself and its key, which is some times as long. [B]"""
    return 1024 if price is None else 1024 + 8 * np.asarray(price.seconds).nbytes


FREE: Final[Mapping[str, frozenset[str]]] = {
    "gemm": frozenset({"m", "n", "k"}),
    "pointwise": frozenset({"m", "reads", "writes"}),
    "lookup": frozenset({"m", "reads", "writes"}),
    "collective": frozenset({"bytes", "ranks"}),
}
"""Dimensions by kind of operator that its kernel is not chosen by."""
ROUTED: Final = frozenset(
    {*("m", "n", "k", "reads", "writes"), *("rows", "tokens", "hidden", "inter", "touched", "own")}
)
"""The same of operators of a mixture of experts, or by which rows are sorted before it is."""


@dataclass(frozen=True, slots=True)
class CachedCalibration:
    """A calibration whose prices are remembered; the numbers of operators may be grids."""

    inner: Calibration
    gpu: Gpu
    """The calibration, and the device that is asked about."""
    memory: PriceCache = field(default_factory=lambda: SHARED, repr=False)
    scope: int = field(init=False)

    def __post_init__(self) -> None:
        """Find what is remembered of it."""
        object.__setattr__(self, "scope", self.memory.scope(self.inner, self.gpu))

    @property
    def name(self) -> str:
        """Name of the profile."""
        return self.inner.name

    @property
    def profile(self) -> EngineProfile:
        """Constants of the engine that runs them."""
        return self.inner.profile

    @property
    def basis(self) -> str:
        """Basis of figures that rest on it."""
        return self.inner.basis

    def price(self, op: Op, gpu: Gpu) -> MeasuredTime | None:
        """Time of an operator, in the shape of the axes that it depends on."""
        (found,) = price_many([(self, op)])
        if isinstance(found, RooflineError):
            raise found
        return found


Told: TypeAlias = MeasuredTime | RooflineError | None
"""Price of an operator, or why a device has none."""


def price_many(asked: Sequence[tuple[CachedCalibration, Op]]) -> list[Told]:
    """Prices of operators of any number of steps; those that one kernel does are looked up at once.

    The time of a row is that of the operator alone, whatever it is looked up with. A look-up of a
    thousand rows takes a few times as long as that of ten. Which fit it is from is not told: nobody
    asks that of a point among thousands.

    Args:
        asked: Operators and who is asked.
    """
    places: dict[Hashable, Hashable] = {}
    waiting: set[Hashable] = set()
    sorts: dict[Hashable, dict[Hashable, tuple[CachedCalibration, Op]]] = {}
    out: dict[Hashable, Told] = {}
    same = [_same(calibration, op) for calibration, op in asked]
    for place, (calibration, op) in zip(same, asked, strict=True):
        if place in places:
            continue
        memory = calibration.memory
        told, known = (id(memory), calibration.scope, *_sort(op)), memory.known
        key: Hashable = told, _numbers(op)
        places[place] = key
        if key in known:
            known.move_to_end(key)
            out[key] = known[key]
        elif key not in waiting:
            waiting.add(key)
            sorts.setdefault((told, _fixed(op)), {})[key] = calibration, op
    for some in sorts.values():
        ops = [op for _, op in some.values()]
        calibration, _ = next(iter(some.values()))
        memory = calibration.memory
        try:
            prices = _looked_up(calibration.inner, calibration.gpu, ops, memory)
        except RooflineError as error:
            out |= dict.fromkeys(some, error)
            continue
        for key, price in zip(some, prices, strict=True):
            out[key] = price
            memory.keep(key, price)
    found = {place: out[key] for place, key in places.items()}
    return [found[place] for place in same]


def at_once(calibration: Calibration, gpu: Gpu, ops: Sequence[Op]) -> list[MeasuredTime | None]:
    """Prices of operators of a step, with the fits that they are from.

    Args:
        calibration, gpu: Who is asked, about which device. Only a `CachedCalibration` is
            remembered.
        ops: Any number; those that one kernel does are looked up at once.

    Raises:
        RooflineError: The device lacks the arithmetic of one of them.
    """
    if isinstance(calibration, CachedCalibration):
        told = price_many([(calibration, op) for op in ops])
        if error := next((each for each in told if isinstance(each, RooflineError)), None):
            raise error
        return [each for each in told if not isinstance(each, RooflineError)]
    sorts: dict[Hashable, list[int]] = {}
    for place, op in enumerate(ops):
        sorts.setdefault((op.name, _sort(op), _fixed(op)), []).append(place)
    out: list[MeasuredTime | None] = [None] * len(ops)
    for places in sorts.values():
        for place, price in zip(
            places, _looked_up(calibration, gpu, [ops[each] for each in places]), strict=True
        ):
            out[place] = price
    return out


def _looked_up(
    calibration: Calibration, gpu: Gpu, ops: Sequence[Op], memory: PriceCache | None = None
) -> list[MeasuredTime | None]:
    """Prices of operators of one sort; a memory knows which rows of their grids repeat.

    Raises:
        RooflineError: The device lacks their arithmetic.
    """
    wide = [_shape(each) for each in ops]
    if len(ops) == 1 and len(wide[0]) < 2:
        return [calibration.price(ops[0], gpu)]
    lines = [_line(memory, each, axes) for each, axes in zip(ops, wide, strict=True)]
    rows = [
        len(again.first) if again else prod(axes)
        for (_, again), axes in zip(lines, wide, strict=True)
    ]
    found = calibration.price(_joined([line for line, _ in lines], rows), gpu)
    if found is None:
        return [None] * len(ops)
    ends = np.cumsum(rows)
    return [
        _spread(found, slice(end - count, end), axes, again)
        for end, count, axes, (_, again) in zip(ends, rows, wide, lines, strict=True)
    ]


def _shape(op: Op) -> tuple[int, ...]:
    """Shape of the axes that an operator depends on; an axis of which it is free has length 1."""
    found = [np.shape(value) for value in op.numbers if isinstance(value, np.ndarray)]
    return np.broadcast_shapes(*found) if found else ()


def _in_line(op: Op, wide: tuple[int, ...]) -> Op:
    """The operator with its arrays as long as all places of a grid, one after the other."""

    def lined(value: NDArray[Any]) -> NDArray[Any]:
        out = np.empty(wide, value.dtype)
        out[...] = value  # in a third of the time of `np.broadcast_to` and a copy
        return out.ravel()

    return op.changed(lined)


def _joined(ops: Sequence[Op], rows: Sequence[int]) -> Op:
    """Lines of several operators, one after the other; a number that all have stays one.

    Args:
        ops, rows: With dimensions of the same names, and how many rows each has. [1]
    """
    if len(ops) == 1:
        return ops[0]
    ends = np.cumsum(rows)

    def column(values: Sequence[Number]) -> Number:
        if not any(isinstance(value, np.ndarray) for value in values) and len(set(values)) == 1:
            return values[0]
        out = np.empty(ends[-1])
        for value, count, end in zip(values, rows, ends, strict=True):
            out[end - count : end] = value
        return out

    return replace(
        ops[0],
        work=Work(*map(column, zip(*(counts_of(op.work) for op in ops), strict=True))),
        dims={name: column([op.dims[name] for op in ops]) for name in ops[0].dims},
        wire_s=column([op.wire_s for op in ops]),
    )


def _line(memory: PriceCache | None, op: Op, wide: tuple[int, ...]) -> tuple[Op, Repeats | None]:
    """An operator's rows that differ, in line, and which of them its places are; None if all do."""
    if len(wide) < 2:
        return op, None
    line = _in_line(op, wide)
    again = memory.repeats(line) if memory is not None and min(wide) > 1 else None
    return (line if again is None else line.rows(again.first)), again


def _same(calibration: CachedCalibration, op: Op) -> Hashable:
    """Key of an operator that stages share since its layer was made once: it is read once, too."""
    return (
        id(calibration),
        op.name,
        op.arithmetic,
        id(op.dims),
        id(op.work),
        id(op.wire_s),
        id(op.formats),
    )


def alike(op: Op) -> str:
    """Kernel that operators of one kind share; the name of one that shares none."""
    if op.kernel and op.kind != "moe":
        return op.kernel
    return op.kind if op.kind == "gemm" else op.name


def _sort(op: Op) -> tuple[Hashable, ...]:
    """Key of the kernel of an operator, but for its numbers."""
    return (alike(op), op.kind, op.arithmetic, *op.dims, *op.formats.values())


def _fixed(op: Op) -> Hashable:
    """Numbers that operators have in common where they are priced in one line.

    Columns of one kernel may differ from row to row, but what is one number of a whole operator may
    decide about its kernel: only of those dimensions that never do, it may be another.
    """
    free = ROUTED if "touched" in op.dims else FREE.get(op.kind, frozenset())
    return tuple(
        isinstance(value, np.ndarray) or value
        for name, value in op.dims.items()
        if name not in free
    )


def _numbers(op: Op) -> tuple[Hashable, ...]:
    return tuple(
        [
            (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value
            for value in op.numbers
        ]
    )


def _spread(
    found: MeasuredTime, rows: slice, wide: tuple[int, ...], again: Repeats | None
) -> MeasuredTime:
    """Numbers of some rows of a line as the grid that they were."""

    def spread(value: Number) -> Number:
        if not isinstance(value, np.ndarray) or not value.ndim:
            return value
        # A copy: what is remembered of one operator must not hold the line of all.
        own = value[rows].copy() if again is None else value[rows][again.place]
        return own.reshape(wide) if wide else float(own[0])

    return replace(
        found,
        seconds=spread(found.seconds),
        log_sd=spread(found.log_sd),
        basis=spread(found.basis),
        start_s=spread(found.start_s),
    )
