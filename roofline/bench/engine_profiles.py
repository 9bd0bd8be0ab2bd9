"""Constants of an engine as they are shipped, and notes on those of a deployment.

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
from roofline.cost.deployment import Deployment
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

    The last one, without a generation, holds on devices on which nothing was measured under it.

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


def profile_source(deployment: Deployment) -> str:
    """File of the user's own that has the engine's constants; empty where they are shipped."""
    known = deployment.calibration
    return "" if known is None else known.profile.source


def name_of(deployment: Deployment) -> str:
    """Network, devices, layout, formats and engine of a deployment, as a log's profile has them."""
    at = deployment
    formats = f"{at.weights_name} weights, {at.precision.kv.name} cache"
    return f"{at.architecture.name}, {at.node.gpu.name}, {at.layout}, {formats}, {at.engine.name}"


def profile_note(deployment: Deployment, batch: float = 0.0, context: float = 0.0) -> str:
    """Sentence on the user's own profile of a deployment; empty where it has the shipped one.

    Args:
        deployment: As `roofline.bench.end_to_end.profiles.with_profile` made it.
        batch, context: Load that is asked about; 0 for any. [1] [token]
    """
    source, logged = profile_source(deployment), deployment.engine_costs.logged
    if not source:
        return ""
    whole = f"The engine's constants are those of {source}"
    if logged is None:
        return f"{whole}; no log of this deployment narrows the intervals."
    (few, many), (short, long) = logged.batch, logged.context
    whole += (
        f", learnt from a log of this deployment with {few:,.0f} to {many:,.0f} sequences of "
        f"{short:,.0f} to {long:,.0f} tokens"
    )
    if not batch:
        return f"{whole}; plans look at any load, and have the intervals beyond those."
    if not logged.octaves_beyond(batch, context):
        return f"{whole}; the load asked about is among those."
    return f"{whole}; {batch:,.0f} of {context:,.0f} are beyond those, and the intervals wider."


def engine_misses(
    deployment: Deployment, batch: float = 0.0, context: float = 0.0
) -> Mapping[str, float]:
    """Log standard deviation of the errors of the deployment's engine end to end, by metric. [1]

    Args:
        deployment: With measured kernels.
        batch, context: Sequences of a decode step, and what each sees; 0 for any. [1] [token]
    """
    costs = deployment.engine_costs
    between = float(costs.tpot_sd(batch, context)) if batch else costs.tpot_log_sd
    return {"ttft_s": costs.ttft_log_sd, "tpot_s": between}
