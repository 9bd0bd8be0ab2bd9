"""Notices of what takes long, for whoever shows them: a command line does, Python does not."""

from collections.abc import Callable

_SHOWN: list[Callable[[str], None]] = []


def show_with(show: Callable[[str], None]) -> None:
    """Have notices shown by a function."""
    _SHOWN[:] = [show]


def notice(text: str) -> None:
    """Tell what takes long, where anybody shows it."""
    for show in _SHOWN:
        show(text)
