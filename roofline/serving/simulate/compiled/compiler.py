"""How the functions of the loop are compiled, and when what was compiled is used again."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba

Compiled = TypeVar("Compiled", bound=Callable[..., Any])

SOURCES: Final = sorted(Path(__file__).parent.glob("*.py"))
DIGEST: Final = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()
"""Of all of the loop: numba keeps what it compiled until the file of a function changes, and does
not see that the functions it calls have changed in theirs."""


def compiled(function: Compiled) -> Compiled:
    """Compile a function, once for a machine where it has a place to be kept.

    Nothing in the loop makes an array, so none is counted: counting references to those that are
    passed around takes four times as long as everything else.
    """
    decorate = cast("Callable[..., Any]", numba.njit)
    # `_nrt` is an option that numba's own types leave out.
    try:
        dispatcher = decorate(cache=True, _nrt=False, forceinline=True)(function)
    except RuntimeError:  # nowhere to keep it
        return cast("Compiled", decorate(_nrt=False, forceinline=True)(function))
    index = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if index is not None:
        index._version = f"{numba.__version__} {DIGEST}"
    return cast("Compiled", dispatcher)
