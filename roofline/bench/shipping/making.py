"""From a folder of measurements to the calibrations that are shipped.

``python -m roofline.bench.shipping.making MEASUREMENTS [KIND …]`` writes
``hwspecs/calibrations/<device>/``.
"""

import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from roofline.bench import profile
from roofline.bench.collective_rows import CUSTOM_ENDS
from roofline.bench.columns import prepared
from roofline.bench.datasheet import datasheet
from roofline.bench.fit import cross_validate, fit
from roofline.bench.fitted import Fitted
from roofline.bench.held_out import coverage, errors
from roofline.bench.kernel_rows import Group
from roofline.bench.profile import Profile
from roofline.bench.releases import release
from roofline.bench.shipping.files import path_of
from roofline.bench.shipping.variants import label_of
from roofline.bench.transfer import cross_transfer, transfer
from roofline.bench.validation import READERS
from roofline.cost.calibration.kernel import Label
from roofline.cost.kernels.calibrated import Calibrated
from roofline.cost.kernels.catalog import FORMS, name_of
from roofline.cost.work import Array
from roofline.errors import InputError

FILES: Final[Mapping[str, str]] = {
    "gemm": "gemm",
    "attention-prefill": "attention_prefill",
    "attention-decode": "attention_decode",
    "mla-prefill": "mla_prefill",
    "mla-decode": "mla_decode",
    "mla-module": "mla_module",
    "mla-bmm": "mla_bmm",
    "moe": "moe",
    "moe-wideep": "moe_wideep",
    "moe-mega": "moe_mega",
    "moe-alltoall": "moe_alltoall",
    "collective": "collectives",
    "deepep": "deepep",
    "quantize": "quantize",
    "pointwise": "elementwise",
}
"""Name of the file of each kind."""
SAMPLES: Final[Mapping[str, str]] = {"h200-sxm": "h100-sxm"}
"""Devices of which there is a sample only, and the device whose fits it corrects by one factor."""
SOURCES: Final[Mapping[str, str]] = {
    "vidur": "microsoft/vidur @7d47513 (MIT)",
    "": "ai-dynamo/aiconfigurator @095f58a (Apache-2.0)",
}
"""Of measured rows, by provider."""


def made(folder: Path, kind: str) -> Iterator[tuple[Label, Profile]]:
    """Calibrations of a kind of kernel, devices that were measured in full first.

    Parameters
    ----------
    folder
        Of measurements.
    kind
        A key of `FILES`.
    """
    import pandas as pd

    frame = pd.read_parquet(folder / f"{FILES[kind]}.parquet")
    for column in frame.select_dtypes("category"):
        frame[column] = frame[column].astype(str)
    frame, _ = prepared(kind, frame, "")
    fitted: dict[Label, Calibrated] = {}
    latest: dict[Label, Group] = {}
    for group in READERS[kind](frame):
        label, version = label_of(kind, group.name), group.name.get("version", "")
        if label not in latest or release(version) >= release(latest[label].name["version"]):
            latest[label] = whole(group)
    for label, group in sorted(latest.items(), key=lambda each: each[0].device in SAMPLES):
        base = replace(label, device=SAMPLES.get(label.device, label.device))
        try:
            if label.device in SAMPLES:
                found = _carried(fitted[base], group)
            else:
                found = _fitted(group)
                fitted[label] = found.model
        except (InputError, KeyError) as error:
            sys.stderr.write(f"{label}: left out: {error}\n")
            continue
        yield label, _profile(label, group, found)


def whole(group: Group) -> Group:
    """A group whose form has a name: a collective's has all the algorithms of its library."""
    if group.form.kind != "collective" or group.form in FORMS.values():
        return group
    library = "custom-" * group.name["backend"].endswith(CUSTOM_ENDS)
    return replace(group, form=FORMS[f"collective-{library}{group.name['op'].replace('_', '-')}"])


def _fitted(group: Group) -> Fitted:
    """A group fitted, with its errors on families left out."""
    families = group.families
    model = fit(
        group.form,
        group.dims,
        group.machine,
        group.measured,
        families=families,
        source=_rows(group),
    )
    predicted, spread = cross_validate(
        group.form, group.dims, group.machine, group.measured, families=families
    )
    return _told(group, model, predicted, spread)


def _carried(model: Calibrated, group: Group) -> Fitted:
    """The fit of another device, corrected by one factor."""
    carried = transfer(
        model,
        group.dims,
        group.machine,
        group.measured,
        families=group.families,
        source=_rows(group),
    )
    predicted, spread = cross_transfer(
        model, group.dims, group.machine, group.measured, families=group.families
    )
    return _told(group, carried, predicted, spread)


def _told(group: Group, model: Calibrated, predicted: Array, spread: Array) -> Fitted:
    held = np.isfinite(predicted)
    predicted, spread, measured = predicted[held], spread[held], group.measured[held]
    return Fitted(
        probe=group.name.get("op", group.form.kind),
        version=1,
        kind=group.form.kind,
        arithmetic=group.arithmetic,
        form=name_of(group.form),
        model=model,
        errors=errors(predicted, measured),
        datasheet=errors(datasheet(group)[held], measured),
        inside=coverage(predicted, spread, measured),
    )


def _rows(group: Group) -> str:
    told = ", ".join(f"{key} {value}" for key, value in group.name.items() if value)
    source = SOURCES.get(group.name.get("backend") or "vidur", SOURCES[""])
    return f"{len(group):,} rows of {source}: {told}"


def _profile(label: Label, group: Group, fitted: Fitted) -> Profile:
    digest = hashlib.sha256()
    for name in sorted(group.dims):
        digest.update(np.ascontiguousarray(group.dims[name]).tobytes())
    digest.update(np.ascontiguousarray(group.measured).tobytes())
    return Profile(
        name=f"{label.device}-{label.kind}".lower(),
        provider=label.provider,
        device=label.device,
        date=group.name.get("version") or "of the source",
        digest=digest.hexdigest()[:16],
        environment={key: value for key, value in group.name.items() if value and key != "gpu"},
        machine=group.machine,
        source=f"hwspecs/gpus/{label.device}.yaml",
        fits={label.variant: fitted},
    )


def main(folder: Path, kinds: tuple[str, ...]) -> None:
    """Write the calibrations of some kinds, or of all."""
    for kind in kinds or tuple(FILES):
        for label, found in made(folder, kind):
            path = path_of(label)
            path.parent.mkdir(parents=True, exist_ok=True)
            profile.write(found, path)
            (fitted,) = found.fits.values()
            held_out = f"{fitted.errors} inside {fitted.inside:.0%}"
            sys.stdout.write(f"{path.parent.name}/{path.name}: {held_out}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), tuple(sys.argv[2:]))
