"""Operators whose numbers are arrays: over a grid, in a line, some rows of it."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np

from roofline.cost.work import Number, Op, Work

_WORK: Final = tuple(part.name for part in fields(Work))


def shape(op: Op) -> tuple[int, ...]:
    """Shape of the axes that an operator depends on; an axis of which it is free has length 1."""
    found = [np.shape(value) for value in numbers(op) if isinstance(value, np.ndarray)]
    return np.broadcast_shapes(*found) if found else ()


def numbers(op: Op) -> list[Number]:
    """All numbers of an operator: shape, work and wires."""
    work = op.work
    return [*op.dims.values(), *(getattr(work, name) for name in _WORK), op.wire_s]


def in_line(op: Op, wide: tuple[int, ...]) -> Op:
    """The operator with its arrays as long as all places of a grid, one after the other."""
    return _changed(op, lambda value: np.broadcast_to(value, wide).ravel())


def taken(op: Op, rows: Any) -> Op:
    """Some rows of an operator whose arrays are lines."""
    return _changed(op, lambda value: value if value.size == 1 else value[rows])


def _changed(op: Op, change: Callable[[Any], Any]) -> Op:
    def changed(value: Number) -> Number:
        if not isinstance(value, np.ndarray) or not value.ndim:
            return value
        found: Number = change(value)
        return found

    work = op.work
    parts = (changed(getattr(work, name)) for name in _WORK)
    dims = {name: changed(value) for name, value in op.dims.items()}
    return replace(op, work=Work(*parts), dims=dims, wire_s=changed(op.wire_s))
