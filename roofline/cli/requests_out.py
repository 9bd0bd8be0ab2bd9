"""Every request of a run, as a table for other tools or as a timeline."""

import csv
import json
from pathlib import Path

from roofline.errors import InputError, MissingEnvironmentError
from roofline.table import Table

_SUFFIXES = (".parquet", ".csv")


def check(path: Path) -> None:
    """Refuse a name whose ending says no format, and a folder that is not there, before a run."""
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(
            f"--out {str(path)!r:.60} is neither Parquet nor CSV",
            hint=f"end the name with {' or '.join(_SUFFIXES)}",
        )
    check_folder(path)


def check_folder(path: Path) -> None:
    """Refuse a file in a folder that is not there."""
    if not path.parent.is_dir():
        raise MissingEnvironmentError(
            f"the folder {str(path.parent)!r:.80} does not exist", hint="make it, or name another"
        )


def write_requests(table: Table, path: Path) -> None:
    """Write one row for each request; units are in the names of the columns."""
    try:
        if path.suffix.lower() == ".parquet":
            table.to_pandas().to_parquet(path, index=False)
            return
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(table.columns)
            for row in table.rows():
                writer.writerow(["" if value is None else value for value in row.values()])
    except OSError as error:
        raise _unwritable(path, error) from None


def write_timeline(table: Table, path: Path) -> None:
    """Write events as trace viewers read them."""
    from roofline.serving.run.timeline import events

    try:
        with path.open("w", encoding="utf-8") as file:
            file.write('{"displayTimeUnit": "ms", "traceEvents": [\n')
            for place, event in enumerate(events(table)):
                file.write(("" if not place else ",\n") + json.dumps(event, allow_nan=False))
            file.write("\n]}\n")
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> MissingEnvironmentError:
    return MissingEnvironmentError(
        f"{path} cannot be written: {error.strerror}", hint="name a file that can be"
    )
