"""``roofline calibrate --from`` and ``--from-log``: an engine learnt from what is your own."""

from collections.abc import Mapping, Sequence
from functools import partial
from inspect import get_annotations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.cli.render import (
    OutputFormat,
    plain_values,
    print_answer,
    print_notes,
    print_rows,
    said,
)
from roofline.table import Result
from roofline.units import show, significant
from roofline.view.words import heading

if TYPE_CHECKING:
    from roofline.interop.results import RunOptions


def learn(
    files: Sequence[Path],
    given: str,
    out: Path | None,
    style: OutputFormat,
    logs: Sequence[Path] = (),
) -> None:
    """Refit an engine's constants to results of benchmarks, or logs, and print what changed."""
    from roofline.api.learning import learn_engine, learn_log

    if logs:
        result = learn_log(list(logs), given=parsed(given), out=out)
    else:
        result = learn_engine(list(files), given=parsed(given), out=out)
    if style is OutputFormat.CSV:
        _print_csv(result)
    else:
        print_answer("calibrate", result, style, partial(plain_values, result), "")
    if result.metadata["file"]:
        said(f"wrote {result.metadata['file']}")


def parsed(text: str) -> "RunOptions":
    """Settings that the files lack, ``name=value`` with commas between.

    Raises:
        InputError: A name is not known, or a value is no number where one is needed.

    Examples:
        >>> parsed("gpu=h100-sxm,gpus=2").gpus
        2
    """
    from roofline.errors import InputError
    from roofline.interop.results import RunOptions

    kinds = {
        name: "str" if kind is str else str(kind).partition(" ")[0]
        for name, kind in get_annotations(RunOptions).items()
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
    return RunOptions(**values)


def _read(kind: str, value: str) -> str | int | float:
    if kind == "str":
        return value
    number = int(value) if kind == "int" else float(value)
    if not 0 < number < float("inf"):
        raise ValueError
    return number


def _print_csv(result: Result) -> None:
    """Constants and errors, one table below the other, as people write them."""
    for name, head in (
        ("constants", ",shipped,learnt,80 % from,to,told,what it is"),
        ("errors", ",figures,shipped,left out,fitted"),
    ):
        rows = [_written(row) for row in result.tables[name].rows()]
        print_rows(rows, head.split(","), OutputFormat.CSV)
    print_notes(result.notes, OutputFormat.CSV)


def _written(row: Mapping[str, Any]) -> list[str]:
    if "metric" in row:
        shares = (f"{100 * row[key]:.1f} %" for key in ("shipped", "held out", "fitted"))
        metric = row["metric"]
        return [heading(metric) if metric != "all" else metric, str(row["figures"]), *shares]
    write = (lambda value: show(value, "s")) if row["unit"] == "s" else significant
    figures = (write(row[key]) for key in ("shipped", "learnt", "low", "high"))
    told = f"{100 * row['told by the runs']:.0f} %"
    return [row["constant"], *figures, told, row["meaning"]]
