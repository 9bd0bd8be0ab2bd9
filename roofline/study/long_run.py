"""Traffic through a lane in the long run, by closed form: no requests are simulated."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment
from roofline.cost.engine_costs import EngineCosts
from roofline.cost.work import Array
from roofline.errors import InfeasibleError, InputError, RooflineError
from roofline.serving.requests import Requests
from roofline.serving.run.setup import Asked, page_of, server_of
from roofline.serving.simulate.prices import StepPrices, step_prices
from roofline.serving.simulate.server import Policy, Server
from roofline.serving.simulate.steady import Steady, arriving, closed, share_of
from roofline.serving.traffic.draw import draw
from roofline.study.scenario.lane import Lane
from roofline.study.sweep.keep import MEMORY
from roofline.table import BASES
from roofline.units import MILLION, SECONDS_PER_HOUR

STEADY: Final = (
    "requests_per_s",
    "saturation_per_s",
    "utilisation",
    "queue_s",
    "ttft_s",
    "tpot_s",
    "latency_s",
    "output_tok_s",
)
DERIVED: Final = ("ttft_p99_s", "tpot_p99_s", "output_per_gpu_tok_s", "usd_per_mtok")
_POLICIES: Final[Mapping[str, Policy | None]] = {
    "auto": None,
    "continuous": "continuous",
    "chunked": "chunked",
}


def points(lane: Lane, numbers: Mapping[str, Array], seed: int) -> dict[str, NDArray[Any]]:
    """Columns of a lane at rates or numbers of clients.

    Parameters
    ----------
    lane
        What serves, and what comes.
    numbers
        Column ``rate_per_s`` or ``concurrency``. [1/s] [1]
    seed
        Of the lengths.

    Returns
    -------
    dict
        Figures, ``fits``, ``decodes``, ``basis`` as its place, and in ``limit`` what rules a
        point out before any figure does.

    Notes
    -----
    Prefixes are not shared: that has no closed form. How far it is off is in
    `roofline.serving.simulate.steady.ERRORS`.
    """
    assert lane.deployment is not None
    ((kind, values),) = numbers.items()
    out: dict[str, NDArray[Any]] = {
        name: np.full(len(values), np.nan) for name in (*STEADY, *DERIVED)
    }
    out["gpus"] = np.full(len(values), float(lane.deployment.devices))
    out["decodes"] = np.ones(len(values), bool)
    limit = out["limit"] = np.full(len(values), "", "U32")
    try:
        share = share_of(*_server(lane, lane.deployment, seed))
    except InfeasibleError:
        limit[:] = MEMORY
    except RooflineError:
        limit[:] = "context"
    else:
        found = closed(share, values) if kind == "concurrency" else arriving(share, values)
        limit[~found.stable] = "saturation"
        for name, column in _figures(found, lane.deployment).items():
            out[name] = np.where(found.stable, column, np.nan)
        if not share.steps:  # answers of one token
            out["decodes"][:] = False
            out["tpot_s"] = out["tpot_p99_s"] = np.full(len(values), np.nan)
        out["saturation_per_s"] = found.saturation_per_s
    out["fits"] = limit != MEMORY
    basis = "datasheet" if lane.deployment.calibration is None else "interpolated"
    out["basis"] = np.full(len(values), BASES.index(basis))
    return out


def _server(lane: Lane, deployment: Deployment, seed: int) -> tuple[Requests, StepPrices, Server]:
    """Requests, what steps take, and who serves them."""
    assert lane.traffic is not None
    given = draw(lane.traffic, seed, block=page_of(deployment.engine, sharing=False))
    most = deployment.architecture.max_context
    longest = int((given.prompt + given.output).max())
    if most is not None and longest > most:
        raise InputError(f"requests of {longest} tokens", hint="give shorter ones")
    asked = Asked(policy=_POLICIES[lane.policy], sharing=False)
    server = server_of(deployment, asked, given, lane.technique.memory_utilization)
    measured = deployment.calibration
    prices = step_prices(
        deployment,
        sequences=server.max_sequences,
        longest=server.longest,
        engine=EngineCosts() if measured is None else measured.costs,
    )
    return given, prices, server


def _figures(found: Steady, deployment: Deployment) -> dict[str, Array]:
    out = {name: getattr(found, name) for name in STEADY}
    devices, rate = deployment.devices, out["output_tok_s"]
    price = deployment.node.gpu.usd_per_hour * devices / SECONDS_PER_HOUR / rate * MILLION
    return {
        **out,
        "ttft_p99_s": found.ttft_percentile(99.0),
        "tpot_p99_s": found.tpot_percentile(99.0),
        "output_per_gpu_tok_s": rate / devices,
        "usd_per_mtok": np.where(price > 0, price, np.nan),
    }
