"""Fitted constants of engines as files: ``hwspecs/calibrations/engines/<engine>.yaml``."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import Field

from roofline.bench.end_to_end.engines import (
    CONSTANTS,
    FOLDER,
    KERNELS,
    PROFILES,
    SHARED,
    EngineConstant,
)
from roofline.bench.end_to_end.fitting import priors
from roofline.bench.end_to_end.held_out import DEVIATIONS, Key, Spreads
from roofline.bench.end_to_end.metrics import NAMES, PLACE, assembled
from roofline.bench.engine_profiles import misses, name_of
from roofline.content import shipped
from roofline.cost.calibration.pricing import GpuCalibration
from roofline.cost.calibration.usual import UsualKernels
from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import NO_ENGINE, EngineProfile, LoggedRange
from roofline.cost.work import Array
from roofline.errors import DocumentError, InputError
from roofline.files import output
from roofline.hardware.serving_engine import Engine
from roofline.records import replace
from roofline.schema import Document, Strict, quantity, read, validate
from roofline.units import show

DIGITS: Final = 4
Text = Annotated[str, Field(min_length=1, max_length=2000)]


class EngineConstantFile(Strict):
    """A fitted constant: value and the central 80 % of what it may be, and the prior."""

    value: str | float | int
    low: str | float | int
    high: str | float | int
    prior: str | float | int
    meaning: Text


class ErrorFile(Strict):
    """Absolute errors on groups left out, as shares."""

    mode: Text
    metric: Text
    rows: int = Field(ge=1)
    median: float
    mean: float
    p90: float
    inside: float = Field(ge=0.0, le=1.0)


class SpreadFile(Strict):
    """Log standard deviation on groups left out, of all rows that the words describe."""

    of: tuple[Text, ...]
    spread: float = Field(gt=0.0)


class LoggedFile(Strict):
    """Loads that an engine's log told of: ends of batch [1], context and their product [token]."""

    deployment: Text
    batch: tuple[float, float]
    context: tuple[float, float]
    tokens: tuple[float, float]
    log_sd: float = Field(gt=0.0)


class EngineFile(Strict):
    """File of the constants that an engine adds to its kernels."""

    schema_version: Literal[2]
    name: Text
    rows: int = Field(ge=0)
    digest: Text
    source: Text
    constants: dict[str, EngineConstantFile]
    errors: tuple[ErrorFile, ...] = ()
    spreads: tuple[SpreadFile, ...] = ()
    logged: LoggedFile | None = None


@dataclass(frozen=True, slots=True)
class ProfileEvidence:
    """Contents of a file beside its constants."""

    rows: int
    """It was fitted to. [1]"""
    digest: str
    source: str
    """Fingerprint of them, and where they are from."""
    errors: tuple[ErrorFile, ...]
    """On groups left out."""
    spreads: Spreads
    """Log standard deviations by what rows are."""
    logged: LoggedRange | None = None
    """Loads of the log that it was learnt from."""


def path_of(name: str) -> Path:
    """File of an engine's profile, or of the kernels they share."""
    return shipped("hwspecs") / FOLDER / f"{name}.yaml"


def load(own: Path | None = None) -> tuple[Array, Spreads]:
    """Logarithms of all constants, and spreads.

    Args:
        own: File of one engine that goes before the shipped one; None for those that are shipped.

    Raises:
        DocumentError: A file is missing or has a mistake.
    """
    logs, spreads = shipped_profiles()
    if own is None:
        return logs, spreads
    logs = logs.copy()
    document = read(own)
    file = validate(EngineFile, document)
    if file.name not in PROFILES:
        raise DocumentError(
            f"{file.name!r:.40} is no engine that has a profile",
            hint=f"there are {', '.join(PROFILES)}",
            where=document.where("name"),
        )
    return logs, {**spreads, **_take(document, file, logs)}


@cache
def shipped_profiles() -> tuple[Array, Spreads]:
    """Logarithms of all constants, and spreads, as they are shipped.

    Raises:
        DocumentError: A file is missing or has a mistake.
    """
    logs = np.full(len(NAMES), np.nan)
    spreads: dict[Key, float] = {}
    for name in (*PROFILES, SHARED):
        document = read(path_of(name))
        spreads.update(_take(document, validate(EngineFile, document), logs))
    return logs, spreads


def _take(document: Document, file: EngineFile, logs: Array) -> Spreads:
    """Put the constants of a file into their places, and say its spreads."""
    shared = file.name == SHARED
    for constant, known in (KERNELS if shared else CONSTANTS).items():
        place = PLACE[constant if shared else f"{file.name}.{constant}"]
        logs[place] = np.log(_value(document, file, constant, known))
    return {tuple(each.of): each.spread for each in file.spreads}


def _value(document: Document, file: EngineFile, name: str, known: EngineConstant) -> float:
    if name not in file.constants:
        raise DocumentError(
            f"{file.name} has no constant {name}",
            hint=f"give {', '.join(KERNELS if file.name == SHARED else CONSTANTS)}",
            where=document.where("constants"),
        )
    unit = "s" if known.unit == "s" else ""
    value = quantity(document, unit, "constants", name, "value")
    if value <= 0:
        raise DocumentError(
            f"{name} of {file.name} is not above zero",
            hint="it is a time or a factor",
            where=document.where("constants", name, "value"),
        )
    return value


def write(
    name: str, logs: Array, sd: Array, told: ProfileEvidence, path: Path | None = None
) -> Path:
    """Write a profile of an engine or of `SHARED`, whole or not at all, and return its path."""
    import yaml

    if name != SHARED and name not in PROFILES:
        raise InputError(f"no engine has a profile {name!r:.40}", hint="see engines.py")
    constants: Mapping[str, EngineConstant] = KERNELS if name == SHARED else CONSTANTS
    body: dict[str, object] = {
        "schema_version": 2,
        "name": name,
        "rows": told.rows,
        "digest": f"sha256:{told.digest}",
        "source": told.source,
        "constants": {
            key: _shown(known, PLACE[key if name == SHARED else f"{name}.{key}"], logs, sd)
            for key, known in constants.items()
        },
        "errors": [
            {
                key: _short(value) if isinstance(value, float) else value
                for key, value in each.model_dump().items()
            }
            for each in told.errors
        ],
        "spreads": [
            {"of": list(key), "spread": _short(value)} for key, value in told.spreads.items()
        ],
    }
    if told.logged is not None:
        ends = {
            name: [_short(each) for each in getattr(told.logged, name)]
            for name in ("batch", "context", "tokens")
        }
        deployment, log_sd = told.logged.deployment, _short(told.logged.log_sd)
        body["logged"] = {"deployment": deployment, **ends, "log_sd": log_sd}
    text = yaml.safe_dump(
        body, sort_keys=False, default_flow_style=None, width=100, allow_unicode=True
    )
    place = path or path_of(name)
    with output(place, folders=True) as file:
        file.write(f"# Fitted to measured end-to-end rows.\n{text}".encode())
    return place


def _shown(known: EngineConstant, place: int, logs: Array, sd: Array) -> dict[str, str | float]:
    center, _ = priors()
    ends = (0.0, -DEVIATIONS, DEVIATIONS)
    value, low, high = (float(np.exp(logs[place] + end * sd[place])) for end in ends)
    numbers = {"value": value, "low": low, "high": high, "prior": float(np.exp(center[place]))}
    told = {
        key: show(number, "s", DIGITS) if known.unit == "s" else _short(number)
        for key, number in numbers.items()
    }
    return {**told, "meaning": known.meaning}


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def profile_of(known: Engine, own: Path | None = None) -> EngineProfile:
    """Constants of an engine of the catalog, as they were fitted; none of one without a file."""
    if known.profile not in PROFILES:
        return NO_ENGINE
    logs, spreads = load(own)
    found = assembled(logs, known, tuple(misses(spreads, known)))
    if own is None:
        return found
    file = validate(EngineFile, read(own))
    if file.name != known.profile:
        raise DocumentError(
            f"it is of {file.name}, and {known.name} has the constants of {known.profile}",
            hint="give the engine and the GPU that it was learnt from",
            where=str(own),
        )
    told, logged = file.logged, None
    if told is not None:
        logged = LoggedRange(told.batch, told.context, told.tokens, told.log_sd, told.deployment)
    return replace(found, logged=logged, source=str(own))


def with_profile(deployment: Deployment, profile: str | Path) -> Deployment:
    """The deployment with an engine's constants from a file that `roofline.api.learn_engine` wrote.

    Raises:
        RooflineError: It cannot be read, or no measured kernels price the deployment: constants are
            fitted beside those.
    """
    known, path = deployment.calibration, Path(profile)
    if not isinstance(known, GpuCalibration | UsualKernels):
        raise InputError(
            "a profile goes with measured kernels, and none price this deployment",
            hint="leave `profile` out, or give a GPU and `calibration` that have some",
        )
    return replace(deployment, calibration=replace(known, profile=_own_profile(deployment, path)))


def _own_profile(deployment: Deployment, path: Path) -> EngineProfile:
    """Profile of a file; of a log of another deployment nothing is known of the loads of this."""
    own = profile_of(deployment.engine, path)
    if own.logged is not None and own.logged.deployment != name_of(deployment):
        source = f"{own.source} (learnt from the log of {own.logged.deployment})"
        return replace(own, logged=None, source=source)
    return own
