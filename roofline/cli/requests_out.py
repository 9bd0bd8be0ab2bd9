"""Every request of a run, as a table for other tools or as a timeline."""

import csv
import json
from pathlib import Path

from roofline import files
from roofline.errors import InputError
from roofline.table import Table

_SUFFIXES = (".parquet", ".csv")


def check(path: Path) -> None:
    """Refuse a name whose ending says no format, and a folder that is not there, before a run."""
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(
            f"--out {str(path)!r:.60} is neither Parquet nor CSV",
            hint=f"end the name with {' or '.join(_SUFFIXES)}",
        )
    files.check(path)


def write_requests(table: Table, path: Path) -> None:
    """Write one row for each request; units are in the names of the columns."""
    if path.suffix.lower() == ".parquet":
        with files.output(path) as file:
            table.to_pandas().to_parquet(file, index=False)
        return
    with files.text_output(path) as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table.columns)
        for row in table.rows():
            writer.writerow(["" if value is None else value for value in row.values()])


def write_timeline(table: Table, path: Path) -> None:
    """Write events as trace viewers read them."""
    from roofline.serving.run.timeline import events

    with files.text_output(path) as text:
        text.write('{"displayTimeUnit": "ms", "traceEvents": [\n')
        for place, event in enumerate(events(table)):
            text.write(("" if not place else ",\n") + json.dumps(event, allow_nan=False))
        text.write("\n]}\n")
