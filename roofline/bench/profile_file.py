"""Read a calibration file, and hold it to its schema and to the bounds of its forms."""

from collections.abc import Sequence
from math import inf, isfinite
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import Field

from roofline.bench.held_out import Errors
from roofline.bench.profile import DIGEST, FittedProbe, Profile
from roofline.cost.kernels.catalog import FORMS
from roofline.cost.kernels.form import FittedForm, Form, Machine
from roofline.cost.kernels.gemm import HEIGHTS, TILES
from roofline.cost.kernels.residual import DecisionTrees, Hull, Residual, StepTable
from roofline.errors import DocumentError
from roofline.schema import Document, Strict, quantity, read, validate
from roofline.units import show

ROUNDED: Final = 0.0001
"""Share by which a constant may stand outside its bounds."""

EDITED: Final = "calibrate again; a calibration is not to be edited"

Text = Annotated[str, Field(min_length=1, max_length=2000)]
Numbers = tuple[float, ...]


class FormConstantFile(Strict):
    """A fitted constant."""

    value: str | float | int
    meaning: str


class ErrorsFile(Strict):
    """Absolute errors on families left out as shares, and how often the interval held."""

    median: float
    mean: float
    p90: float
    datasheet: tuple[float, float, float] | None
    inside: float = Field(ge=0.0, le=1.0)


class HullFile(Strict):
    """Places of measurements, in octaves of the coordinates."""

    coordinates: tuple[str, ...]
    low: Numbers
    high: Numbers
    radius: float = Field(ge=0.0)
    points: tuple[Numbers, ...] = Field(min_length=1)


class StepsFile(Strict):
    """Jumps along the first coordinate: a table of nodes and families."""

    reach: float = Field(gt=0.0)
    nodes: Numbers = Field(min_length=2)
    families: tuple[Numbers, ...] = Field(min_length=1)
    weights: tuple[Numbers, ...]


class BranchesFile(Strict):
    """Jumps where sizes pass bounds: a row for each tree."""

    columns: tuple[tuple[int, ...], ...] = Field(min_length=1)
    bounds: tuple[Numbers, ...]
    values: tuple[str | Numbers, ...]
    """Leaves of each tree: as text, of which a file may have more than numbers."""


class ResidualFile(Strict):
    """Surface through the points of the hull, and jumps on it."""

    reach: float = Field(gt=0.0)
    weights: Numbers
    steps: StepsFile | None
    waves: tuple[Numbers, ...] | None = None
    branches: BranchesFile | None = None


class FitFile(Strict):
    """One probe's form."""

    version: int
    kind: Text
    arithmetic: str
    form: Text
    rows: int = Field(ge=1)
    source: str
    constants: dict[str, FormConstantFile]
    errors: ErrorsFile
    spread: float = Field(ge=0.0)
    spreads: dict[Annotated[str, Field(pattern=r"^[0-9]{1,9}$")], float]
    scale: float = Field(gt=0.0)
    transferred: bool
    residual: ResidualFile | None
    hull: HullFile


class MachineFile(Strict):
    """Published rates that the forms were given, and that the errors are compared with.

    Where a device has several kinds of arithmetic, ``rates`` has one for each.
    """

    source: Text
    arithmetic: str
    memory: str
    cache: str
    units: float
    cache_rate: str | None = None
    rates: dict[str, str] = Field(default_factory=dict)


class ProfileFile(Strict):
    """A calibration."""

    schema_version: Literal[1]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,95}$")]
    provider: Text
    device: Text
    date: Text
    rows: Text
    environment: dict[str, str]
    machine: MachineFile
    fits: dict[str, FitFile]


def load(path: Path) -> Profile:
    """Read a calibration.

    Raises:
        DocumentError: It cannot be read, or says something that no fit can have found.
    """
    document = read(path)
    file = validate(ProfileFile, document)
    named = file.machine.cache_rate is not None
    rate = quantity(document, "B/s", "machine", "cache_rate") if named else 0.0
    machine = Machine(
        flops_per_s=quantity(document, "FLOP/s", "machine", "arithmetic"),
        hbm_bytes_per_s=quantity(document, "B/s", "machine", "memory"),
        l2_bytes=quantity(document, "B", "machine", "cache"),
        l2_bytes_per_s=rate,
        multiprocessors=file.machine.units,
    )
    return Profile(
        name=file.name,
        provider=file.provider,
        device=file.device,
        date=file.date,
        digest=file.rows.removeprefix(DIGEST),
        environment=file.environment,
        machine=machine,
        source=file.machine.source,
        fits={name: _fitted(document, name, fit) for name, fit in file.fits.items()},
        rates={
            name: quantity(document, "FLOP/s", "machine", "rates", name)
            for name in file.machine.rates
        },
    )


def _fitted(document: Document, probe: str, file: FitFile) -> FittedProbe:
    at = ("fits", probe)
    if file.form not in FORMS:
        raise DocumentError(
            f"there is no form {file.form!r}",
            hint=f"there are {', '.join(FORMS)}",
            where=document.where(*at, "form"),
        )
    form = FORMS[file.form]
    hull = _hull(document, at, form, file.hull)
    model = FittedForm(
        form,
        _constants(document, at, form, file),
        None if file.residual is None else _residual(document, at, hull, file.residual),
        {int(regime): value for regime, value in file.spreads.items()},
        file.spread,
        hull,
        file.rows,
        file.source,
        file.scale,
        file.transferred,
    )
    return FittedProbe(
        probe=probe,
        version=file.version,
        kind=file.kind,
        arithmetic=file.arithmetic,
        form=file.form,
        model=model,
        errors=Errors(file.errors.median, file.errors.mean, file.errors.p90),
        datasheet=None if file.errors.datasheet is None else Errors(*file.errors.datasheet),
        inside=file.errors.inside,
    )


def _constants(
    document: Document, at: tuple[str, str], form: Form, file: FitFile
) -> dict[str, float]:
    """Constants of the form, all of them, within their bounds."""
    known = {constant.name: constant for constant in form.constants}
    if missing := [name for name in known if name not in file.constants]:
        raise DocumentError(
            f"the constant {missing[0]!r} of {file.form} is missing",
            hint="calibrate again",
            where=document.where(*at, "constants"),
        )
    out = {}
    for name in file.constants:
        path = (*at, "constants", name)
        if name not in known:
            raise DocumentError(
                f"{file.form} has no constant {name!r}",
                hint=f"it has {', '.join(known)}",
                where=document.where_key(*path),
            )
        constant = known[name]
        unit = "" if constant.unit == "1" else constant.unit
        value = quantity(document, unit, *path, "value")
        # The last digit is rounded: a constant at its bound may stand just outside.
        if not constant.low * (1.0 - ROUNDED) <= value <= constant.high * (1.0 + ROUNDED):
            low, high = (show(end, unit) for end in (constant.low, constant.high))
            raise DocumentError(
                f"{name} cannot be {show(value, unit)}",
                hint=f"it is between {low} and {high}; calibrate again",
                where=document.where(*path, "value"),
            )
        out[name] = value
    return {name: out[name] for name in known}


def _hull(document: Document, at: tuple[str, str], form: Form, file: HullFile) -> Hull:
    path = (*at, "hull")
    if file.coordinates != form.coordinates:
        raise DocumentError(
            f"the coordinates of {form.kind} are {', '.join(form.coordinates)}",
            hint="calibrate again: the form has changed",
            where=document.where(*path, "coordinates"),
        )
    width = len(form.coordinates)
    _same_length(document, (*path, "low"), file.low, width)
    _same_length(document, (*path, "high"), file.high, width)
    _same_length(document, (*path, "points"), file.points, None, width)
    return Hull(np.array(file.low), np.array(file.high), np.array(file.points), file.radius)


def _residual(document: Document, at: tuple[str, str], hull: Hull, file: ResidualFile) -> Residual:
    path: tuple[str, ...] = (*at, "residual")
    _same_length(document, (*path, "weights"), file.weights, len(hull.points))
    waves = None
    if file.waves is not None:
        _same_length(document, (*path, "waves"), file.waves, len(hull.points))
        for index, each in enumerate(file.waves):
            if len(each) != len(TILES):  # as calibrations before had them
                _same_length(document, (*path, "waves", index), each, len((*TILES, *HEIGHTS)))
        waves = np.array(file.waves)
    if file.branches is not None:
        more = 0 if waves is None else len((*TILES, *HEIGHTS))
        columns = 2 ** len(hull.low) - 1 + more
        branches = _branches(document, (*path, "branches"), columns, file.branches)
        return Residual(np.array(file.weights), file.reach, waves=waves, branches=branches)
    if file.steps is None:
        return Residual(np.array(file.weights), file.reach, waves=waves)
    steps = file.steps
    path += ("steps",)
    shape = len(steps.nodes), len(steps.families)
    _same_length(document, (*path, "weights"), steps.weights, *shape)
    _same_length(document, (*path, "families"), steps.families, None, len(hull.low) - 1)
    if list(steps.nodes) != sorted(set(steps.nodes)):
        raise DocumentError(
            "the nodes do not increase", hint=EDITED, where=document.where(*path, "nodes")
        )
    jumps = StepTable(np.array(steps.nodes), np.array(steps.families), np.array(steps.weights))
    return Residual(np.array(file.weights), file.reach, jumps, steps.reach, waves)


def _branches(
    document: Document, path: tuple[str, ...], columns: int, file: BranchesFile
) -> DecisionTrees:
    trees, levels = len(file.columns), len(file.columns[0])
    _same_length(document, (*path, "columns"), file.columns, trees, levels)
    _same_length(document, (*path, "bounds"), file.bounds, trees, levels)
    values = [
        _leaves(document, (*path, "values", index), tree) for index, tree in enumerate(file.values)
    ]
    _same_length(document, (*path, "values"), values, trees, 2**levels)
    for index, row in enumerate(file.columns):
        if not all(0 <= place < columns for place in row):
            raise DocumentError(
                f"there are columns 0 to {columns - 1}",
                hint=EDITED,
                where=document.where(*path, "columns", index),
            )
    return DecisionTrees(np.array(file.columns), np.array(file.bounds), np.array(values))


def _leaves(document: Document, path: tuple[str | int, ...], tree: str | Numbers) -> Numbers:
    """Leaves of a tree as numbers."""
    try:
        found = tuple(map(float, tree.split() if isinstance(tree, str) else tree))
    except ValueError:
        found = (inf,)
    if not all(map(isfinite, found)):
        raise DocumentError(
            "a leaf is not a finite number", hint=EDITED, where=document.where(*path)
        )
    return found


def _same_length(
    document: Document, path: tuple[str | int, ...], found: Sequence[Any], *wanted: int | None
) -> None:
    """Refuse numbers, or rows of them, that are not as many as are needed; None for any number."""
    first, *rest = wanted
    if first is not None and len(found) != first:
        raise DocumentError(
            f"{len(found)} numbers are here, and {first} are needed",
            hint=EDITED,
            where=document.where(*path),
        )
    for index, row in enumerate(found if rest else ()):
        _same_length(document, (*path, index), row, *rest)
