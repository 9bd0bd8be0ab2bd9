"""Errors of shipped fits on devices and engines that they were not measured on.

``python -m roofline.bench.shipping.carrying MEASUREMENTS [KIND …]`` leaves out one device, then one
engine, at a time and predicts its kernels by the fits of the others. It prints the errors by kind
of kernel, the rows inside the interval that predictions have there, and the log standard deviation
that such a transfer adds so that four of five are: of all rows, and of groups in the median.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.bench import arguments
from roofline.bench.held_out import CENTRAL, DEVIATIONS, errors, unallowed
from roofline.bench.kernel_rows import RowGroup
from roofline.bench.predictors import as_measured
from roofline.bench.shipping.files import fit_of, labels
from roofline.bench.shipping.making import FILES, jobs_of
from roofline.cost.calibration.kernel import NEUTRAL, SUPERSEDED, FitLabel, nearest, passed_over
from roofline.cost.calibration.pricing import timed
from roofline.cost.kernels.form import predict
from roofline.cost.work import Array
from roofline.hardware.catalog import gpu

ROWS: Final = 2000
"""Rows of a group that are enough to tell."""
NEAR: Final = "another device of its generation"
FAR: Final = "another generation"
DEVICES: Final = "another device"
ENGINE: Final = "another engine"


class CarriedGroup(Struct, frozen=True):
    """A group of measured rows as the nearest fit that is not its own predicts them."""

    kind: str
    device: str
    over: str
    """Kind of kernel; device of the rows; difference that the fit was carried over."""
    off: Array
    """Logarithm of measured over predicted. [1]"""
    log_sd: Array
    """The fit's own spread. [1]"""
    spread: float
    """Spread that predictions add for such a distance. [1]"""

    @property
    def inside(self) -> NDArray[np.bool_]:
        """True for rows inside their central 80 %, as predictions have it."""
        found: NDArray[np.bool_] = np.abs(self.off) <= DEVIATIONS * np.hypot(
            self.log_sd, self.spread
        )
        return found


def added(parts: Sequence[CarriedGroup]) -> float:
    """Log standard deviation beside the fits' own with which four of five rows are inside. [1]"""
    off, own = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("off", "log_sd")
    )
    beyond = unallowed(off, own) / DEVIATIONS
    return float(np.quantile(beyond, CENTRAL))


def carried(label: FitLabel, group: RowGroup) -> Iterator[CarriedGroup]:
    """The rows of a group by fits of other devices, and of other engines on the same device."""
    some = np.arange(len(group))
    if len(some) > ROWS:
        some = np.sort(np.random.default_rng(0).choice(some, ROWS, replace=False))
    if label in SUPERSEDED:
        return
    rows, device, every = group[some], gpu(label.device), labels()
    elsewhere = tuple(each for each in every if each.device != label.device)
    others = tuple(
        each for each in every if each.device == label.device and each.provider != label.provider
    )
    for known, engine in ((elsewhere, False), (others, True)):
        if engine and (label.provider in NEUTRAL or passed_over(label)):
            continue
        variants = (label.variant,)
        found = nearest(
            known, fit_of, device, label.provider, label.kind, variants, in_steps=engine
        )
        if found is None:
            continue
        if not engine and found.fit.label.provider != label.provider:
            continue
        model = found.fit.model if engine else as_measured(found.fit.model, group.form)
        if model.form != group.form:
            continue
        dims = timed(rows.dims, found.fit, device)
        time, own, _ = predict(model, dims, rows.machine)
        over = ENGINE if engine else (FAR if found.far else NEAR)
        off = np.log(rows.measured / time)
        yield CarriedGroup(label.kind, label.device, over, off, own, found.spread)


def main(measurements: Path, kinds: Sequence[str]) -> None:
    """Print a row for each kind and way of carrying, and of devices for each device."""
    found: dict[tuple[str, str], list[CarriedGroup]] = {}
    for label, group in jobs_of(measurements, kinds or tuple(FILES)):
        for each in carried(label, group):
            ways = (each.over,) if each.over == ENGINE else (each.over, DEVICES, each.device)
            for way in ways:
                found.setdefault((each.kind, way), []).append(each)
    for (kind, way), parts in sorted(found.items()):
        off = np.concatenate([part.off for part in parts])
        known = errors(np.exp(-off), np.ones_like(off))
        groups = sorted(added([part]) for part in parts)
        inside = np.mean(np.concatenate([part.inside for part in parts]))
        sys.stdout.write(
            f"{kind:20} {way:32} {len(parts):4} groups {known}  {inside:.0%} inside, adds"
            f" {added(parts):.2f} ({np.median(groups):.2f}, {groups[0]:.2f} to {groups[-1]:.2f})\n"
        )


if __name__ == "__main__":
    asked = arguments.parser("roofline.bench.shipping.carrying", __doc__)
    asked.add_argument("measurements", type=arguments.folder, help="folder of measurements")
    asked.add_argument(
        "kinds",
        nargs="*",
        type=arguments.kind_of(FILES, whole=True),
        help="kinds of kernels; else all",
    )
    given = asked.parse_args()
    arguments.answer(asked, lambda: main(given.measurements, given.kinds))
