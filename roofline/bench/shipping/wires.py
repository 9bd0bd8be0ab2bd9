"""Calibrations of collectives: what was fitted, and its YAML."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from roofline.bench import atomic
from roofline.bench.held_out import Errors
from roofline.cost.calibration.kernel import Label, Wires
from roofline.cost.regimes import Constants, Regime
from roofline.errors import DocumentError, InputError
from roofline.schema import Strict, quantity, read, validate
from roofline.units import show

DIGITS: Final = 6

Text = Annotated[str, Field(min_length=1, max_length=2000)]


class RegimeFile(Strict):
    """One algorithm."""

    path: Text
    start: str
    message: str
    efficiency: float


class ErrorsFile(Strict):
    """On octaves of sizes left out: absolute errors as shares, and how often the interval held."""

    median: float
    mean: float
    p90: float
    inside: float = Field(ge=0.0, le=1.0)


class WiresFile(Strict):
    """Collectives of one library on one device."""

    schema_version: Literal[1]
    provider: Text
    device: Text
    op: Text
    rows: int = Field(ge=1)
    digest: Text
    source: Text
    sharpness: float
    regimes: tuple[RegimeFile, ...] = Field(min_length=1)
    errors: ErrorsFile
    spread: float = Field(ge=0.0)
    spreads: dict[str, float]
    smallest: str
    largest: str


def write_wires(
    found: Wires, errors: Errors, inside: float, about: Mapping[str, Any], path: Path
) -> None:
    """Write a calibration of collectives, whole or not at all.

    Parameters
    ----------
    found, errors, inside
        What was fitted, and how it did on sizes left out.
    about
        ``rows``, ``digest`` and ``source`` of the measurements.
    path
        Of the file.
    """
    import yaml

    label, constants = found.label, found.constants
    body = {
        "schema_version": 1,
        "provider": label.provider,
        "device": label.device,
        "op": constants.op,
        **about,
        "sharpness": _short(constants.sharpness),
        "regimes": [
            {
                "path": each.path,
                "start": show(each.start, "s", DIGITS),
                "message": show(each.message, "s", DIGITS),
                "efficiency": _short(each.efficiency),
            }
            for each in constants.regimes
        ],
        "errors": {
            "median": _short(errors.median),
            "mean": _short(errors.mean),
            "p90": _short(errors.p90),
            "inside": _short(inside),
        },
        "spread": _short(found.spread),
        "spreads": {str(regime): _short(value) for regime, value in found.spreads.items()},
        "smallest": f"{found.low:.0f} B",
        "largest": f"{found.high:.0f} B",
    }
    text = yaml.safe_dump(body, sort_keys=False, default_flow_style=None, width=100)
    atomic.write(path, f"# Fitted to measured collectives.\n{text}".encode())


def load_wires(path: Path, label: Label) -> Wires:
    """Read a calibration of collectives.

    Raises
    ------
    DocumentError
        It cannot be read, or says something that no fit can have found.
    """
    document = read(path)
    file = validate(WiresFile, document)
    regimes = tuple(
        Regime(
            each.path,
            quantity(document, "s", "regimes", index, "start"),
            quantity(document, "s", "regimes", index, "message"),
            each.efficiency,
        )
        for index, each in enumerate(file.regimes)
    )
    try:
        constants = Constants(file.op, regimes, file.sharpness)
    except InputError as error:
        where = document.where("regimes")
        raise DocumentError(error.message, hint=error.hint, where=where) from None
    return Wires(
        label,
        constants,
        {int(regime): value for regime, value in file.spreads.items()},
        file.spread,
        quantity(document, "B", "smallest"),
        quantity(document, "B", "largest"),
    )


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
