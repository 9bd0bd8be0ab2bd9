"""Files of measurements that are no tables, or larger than any: refused at a place, and at once."""

import gzip
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roofline.bench import measurement_files
from roofline.bench.measurement_files import LONGEST, MOST_COLUMNS, MOST_ROWS, read_measurements
from roofline.errors import DocumentError

HEAD = b"m,n,time_s\n"
TEXTS = {
    "a line of commas": (HEAD + b"," * 5_000_000, "2: the line is longer than 65,536 bytes"),
    "a header of commas": (b"," * 60_000 + b"\n1\n", "1: there are more than 1,000 columns"),
    "a value without an end": (HEAD + b'"' + b"1" * LONGEST, "2: the line is longer than"),
    "more values than names": (HEAD + b"1,2,3,4\n", "a row has more values than the header"),
    "quotes that do not end": (HEAD + b'"a\nb\n', "cannot be read as measurements: Error token"),
    "no text": (b"\xff\xfe\x00", "cannot be read as measurements: 'utf-8'"),
    "nothing": (b"", "cannot be read as measurements: No columns"),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_a_text_that_is_no_table_is_refused_at_once(tmp_path: Path, name: str, ending: str) -> None:
    content, said = TEXTS[name]
    path = tmp_path / f"rows{ending}"
    path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    begun = time.process_time()
    with pytest.raises(DocumentError) as refused:
        read_measurements(path)
    assert time.process_time() - begun < 1.0
    too_packed = "it unpacks to more than 100 times its size"
    assert said in refused.value.told or (
        ending.endswith("gz") and too_packed in str(refused.value)
    )


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(HEAD + b"1,1,1e-5\n" * 300_000)
    (tmp_path / "a.csv.gz").write_bytes(packed)
    (tmp_path / "b.csv.gz").write_bytes(packed + gzip.compress(b"1,1,1e-5\n"))  # hides its size
    for name, line in (("a.csv.gz", 1), ("b.csv.gz", r"\d{5,}")):
        with pytest.raises(DocumentError, match=rf"{name}:{line}: it unpacks to more than 100 "):
            read_measurements(tmp_path / name)


def test_rows_and_columns_that_are_too_many_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "long.parquet"
    with pq.ParquetWriter(path, pa.schema({"m": pa.int8()})) as file:
        file.write_table(pa.table({"m": np.zeros(MOST_ROWS + 1, np.int8)}))
    with pytest.raises(DocumentError, match=r"it has 2,000,001 rows, more than 2,000,000"):
        read_measurements(path)
    pq.write_table(pa.table({f"c{n}": [1] for n in range(MOST_COLUMNS + 1)}), path)
    with pytest.raises(DocumentError, match=r"it has 1,001 columns, more than 1,000"):
        read_measurements(path)
    monkeypatch.setattr(measurement_files, "MOST_ROWS", 3)
    (tmp_path / "a.csv").write_bytes(HEAD + b"1,2,3\n" * 4)
    with pytest.raises(DocumentError, match=r"a\.csv:5: there are more than 3 rows"):
        read_measurements(tmp_path / "a.csv")
    monkeypatch.setattr(measurement_files, "MOST_BYTES", 12)
    with pytest.raises(DocumentError, match=r"a\.csv:2: it has more than 12 bytes"):
        read_measurements(tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
def test_a_table_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"m": [1, 2], "gpu": ["a", "b, c"], "time_s": [1e-5, np.nan]})
    if name.endswith("parquet"):
        frame.astype({"gpu": "category"}).to_parquet(tmp_path / name)
    else:
        frame.to_csv(tmp_path / name, index=False)
    pd.testing.assert_frame_equal(read_measurements(tmp_path / name), frame, check_dtype=False)


def test_what_the_library_cannot_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unable(*_: object) -> None:
        raise pa.ArrowNotImplementedError("Integers with more than 64 bits not implemented")

    monkeypatch.setattr(pq, "ParquetFile", unable)
    with pytest.raises(
        DocumentError, match=r"a\.parquet: cannot be read as measurements: Integers"
    ):
        read_measurements(tmp_path / "a.parquet")
