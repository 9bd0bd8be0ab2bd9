"""Cells of a table of measurements: blank, a word, a number."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from roofline.errors import InputError


def said(record: Mapping[str, Any], name: str) -> str:
    """Text of a column; empty where it says nothing."""
    value = record.get(name)
    return "" if value is None or value != value else str(value).strip()


def word(record: Mapping[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    """One of some words, the first where there is none.

    Raises:
        InputError: It is another.
    """
    found = said(record, name) or allowed[0]
    if found not in allowed:
        raise InputError(f"{name} is {found!r:.40}", hint=f"give {', '.join(allowed)}")
    return found


def number(record: Mapping[str, Any], name: str, default: float) -> float:
    """A number of 0 or more.

    Raises:
        InputError, ValueError: It is below 0 or endless, or no number.
    """
    text = said(record, name)
    if not text:
        return default
    value = float(text)
    if not 0 <= value < np.inf:
        raise InputError(f"{name} is {text:.40}", hint="give a number of 0 or more")
    return value
