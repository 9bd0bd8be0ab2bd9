"""Rules about a run outside its interval, from the strongest evidence to the weakest.

Each rule looks at one figure, the others of its run, and runs of the same deployment at other
loads; the first that holds is the reason. A rule is a guess that says what it rests on, not a
proof.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final

import numpy as np

from roofline.bench.end_to_end.cases import CONTRADICTION
from roofline.bench.end_to_end.engines import UNKNOWN
from roofline.bench.end_to_end.evidence import GAPS, RATES, Context
from roofline.bench.end_to_end.held_out import LIKE
from roofline.bench.end_to_end.modes import CLOSED
from roofline.units import show

FLAT: Final = 1.1
"""Growth of a throughput that is none, while that of the prediction goes on. [1]"""
GROWING: Final = 1.25
"""Growth of a prediction that goes on. [1]"""
ALIKE: Final = 0.1
"""Difference of two shares that are alike. [1]"""
BUSY: Final = 0.8
"""Share of the clients that are busy in any closed loop of several rounds. [1]"""
MOST: Final = 0.5
"""Share of a step from which on its kernels decide. [1]"""
NEAR: Final = 1.15
"""Factor beyond the end of an interval that is chance. [1]"""


def _impossible(c: Context) -> str:
    """Faster than the datasheet allows."""
    figure, row = c.figure, c.run.known.row
    if figure.metric == "ttft_s" and figure.measured < c.bounds.prompt:
        return (
            f"no prompt of {row.isl:,.0f} tokens is computed in {_time(figure.measured)}: its "
            f"arithmetic alone takes {_time(c.bounds.prompt)} at datasheet rates. Prompts may "
            "share a cached prefix, or the model, the format or the number of devices is another."
        )
    if figure.metric in GAPS and figure.measured < c.bounds.token:
        return (
            f"no token is made in {_time(figure.measured)}: reading weights and cache alone takes "
            f"{_time(c.bounds.token)} at datasheet rates. The format or the number of devices is "
            "another, or several tokens are made a step (speculation)."
        )
    if figure.metric == "output_tok_s" and row.batch and row.mode == CLOSED:
        most = row.batch * row.replicas / c.bounds.together
        if figure.measured > most:
            return (
                f"{row.batch:,.0f} sequences make at most {most:,.0f} tok/s at datasheet rates: "
                "more ran together, or the model, the format or the number of devices is another."
            )
    return ""


def _contradictory(c: Context) -> str:
    """A latency that its own parts contradict."""
    parts = [c.run.get(name) for name in ("latency_s", "ttft_s")]
    whole, first = parts
    gaps, row = c.gaps, c.run.known.row
    if whole is None or first is None or gaps is None or row.osl <= 1:
        return ""
    follows = first.measured + (row.osl - 1) * gaps.measured
    off = whole.measured / follows
    if max(off, 1 / off) < CONTRADICTION:
        return ""
    return (
        f"the file contradicts itself: TTFT and {row.osl - 1:,.0f} gaps make "
        f"{_time(follows)}, the latency is {_time(whole.measured)}. The answers had another length."
    )


def _plateau(c: Context) -> str:
    """More load brings no more, where the prediction goes on growing."""
    if c.slower == (c.figure.metric in GAPS):
        return ""  # fewer together make less, but each of them is faster
    rates = [(each, found) for each in c.series for name in RATES if (found := each.get(name))]
    for (before, low), (after, high) in pairwise(rates):
        if low.metric != high.metric or after.known.row.batch > c.clients:
            continue
        grown, hoped = high.measured / low.measured, high.predicted / low.predicted
        if grown < FLAT and hoped > GROWING:
            a, b = before.known.row.batch, after.known.row.batch
            return (
                f"from {a:,.0f} to {b:,.0f} clients the throughput grew {_share(grown - 1)}, "
                f"predicted {_share(hoped - 1)}: the engine holds no more than about {a:,.0f} "
                "sequences at once (a cap like max-num-seqs, or a smaller cache)."
            )
    return ""


def _idle(c: Context) -> str:
    """Fewer clients were busy than there were, by the law of Little."""
    row, whole = c.run.known.row, c.run.get("latency_s")
    rate = c.run.get("output_tok_s")
    if c.figure.metric not in RATES or row.mode != CLOSED or whole is None or rate is None:
        return ""
    busy = rate.measured / row.osl * whole.measured
    clients = row.batch * row.replicas
    if not 0 < busy < BUSY * clients:
        return ""
    return (
        f"rate times latency is {busy:,.0f} of {clients:,.0f} clients: the others were idle (a "
        "slow start, a long tail, or a client that cannot keep up)."
    )


def _follows(c: Context) -> str:
    """A latency or throughput is as far off as what it is made of."""
    if c.figure.metric not in (*RATES, "latency_s"):
        return ""
    for part in (c.gaps, c.run.get("ttft_s")):
        if part is None or part.inside is not False:
            continue
        worse = part.ratio > 1
        if worse == c.slower:
            name = "TTFT" if part.metric == "ttft_s" else "TPOT"
            return f"it follows from its {name}, which is {_percent(part.ratio)}."
    return ""


def _poor(c: Context) -> str:
    """The kernels that decide were not measured there."""
    if c.run.known.engine.name == UNKNOWN:
        return (
            f"no run of {c.run.known.row.engine} was ever measured: its constants are those of a "
            "usual engine, assumed."
        )
    if c.poor.share <= MOST or not _everywhere(c):
        return ""
    what = "the prompt" if c.figure.metric == "ttft_s" else "a decode step"
    return (
        f"{_share(c.poor.share)} of {what} is priced by kernels that were not measured at that "
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
        f"TTFT is {_percent(a)} and TPOT {_percent(b)}, the same share: lower clocks, heat, or a "
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
        known = (
            f"with {lightest.known.row.batch:,.0f} clients it is as predicted "
            f"({_time(easy.measured)})"
        )
    elif lightest is c.run:
        known = f"one prompt alone would take {_time(c.run.alone)}; no lighter load was measured"
    else:
        return ""
    return (
        f"it is {_percent(c.figure.ratio)} with {c.clients:,.0f} clients; {known}: prompts wait "
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
    said = f", and {_time(float(np.median(added)))} at other loads" if added else ""
    return (
        f"the first token comes {_time(more)} later than predicted{said}: the front end, the "
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
            f"each token takes about {_time(float(more.mean()))} more at every load: time that the "
            "engine adds to a step (no CUDA graphs, a slow host, sampling)."
        )
    if len(figures) > 1 and widths[1] < MOST and shares.mean() > 1:
        return (
            f"tokens take {_share(float(shares.mean()) - 1)} more at every load while prompts do "
            "not: weights or cache in a wider format than assumed, or another decode kernel."
        )
    return ""


def _faster(c: Context) -> str:
    """Better than predicted, within what the device can do."""
    if c.slower:
        return ""
    if c.figure.metric == "ttft_s":
        return (
            f"it is {_percent(c.figure.ratio)}: prompts may share a cached prefix or be shorter, "
            "or came less together than assumed."
        )
    if c.figure.metric in GAPS:
        return (
            f"it is {_percent(c.figure.ratio)}, with {_time(c.bounds.token)} the least that is "
            "possible: a newer release, narrower formats, or several tokens a step."
        )
    return f"it is {_percent(c.figure.ratio)}: more ran together than assumed, or faster."


def _chance(c: Context) -> str:
    """Just beyond the end."""
    end = c.figure.end(1.0 if c.figure.ratio > 1 else -1.0)
    if end is None:
        return ""
    beyond = max(c.figure.measured / end, end / c.figure.measured)
    if beyond > NEAR:
        return ""
    return (
        f"it is {_share(beyond - 1)} beyond the end of an interval that one of five figures is "
        "outside of: chance."
    )


def _assumed(c: Context) -> str:
    """A mode that no row was measured of."""
    if c.run.known.row.mode not in LIKE:
        return ""
    return "no run at a rate was ever fitted to: how bursts queue is assumed."


def _unknown(c: Context) -> str:
    """Nothing of the above."""
    return f"it is {_percent(c.figure.ratio)}; nothing in the file tells why."


RULES: Final[dict[str, Callable[[Context], str]]] = {
    "scenario": _impossible,
    "contradiction": _contradictory,
    "batch-cap": _plateau,
    "idle": _idle,
    "follows": _follows,
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
"""From the strongest evidence to the weakest."""


def _time(seconds: float) -> str:
    return show(seconds, "s")


def _percent(ratio: float) -> str:
    """How much larger or smaller a measured figure is than its prediction.

    >>> _percent(1.25), _percent(0.9)
    ('25 % above its prediction', '10 % below its prediction')
    """
    word = "above" if ratio >= 1 else "below"
    return f"{_share(abs(ratio - 1))} {word} its prediction"


def _share(share: float) -> str:
    return f"{100 * share:.0f} %"
