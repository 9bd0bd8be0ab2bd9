"""``roofline calibrate --from``: an engine's constants learnt from benchmarks of your own."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.cli.render import Format, clean, echo, print_json, print_notes, print_rows
from roofline.cli.validate_e2e import TITLES
from roofline.table import Result
from roofline.units import show, significant

if TYPE_CHECKING:
    from roofline.api.measured_rows import Given


def learn(files: Sequence[Path], given: str, out: Path | None, style: Format) -> None:
    """Refit an engine's constants to results of benchmarks, and print what changed.

    Args:
        files: What benchmarks wrote.
        given: What they do not say: ``"gpu=h100-sxm,gpus=1"``.
        out: File of the new profile; None for one in the folder for your own.
        style: How to print.
    """
    from roofline.api.learning import learn_engine

    result = learn_engine(list(files), given=parsed(given), out=out)
    if style is Format.JSON:
        tables = {name: list(entry.rows()) for name, entry in result.tables.items()}
        print_json("calibrate", {**result.metadata, **tables}, result.notes)
    else:
        _print(result, style)
    if result.metadata["file"]:
        from roofline.cli.calibrate import said

        said(f"wrote {result.metadata['file']}")


def parsed(text: str) -> "Given":
    """What options say of the files, ``name=value`` with commas between.

    Raises:
        InputError: A name is not known, or a value is no number where one is needed.

    Examples:
        >>> parsed("gpu=h100-sxm,gpus=2").gpus
        2
    """
    from roofline.api.measured_rows import Given
    from roofline.errors import InputError

    kinds = {
        each.name: "str" if each.type is str else str(each.type).partition(" ")[0]
        for each in fields(Given)
    }
    values: dict[str, Any] = {}
    for part in text.split(",") if text.strip() else ():
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or name not in kinds or not value:
            raise InputError(
                f"--given {part.strip()!r:.40} says nothing",
                hint=f"write name=value; names are {', '.join(kinds)}",
            )
        try:
            values[name] = _read(kinds[name], value)
        except ValueError:
            raise InputError(
                f"{name} is {value!r:.40}, which is no number above 0",
                hint="write it like gpus=2 or prompt=1024",
            ) from None
    return Given(**values)


def _read(kind: str, value: str) -> str | int | float:
    if kind == "str":
        return value
    number = int(value) if kind == "int" else float(value)
    if not 0 < number < float("inf"):
        raise ValueError
    return number


def _print(result: Result, style: Format) -> None:
    def amount(value: float, unit: str) -> str:
        return show(value, "s") if unit == "s" else significant(value)

    meta = result.metadata
    if style is Format.TABLE:
        many = "s" if meta["deployments"] > 1 else ""
        echo(
            clean(
                f"{meta['engine']}: {meta['runs']} runs of {meta['deployments']} deployment{many}\n"
            )
        )
    rows = [
        [
            entry["constant"],
            *(amount(entry[key], entry["unit"]) for key in ("shipped", "learnt", "low", "high")),
            f"{100 * entry['told by the runs']:.0f} %",
            entry["meaning"],
        ]
        for entry in result.tables["constants"].rows()
    ]
    header = ["", "shipped", "learnt", "80 % from", "to", "told", "what it is"]
    print_rows(rows, header, style, "Constants")
    rows = [
        [
            TITLES.get(entry["metric"], entry["metric"]),
            str(entry["figures"]),
            *(f"{100 * entry[key]:.1f} %" for key in ("shipped", "held out", "fitted")),
        ]
        for entry in result.tables["errors"].rows()
    ]
    header = ["", "figures", "shipped", "left out", "fitted"]
    print_rows(rows, header, style, f"Median errors; left out: one {meta['left out']} at a time")
    print_notes(result.notes, style)
