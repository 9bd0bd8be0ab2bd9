import errno
import os
from pathlib import Path

import pytest

from roofline.errors import InputError, MissingEnvironmentError, RooflineError
from roofline.report import render, write
from roofline.table import Result


def test_the_file_is_the_page(result: Result, tmp_path: Path) -> None:
    write(result, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text("utf-8") == render(result)


def test_an_existing_report_is_replaced_and_nothing_else_is_left(
    result: Result, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    write(result, path)
    assert path.read_text("utf-8").startswith("<!doctype html>")
    assert os.listdir(tmp_path) == ["report.html"]  # noqa: PTH208


def test_a_link_keeps_pointing_at_its_file(result: Result, tmp_path: Path) -> None:
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "link.html").symlink_to(tmp_path / "real.html")
    write(result, tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").stat().st_size > 100_000


def test_a_device_is_written_to_and_not_replaced(result: Result) -> None:
    write(result, Path(os.devnull))
    assert Path(os.devnull).is_char_device()


def test_a_folder_is_refused(result: Result, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        write(result, tmp_path)


def test_a_missing_folder_is_named(result: Result, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no folder .*nowhere") as caught:
        write(result, tmp_path / "nowhere" / "report.html")
    assert "create the folder" in caught.value.hint


@pytest.mark.parametrize("name", ["a\x00b.html", "x" * 300 + ".html"])
def test_an_impossible_name_is_refused(result: Result, tmp_path: Path, name: str) -> None:
    with pytest.raises(RooflineError) as caught:
        write(result, tmp_path / name)
    assert caught.value.hint
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "cannot be written: No space left"),
        (errno.EACCES, "cannot be written: Permission denied"),
        (errno.EROFS, "cannot be written: Read-only"),
    ],
)
def test_a_failed_write_keeps_the_old_report(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, words: str
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("roofline.files.os.fsync", fail)
    with pytest.raises(MissingEnvironmentError, match=words):
        write(result, path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]  # noqa: PTH208
