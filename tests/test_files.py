"""A file is there whole or not at all, and stays."""

import os
from pathlib import Path

import pytest

from roofline.files import UNFINISHED, _mark, output, whole


def test_a_file_takes_its_place_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("before")
    with whole(path) as file:
        file.write(b"after")
        assert path.read_text() == "before"
        assert [p.name.endswith(UNFINISHED) for p in sorted(tmp_path.iterdir())] == [True, False]
    assert path.read_text() == "after"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_write_that_breaks_off_changes_nothing(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "f"
    path.write_text("before")

    def broken_off() -> None:
        with whole(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        broken_off()
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_content_is_on_the_disk_before_its_name_and_the_name_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, steps, flush, replace = tmp_path / "f", [], os.fsync, Path.replace

    def fsync(handle: int) -> None:
        content = os.fstat(handle).st_ino != tmp_path.stat().st_ino
        steps.append("content" if content else "folder")
        flush(handle)

    def rename(source: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", rename)
    with whole(path) as file:
        file.write(b"content")
        assert steps == []
    assert steps == ["content", "rename", "folder"]


def test_what_a_killed_writer_left_is_removed_and_what_another_is_writing_is_not(
    tmp_path: Path,
) -> None:
    path, other = tmp_path / "f", tmp_path / "g"
    (tmp_path / f"{_mark(path)}0a1b2c3d{UNFINISHED}").write_bytes(b"half")
    (tmp_path / f"{_mark(other)}0a1b2c3d{UNFINISHED}").write_bytes(b"another's")
    with output(path) as first:
        assert len(list(tmp_path.iterdir())) == 2
        with output(path) as second:
            second.write(b"second")
        first.write(b"first")
    assert path.read_text() == "first"
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        f"{_mark(other)}0a1b2c3d{UNFINISHED}",
        "f",
    ]
