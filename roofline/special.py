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

    An empty package stands in for the real one during the import and is then taken away, so that a
    later import of the package is whole and finds the same module in it.

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
    """Distribution function of the gamma distribution of a shape at x. [1]"""
    return compiled(UFUNCS).gammainc(shape, x)


def gammaincinv(shape: Any, probability: Any) -> Any:
    """Quantile of the gamma distribution of a shape. [1]"""
    return compiled(UFUNCS).gammaincinv(shape, probability)


def gammaln(x: Any) -> Any:
    """Logarithm of the gamma function. [1]"""
    return compiled(UFUNCS).gammaln(x)


def lambertw(x: Any) -> Any:
    """Lambert W function: y with y·exp(y) = x, for x ≥ 0. [1]"""
    return compiled(UFUNCS)._lambertw(x, 0, 1e-8).real


def ndtr(x: Any) -> Any:
    """Distribution function of the standard normal distribution at x. [1]"""
    return compiled(UFUNCS).ndtr(x)


def ndtri(probability: Any) -> Any:
    """Quantile of the standard normal distribution. [1]"""
    return compiled(UFUNCS).ndtri(probability)
