"""Rules about a run outside its interval, from the strongest evidence to the weakest.

Each rule looks at one figure, the others of its run, and runs of the same deployment at other
loads; the first that holds is the reason. A rule is a guess that says what it rests on, not a
proof.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.bench.end_to_end import scenario_rules
from roofline.bench.end_to_end.comparing import ComparedFigure, RunComparison
from roofline.bench.end_to_end.evidence import GAPS, Context, many, percent, series, share, time
from roofline.bench.end_to_end.held_out import LIKE
from roofline.hardware.serving_engine import UNKNOWN

ALIKE: Final = 0.1
"""Difference of two shares that are alike. [1]"""
MOST: Final = 0.5
"""Share of a step from which on its kernels decide. [1]"""
NEAR: Final = 1.15
"""Factor beyond the end of an interval that is chance. [1]"""


def _poor(c: Context) -> str:
    """The kernels that decide were not measured there."""
    if c.run.known.engine.profile == UNKNOWN:
        return (
            f"no run of {c.run.known.row.engine} was ever measured: its constants are those of a "
            "usual engine, assumed."
        )
    if c.poor.share <= MOST or not _everywhere(c):
        return ""
    what = "the prompt" if c.figure.metric == "ttft_s" else "a decode step"
    return (
        f"{share(c.poor.share)} of {what} is priced by kernels that were not measured at that "
        f"shape on this device, most of it {c.poor.kind} ({c.poor.basis}): it may run another "
        "kernel."
    )


def _everywhere(c: Context) -> bool:
    """Whether runs at other loads are off alike: a kernel that is wrong is so at each of them."""
    found = [each.get(c.figure.metric) for each in c.series if each is not c.run]
    others = [each for each in found if each is not None]
    alike = [
        each for each in others if not each.inside and (each.ratio > 1) == (c.figure.ratio > 1)
    ]
    return 2 * len(alike) >= len(others)


def _clocks(c: Context) -> str:
    """Prompts and tokens are slower by the same share."""
    first, gaps = c.run.get("ttft_s"), c.gaps
    if first is None or gaps is None or c.figure.metric not in ("ttft_s", *GAPS):
        return ""
    a, b = first.ratio, gaps.ratio
    if min(a, b) < 1 + ALIKE / 2 or abs(a - b) > ALIKE * max(a, b):
        return ""
    return (
        f"TTFT is {percent(a)} and TPOT {percent(b)}, the same share: lower clocks, heat, or a "
        "power limit."
    )


def _queue(c: Context) -> str:
    """The first token is late under load only."""
    gaps = c.gaps
    if c.figure.metric != "ttft_s" or not c.slower or c.clients <= 1:
        return ""
    if gaps is not None and gaps.inside is False and gaps.ratio > c.figure.ratio:
        return ""
    lightest = c.series[0]
    easy = lightest.get("ttft_s")
    if easy is not None and lightest is not c.run and easy.inside:
        known = f"with {many(lightest)} it is as predicted ({time(easy.measured)})"
    elif lightest is c.run:
        known = f"one prompt alone would take {time(c.run.alone)}; no lighter load was measured"
    else:
        return ""
    return (
        f"it is {percent(c.figure.ratio)} with {many(c.run)}; {known}: prompts wait "
        "for one another or for steps of other sequences (prefill interference, queueing, a "
        "smaller budget of tokens a step)."
    )


def _front_end(c: Context) -> str:
    """The first token is late by a time, at any load."""
    if c.figure.metric != "ttft_s" or not c.slower:
        return ""
    more = c.figure.measured - c.figure.predicted
    others = [each.get("ttft_s") for each in c.series if each is not c.run]
    added = [each.measured - each.predicted for each in others if each is not None]
    if added and not all(0.5 * more < each < 2 * more for each in added):
        return ""
    said = f", and {time(float(np.median(added)))} at other loads" if added else ""
    return (
        f"the first token comes {time(more)} later than predicted{said}: the front end, the "
        "network, or templates and tokens of the prompt."
    )


def _constant(c: Context) -> str:
    """Every token is late by the same time, or by the same share."""
    if c.figure.metric not in GAPS or not c.slower:
        return ""
    found = [each.get(c.figure.metric) for each in c.series]
    figures = [each for each in found if each is not None]
    more = np.array([each.measured - each.predicted for each in figures])
    shares = np.array([each.ratio for each in figures])
    widths = (
        float(np.ptp(more) / abs(more.mean())),
        float(np.ptp(shares - 1) / (shares.mean() - 1)),
    )
    if len(figures) > 1 and widths[0] < min(widths[1], MOST):
        return (
            f"each token takes about {time(float(more.mean()))} more at every load: time that the "
            "engine adds to a step (no CUDA graphs, a slow host, sampling)."
        )
    if len(figures) > 1 and widths[1] < MOST and shares.mean() > 1:
        return (
            f"tokens are {percent(float(shares.mean()))} at every load while prompts are not: "
            "weights or cache in a wider format than assumed, or another decode kernel."
        )
    return ""


def _faster(c: Context) -> str:
    """Better than predicted, within what the device can do."""
    if c.slower:
        return ""
    if c.figure.metric == "ttft_s":
        return (
            f"it is {percent(c.figure.ratio)}: prompts may share a cached prefix or be shorter, "
            "or came less together than assumed."
        )
    if c.figure.metric in GAPS:
        return (
            f"it is {percent(c.figure.ratio)}, with {time(c.bounds.token)} the least that is "
            "possible: a newer release, narrower formats, or several tokens a step."
        )
    return f"it is {percent(c.figure.ratio)}: more ran together than assumed, or faster."


def _chance(c: Context) -> str:
    """Just beyond the end."""
    end = c.figure.end(1.0 if c.figure.ratio > 1 else -1.0)
    if end is None:
        return ""
    beyond = max(c.figure.measured / end, end / c.figure.measured)
    if beyond > NEAR:
        return ""
    return (
        f"it is {share(beyond - 1)} beyond the end of an interval that one of five figures is "
        "outside of: chance."
    )


def _assumed(c: Context) -> str:
    """A mode that no row was measured of."""
    if c.run.known.row.mode not in LIKE:
        return ""
    return "no run at a rate was ever fitted to: how bursts queue is assumed."


def _unknown(c: Context) -> str:
    """Nothing of the above."""
    return f"it is {percent(c.figure.ratio)}; nothing in the file tells why."


RULES: Final[dict[str, Callable[[Context], str]]] = {
    "unit": scenario_rules.slipped,
    "scenario": scenario_rules.impossible,
    "contradiction": scenario_rules.contradictory,
    "batch-cap": scenario_rules.plateau,
    "idle": scenario_rules.idle,
    "follows": scenario_rules.follows,
    "kernels": _poor,
    "clocks": _clocks,
    "queueing": _queue,
    "chance": _chance,
    "front-end": _front_end,
    "decode": _constant,
    "faster": _faster,
    "open-loop": _assumed,
    "unexplained": _unknown,
}
"""From the strongest evidence to the weakest; the last one always holds."""


class Reason(Struct, frozen=True):
    """Why a figure is outside its interval."""

    name: str
    """Name of the rule."""
    text: str
    """One sentence, with the figures that it rests on."""


def reason(
    figure: ComparedFigure, run: RunComparison, runs: Sequence[RunComparison]
) -> Reason | None:
    """The likeliest reason for a figure of a run, of all runs; None where it is not outside."""
    if figure.inside is not False:
        return None
    context = Context(figure, run, series(run, runs))
    return next(Reason(name, text) for name, rule in RULES.items() if (text := rule(context)))
