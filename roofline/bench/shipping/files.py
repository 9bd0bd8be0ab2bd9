"""Shipped calibrations by file name: ``<device>/<provider>.<kind>.<variant>.yaml``."""

from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from roofline.bench.own import FOLDER
from roofline.content import shipped
from roofline.cost.calibration.kernel import Kernel, Label
from roofline.cost.kernels.calibrated import Calibrated
from roofline.cost.kernels.catalog import FORMS
from roofline.kept import kept


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
    for device in sorted(path for path in folder().iterdir() if path.is_dir()):
        for path in sorted(device.iterdir()):
            *parts, end = path.name.split(".")
            if len(parts) == 3 and end == "yaml":
                found.append(Label(device.name, *parts))
    return tuple(found)


@cache
def fit_of(label: Label) -> Kernel:
    """A shipped fit.

    Raises
    ------
    DocumentError
        Its file has a mistake.
    """
    path = path_of(label)

    def read() -> tuple[str, str, dict[str, Any]]:
        """Form by name, arithmetic, and what was fitted: a form holds functions, and stays here."""
        from roofline.bench.profile_file import load

        (fitted,) = load(path).fits.values()
        found = {each.name: getattr(fitted.model, each.name) for each in fields(Calibrated)}
        del found["form"]
        return fitted.form, fitted.arithmetic, found

    form, arithmetic, found = kept(read, "fit", [path])
    return Kernel(label, arithmetic, Calibrated(FORMS[form], **found))
