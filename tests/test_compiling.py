"""Compiled code is kept, and made again where a file is damaged."""

import errno
import gc
import importlib.util
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

import roofline
from roofline import notices
from roofline.files import UNFINISHED, take

numba = pytest.importorskip("numba")
compiling = pytest.importorskip("roofline.compiling")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module with a function, whose compiled form is kept in a folder of its own."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))
    path = tmp_path / "sums.py"
    path.write_text("def total(values):\n    return values[0] + 3.0\n")
    spec = importlib.util.spec_from_file_location("sums", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Where numba imports it again, as it does once nothing holds what it compiled before.
    monkeypatch.setitem(sys.modules, "sums", module)
    spec.loader.exec_module(module)
    return module


def kept(module: Any) -> tuple[bool, dict[Path, bytes]]:
    """Whether the compiled function was there already; the files that it is in now."""
    import numpy as np

    gc.collect()  # a function of before would be found in memory
    function = compiling.compile_once(module.total)
    assert function(np.ones(3)) == 4.0
    folder = Path(function._cache.cache_path)
    return bool(function.stats.cache_hits), {
        path: path.read_bytes() for path in folder.glob("*.nb?") if path.is_file()
    }


@pytest.mark.slow
def test_a_notice_says_once_that_something_is_compiled(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(notices, "_SHOWN", [told.append])
    monkeypatch.setattr(compiling.LISTENER, "_told", False)
    assert kept(module)[0] is False
    assert len(told) == 1
    assert told[0].startswith("compiling")
    monkeypatch.setattr(compiling.LISTENER, "_told", False)
    assert kept(module)[0] is True
    assert len(told) == 1


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


DAMAGES: list[Callable[[bytes], bytes]] = [
    lambda content: b"",
    lambda content: content[:1],
    lambda content: content[:40],
    lambda content: content[:-1],
    lambda content: content + b"\n",
    lambda content: flipped(content, 0),
    lambda content: flipped(content, len(content) // 2),
    lambda content: flipped(content, len(content) - 1),
    lambda content: b"not a pickle at all",
]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_a_damaged_file_is_as_one_that_is_not_there(module: Any, suffix: str) -> None:
    hit, files = kept(module)
    assert not hit
    stored = compiling.compile_once(module.total)._cache._cache_file
    (key,) = stored._load_index()
    assert stored.load(key) is not None
    (path,) = (path for path in files if path.suffix == suffix)
    for damage in DAMAGES:
        path.write_bytes(damage(files[path]))
        assert stored.load(key) is None
    assert kept(module)[0] is False
    hit, again = kept(module)  # it was made again, once
    assert hit
    assert set(again) == set(files)


@pytest.mark.slow
def test_a_disk_that_is_full_keeps_nothing_and_stops_nothing(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(compiling.CacheFiles, "_open_for_write", full)
    assert kept(module) == (False, {})


def test_every_function_that_is_compiled_is_kept_like_this() -> None:
    from roofline.bench import boosting
    from roofline.serving.simulate.compiled import loop

    functions: list[Any] = [boosting.boosted, loop.serve]
    for function in functions:
        assert isinstance(function._cache._cache_file, compiling.CacheFiles)
    root = Path(roofline.__file__).parent
    assert [path for path in root.rglob("*.py") if "import numba" in path.read_text("utf-8")] == [
        root / "compiling.py"
    ]


def compiling_elsewhere(module: Any) -> tuple[dict[Path, bytes], BinaryIO]:
    """Kept files of a module, which are taken away, and the lock of a program that compiles it."""
    _, files = kept(module)
    for path in files:
        path.unlink()
    other = (next(iter(files)).parent / compiling.LOCK).open("wb")
    assert take(other)
    return files, other


@pytest.mark.slow
def test_a_program_waits_for_another_that_compiles_and_takes_what_it_has_kept(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, other = compiling_elsewhere(module)

    def ends(_: float) -> None:
        for path, content in files.items():
            path.write_bytes(content)
        other.close()

    monkeypatch.setattr(time, "sleep", ends)
    assert kept(module) == (True, files)


@pytest.mark.slow
def test_a_function_is_compiled_once_the_other_program_ended_without_it(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, other = compiling_elsewhere(module)
    monkeypatch.setattr(time, "sleep", lambda _: other.close())
    assert kept(module)[0] is False
    assert kept(module)[0] is True


@pytest.mark.slow
def test_what_a_killed_program_was_writing_goes_when_it_is_written_again(module: Any) -> None:
    _, files = kept(module)
    (path,) = (path for path in files if path.suffix == ".nbi")
    part = path.with_name(f".{zlib.crc32(path.name.encode()):08x}0123{UNFINISHED}")
    part.write_bytes(b"half")
    path.write_bytes(b"")
    kept(module)
    assert not part.exists()
    kept_here = {each.name for each in files} | {compiling.LOCK}
    assert {each.name for each in path.parent.iterdir()} == kept_here
