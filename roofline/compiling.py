"""Functions compiled by numba, and the files that keep their code from one run to the next."""

import hashlib
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar, cast

import numba
from numba.core import event
from numba.core.caching import IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock

from roofline import files, special
from roofline.notices import notice

with suppress(ImportError):
    # Numba asks for it, with all of its package, as soon as it loads what it has compiled.
    special.compiled("scipy.linalg.cython_blas")

DIGEST_BYTES: Final = hashlib.sha256().digest_size
LOCK: Final = ".compiling"
"""File that a program has locked while it compiles what is kept beside it."""
WAIT_S: Final = 0.1
"""Time between two looks at whether another program still compiles. [s]"""
Compiled = TypeVar("Compiled", bound=Callable[..., Any])

_Files: Any = IndexDataCacheFile
"""Numba's own, which has no types."""


class _CompilingNotice(event.Listener):
    """Listener that tells, once, that something is being compiled: it was not kept."""

    _told = False

    def on_start(self, event: Any) -> None:
        if not self._told:
            self._told = True
            notice("compiling, which takes up to a minute and is kept for the runs to come")

    def on_end(self, event: Any) -> None:
        """Do nothing: what comes next tells of itself."""


LISTENER: Final = _CompilingNotice()
event.register("numba:compile", LISTENER)  # type: ignore[no-untyped-call]  # no types


def compile_once(function: Compiled, digest: str = "", **options: bool) -> Compiled:
    """Compiled function, whose code is kept where it has a place to be kept.

    Args:
        function: Compiled when it is first called.
        digest: Digest of the code that it depends on besides its own file: numba keeps what it
            compiled until that file changes.
        options: Options of numba.
    """
    decorate = cast("Callable[..., Any]", numba.njit)
    try:
        dispatcher = decorate(cache=True, **options)(function)
    except RuntimeError:  # nowhere to keep it
        return cast("Compiled", decorate(**options)(function))
    cache: Any = getattr(dispatcher, "_cache", None)
    if hasattr(cache, "_cache_file"):
        stamp = cache._impl.locator.get_source_stamp()
        cache._cache_file = CacheFiles(digest, cache.cache_path, cache._impl.filename_base, stamp)
        dispatcher.compile = _TURN(dispatcher.compile)
    return cast("Compiled", dispatcher)


class _Turn:
    """Turn to compile, which a program has alone: others wait for what it keeps."""

    _depth = 0
    _file: BinaryIO | None = None

    def __call__(self, compile_for: Callable[..., Any]) -> Callable[..., Any]:
        """Compilation of a function and of those that it calls, in one turn."""

        @wraps(compile_for)
        def compile_in_turn(*arguments: Any) -> Any:
            with global_compiler_lock:  # one thread compiles
                self._depth += 1
                try:
                    return compile_for(*arguments)
                finally:
                    self._depth -= 1
                    if self._file is not None and not self._depth:
                        self._file.close()
                        self._file = None

        return compile_in_turn

    def waited(self, folder: Path) -> bool:
        """Whether another program was compiling what a folder keeps; it has ended."""
        if self._file is not None or not self._depth:
            return False
        with suppress(OSError):  # a folder that cannot be written, a disk without locks
            folder.mkdir(parents=True, exist_ok=True)
            self._file = (folder / LOCK).open("wb")
            if files.take(self._file):
                return False
            notice("waiting for another program that compiles the same")
            while not files.take(self._file):
                time.sleep(WAIT_S)
            return True
        return False


_TURN: Final = _Turn()


class CacheFiles(_Files):  # type: ignore[misc]  # numba has no types
    """Files in which numba keeps what it compiled of a function.

    One that is not to the byte what was written is one that is not there: what was in it is
    compiled and written again.
    """

    def __init__(self, digest: str, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._version = f"{numba.__version__} {digest}"

    def load(self, key: Any) -> Any:
        """Compiled code of this program, an earlier one or one that compiles it now."""
        found = super().load(key)
        if found is None and _TURN.waited(Path(self._cache_path)):
            found = super().load(key)
        return found

    def save(self, key: Any, data: Any) -> None:
        """Write what was compiled, where there is room for it."""
        with suppress(OSError):
            super().save(key, data)

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[BinaryIO]:
        """Open a file to write it whole; what a killed program was writing goes."""
        files.tidy(Path(filepath))
        with files.whole(Path(filepath), lasting=False) as file:
            yield file

    def _dump(self, obj: Any) -> bytes:
        content: bytes = super()._dump(obj)
        return content + hashlib.sha256(content).digest()  # which reading a pickle passes over

    def _load_index(self) -> dict[Any, str]:
        head = pickle.dumps(self._version, -1)
        try:
            content = Path(self._index_path).read_bytes()
        except OSError:
            return {}
        if not content.startswith(head) or not _is_whole(content[len(head) :]):
            return {}
        stamp, overloads = pickle.loads(content[len(head) :])
        return overloads if stamp == self._source_stamp else {}

    def _load_data(self, name: str) -> Any:
        content = Path(self._data_path(name)).read_bytes()
        if not _is_whole(content):
            raise FileNotFoundError(name)
        return pickle.loads(content)


def _is_whole(content: bytes) -> bool:
    """Whether bytes end with the digest of those before."""
    return hashlib.sha256(content[:-DIGEST_BYTES]).digest() == content[-DIGEST_BYTES:]
