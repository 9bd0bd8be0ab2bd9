"""Compiled modules of SciPy, and special functions, without the packages around them.

`scipy.special` and `scipy.linalg` import most of NumPy's modules and read the documentation of
their own functions, for arrays of other libraries: 0.2 s, of which what is compiled takes 0.01 s.
"""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

UFUNCS: Final = "scipy.special._ufuncs"


def compiled(name: str) -> ModuleType:
    """Compiled module of SciPy, alone where that is possible.

    A bare package stands for its package while it is imported; whoever asks for the package later
    has all of it, with the same module in it.

    Args:
        name: Such as ``"scipy.linalg.cython_blas"``.

    Raises:
        ImportError: There is no such module.
    """
    package = name.rpartition(".")[0]
    if name in sys.modules or package in sys.modules:
        return import_module(name)
    scipy = import_module("scipy")
    bare = ModuleType(package)
    bare.__path__ = [str(Path(str(scipy.__file__)).parent.joinpath(*package.split(".")[1:]))]
    sys.modules[package] = bare
    try:
        return import_module(name)
    except ImportError:
        del sys.modules[package]
        return import_module(name)
    finally:
        if sys.modules.get(package) is bare:
            del sys.modules[package]


def gammainc(shape: Any, x: Any) -> Any:
    """Probability that a gamma variable of a shape is at most x. [1]"""
    return compiled(UFUNCS).gammainc(shape, x)


def gammaincinv(shape: Any, probability: Any) -> Any:
    """Value that a gamma variable of a shape is at most with a probability. [1]"""
    return compiled(UFUNCS).gammaincinv(shape, probability)


def gammaln(x: Any) -> Any:
    """Logarithm of the gamma function. [1]"""
    return compiled(UFUNCS).gammaln(x)


def lambertw(x: Any) -> Any:
    """Number y of which y·exp(y) is x, for x of 0 and more. [1]"""
    return compiled(UFUNCS)._lambertw(x, 0, 1e-8).real


def ndtr(x: Any) -> Any:
    """Probability that a normal variable is at most x standard deviations above its mean. [1]"""
    return compiled(UFUNCS).ndtr(x)


def ndtri(probability: Any) -> Any:
    """Standard deviations above its mean that a normal variable is at most with a probability."""
    return compiled(UFUNCS).ndtri(probability)
