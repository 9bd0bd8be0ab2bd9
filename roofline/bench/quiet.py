"""Whether a processor is this thread's own right now: a small piece of work, timed again and again.

Hardware threads of a core share its units, and clocks fall with the load of a socket. Neither shows
in the time that an operating system counts: a thread that ran all the time was slow all the same.
"""

from array import array
from collections.abc import Callable
from typing import Final

import numpy as np

SIDE: Final = 64
"""Of the matrices of the piece: it fits into the first cache, and disturbs little there."""
SETTLING: Final = 3
PIECES: Final = 8
"""Products that bring the piece back into that cache, and products that are timed."""
SLOWER: Final = 1.1
"""Times its usual time from which the piece counts as slowed down."""
USUAL: Final = 0.1
"""Quantile of its times that is usual: of a core that is shared most of the time, too."""
EVERY: Final = 64
"""Readings after which what is usual is looked up again."""
OTHERS: Final = "others on the core"


class Quiet:
    """Reads how fast a core is beside the samples of a probe.

    Args:
        now: Clock of the samples. [s]
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._numbers = np.random.default_rng(0).standard_normal((SIDE, SIDE), dtype=np.float32)
        self._product = np.empty_like(self._numbers)
        self._readings = array("d")
        self._usual = self._last = self.read()

    def read(self) -> float:
        """Time of the piece, which is remembered. [s]"""
        for _ in range(SETTLING):
            np.matmul(self._numbers, self._numbers, out=self._product)
        began = self._now()
        for _ in range(PIECES):
            np.matmul(self._numbers, self._numbers, out=self._product)
        self._readings.append(self._now() - began)
        if len(self._readings) % EVERY == 0:
            self._usual = float(np.quantile(self._readings, USUAL))
        return self._readings[-1]

    def slowed(self) -> tuple[str, ...]:
        """`OTHERS` if the core was slow now or at the reading before; nothing if it was quiet."""
        before, self._last = self._last, self.read()
        return (OTHERS,) if max(before, self._last) > SLOWER * self._usual else ()

    @property
    def share(self) -> float:
        """Of all readings that were slowed down. [1]"""
        return float(np.mean(np.asarray(self._readings) > SLOWER * self._usual))
