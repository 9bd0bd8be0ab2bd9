"""A device and its libraries, on which a campaign runs."""

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from roofline.bench.backend import Backend
from roofline.bench.published import Published


class Noise(Protocol):
    """Disturbances of a machine, which its text states in a clause."""

    @property
    def calm(self) -> bool:
        """True where times can be trusted to a few percent."""

    @property
    def lost(self) -> float:
        """Share of the time in which others make the device useless. [1]"""


class Place(Struct, frozen=True):
    """A device and its libraries, on which probes run."""

    backend: Backend
    """Runs and times them."""
    published: Published
    """Rates of its datasheet, or what stands in for one."""
    environment: Mapping[str, str]
    """Facts that the times depend on besides the probes."""
    noise: Callable[[], Noise | None]
    """Measures the noise of the machine."""
    title: str
    """Name for people."""
