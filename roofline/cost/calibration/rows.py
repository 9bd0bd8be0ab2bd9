"""Rows of operators whose numbers are arrays: over a grid, in a line, and by sort of kernel.

A time may not depend on what else is on the scenario axis. Whether a collective leaves its node, a
window hides keys, a chunk continues a prompt, or devices share one decides which kernel runs, row
by row: each sort of rows is priced by itself.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.cost.measured import Measured
from roofline.cost.work import Number, Op, Work, counts_of, distinct
from roofline.records import replace

Rows: TypeAlias = NDArray[np.intp]
Answers: TypeAlias = tuple[NDArray[np.bool_], ...]
VERIFIED_TOKENS: Final = 8.0
"""New tokens of a sequence up to which a recurrent layer steps, as it does to verify drafts; more
are a prompt, computed in chunks. The most that were measured so."""
FEW_TOKENS: Final = 128.0
"""Tokens of a device up to which the low-latency exchange is used: its usual buffers."""


def shape(op: Op) -> tuple[int, ...]:
    """Shape of the axes that an operator depends on; an axis of which it is free has length 1."""
    found = [np.shape(value) for value in numbers(op) if isinstance(value, np.ndarray)]
    return np.broadcast_shapes(*found) if found else ()


def numbers(op: Op) -> list[Number]:
    """All numbers of an operator: shape, work and wires."""
    return [*op.dims.values(), *counts_of(op.work), op.wire_s]


def in_line(op: Op, wide: tuple[int, ...]) -> Op:
    """The operator with its arrays as long as all places of a grid, one after the other."""

    def lined(value: NDArray[Any]) -> NDArray[Any]:
        out = np.empty(wide, value.dtype)
        out[...] = value  # in a third of the time of `np.broadcast_to` and a copy
        return out.ravel()

    return _changed(op, lined)


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

    return replace(
        ops[0],
        work=Work(*map(column, zip(*(counts_of(op.work) for op in ops), strict=True))),
        dims={name: column([op.dims[name] for op in ops]) for name in ops[0].dims},
        wire_s=column([op.wire_s for op in ops]),
    )


def _changed(op: Op, change: Callable[[Any], Any]) -> Op:
    """The operator with each of its arrays changed."""

    def changed(value: Any) -> Any:
        return change(value) if isinstance(value, np.ndarray) and value.ndim else value

    dims = {name: changed(value) for name, value in op.dims.items()}
    return replace(
        op, work=Work(*map(changed, counts_of(op.work))), dims=dims, wire_s=changed(op.wire_s)
    )


def sorted_out(op: Op) -> Iterator[tuple[Rows, Op]]:
    """Places of the rows of each sort, and the operator on them; nothing where all are of one.

    Args:
        op: Of a step, over a scenario axis or of a single scenario.
    """
    questions = _experts if "touched" in op.dims else _QUESTIONS.get(op.kind)
    if questions is None:
        return
    answers = questions(op.dims)
    many = np.broadcast_shapes(*(answer.shape for answer in answers))
    if not many:
        return
    codes = sum(
        np.broadcast_to(answer, many).astype(np.intp) << bit for bit, answer in enumerate(answers)
    )
    codes = np.asarray(codes)
    for code in found if len(found := distinct(codes)) > 1 else ():
        rows = np.flatnonzero(codes == code)
        yield rows, taken(op, rows)


def merge_rows(parts: list[tuple[Rows, Measured]]) -> Measured:
    """Prices of all sorts in the order of the rows, with the fit of the sort that has most."""
    columns = np.empty((4, sum(len(rows) for rows, _ in parts)))
    for rows, priced in parts:
        each = (priced.seconds, priced.log_sd, priced.basis, priced.start_s)
        columns[:, rows] = np.stack([np.broadcast_to(value, rows.shape) for value in each])
    _, most = max(parts, key=lambda part: (part[1].found is not None, len(part[0])))
    seconds, log_sd, basis, start = columns
    start_s = start if start.any() else 0.0
    return replace(most, seconds=seconds, log_sd=log_sd, basis=basis, start_s=start_s)


def _collective(dims: Mapping[str, Number]) -> Answers:
    leaves, tokens = np.asarray(dims["nodes"]) > 1, np.asarray(dims.get("tokens", 0.0))
    return leaves, tokens <= FEW_TOKENS


def _prefill(dims: Mapping[str, Number]) -> Answers:
    window = np.asarray(dims.get("window", 0.0))
    hides = (window > 0) & (window < dims["context"])
    shared = np.asarray(dims.get("sharers", 1.0)) > 1
    return hides, np.asarray(dims["context"]) > np.asarray(dims["new"]), shared


def _latent(dims: Mapping[str, Number]) -> Answers:
    return (np.asarray(dims.get("window", 0.0)) > 0, np.asarray(dims["new"]) > 1.0)


def _recurrent(dims: Mapping[str, Number]) -> Answers:
    new = np.asarray(dims.get("new", 1.0))
    return new > 1.0, new > VERIFIED_TOKENS


def _experts(dims: Mapping[str, Number]) -> Answers:
    """Few tokens, together and of a device; experts that are spread; tokens that are sent."""
    return (
        np.asarray(dims["tokens"]) <= FEW_TOKENS,
        np.asarray(dims["own"]) <= FEW_TOKENS,
        np.asarray(dims["local"]) < dims["experts"],
        np.asarray(dims["apart"]) > 0,
    )


_QUESTIONS: Final[Mapping[str, Callable[[Mapping[str, Number]], Answers]]] = {
    "collective": _collective,
    "prefill-attention": _prefill,
    "latent-attention": _latent,
    "pointwise": _recurrent,
    "scan": _recurrent,
    "index": _latent,
}
"""Conditions that decide about the kernel of a row, by kind of operator."""
