"""Bytes of a shipped fit: constants and facts in JSON, then its tables as floats."""

import json
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.calibration.kernel import Kernel, Label
from roofline.cost.kernels.calibrated import Calibrated
from roofline.cost.kernels.catalog import FORMS, name_of
from roofline.cost.kernels.residual import Branches, Hull, Residual, Steps
from roofline.cost.work import Array

DIGITS: Final = 6
"""Significant digits of stored constants and spreads: far finer than any time was measured."""
STORED: Final = np.dtype("<f4")
ROUGH: Final = np.dtype("<f2")
"""Type of stored jumps and waves, whose last digits no time depends on."""
PLACES: Final = np.dtype("u1")
"""Type of stored places of columns."""
TYPES: Final = {kind.itemsize: kind for kind in (STORED, ROUGH, PLACES)}
ROUNDING: Final = 4e-6
"""Most that rounding moves a stored shape. [octave]"""


def pack(kernel: Kernel) -> bytes:
    """Bytes of a fit, as `unpack` reads them."""
    model = kernel.model
    hull, residual = model.hull, model.residual
    steps = None if residual is None else residual.steps
    arrays: list[tuple[NDArray[Any], np.dtype[Any]]] = [(hull.points, STORED)]
    if residual is not None:
        arrays.append((residual.weights, STORED))
        if steps is not None:
            arrays += [(steps.nodes, STORED), (steps.families, STORED), (steps.weights, ROUGH)]
        if residual.waves is not None:
            arrays.append((residual.waves, ROUGH))
        if (branches := residual.branches) is not None:
            arrays += [(branches.columns, PLACES), (branches.bounds, STORED)]
            arrays.append((branches.values, ROUGH))
    head = {
        "form": name_of(model.form),
        "arithmetic": kernel.arithmetic,
        "kernel": kernel.name,
        "constants": {name: _rounded(value) for name, value in model.constants.items()},
        "spread": _rounded(model.spread),
        "spreads": {str(regime): _rounded(value) for regime, value in model.spreads.items()},
        "rows": model.rows,
        "source": model.source,
        "low": hull.low.tolist(),
        "high": hull.high.tolist(),
        "radius": hull.radius + ROUNDING,
        "reach": None if residual is None else residual.reach,
        "steps_reach": None if residual is None or steps is None else residual.steps_reach,
        "waves": residual is not None and residual.waves is not None,
        "branches": residual is not None and residual.branches is not None,
        "shapes": [(*array.shape, kind.itemsize) for array, kind in arrays],
    }
    told = json.dumps(head, separators=(",", ":")).encode()
    # Column by column: values of a column are alike, and alike is what compresses.
    tables = b"".join(array.astype(kind).tobytes(order="F") for array, kind in arrays)
    return len(told).to_bytes(4, "little") + told + tables


def unpack(label: Label, stored: bytes) -> Kernel:
    """The fit that bytes are of.

    Raises:
        ValueError, KeyError, TypeError: They are not what `pack` made.
    """
    start = 4 + int.from_bytes(stored[:4], "little")
    head: dict[str, Any] = json.loads(stored[4:start])
    arrays = _arrays(head["shapes"], stored[start:])
    form = FORMS[head["form"]]
    points = next(arrays)
    residual = None
    if head["reach"] is not None:
        weights, steps = next(arrays), None
        if head["steps_reach"] is not None:
            steps = Steps(next(arrays), next(arrays), next(arrays))
        waves = next(arrays) if head.get("waves") else None
        branches = None
        if head.get("branches"):
            branches = Branches(next(arrays).astype(np.intp), next(arrays), next(arrays))
        reach, steps_reach = head["reach"], head["steps_reach"] or 0.0
        residual = Residual(weights, reach, steps, steps_reach, waves, branches)
    model = Calibrated(
        form,
        {constant.name: float(head["constants"][constant.name]) for constant in form.constants},
        residual,
        {int(regime): value for regime, value in head["spreads"].items()},
        head["spread"],
        Hull(np.array(head["low"]), np.array(head["high"]), points, head["radius"]),
        head["rows"],
        head["source"],
    )
    return Kernel(label, head["arithmetic"], model, head.get("kernel", ""))


def _arrays(shapes: list[list[int]], stored: bytes) -> Iterator[Array]:
    start = 0
    for *shape, width in shapes:
        count = int(np.prod(shape))
        kind = TYPES[width]
        table = np.frombuffer(stored, dtype=kind, count=count, offset=start)
        yield table.reshape(shape, order="F").astype(np.float64, order="C")
        start += count * width


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
