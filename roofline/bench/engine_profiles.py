"""Constants of an engine as they are shipped, read from the two files that have them.

This module reads the constants of one engine, for pricing. `roofline.bench.end_to_end.profiles`
writes the files of all engines and checks them against their schema.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofline.bench.end_to_end.engines import CONSTANTS, FOLDER, KERNELS, PROFILES, SHARED
from roofline.content import shipped
from roofline.cost.engine_costs import NO_ENGINE, EngineProfile
from roofline.hardware.serving_engine import Engine
from roofline.kept import kept

if TYPE_CHECKING:
    from roofline.schema import Document

CLOSED: Final = "steady_concurrency"
"""Name of a closed loop in the keys of spreads."""


@cache
def shipped_profile(engine: Engine) -> EngineProfile:
    """Constants of an engine of the catalog as they are shipped; none of one without a file.

    Raises:
        RooflineError: A file is missing, or has a mistake.
    """
    if engine.profile not in PROFILES:
        return NO_ENGINE
    paths = [shipped("hwspecs") / FOLDER / f"{each}.yaml" for each in (SHARED, engine.profile)]
    return kept(lambda: _read(engine, paths), f"constants of {engine.name}", paths)


def _read(known: Engine, paths: list[Path]) -> EngineProfile:
    """Constants of an engine, from the file of all engines and its own."""
    from roofline.schema import read

    files = [read(path) for path in paths]
    common, own = files
    constants: dict[str, Any] = {
        key: _value(own, key, each.unit) for key, each in CONSTANTS.items()
    }
    kernels: dict[str, Any] = {
        key: _value(common, key, each.unit) if known.graph_kernels else each.prior
        for key, each in KERNELS.items()
    }
    return EngineProfile(
        **constants,
        **kernels,
        fused_inputs=known.fused_inputs,
        reach_bytes_per_s=known.decode_reach_bytes_per_s,
        spreads=tuple(misses(_spreads(files), known)),
    )


def misses(
    spreads: Mapping[tuple[str, ...], float], engine: Engine
) -> Iterator[tuple[str, float, float]]:
    """Log standard deviation of TTFT and TPOT in a closed loop, by generation of the device. [1]

    The last, without a generation, is of those on which no network was measured under the engine.

    Args:
        spreads: By the keys of `spread_keys`. [1]
        engine: Engine of the catalog.
    """
    own = spread_keys(engine, CLOSED, "tpot_s", "")[0][0]
    measured = sorted({key[3] for key in spreads if len(key) == 4 and key[:2] == (own, CLOSED)})
    for generation in (*measured, ""):
        first, between = (
            next(
                spreads[key]
                for key in spread_keys(engine, CLOSED, metric, generation)
                if key in spreads
            )
            for metric in ("ttft_s", "tpot_s")
        )
        yield generation, first, between


def spread_keys(
    engine: Engine, mode: str, metric: str, generation: str
) -> tuple[tuple[str, ...], ...]:
    """Keys that a spread may be looked up by, the closest first.

    All releases of an engine are one here: too few networks were measured under each.

    Args:
        engine: Engine of the catalog.
        mode, metric: As rows of measurements have them.
        generation: Of the device.
    """
    family = engine.family or engine.profile
    return (
        (family, mode, metric, generation),
        (family, mode, metric),
        (mode, metric),
        (metric,),
        (),
    )


def _value(document: "Document", name: str, unit: str) -> float:
    """Value of a constant, rounded as in the fit, which works with its logarithm."""
    from roofline.schema import quantity

    value = quantity(document, "s" if unit == "s" else "", "constants", name, "value")
    return float(np.exp(np.log(value)))


def _spreads(files: "list[Document]") -> dict[tuple[str, ...], float]:
    """Log standard deviations of several files, by the keys of `spread_keys`. [1]"""
    return {
        tuple(str(word) for word in each["of"]): float(each["spread"])
        for file in files
        for each in file.data.get("spreads", ())
    }
