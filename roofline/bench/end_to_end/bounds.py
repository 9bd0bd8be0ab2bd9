"""What a run cannot beat, and how well the kernels that price it are known."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from roofline.bench.end_to_end.replay import Known
from roofline.cost.deployment import Deployment
from roofline.cost.roof import roof
from roofline.cost.step import Group, step
from roofline.cost.work import Op
from roofline.table import BASES

POOR: Final = BASES.index("extrapolated")
"""From this basis on a kernel was not measured at this shape on this device."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Least times at datasheet rates, with everything hidden behind the slowest.

    Attributes
    ----------
    prompt
        Of one prompt. [s]
    token
        Of a step that decodes one sequence at its mean context. [s]
    together
        Of a step that decodes all sequences of the run. [s]
    """

    prompt: float
    token: float
    together: float


def bounds(each: Known) -> Bounds:
    """Bounds of a run.

    Parameters
    ----------
    each
        The run.
    """
    found, row = replace(each.deployment, calibration=None), each.row
    context = row.isl + row.osl / 2
    many = max(row.batch, 1.0)
    return Bounds(
        _least(step(found, [Group(1.0, row.isl, row.isl, "prefill")]).values(), found),
        _least(step(found, [Group(1.0, 1.0, context, "decode")]).values(), found),
        _least(step(found, [Group(many, 1.0, context, "decode")]).values(), found),
    )


def _least(ops: Iterable[Op], found: Deployment) -> float:
    times = [roof(op, found, float(op.repeat)) for op in ops]
    limits = [sum(float(np.asarray(getattr(t, name))) for t in times) for name in _LIMITS]
    return max(limits)


_LIMITS: Final = ("compute", "memory")


@dataclass(frozen=True, slots=True)
class Poor:
    """How much of a step is priced by kernels that were not measured there.

    Attributes
    ----------
    share
        Of its time. [1]
    kind, basis
        Which operators take most of that, and how those are known.
    """

    share: float
    kind: str
    basis: str


def poor(each: Known, *, prefill: bool) -> Poor:
    """How much of a run's step rests on other devices' or on assumed kernels.

    Parameters
    ----------
    each
        The run.
    prefill
        Whether of a prompt; else of a step that decodes all its sequences.
    """
    row = each.row
    found = each.deployment
    group = (
        Group(1.0, row.isl, row.isl, "prefill")
        if prefill
        else Group(max(row.batch, 1.0), 1.0, row.isl + row.osl / 2, "decode")
    )
    whole = 0.0
    parts: dict[tuple[str, int], float] = {}
    for op in step(found, [group]).values():
        time = roof(op, found, float(op.repeat))
        seconds = float(np.asarray(time.seconds))
        basis = BASES.index("datasheet")
        if time.measured is not None:
            basis = int(np.max(np.asarray(time.measured.basis)))
        whole += seconds
        if basis >= POOR:
            key = op.kind, basis
            parts[key] = parts.get(key, 0.0) + seconds
    if not parts or whole <= 0:
        return Poor(0.0, "", "")
    (kind, worst), _ = max(parts.items(), key=lambda part: part[1])
    return Poor(sum(parts.values()) / whole, kind, BASES[worst])
