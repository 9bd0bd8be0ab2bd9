"""Compilation of the loop's functions, and the files that keep their code."""

import hashlib
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
from numba.core.caching import IndexDataCacheFile

from roofline import special

with suppress(ImportError):
    # Numba asks for it, with all of its package, as soon as it loads what it has compiled.
    special.compiled("scipy.linalg.cython_blas")

DIGEST_BYTES: Final = hashlib.sha256().digest_size
Compiled = TypeVar("Compiled", bound=Callable[..., Any])

SOURCES: Final = sorted(Path(__file__).parent.glob("*.py"))
DIGEST: Final = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()
"""Digest of all of the loop: numba keeps its code until the file of a function changes, and does
not see that the functions it calls have changed in theirs."""


_Files: Any = IndexDataCacheFile
"""Numba's own, which has no types."""


def compiled(function: Compiled) -> Compiled:
    """Compile a function that only compiled ones call; it becomes a part of each of them.

    A call would hand over every array and number of the state one by one, which takes three times
    as long as everything else. Python cannot call it: that saves a third of the compiler's time.
    """
    return _compile(function, forceinline=True, no_cpython_wrapper=True)


def entry(function: Compiled) -> Compiled:
    """Compile a function that Python calls."""
    return _compile(function)


def _compile(function: Compiled, **options: bool) -> Compiled:
    """Compile a function, once for a machine where it has a place to be kept.

    Nothing in the loop makes an array, so none is counted: counting references to those that are
    passed around takes four times as long as everything else.
    """
    # Options that numba's own types leave out.
    options |= {"_nrt": False, "no_cfunc_wrapper": True}
    decorate = cast("Callable[..., Any]", numba.njit)
    try:
        dispatcher = decorate(cache=True, **options)(function)
    except RuntimeError:  # nowhere to keep it
        return cast("Compiled", decorate(**options)(function))
    cache: Any = getattr(dispatcher, "_cache", None)
    if hasattr(cache, "_cache_file"):
        stamp = cache._impl.locator.get_source_stamp()
        cache._cache_file = CacheFiles(cache.cache_path, cache._impl.filename_base, stamp)
    return cast("Compiled", dispatcher)


class CacheFiles(_Files):  # type: ignore[misc]  # numba has no types
    """Files in which numba keeps what it compiled of a function.

    One that is not to the byte what was written is one that is not there: what was in it is
    compiled and written again.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._version = f"{numba.__version__} {DIGEST}"

    def save(self, key: Any, data: Any) -> None:
        """Write what was compiled, where there is room for it."""
        with suppress(OSError):
            super().save(key, data)

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
