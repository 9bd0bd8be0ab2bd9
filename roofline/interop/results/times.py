"""Units as tools write them beside their figures."""

from collections.abc import Mapping
from typing import Final

from roofline.interop.results.node import Node
from roofline.units import PREFIX

SECONDS: Final[Mapping[str, float]] = {
    "ns": PREFIX["n"],
    "nanoseconds": PREFIX["n"],
    "us": PREFIX["µ"],
    "µs": PREFIX["µ"],
    "microseconds": PREFIX["µ"],
    "ms": PREFIX["m"],
    "milliseconds": PREFIX["m"],
    "s": 1.0,
    "sec": 1.0,
    "seconds": 1.0,
}


def seconds_in(unit: Node) -> float:
    """Seconds in a unit of time. [s]

    Raises
    ------
    DocumentError
        It is none.
    """
    name = unit.text()
    if name.lower() not in SECONDS:
        raise unit.error(
            f"{name!r:.40} is no unit of time that is known", f"{', '.join(SECONDS)} are"
        )
    return SECONDS[name.lower()]
