"""Rows of an operator that ask for different kernels: each sort of them is priced by itself.

A time may not depend on what else is on the scenario axis. Whether a collective leaves its node, a
window hides keys, a chunk continues a prompt, or devices share one decides which kernel runs, row
by row.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.cost.calibration.grids import taken
from roofline.cost.measured import Measured
from roofline.cost.work import Number, Op, distinct

Rows: TypeAlias = NDArray[np.intp]
Answers: TypeAlias = tuple[NDArray[np.bool_], ...]
VERIFIED_TOKENS: Final = 8.0
"""New tokens of a sequence up to which a recurrent layer steps, as it does to verify drafts; more
are a prompt, computed in chunks. The most that were measured so."""
FEW_TOKENS: Final = 128.0
"""Tokens of a device up to which the low-latency exchange is used: its usual buffers."""


def sorted_out(op: Op) -> Iterator[tuple[Rows, Op]]:
    """Places of the rows of each sort, and the operator on them; nothing where all are of one.

    Args:
        op: Of a step, over a scenario axis or of a single scenario.
    """
    routed = "touched" in op.dims
    questions = _experts if routed else _QUESTIONS.get(op.kind)
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


def together(parts: list[tuple[Rows, Measured]]) -> Measured:
    """Prices of all sorts in the order of the rows; told as the sort that has most of them."""
    length = sum(len(rows) for rows, _ in parts)
    columns = np.empty((4, length))
    for rows, priced in parts:
        columns[:, rows] = np.stack(
            [
                np.broadcast_to(each, rows.shape)
                for each in (priced.seconds, priced.log_sd, priced.basis, priced.start_s)
            ]
        )
    _, most = max(parts, key=lambda part: (part[1].found is not None, len(part[0])))
    seconds, log_sd, basis, start = columns
    return replace(
        most,
        seconds=seconds,
        log_sd=log_sd,
        basis=basis,
        start_s=start if start.any() else 0.0,
    )


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
    """Whether there are few tokens, together and of a device, and whether experts are spread."""
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
"""By kind of operator, what decides about its kernel."""
