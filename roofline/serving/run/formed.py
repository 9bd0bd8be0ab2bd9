"""What the closed form says of an open loop, beside what was simulated."""

from typing import TYPE_CHECKING, Final

from roofline.serving.objectives import spread
from roofline.serving.simulate.drafting import in_rounds
from roofline.serving.simulate.steady import ERRORS, arriving, lacking, share_of
from roofline.units import show, significant

if TYPE_CHECKING:
    from roofline.serving.run.result import Run

LOADS: Final = ((0.7, "open to 70 %"), (0.85, "open to 85 %"))
"""Shares of saturation up to which errors of the closed form are known."""


def formed(run: "Run") -> str:
    """TTFT, TPOT and saturation in closed form, and how far such figures are off.

    Args:
        run: What was simulated. Of a closed loop nothing is said: its run begins with a burst.
    """
    fleet, requests = run.fleet, run.requests
    if not run.load.rate or lacking(requests, fleet.server):
        return ""
    if fleet.drafting is not None:
        requests = in_rounds(requests, fleet.drafting)
    rate = run.load.rate / fleet.replicas
    share = share_of(requests, fleet.prices, fleet.server)
    most = float(arriving(share, rate * 2.0**-10).saturation_per_s[0]) if rate else 0.0
    kind = next((name for load, name in LOADS if rate < load * most), "")
    if not kind:
        return ""
    steady = arriving(share, rate)
    gaps = float(run.requests.output.mean()) - 1.0
    found = {"ttft": float(steady.ttft_s[0])}
    if gaps:
        found["tpot"] = float(steady.latency_s[0] - steady.ttft_s[0]) / gaps
    parts = []
    for name, value in found.items():
        simulated = spread(getattr(run.finished, name))
        assert simulated is not None, "a mean of nothing"
        error = ERRORS[kind][f"{name}_s"].p90
        off = round(value / simulated.mean - 1.0, 2) + 0.0  # not −0
        parts.append(f"{name.upper()} {show(value, 's')} ({off:+.0%}; 9 of 10: ± {error:.0%})")
    return (
        f"In closed form: {', '.join(parts)}, saturation at {significant(most * fleet.replicas)} "
        "requests/s. It is what a search over many loads can ask."
    )
