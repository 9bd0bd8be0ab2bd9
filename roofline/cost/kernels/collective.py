"""Collectives as forms: `roofline.cost.regimes`, whose algorithms have three constants each."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from roofline.cost.kernels.form import Constant, Dims, Form, Machine, Regimes, Values
from roofline.cost.regimes import BOUNDS, IN_SWITCH, Regime, by_regime
from roofline.cost.regimes import Constants as Fitted
from roofline.cost.regimes import seconds as regimes_seconds
from roofline.cost.work import Array

PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "all_reduce": ("chain", "ring", "ring", IN_SWITCH),
    "all_gather": ("ring", "ring", "ring"),
    "send_recv": ("direct", "direct", "direct"),
}
"""Algorithms of NCCL by operation; a path that repeats is one per protocol (LL, LL128, Simple)."""
PRIORS: Final = ((5e-6, 6e-7, 0.25), (1.5e-5, 6e-7, 0.5), (4.5e-5, 6e-7, 0.75))
"""Start [s], message [s] and efficiency [1] from the shortest way to the widest; assumed, after
NCCL ``src/graph/tuning.cc``."""
SHARPNESS: Final = 8.0


def form(operation: str) -> Form:
    """Form of an operation of NCCL.

    Parameters
    ----------
    operation
        A key of `PATHS`.

    Notes
    -----
    Columns: ``payload`` [B], ``ranks`` [1], ``bytes_per_s`` of a device's link in one direction
    [B/s], ``in_switch`` 1 where the switch adds numbers itself. Source: `roofline.cost.regimes`.
    """
    paths = PATHS[operation]

    def fitted(constants: Values) -> Fitted:
        regimes = tuple(
            Regime(path, *(constants[f"{name}_{i}"] for name in ("start", "message", "efficiency")))
            for i, path in enumerate(paths)
        )
        return Fitted(operation, regimes, constants["sharpness"])

    def seconds(dims: Dims, machine: Machine, constants: Values) -> Array:
        found = regimes_seconds(
            dims["payload"],
            dims["ranks"],
            dims["bytes_per_s"],
            fitted(constants),
            in_switch=dims["in_switch"] > 0,
        )
        return np.asarray(found)

    def regime(dims: Dims, machine: Machine, constants: Values) -> Regimes:
        """The fastest algorithm."""
        each = by_regime(
            dims["payload"],
            dims["ranks"],
            dims["bytes_per_s"],
            fitted(constants),
            in_switch=dims["in_switch"] > 0,
        )
        return np.asarray(each.argmin(axis=0))

    return Form("collective", _constants(paths), seconds, ("payload", "ranks"), regime)


def _constants(paths: tuple[str, ...]) -> tuple[Constant, ...]:
    meanings = {
        "start": ("s", "Launch and synchronisation of the {} (way {})."),
        "message": ("s", "Each message of the {} that follows another (way {})."),
        "efficiency": ("1", "Share of the link's rate that the {} reaches (way {})."),
    }
    out = []
    for i, path in enumerate(paths):
        for (name, (unit, meaning)), prior in zip(
            meanings.items(), PRIORS[min(i, len(PRIORS) - 1)], strict=True
        ):
            said = meaning.format(path, i)
            out.append(Constant(f"{name}_{i}", *BOUNDS[name], prior, unit, said))
    sharp = "Exponent of the soft minimum over the ways."
    return (*out, Constant("sharpness", *BOUNDS["sharpness"], SHARPNESS, "1", sharp))
