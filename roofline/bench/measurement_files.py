"""Files of measured kernels, read as tables that fit in memory, and the rows of them that count."""

import gzip
import warnings
import zlib
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.content import label
from roofline.errors import DocumentError, InputError
from roofline.schema.files import most_unpacked, too_packed
from roofline.units import PREFIX

if TYPE_CHECKING:
    import pandas

MOST_ROWS: Final = 2_000_000
"""Rows of a file: the largest collections that are published have 0.8 million. [1]"""
MOST_COLUMNS: Final = 1_000
MOST_BYTES: Final = int(512 * PREFIX["Mi"])
"""Size of a table, unpacked. [B]"""
LONGEST: Final = int(64 * PREFIX["Ki"])
"""Bytes of a line. [B]"""
HINT: Final = "give a Parquet or CSV file in the columns of the kind"


def read_measurements(file: Path) -> "pandas.DataFrame":
    """Measurements of a file: CSV, perhaps in gzip, or Parquet.

    Raises:
        DocumentError: The file is not there, is neither, or is larger than any that is read.
    """
    import pandas as pd
    import pyarrow as pa

    source = label(file)
    try:
        if ".csv" in file.suffixes:
            text = _text(file, source)
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                frame = pd.read_csv(text, low_memory=False, index_col=False)
        else:
            _check_parquet(file, source)
            frame = pd.read_parquet(file)
    except pd.errors.ParserWarning:
        raise DocumentError(
            "a row has more values than the header", hint="check commas and quotes", where=source
        ) from None
    except (OSError, EOFError, ValueError, zlib.error, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        reason = (getattr(error, "strerror", None) or reason).replace("No such", "no such")
        raise DocumentError(
            f"cannot be read as measurements: {reason[:120]}", hint=HINT, where=source
        ) from None
    for column in frame.select_dtypes("category"):
        frame[column] = frame[column].astype(object)
    return frame


def _text(file: Path, source: str) -> BytesIO:
    """CSV of a file, unpacked, none of whose lines, columns or rows are too many."""
    most, out = min(MOST_BYTES, most_unpacked(file, source)), BytesIO()
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rb") as lines:
        number = 0
        while line := lines.readline(LONGEST + 1):
            number += 1
            if len(line) > LONGEST:
                raise _too_large(f"{source}:{number}", f"the line is longer than {LONGEST:,} bytes")
            if number > MOST_ROWS + 1:
                raise _too_large(f"{source}:{number}", f"there are more than {MOST_ROWS:,} rows")
            if number == 1 and line.count(b",") >= MOST_COLUMNS:
                raise _too_large(f"{source}:1", f"there are more than {MOST_COLUMNS:,} columns")
            if out.tell() + len(line) > most:
                if most < MOST_BYTES:
                    raise too_packed(source, number)
                raise _too_large(f"{source}:{number}", f"it has more than {MOST_BYTES:,} bytes")
            out.write(line)
    out.seek(0)
    return out


def _check_parquet(file: Path, source: str) -> None:
    """Refuse a table that says it is larger than any that is read."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as there:
        about = there.metadata
    size = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
    for number, most, what in (
        (about.num_rows, MOST_ROWS, "rows"),
        (about.num_columns, MOST_COLUMNS, "columns"),
        (size, MOST_BYTES, "bytes, unpacked"),
    ):
        if number > most:
            raise _too_large(source, f"it has {number:,} {what}, more than {most:,}")


def _too_large(where: str, message: str) -> DocumentError:
    return DocumentError(
        message, hint="divide the file, or leave out what is not asked", where=where
    )


def chosen(frame: "pandas.DataFrame", where: str) -> "pandas.DataFrame":
    """Rows for which all conditions hold, ``"gpu=h100_sxm,backend=vllm|trtllm"``.

    Args:
        frame: Measurements.
        where: Conditions with commas between them, each a column and values with bars between them.

    Raises:
        InputError: A condition is none, or names no column.
    """
    for clause in filter(None, (part.strip() for part in where.split(","))):
        keep = np.zeros(len(frame), dtype=np.bool_)
        column = ""
        for option in clause.split("|"):
            name, equals, value = option.partition("=")
            column, value = (name.strip(), value) if equals else (column, name)
            if not column or column not in frame:
                raise InputError(
                    f"`where={clause!r:.60}` names no column of the file",
                    hint=f"columns: {', '.join(map(str, frame.columns)):.1000}",
                )
            keep |= (frame[column].astype(str) == value.strip()).to_numpy()
        frame = frame[keep]
    return frame
