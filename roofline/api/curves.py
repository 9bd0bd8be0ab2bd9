"""Rate curves: the load at their peak, and replicas that follow them."""

from collections.abc import Sequence

import numpy as np

from roofline.api import setting
from roofline.api.parameters import Planning
from roofline.api.question import refuse_unused
from roofline.api.workload import OfferedLoad, changed, curve_of
from roofline.cost.deployment import Deployment
from roofline.errors import InputError
from roofline.hardware.machine import Gpu
from roofline.records import replace
from roofline.serving.requests import Requests
from roofline.serving.run.result import ServiceLoad
from roofline.serving.run.routing import ReplicaSchedule
from roofline.serving.traffic.rate_curve import RateCurve, recorded_curve
from roofline.serving.traffic.traffic import Poisson
from roofline.study.plan.day import FollowRule
from roofline.study.plan.scaling import LOAD, ScaledPool, followed, policy_of
from roofline.study.plan.start_up import check_start, start_up


def at_peak(wanted: OfferedLoad) -> tuple[OfferedLoad, RateCurve | None]:
    """Load at the peak of its rate curve, and the curve; None where it has none."""
    if wanted.trace:
        curve = curve_of(wanted.rate_curve) if wanted.rate_curve else None
        if curve is None:
            return wanted, None
        curve = curve if wanted.rate is None else curve.paced(wanted.rate)
        return replace(wanted, rate=curve.peak, rate_curve=""), curve
    if wanted.rate_curve and wanted.cv is not None:
        refuse_unused("a rate curve", {"`cv`": True})
    traffic = changed(wanted)
    if not isinstance(traffic.arrivals, RateCurve):
        return wanted, None
    steady = replace(traffic, arrivals=Poisson(traffic.arrivals.peak))
    return replace(wanted, workload=steady, rate=None, rate_curve=""), traffic.arrivals


def peaked(curve: RateCurve) -> str:
    """Words on a rate that is the peak of a curve."""
    return f" at the peak of a {curve.period}, {curve.rate:.3g} on its mean"


def following(
    asked: Planning,
    curve: RateCurve | None,
    devices: Sequence[str | Gpu | None],
    held: Sequence[float | None],
) -> FollowRule | None:
    """Policy and prices of a fleet that follows a rate curve; None where there is no curve.

    Args:
        asked: Scaling, and prices of what is reserved, which only a curve takes.
        curve: Rates.
        devices, held: Devices, and the price of a reserved one of each; None where it has none.
            [$/h]

    Raises:
        InputError: A policy or a price has no meaning, or changes nothing.
    """
    if curve is None:
        unused = {"`scaling`": bool(asked.scaling)}
        unused["`reserved_price`"] = asked.reserved_price not in (None, ())
        refuse_unused("a load that does not change", unused)
        return None
    known = {
        setting.machine_of(each, asked.node, usd)[0].name: usd  # which refuses what is no price
        for each, usd in zip(devices, held, strict=True)
        if usd is not None
    }
    policy = policy_of(asked.scaling)
    refuse_unused(
        "a plan, whose replicas carry what keeps the SLO,",
        {"a load in `scaling`": bool(policy.load)},
    )
    check_start(policy.start)
    return FollowRule(curve, policy, known)


def scheduled(
    scaling: str, load: ServiceLoad, made: Requests, deployment: Deployment, saturation: float
) -> tuple[ServiceLoad, ReplicaSchedule]:
    """Load with its rate curve, and the replicas of a simulation that follow it.

    Args:
        scaling: Policy, in words.
        load, made: Load and its requests, whose hourly rates are the curve of a recording.
        deployment: A replica.
        saturation: Requests a second of a replica beyond which its queue grows. [1/s]

    Raises:
        InputError: The load has no rates, or the policy no replica at some time.
    """
    if load.concurrency:
        raise InputError(
            "replicas that follow clients, who wait for answers",
            hint="give `rate_curve`, or a `trace` of a day or more",
        )
    policy = policy_of(scaling)
    check_start(policy.start)
    if policy.least < 1:
        raise InputError("a simulation without a replica at some time", hint="write min=1 or more")
    curve = load.curve or recorded_curve(made.arrival, load.name)
    carries = saturation * (policy.load or LOAD)
    start_s = start_up(deployment, policy.start).seconds
    hours = followed(curve, ScaledPool(carries, saturation, deployment.devices, start_s), policy)
    last = float(made.arrival[-1])
    periods = np.arange(np.ceil(last / curve.period_s) or 1.0)[:, None] * curve.period_s
    starts = (periods + hours.ready.starts_s).ravel()
    counts = np.tile(np.maximum(hours.ready.values, 1.0), len(periods)).astype(np.int64)
    return replace(load, curve=curve), ReplicaSchedule(starts, counts, hours.paid.until(last))
