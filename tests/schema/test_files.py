"""Files that cannot be read, or should not be."""

import os
from pathlib import Path

import pytest

from roofline.errors import DocumentError
from roofline.schema import decode, read


def refusal(path: Path) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        read(path)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("name", ["a.yaml", "a.yml", "a.json", "a.JSON"])
def test_the_suffix_says_how_a_file_is_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes('{"a": "é"}'.encode())
    document = read(path)
    assert document.data == {"a": "é"}
    assert document.where("a") == f"{path}:1:7"


def test_json_files_follow_the_rules_of_json(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("a: 1")
    assert refusal(path).where == f"{path}:1:1"


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "a.yaml").message
    (tmp_path / "b.yaml").write_text("a: 1")
    assert "does not exist" in refusal(tmp_path / "b.yaml" / "c.yaml").message


def test_a_folder_is_not_read(tmp_path: Path) -> None:
    assert "is a folder" in refusal(tmp_path).message


def test_other_suffixes_are_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("a = 1")
    assert "neither YAML nor JSON" in refusal(path).message


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX only")
def test_pipes_and_devices_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.yaml")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    for path in (tmp_path / "a.yaml", tmp_path / "zero.json"):
        assert "not a regular file" in refusal(path).message


@pytest.mark.skipif(os.name != "posix", reason="POSIX only")
def test_links_in_a_circle_and_impossible_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to(tmp_path / "a.yaml")
    for name in ("a.yaml", "x" * 5000 + ".yaml", "a\x00.yaml", "a\udcff.yaml"):
        error = refusal(tmp_path / name)
        str(error).encode("utf-8")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_a_file_without_permission_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1")
    path.chmod(0)
    assert "may not be read" in refusal(path).message


def test_a_refused_permission_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1")

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    assert "may not be read" in refusal(path).message


def test_a_file_that_is_too_large_is_not_even_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.yaml"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    monkeypatch.setattr(Path, "open", None)
    error = refusal(path)
    assert "larger than 1,048,576 bytes" in error.message
    assert error.where == f"{path}:1:1"


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"\xff\xfea\x00", "f:1:1"),
        (b"a: \xc3\xa9\nb: \xc3\xa9\xe9", "f:2:5"),
        (b"\xef\xbb\xbfa\xff", "f:1:2"),
        (b"a\xed\xa0\x80", "f:1:2"),
        (b"abc\xc3", "f:1:4"),
    ],
)
def test_bytes_that_are_not_utf8_are_located(content: bytes, where: str) -> None:
    with pytest.raises(DocumentError) as caught:
        decode(content, "f")
    assert caught.value.where == where
    assert "is not UTF-8" in caught.value.message
