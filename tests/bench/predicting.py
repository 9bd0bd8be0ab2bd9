"""Times of a processor's kernels by its calibration, alone and in a row: for tests of fits."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from roofline.bench.calibrating import roofline
from roofline.bench.engine import footprint
from roofline.bench.forms import NUMPY, columns, form_of
from roofline.bench.held_out import DEVIATIONS
from roofline.bench.probe import ProbePoint
from roofline.bench.profile import Profile
from roofline.bench.published import PublishedRates, of_run
from roofline.bench.records import WORK, Record
from roofline.cost.kernels.form import Dims, Machine
from roofline.cost.kernels.form import predict as predict_rows
from roofline.errors import MissingRateError
from roofline.table import BASES

UNMEASURED: Final = (1.0,)
"""Samples of a row that has none; forms do not see them. [s]"""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Time of some kernels, one after the other."""

    seconds: float
    """Median. [s]"""
    log_sd: float
    """Standard deviation of its logarithm. [1]"""
    basis: str
    """The worst of those it is made of, one of `roofline.table.BASES`."""

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the central 80 %. [s]"""
        width = float(np.exp(DEVIATIONS * self.log_sd))
        return self.seconds / width, self.seconds * width


def touched(kernels: Iterable[tuple[ProbePoint, float]]) -> float:
    """Bytes that kernels touch between two uses of a weight or a cache, run over and over. [B]

    That is every weight and every cache. Activations are written over from kernel to kernel, and
    left out.
    """
    works = [(point.probe.work(point.at), times) for point, times in kernels]
    return sum(times * float(work.weight_bytes + work.kv_bytes) for work, times in works)


def predict(
    profile: Profile, kernels: Sequence[tuple[ProbePoint, float]], reuse: float | None = None
) -> Prediction:
    """Time of kernels, each so many times.

    Spreads add with correlation one within a probe, since a form that is wrong is wrong alike for
    all it prices, and with none between probes.

    Args:
        profile: Of the machine they run on.
        kernels: What runs, and how often. [1]
        reuse: Touched between two uses of what is streamed; as `touched` of these kernels, if not
            said. [B]

    Raises:
        MissingRateError: The calibration has none of that kind.
    """
    total, worst = 0.0, 0
    reuse = touched(kernels) if reuse is None else reuse
    spreads: dict[str, float] = defaultdict(float)
    for point, times in kernels:
        name = point.probe.name
        if name not in profile.fits:
            raise MissingRateError(
                f"{profile.name} has no {name}", hint="calibrate with a larger --budget"
            )
        fitted = profile.fits[name]
        model, machine = fitted.model, profile.of(fitted.arithmetic)
        wires = of_run(profile.environment) if _wired(point) else None
        dims = dims_of(point, fitted.form, wires, reuse)
        each, log_sd, basis = (float(column[0]) for column in predict_rows(model, dims, machine))
        total += times * each
        spreads[name] += times * each * log_sd
        worst = max(worst, int(basis))
    spread = float(np.sqrt(sum(value**2 for value in spreads.values()))) / total
    return Prediction(total, spread, BASES[worst])


def naive(machine: Machine, kernels: Iterable[tuple[ProbePoint, float]]) -> float:
    """The same by the roofline at given rates: the larger of arithmetic and traffic. [s]"""
    return sum(times * float(roofline(dims_of(point), machine)[0]) for point, times in kernels)


def _wired(point: ProbePoint) -> bool:
    return point.probe.kind == "collective"


def dims_of(
    point: ProbePoint,
    form: str = "",
    published: PublishedRates | None = None,
    reuse: float = math.inf,
) -> Dims:
    """A point as a form sees it.

    Args:
        point: Where.
        form: Name of the form; that of a processor if none is named.
        published: For collectives: the rate of their wires.
        reuse: Touched between two uses of what is streamed, if the point streams anything. [B]
    """
    work = point.probe.work(point.at)
    own = footprint(ProbePoint(point.probe, point.at, "warm"), 0.0).total_bytes
    row = Record(
        point.name,
        point.probe.name,
        point.probe.kind,
        point.state,
        point.regime,
        point.probe.arithmetic,
        at=point.at,
        work={name: float(getattr(work, name)) for name in WORK},
        reuse=own if point.state == "warm" else max(own, reuse),
        samples=UNMEASURED,
        stopped="",
    )
    probe = point.probe
    return columns([row], form or form_of(probe.kind, probe.arithmetic, NUMPY), published)
