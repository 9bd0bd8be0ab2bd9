"""Traffic through a lane in the long run, by closed form: no requests are simulated."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from roofline.cost.deployment import Deployment
from roofline.cost.work import Array
from roofline.errors import InfeasibleError, InputError, RooflineError
from roofline.serving.requests import Requests
from roofline.serving.run.intervals import step_uncertainty
from roofline.serving.run.steady_intervals import SteadyIntervals, arriving_within, closed_within
from roofline.serving.simulate.prices import StepPrices, step_prices
from roofline.serving.simulate.server import (
    POLICIES,
    Policy,
    Server,
    ServerOptions,
    page_of,
    server_of,
)
from roofline.serving.simulate.steady import Steady, arriving, closed, share_of
from roofline.serving.traffic.draw import draw
from roofline.study.scenario.scenario import SliceDeployment
from roofline.study.sweep.columns import token_price
from roofline.study.sweep.keep import MEMORY
from roofline.table import BASES

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
ENDED: Final = ("ttft_s", "tpot_s", "latency_s", "output_tok_s", "saturation_per_s", "usd_per_mtok")
"""Figures with intervals."""
ENDS: Final = ("_low", "_high")
_ENDED: Final = tuple(name + end for name in ENDED for end in ENDS)
CHANCE: Final = "served_chance"
"""Probability that all that comes can be served."""
_POLICIES: Final[Mapping[str, Policy]] = {policy: policy for policy in POLICIES}


def points(
    lane: SliceDeployment, numbers: Mapping[str, Array], seed: int
) -> dict[str, NDArray[Any]]:
    """Columns of a lane at ``rate_per_s`` or ``concurrency`` [1/s] [1], with lengths of a seed.

    Figures, ``fits``, ``decodes``, ``basis`` as its place, and in ``limit`` what rules a point out
    before any figure does. Prefixes are not shared: that has no closed form. Ends are those of
    `roofline.serving.run.steady_intervals`: what is not known of kernels and engine, and how far
    the closed form is off; rates of the datasheet have none, nor have times beyond the loads at
    which the closed form was compared.
    """
    assert lane.deployment is not None
    ((kind, values),) = numbers.items()
    out: dict[str, NDArray[Any]] = {
        name: np.full(len(values), np.nan) for name in (*STEADY, *DERIVED, *_ENDED, CHANCE)
    }
    out["gpus"] = np.full(len(values), float(lane.deployment.devices))
    out["decodes"] = np.ones(len(values), bool)
    limit = out["limit"] = np.full(len(values), "", "U32")
    try:
        served = _server(lane, lane.deployment, seed)
        share = share_of(*served)
    except InfeasibleError:
        limit[:] = MEMORY
    except RooflineError:
        limit[:] = "context"
    else:
        found = closed(share, values) if kind == "concurrency" else arriving(share, values)
        limit[~found.stable] = "saturation"
        columns = _figures(found, lane.deployment)
        if lane.deployment.calibration is not None:
            lasting = _lasting(lane, lane.deployment, served, kind, values, found)
            columns |= _ends(lasting, share.output, lane.deployment)
            out[CHANCE] = lasting.served
        for name, column in columns.items():
            out[name] = np.where(found.stable, column, np.nan)
        if not share.steps:  # answers of one token
            out["decodes"][:] = False
            out["tpot_s"] = out["tpot_p99_s"] = np.full(len(values), np.nan)
        out["saturation_per_s"] = found.saturation_per_s
        for name in (f"saturation_per_s{end}" for end in ENDS):
            out[name] = columns.get(name, out[name])
    out["fits"] = limit != MEMORY
    out["basis"] = np.full(len(values), BASES.index(lane.deployment.basis))
    return out


def _server(
    lane: SliceDeployment, deployment: Deployment, seed: int
) -> tuple[Requests, StepPrices, Server]:
    """Requests, what steps take, and who serves them."""
    assert lane.traffic is not None
    given = draw(lane.traffic, seed, block=page_of(deployment.engine, sharing=False))
    most = deployment.architecture.max_context
    longest = int((given.prompt + given.output).max())
    if most is not None and longest > most:
        raise InputError(f"requests of {longest} tokens", hint="give shorter ones")
    asked = ServerOptions(policy=_POLICIES.get(lane.policy), sharing=False)
    server = server_of(deployment, asked, given, lane.technique.memory_utilization)
    prices = step_prices(deployment, sequences=server.max_sequences, longest=server.longest)
    return given, prices, server


def _lasting(
    lane: SliceDeployment,
    deployment: Deployment,
    served: tuple[Requests, StepPrices, Server],
    kind: str,
    values: Array,
    found: Steady,
) -> SteadyIntervals:
    """Intervals of figures, with the uncertainty of steps at the load in the middle."""
    given, _, server = served
    prompt = float(given.prompt.mean())
    doubt = step_uncertainty(
        deployment,
        batch=float(np.median(found.sequences)),
        context=prompt + float(given.output.mean()) / 2.0,
        prompt=min(prompt, server.token_budget or prompt),
        misses=lane.misses,
    )
    within = closed_within if kind == "concurrency" else arriving_within
    return within(*served, values, doubt)


def _ends(lasting: SteadyIntervals, output: float, deployment: Deployment) -> dict[str, Array]:
    """Ends of the central 80 %, by column."""
    out = {}
    for end, bounds, other in (
        ("_low", lasting.low, lasting.high),
        ("_high", lasting.high, lasting.low),
    ):
        for name in ("ttft_s", "tpot_s", "latency_s", "saturation_per_s"):
            out[f"{name}{end}"] = bounds[name]
        out[f"output_tok_s{end}"] = bounds["requests_per_s"] * output
        out[f"usd_per_mtok{end}"] = token_price(deployment, other["requests_per_s"] * output)
    return out


def _figures(found: Steady, deployment: Deployment) -> dict[str, Array]:
    return {
        **{name: getattr(found, name) for name in STEADY},
        "ttft_p99_s": found.ttft_percentile(99.0),
        "tpot_p99_s": found.tpot_percentile(99.0),
        "output_per_gpu_tok_s": found.output_tok_s / deployment.devices,
        "usd_per_mtok": token_price(deployment, found.output_tok_s),
    }
