"""Rate curves of a plan: the load at their peak, and fleets that follow them."""

from collections.abc import Sequence
from dataclasses import replace

from roofline.api import setting
from roofline.api.parameters import Planning
from roofline.api.workload import Wanted, changed, curve_of
from roofline.hardware.machine import Gpu
from roofline.serving.asking import refuse_unused
from roofline.serving.traffic.rate_curve import RateCurve
from roofline.serving.traffic.traffic import Poisson
from roofline.study.plan.day import Follow
from roofline.study.plan.scaling import policy_of
from roofline.study.plan.start_up import check_start


def at_peak(wanted: Wanted) -> tuple[Wanted, RateCurve | None]:
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
) -> Follow | None:
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
    check_start(policy.start)
    return Follow(curve, policy, known)
