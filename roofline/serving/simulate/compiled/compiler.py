"""How the functions of the loop are compiled."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Compiled = TypeVar("Compiled", bound=Callable[..., Any])


def compiled(function: Compiled) -> Compiled:
    """Compile a function, once for a machine.

    Nothing in the loop makes an array, so none is counted: counting references to those that are
    passed around takes four times as long as everything else.
    """
    # An option that numba's own types leave out.
    decorate: Callable[..., Any] = cast("Any", njit)
    return cast("Compiled", decorate(cache=True, _nrt=False)(function))
