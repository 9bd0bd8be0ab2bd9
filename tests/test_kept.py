"""Parsed files are kept until they change, and whatever happens to the copy does no harm."""

import os
from pathlib import Path

import pytest

from roofline import kept
from roofline.content import home
from roofline.errors import DocumentError, InputError


class Reader:
    """Reads the numbers of a file, and counts how often."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.times = 0

    def __call__(self) -> list[float]:
        self.times += 1
        return [float(word) for word in self.path.read_text().split()]

    def kept(self, name: str = "numbers") -> list[float]:
        return kept.kept(self, name, [self.path])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROOFLINE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kept"


@pytest.fixture
def reader(tmp_path: Path, folder: Path) -> Reader:
    path = tmp_path / "numbers.txt"
    path.write_text("1 2.5")
    return Reader(path)


def test_a_file_is_read_once(reader: Reader, folder: Path) -> None:
    assert [reader.kept() for _ in range(3)] == [[1.0, 2.5]] * 3
    assert reader.times == 1
    assert [path.suffix for path in folder.iterdir()] == [".record"]


def test_a_changed_file_is_read_again_in_place_of_the_old_one(reader: Reader, folder: Path) -> None:
    reader.kept()
    reader.path.write_text("1 3.5")
    assert [reader.kept(), reader.kept()] == [[1.0, 3.5]] * 2
    assert reader.times == 2
    assert len(list(folder.iterdir())) == 1


def test_old_records_are_deleted_when_another_is_written(reader: Reader, folder: Path) -> None:
    old, fresh = folder / "old.record", folder / "fresh.record"
    folder.mkdir(parents=True)
    for place in (old, fresh):
        place.write_bytes(b"x")
    os.utime(old, (0.0, 0.0))
    reader.kept()
    assert not old.exists()
    assert fresh.exists()


def test_a_program_looks_for_old_records_once(reader: Reader, folder: Path) -> None:
    reader.kept()
    old = folder / "old.record"
    old.write_bytes(b"x")
    os.utime(old, (0.0, 0.0))
    reader.kept("others")
    assert old.exists()
    kept._forget.cache_clear()  # the next program
    reader.kept("yet others")
    assert not old.exists()


def test_two_records_of_a_file_are_two(reader: Reader) -> None:
    reader.kept()
    reader.kept("others")
    assert reader.times == 2


def test_another_package_reads_again(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    reader.kept()
    monkeypatch.setattr(kept, "_package", lambda: b"changed")
    assert reader.kept() == [1.0, 2.5]
    assert reader.times == 2


def test_a_changed_module_is_another_package(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    module = tmp_path / "inner" / "module.py"
    module.write_text("one = 1")
    before = list(kept._modules(str(tmp_path)))
    module.write_text("one = 1.0")
    assert list(kept._modules(str(tmp_path))) != before


@pytest.mark.parametrize("flipped", [0, 10, 20, -1])
def test_a_damaged_record_is_read_again(reader: Reader, folder: Path, flipped: int) -> None:
    reader.kept()
    (record,) = folder.iterdir()
    content = bytearray(record.read_bytes())
    content[flipped] ^= 1
    record.write_bytes(content)
    assert reader.kept() == [1.0, 2.5]
    record.write_bytes(content[:30])
    assert reader.kept() == [1.0, 2.5]
    assert reader.times == 3
    assert reader.kept() == [1.0, 2.5]
    assert reader.times == 3


def test_a_fingerprint_that_is_known_stands_for_the_files(reader: Reader) -> None:
    def read(content: bytes) -> list[float]:
        return kept.kept(reader, "numbers", [reader.path], content)

    assert [read(b"first"), read(b"first")] == [[1.0, 2.5]] * 2
    assert reader.times == 1
    read(b"second")
    assert reader.times == 2


def test_a_folder_that_cannot_be_written_is_no_error(reader: Reader, folder: Path) -> None:
    folder.parent.write_text("a file where the folder should be")
    assert [reader.kept(), reader.kept()] == [[1.0, 2.5]] * 2
    assert reader.times == 2


def test_a_full_disk_is_no_error_and_leaves_nothing(
    reader: Reader, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> int:
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert reader.kept() == [1.0, 2.5]
    assert list(folder.iterdir()) == []


def test_a_user_without_a_home_is_no_error(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOFLINE_CACHE", "~nobody-of-that-name/cache")
    assert reader.kept() == [1.0, 2.5]


def test_a_mistake_is_told_each_time(reader: Reader, folder: Path) -> None:
    def refuse() -> None:
        raise DocumentError("it has a mistake", hint="correct it")

    for _ in range(2):
        with pytest.raises(DocumentError):
            kept.kept(refuse, "numbers", [reader.path])
    assert not folder.exists()


def test_a_missing_file_is_left_to_the_reader(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Reader(tmp_path / "none.txt").kept()


def test_the_folder_of_a_user_who_is_not_there_is_no_bug(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ROOFLINE_CACHE", "ROOFLINE_HOME"):
        monkeypatch.setenv(name, "~nobody-of-that-name/x")
    assert [reader.kept() for _ in range(2)] == [[1.0, 2.5]] * 2
    assert reader.times == 2
    with pytest.raises(InputError, match="ROOFLINE_HOME is in the home folder of a user"):
        home()
