"""A calibration: what was fitted on which machine, and its YAML that a person can read.

Rates and times carry their units and what they mean, errors are on families of shapes that the fit
did not see, and the digest says from which rows all of it came.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from roofline.bench.held_out import Errors
from roofline.cost.kernels.form import FittedForm, FormConstant, Machine
from roofline.cost.kernels.residual import Residual
from roofline.files import output
from roofline.units import show

if TYPE_CHECKING:
    from roofline.bench.published import PublishedRates
    from roofline.bench.records import Records


class FittedProbe(Struct, frozen=True):
    """One probe's form, fitted."""

    probe: str
    version: int
    kind: str
    arithmetic: str
    """Name, version, kind and arithmetic of the probe."""
    form: str
    """Name of the form in a calibration file."""
    model: FittedForm
    """Fitted form, which predicts."""
    errors: Errors
    datasheet: Errors | None
    """On families left out; of the roofline at published rates on the same rows, where known."""
    inside: float
    """Share of rows left out that are in their central 80 % interval. [1]"""


SCHEMA: Final = 1
DIGITS: Final = 6
"""Digits of constants and tables: far finer than any time was measured."""
DIGEST: Final = "sha256:"
"""Before a fingerprint, so that one like 1e29 is not read as a number."""
OCTAVE_DIGITS: Final = 12


class Profile(Struct, frozen=True):
    """A calibration of one provider on one machine."""

    name: str
    """Name of the file."""
    provider: str
    device: str
    """Library of the kernels, and the machine."""
    date: str
    """Time at which the run began."""
    digest: str
    """Fingerprint of the rows."""
    environment: Mapping[str, str]
    """Facts that the times depend on besides."""
    machine: Machine
    source: str
    """Published rates that the forms were given, and whose they are."""
    fits: Mapping[str, FittedProbe]
    """Fits by probe."""
    rates: Mapping[str, float] = {}
    """Published rates by arithmetic type, where forms were given others than that of `machine`.
    [FLOP/s]"""

    def of(self, arithmetic: str) -> Machine:
        """The machine as it computes in that type."""
        from roofline.bench.published import PublishedRates

        return PublishedRates(self.source, self.machine, self.rates).of(arithmetic)


def profile(
    records: "Records", fits: Sequence[FittedProbe], published: "PublishedRates"
) -> Profile:
    """Calibration of a run and its fits."""
    about = records.header.environment
    threads = about.get("threads", "")
    parts = [records.header.provider, about["machine"], *([f"{threads}t"] if threads else [])]
    return Profile(
        name="-".join(parts),
        provider=records.header.provider,
        device=about["machine"],
        date=about["date"],
        digest=records.digest,
        environment=dict(about),
        machine=published.machine,
        source=published.source,
        fits={fitted.probe: fitted for fitted in fits},
        rates=published.rates,
    )


def write(found: Profile, path: Path) -> None:
    """Write a calibration, whole or not at all."""
    with output(path, folders=True) as file:
        file.write(text(found).encode())


def text(found: Profile) -> str:
    """A calibration as YAML."""
    import yaml

    head = {
        "schema_version": SCHEMA,
        "name": found.name,
        "provider": found.provider,
        "device": found.device,
        "date": found.date,
        "rows": f"{DIGEST}{found.digest}",
        "environment": dict(found.environment),
        "machine": {
            "source": found.source,
            "arithmetic": show(found.machine.flops_per_s, "FLOP/s", DIGITS),
            "memory": show(found.machine.hbm_bytes_per_s, "B/s", DIGITS),
            "cache": f"{found.machine.l2_bytes:.0f} B",
            "units": found.machine.multiprocessors,
            **_more(found),
        },
        "fits": {name: _fit(fitted) for name, fitted in found.fits.items()},
    }
    body = yaml.safe_dump(
        head, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100
    )
    return f"# Measured by roofline calibrate. Times of one kernel, as its form has them.\n{body}"


def _more(found: Profile) -> dict[str, Any]:
    """Rates that the forms of a GPU are given and those of a processor are not."""
    out: dict[str, Any] = {}
    if found.machine.l2_bytes_per_s and found.rates:
        out["cache_rate"] = show(found.machine.l2_bytes_per_s, "B/s", DIGITS)
    if found.rates:
        out["rates"] = {name: show(rate, "FLOP/s", DIGITS) for name, rate in found.rates.items()}
    return out


def _fit(fitted: FittedProbe) -> dict[str, Any]:
    model, errors, bare = fitted.model, fitted.errors, fitted.datasheet
    residual = model.residual
    return {
        "version": fitted.version,
        "kind": fitted.kind,
        "arithmetic": fitted.arithmetic,
        "form": fitted.form,
        "rows": model.rows,
        "source": model.source,
        "constants": {
            constant.name: {
                "value": _shown(model.constants[constant.name], constant),
                "meaning": constant.meaning,
            }
            for constant in model.form.constants
        },
        "errors": {
            "median": _short(errors.median),
            "mean": _short(errors.mean),
            "p90": _short(errors.p90),
            "datasheet": bare and [_short(each) for each in (bare.median, bare.mean, bare.p90)],
            "inside": _short(fitted.inside),
        },
        "spread": _short(model.spread),
        "spreads": {str(regime): _short(value) for regime, value in model.spreads.items()},
        "scale": _short(model.scale),
        "transferred": model.transferred,
        "residual": None if residual is None else _residual(residual),
        "hull": {
            "coordinates": list(model.form.coordinates),
            "low": [_octave(value) for value in model.hull.low.tolist()],
            "high": [_octave(value) for value in model.hull.high.tolist()],
            "radius": _octave(model.hull.radius),
            "points": [[_octave(x) for x in point] for point in model.hull.points.tolist()],
        },
    }


def _residual(residual: Residual) -> dict[str, Any]:
    steps, branches = residual.steps, residual.branches
    return {
        "reach": residual.reach,
        "weights": [_short(weight) for weight in residual.weights.tolist()],
        "steps": steps
        and {
            "reach": residual.steps_reach,
            "nodes": [_octave(node) for node in steps.nodes.tolist()],
            "families": [[_octave(x) for x in family] for family in steps.families.tolist()],
            "weights": [[_short(x) for x in row] for row in steps.weights.tolist()],
        },
        "waves": None
        if residual.waves is None
        else [[_octave(x) for x in row] for row in residual.waves.tolist()],
        "branches": branches
        and {
            "columns": branches.columns.tolist(),
            "bounds": [[_octave(x) for x in tree] for tree in branches.bounds.tolist()],
            "values": [
                " ".join(f"{x:.{DIGITS}g}" for x in tree) for tree in branches.values.tolist()
            ],
        },
    }


def _shown(value: float, constant: FormConstant) -> str | float:
    return _short(value) if constant.unit == "1" else show(value, constant.unit, DIGITS)


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _octave(value: float) -> float:
    """Nearly exact: a measured shape must not come to lie outside its own hull."""
    return float(f"{value:.{OCTAVE_DIGITS}g}")
