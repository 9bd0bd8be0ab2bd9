"""Power of boards by what their units do, and of the servers, the network and the building around.

A board that waits draws a floor; one that runs steps draws a higher one, as clocks are up; on top
come its arithmetic, its memory and its links in proportion to how busy each is, up to the board's
limit. The shares are assumed, and the same for every board: its power and its published rates make
picojoules of them. Those of an H100 SXM are 31 pJ for a byte of HBM3, or 3.9 a bit (HBM2 takes
about 4: O'Connor et al. 2017, doi 10.1145/3123939.3124545), 1.4 pJ for a FLOP of bf16 and 0.7 for
one of fp8. At its limit a board lowers clock and voltage, and a FLOP takes less: a large GEMM is at
the limit, whatever it would take at full clock.
"""

from typing import Final

import numpy as np

from roofline.cost.work import Number

IDLE_SHARE: Final = 0.15
"""Power of a device that waits, over its board power. Assumed: an H100 that holds a network but has
nothing to do draws about 100 of its 700 W."""
RUNNING_SHARE: Final = 0.35
"""The same while steps run, without their work. Assumed: decode with next to no traffic draws about
250 of 700 W (github.com/SemiAnalysisAI/InferenceX/issues/828, gpt-oss-120b on 8 H100)."""
ARITHMETIC_SHARE: Final = 2.0
"""Power that arithmetic would take at its full rate, over board power. Assumed: at full clock a
third of the peak is enough for the limit; with it decode at large batches is as measured."""
MEMORY_SHARE: Final = 0.15
"""Power that device memory takes at its full rate, over board power. Assumed: 4 pJ a bit."""
LINK_SHARE: Final = 0.05
"""Power that links take at their full rate, over board power. Assumed: 10 pJ a bit."""
POWER_LOG_SD: Final = 0.2
"""Log standard deviation of what a board draws above its floor. Assumed: measurements of others are
up to 30 % off, see ``scenarios/guide/facility.md``. [1]"""
HOST_SHARE: Final = 0.8
"""Most that the rest of a server takes, over the power of its boards, where its file does not say.
Assumed: as in DGX H100 (10.2 kW, 5.6 of boards) and DGX B200 (14.3 kW, 8 of boards)."""
HOST_LOAD: Final = 0.5
"""Power of the rest of a server at load, over its most. Assumed: eight-GPU H100 servers that train
draw 76 % of 10.2 kW (arXiv 2506.14551), of which boards are 5.6 kW at most."""
NETWORK_JOULE_PER_BYTE: Final = 0.7e-9
"""Power of a network's switches over the rate of a device's port. Assumed: three ports of a tree of
two levels for 50 GB/s, each 1/64 of a switch of 747 W. [J/B]"""


def unit_energy(limit_w: Number, arithmetic_s: Number, memory_s: Number, link_s: Number) -> Number:
    """Energy that the units of a board take for some work. [J]

    E = TDP·(a·F/P + m·B/BW + l·W/L): each unit for the time that its work takes at its full rate.
    Source: a sum over units, as in Arunkumar et al. 2019 (doi 10.1109/HPCA.2019.00063); shares are
    assumed.

    Args:
        limit_w: Board power. [W]
        arithmetic_s, memory_s, link_s: Time of the work at the published rate of each unit. [s]

    Examples:
        >>> unit_energy(700.0, 1.0, 0.0, 0.0), unit_energy(700.0, 0.0, 1.0, 0.0)
        (1400.0, 105.0)
    """
    units = ARITHMETIC_SHARE * arithmetic_s + MEMORY_SHARE * memory_s + LINK_SHARE * link_s
    return limit_w * units


def within_limit(limit_w: Number, joule: Number, seconds: Number) -> Number:
    """Energy of its units that a board can take in a time: it slows down at its limit. [J]

    min(E, TDP·(1 − running)·t). Source: the firmware of boards holds their limit.

    Args:
        limit_w: Board power. [W]
        joule: Energy of its units, as of `unit_energy`. [J]
        seconds: Time in which they work. [s]

    Examples:
        >>> float(within_limit(100.0, 500.0, 2.0)), float(within_limit(100.0, 50.0, 2.0))
        (130.0, 50.0)
    """
    return np.minimum(joule, limit_w * (1.0 - RUNNING_SHARE) * seconds)


def board_power(limit_w: Number, busy: Number, units_w: Number) -> Number:
    """Mean power of a board. [W]

    P = min(TDP, TDP·(idle + (running − idle)·u) + E/t). Source: Barroso and Hölzle 2007, The Case
    for Energy-Proportional Computing, for each unit by itself; shares are assumed.

    Args:
        limit_w: Board power. [W]
        busy: Share of the time in which steps run. [1]
        units_w: Mean power of its units, as of `unit_energy`. [W]

    Examples:
        >>> float(board_power(700.0, 0.0, 0.0)), float(board_power(700.0, 1.0, 55.0))
        (105.0, 300.0)
    """
    floor = IDLE_SHARE + (RUNNING_SHARE - IDLE_SHARE) * busy
    return np.minimum(limit_w, limit_w * floor + units_w)


def host_power(limit_w: Number, devices: Number, maximum_w: Number) -> Number:
    """Most that a server takes beside its boards, for each of them. [W]

    Source: the server's maximum less that of its boards; 80 % of boards where it states none.

    Args:
        limit_w: Board power. [W]
        devices: Boards of the server. [1]
        maximum_w: Maximum power of the server; 0 where none is stated. [W]

    Examples:
        >>> float(host_power(700.0, 8.0, 10200.0)), host_power(1000.0, 8.0, 0.0)
        (575.0, 800.0)
    """
    if not maximum_w:
        return HOST_SHARE * limit_w
    return np.maximum(maximum_w / devices - limit_w, 0.0)


def network_power(port_bytes_per_s: Number) -> Number:
    """Power of the switches between servers, for each device. [W]

    Source: ports of a fat tree of two levels; assumed.

    Args:
        port_bytes_per_s: Rate of a device's port, in one direction; 0 without a network. [B/s]

    Examples:
        >>> round(network_power(50e9), 6)
        35.0
    """
    return NETWORK_JOULE_PER_BYTE * port_bytes_per_s
