"""Shipped calibrations by file name: ``<device>/<provider>.<kind>.<variant>.yaml``."""

from functools import cache
from pathlib import Path

from roofline.bench.profile_file import FOLDER, load
from roofline.content import shipped
from roofline.cost.calibration.kernel import Kernel, Label


def folder() -> Path:
    """Where they are."""
    return shipped("hwspecs") / FOLDER


def path_of(label: Label) -> Path:
    """File of a fit."""
    name = f"{label.provider}.{label.kind}.{label.variant}.yaml"
    return folder() / label.device / name


@cache
def labels() -> tuple[Label, ...]:
    """Of all shipped fits, told by the names of their files; no file is opened."""
    found = []
    for path in sorted(folder().glob("*/*.yaml")):
        parts = path.stem.split(".")
        if len(parts) == 3:
            found.append(Label(path.parent.name, *parts))
    return tuple(found)


@cache
def fit_of(label: Label) -> Kernel:
    """A shipped fit.

    Raises
    ------
    DocumentError
        Its file has a mistake.
    """
    (fitted,) = load(path_of(label)).fits.values()
    return Kernel(label, fitted.arithmetic, fitted.model)
