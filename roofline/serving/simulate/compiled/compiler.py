"""Compilation of the loop's functions: they are compiled again when any of them changes."""

import hashlib
from pathlib import Path
from typing import Final

from roofline.compiling import Compiled, compile_once

SOURCES: Final = sorted(Path(__file__).parent.glob("*.py"))
DIGEST: Final = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()
"""Digest of all of the loop: numba keeps its code until the file of a function changes, and does
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
    passed around takes four times as long as everything else. Python's lock is let go, so that
    replicas are served side by side.
    """
    # Options that numba's own types leave out.
    options |= {"_nrt": False, "no_cfunc_wrapper": True, "nogil": True}
    return compile_once(function, DIGEST, **options)
