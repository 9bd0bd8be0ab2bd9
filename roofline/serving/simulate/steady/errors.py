"""Errors of the closed form against the simulator."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.work import Array
from roofline.serving.static import CENTRAL


class Error(Struct, frozen=True):
    """Absolute errors against the simulator, as shares. [1]"""

    median: float
    p90: float
    """Median and 90th percentile over the loads that were compared."""


ERRORS: Final[Mapping[str, Mapping[str, Error]]] = {
    "saturation": {"requests_per_s": Error(0.002, 0.04)},
    "closed": {
        "requests_per_s": Error(0.002, 0.035),
        "latency_s": Error(0.002, 0.035),
        "ttft_s": Error(0.01, 0.12),
        "tpot_s": Error(0.005, 0.05),
        "ttft_p50_s": Error(0.015, 0.13),
        "ttft_p90_s": Error(0.03, 0.25),
        "ttft_p99_s": Error(0.08, 0.36),
        "tpot_p50_s": Error(0.005, 0.05),
        "tpot_p90_s": Error(0.015, 0.08),
        "tpot_p99_s": Error(0.04, 0.17),
    },
    "closed, bound by launches": {
        "requests_per_s": Error(0.003, 0.045),
        "latency_s": Error(0.0035, 0.035),
        "ttft_s": Error(0.02, 0.2),
        "tpot_s": Error(0.005, 0.14),
    },
    "closed, bound by front end": {
        "requests_per_s": Error(0.003, 0.04),
        "latency_s": Error(0.003, 0.04),
        "ttft_s": Error(0.04, 0.5),
        "tpot_s": Error(0.02, 0.65),
    },
    "open to 70 %": {
        "latency_s": Error(0.01, 0.09),
        "ttft_s": Error(0.015, 0.09),
        "tpot_s": Error(0.015, 0.10),
        "utilisation": Error(0.005, 0.04),
        "ttft_p50_s": Error(0.03, 0.14),
        "ttft_p90_s": Error(0.04, 0.18),
        "ttft_p99_s": Error(0.11, 0.33),
        "tpot_p50_s": Error(0.02, 0.24),
        "tpot_p90_s": Error(0.04, 0.24),
        "tpot_p99_s": Error(0.08, 0.40),
    },
    "open to 85 %": {
        "latency_s": Error(0.06, 0.26),
        "ttft_s": Error(0.125, 0.355),
        "tpot_s": Error(0.06, 0.27),
        "utilisation": Error(0.005, 0.07),
    },
}
"""Errors by load, as shares of saturation, and by figure.

Of 880 loads: eight mixes of lengths (60 to 20,000 tokens of prompt, 1 to 1,000 of answer, equal and
spread), five policies, with and without costs of an engine, 5 to 85 % of saturation and 1 to 256
clients, on one H100 with an 8B network. The largest errors, of TPOT, are where prefill binds and
answers are short: up to a factor of 1.9 between 30 and 70 % of saturation.

Memory for some twenty sequences is harder, reserved or not: saturation within 6 %, a closed loop
within 5 % (both p90); in an open loop waits are too short from half of saturation on, TTFT by a
factor of up to 5 at 70 %: how many fit is taken as one number, and what preemption computes again
is left out. Nor does it know of clients of equal lengths that come late from a front end and end up
together: TTFT up to a factor of 3 too short. In groups of attention data parallelism whose prompts
have steps of their own, TTFT of an open loop is as much too short from half of saturation on.
Where a front end passes no more than 2,500 tokens a second, latency and throughput hold, but not
how a latency divides into TTFT and TPOT: what it is behind with counts as wait before the first
token.
"""


LOADS: Final = (0.05, 0.3, 0.5, 0.7, 0.8, 0.85, 0.9)
"""Shares of saturation of an open loop at which `OPEN` is known. None is beyond the last:
there a queue is so long that it depends on chance."""
OPEN: Final[Mapping[str, tuple[float, ...]]] = {
    "ttft_s": (0.006, 0.024, 0.062, 0.13, 0.28, 0.35, 0.45),
    "tpot_s": (0.012, 0.055, 0.06, 0.10, 0.14, 0.19, 0.23),
    "latency_s": (0.007, 0.03, 0.06, 0.11, 0.165, 0.19, 0.24),
}
CLOSED: Final[Mapping[str, float]] = {
    "requests_per_s": 0.025,
    "latency_s": 0.025,
    "ttft_s": 0.09,
    "tpot_s": 0.045,
}
SATURATION: Final = 0.035
"""Half of the central 80 %: four of five logarithms of simulated over closed form lie within it. Of
the mixes and servers of `ERRORS`, and as many with memory for 12 to 48 sequences: 182 at each load,
658 closed loops. [1]"""


def open_sd(name: str, load: Array) -> Array:
    """Log standard deviation of a mean in an open loop; nan where none is known. [1]

    That of a normal distribution with the same central 80 %, in a straight line between two loads.
    Source: `OPEN`.

    Args:
        name: Of `OPEN`.
        load: Rate over that of saturation. [1]
    """
    half = np.interp(load, LOADS, OPEN[name])
    found: Array = np.where(load <= LOADS[-1], half, np.nan) / CENTRAL
    return found
