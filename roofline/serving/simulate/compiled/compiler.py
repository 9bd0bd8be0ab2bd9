"""How the functions of the loop are compiled, and when what was compiled is used again."""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba

from roofline import special

with suppress(ImportError):
    # Numba asks for it, with all of its package, as soon as it loads what it has compiled.
    special.compiled("scipy.linalg.cython_blas")

Compiled = TypeVar("Compiled", bound=Callable[..., Any])

SOURCES: Final = sorted(Path(__file__).parent.glob("*.py"))
DIGEST: Final = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()
"""Of all of the loop: numba keeps what it compiled until the file of a function changes, and does
not see that the functions it calls have changed in theirs."""


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
    index = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if index is not None:
        index._version = f"{numba.__version__} {DIGEST}"
    return cast("Compiled", dispatcher)
