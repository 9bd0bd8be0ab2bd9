"""Operators whose numbers are arrays: over a grid, in a line, some rows of it, several lines."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

import numpy as np

from roofline.cost.work import COUNTS, Number, Op, Work

_PARTS: Final = attrgetter(*COUNTS)


def shape(op: Op) -> tuple[int, ...]:
    """Shape of the axes that an operator depends on; an axis of which it is free has length 1."""
    found = [np.shape(value) for value in numbers(op) if isinstance(value, np.ndarray)]
    return np.broadcast_shapes(*found) if found else ()


def numbers(op: Op) -> list[Number]:
    """All numbers of an operator: shape, work and wires."""
    return [*op.dims.values(), *_PARTS(op.work), op.wire_s]


def in_line(op: Op, wide: tuple[int, ...]) -> Op:
    """The operator with its arrays as long as all places of a grid, one after the other."""

    def line(value: Any) -> Any:
        return (value if value.shape == wide else np.broadcast_to(value, wide)).ravel()

    return _changed(op, line)


def taken(op: Op, rows: Any) -> Op:
    """Some rows of an operator whose arrays are lines."""
    return _changed(op, lambda value: value if value.size == 1 else value[rows])


def joined(ops: Sequence[Op], rows: Sequence[int]) -> Op:
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

    first = ops[0]
    return replace(
        first,
        work=Work(*map(column, zip(*(_PARTS(op.work) for op in ops), strict=True))),
        dims={name: column([op.dims[name] for op in ops]) for name in first.dims},
        wire_s=column([op.wire_s for op in ops]),
    )


def _changed(op: Op, change: Callable[[Any], Any]) -> Op:
    def changed(value: Number) -> Number:
        if not isinstance(value, np.ndarray) or not value.ndim:
            return value
        found: Number = change(value)
        return found

    parts = map(changed, _PARTS(op.work))
    dims = {name: changed(value) for name, value in op.dims.items()}
    return replace(op, work=Work(*parts), dims=dims, wire_s=changed(op.wire_s))
