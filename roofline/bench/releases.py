"""Releases of engines and libraries, in the order in which they came."""

import re
from collections.abc import Iterable


def newest(versions: Iterable[str]) -> str:
    """Latest of some releases.

    >>> newest(["0.5.9", "0.5.14", "0.5.6.post2"])
    '0.5.14'
    """
    return max(map(str, versions), key=release)


def release(version: str) -> tuple[int, ...]:
    """Numbers of a release, in whose order releases follow one another.

    >>> release("1.3.0rc20")
    (1, 3, 0, 20)
    """
    return tuple(int(number) for number in re.findall(r"\d+", version))
