"""Rows that wait for a part of the cost model that is not there yet. This list only shrinks."""

from collections.abc import Mapping
from typing import Final, Literal

PENDING: Final[Mapping[str, Literal["all"] | tuple[str, ...]]] = {}
"""Topic to ids; ``"all"`` is every row of it that can be derived."""
