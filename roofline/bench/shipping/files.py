"""Shipped calibrations by file name: ``<device>/<provider>.<kind>.<variant>.yaml``."""

from functools import cache
from pathlib import Path
from typing import Final

from roofline.bench.profile_file import FOLDER, load
from roofline.bench.shipping.wires import load_wires
from roofline.content import shipped
from roofline.cost.calibration.kernel import Fit, Kernel, Label

COLLECTIVE: Final = "collective"


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
def fit_of(label: Label) -> Fit:
    """A shipped fit.

    Raises
    ------
    DocumentError
        Its file has a mistake.
    """
    path = path_of(label)
    if label.kind == COLLECTIVE:
        return load_wires(path, label)
    (fitted,) = load(path).fits.values()
    return Kernel(label, fitted.arithmetic, fitted.model)
