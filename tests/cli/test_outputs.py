"""Files that commands write are there whole or not at all."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from roofline import files
from roofline.errors import InputError, MissingEnvironmentError
from tests.cli.planned import Command

SIMULATE = "simulate llama-3.1-8b --rate 5 --prompt 400 --output 20 --requests 20"
WRITTEN = {
    "requests.csv": f"{SIMULATE} --out",
    "requests.parquet": f"{SIMULATE} --out",
    "timeline.json": f"{SIMULATE} --timeline",
    "page.html": f"{SIMULATE} --report",
    "schema.json": "schema --out",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITTEN)
def test_a_full_disk_leaves_what_was_there(
    cli: Command, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.write_text("before")

    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(files, "flush", full)
        ran = cli(f"{WRITTEN[name]} {path}")
    assert (ran.code, path.read_text()) == (3, "before")
    assert f"{name} cannot be written: No space left on device" in ran.err
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert cli(f"{WRITTEN[name]} {path}").code == 0
    assert path.stat().st_size > 100


def test_a_link_keeps_pointing_at_its_file_and_a_device_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("before")
    (tmp_path / "link").symlink_to("real")
    for path in (tmp_path / "link", Path(os.devnull)):
        with files.text_output(path) as text:
            text.write("after\n")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "after\n"
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize("name", ["", "none/f", "a\0b", "x" * 300])
def test_what_can_be_no_file_is_refused_before_it_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as caught, files.output(tmp_path / name):
        pytest.fail("opened")
    assert caught.value.message.isprintable()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_device_that_is_full_says_so() -> None:
    with (
        pytest.raises(MissingEnvironmentError, match="/dev/full cannot be written: No space left"),
        files.output(Path("/dev/full")) as file,
    ):
        file.write(np.zeros(10).tobytes())
