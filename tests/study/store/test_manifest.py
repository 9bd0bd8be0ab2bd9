"""A manifest says what was finished, whatever a crash has left of it."""

import os
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import DocumentError
from roofline.study.store import manifest
from roofline.study.store.manifest import ManifestEntry, SweepHeader
from tests.cases import examples

HEADER = SweepHeader("abc", 100, 10, {"roofline": "1", "pyarrow": "2"})
ENTRIES = [
    ManifestEntry(number, 5 + number, 1000 + number, f"{number:064x}") for number in (0, 2, 1, 13)
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "manifest.jsonl"
    manifest.write(path, HEADER, ENTRIES[:1])
    with path.open("ab", buffering=0) as file:
        for entry in ENTRIES[1:]:
            manifest.append(file, entry)
    return path.read_bytes()


def read(content: bytes) -> list[ManifestEntry]:
    header, entries = manifest.parse(content, "m")
    assert header == HEADER
    assert all(number == entry.number for number, entry in entries.items())
    return list(entries.values())


def ends(whole: bytes) -> list[int]:
    """End of each line."""
    return [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]


def test_what_is_written_is_read(whole: bytes) -> None:
    assert read(whole) == ENTRIES


def test_a_manifest_that_ends_at_any_byte_gives_the_lines_before(whole: bytes) -> None:
    first, *_ = lines = ends(whole)
    for size in range(first, len(whole)):
        complete = sum(end <= size for end in lines) - 1
        assert read(whole[:size]) == ENTRIES[:complete], size
    for size in range(first):
        with pytest.raises(DocumentError):
            read(whole[:size])


def test_a_changed_byte_costs_the_line_it_is_in_and_no_other(whole: bytes) -> None:
    first, *_ = lines = ends(whole)
    for at in range(first, len(whole)):
        broken = bytearray(whole)
        broken[at] ^= 1 << (at % 8)
        line = sum(end <= at for end in lines) - 1
        # Without its end a line runs into the next one.
        lost = {line, line + 1} if at + 1 in lines else {line}
        found = read(bytes(broken))
        assert found == [entry for place, entry in enumerate(ENTRIES) if place not in lost], at


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(data=st.data())
def test_a_tail_of_anything_gives_no_entry_that_was_not_written(
    data: st.DataObject, whole: bytes
) -> None:
    first, *_ = lines = ends(whole)
    size = data.draw(st.integers(first, len(whole)))
    tail = data.draw(st.binary(max_size=200) | st.sampled_from([b"\0" * 4096, b"{}\n", b"[1]\n"]))
    found = read(whole[:size] + tail)
    complete = sum(end <= size for end in lines) - 1
    assert found[:complete] == ENTRIES[:complete]
    assert set(found) <= set(ENTRIES)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"{}\n", b"null\n", b'{"check":"00000000"}\n', b"\xff\n", b"[" * 100_000],
)
def test_another_file_is_refused_with_its_place(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "manifest.jsonl"
    path.write_bytes(content)
    with pytest.raises(DocumentError, match=r"manifest\.jsonl:1: .* manifest of a sweep"):
        manifest.read(path)


def test_a_manifest_of_another_format_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "FORMAT", manifest.FORMAT + 1)
    manifest.write(tmp_path / "m", HEADER)
    monkeypatch.undo()
    with pytest.raises(DocumentError):
        manifest.read(tmp_path / "m")


def test_an_entry_that_cannot_be_flushed_leaves_no_trace(
    tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m"
    path.write_bytes(whole)

    def broken(_: int) -> None:
        raise OSError(5, "input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with path.open("ab", buffering=0) as file, pytest.raises(OSError, match="input/output"):
        manifest.append(file, ManifestEntry(7, 7, 7, "7"))
    assert path.read_bytes() == whole


def test_an_entry_is_written_in_as_many_pieces_as_the_system_takes(
    tmp_path: Path, whole: bytes
) -> None:
    path = tmp_path / "m"
    path.write_bytes(whole)

    class Slow:
        """Takes three bytes at a time."""

        def __init__(self, file: BinaryIO) -> None:
            self.file = file

        def write(self, content: bytes) -> int:
            return self.file.write(content[:3])

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    with path.open("ab", buffering=0) as file:
        slow: Any = Slow(file)
        manifest.append(slow, ManifestEntry(7, 7, 7, "7"))
    _, entries = manifest.read(path)
    assert list(entries.values()) == [*ENTRIES, ManifestEntry(7, 7, 7, "7")]


@pytest.mark.parametrize(
    "record",
    [
        {"number": 0},
        {"number": "0", "rows": 1, "bytes": 1, "sha256": "", "tally": {}},
        {"number": 0, "rows": 1, "bytes": 1, "sha256": "", "tally": {"feasible": "x"}},
        {"number": 0, "rows": 1, "bytes": 1, "sha256": "", "tally": {}, "more": 1},
    ],
)
def test_a_line_with_a_checksum_and_other_fields_is_no_part(
    tmp_path: Path, record: dict[str, Any]
) -> None:
    path = tmp_path / "m"
    manifest.write(path, HEADER, ENTRIES)
    path.write_bytes(path.read_bytes() + manifest._line(record))
    assert read(path.read_bytes()) == ENTRIES
    path.write_bytes(manifest._line({"format": manifest.FORMAT, **record}))
    with pytest.raises(DocumentError, match="not the manifest of a sweep"):
        manifest.read(path)
