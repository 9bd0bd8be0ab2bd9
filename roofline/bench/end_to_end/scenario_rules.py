"""Rules about a run whose figures contradict its scenario or one another."""

from itertools import pairwise
from typing import Final

from roofline.bench.end_to_end.cases import CONTRADICTION
from roofline.bench.end_to_end.driving import CLOSED
from roofline.bench.end_to_end.evidence import GAPS, RATES, Context, load, percent, share, time
from roofline.units import PREFIX

FLAT: Final = 1.1
"""Growth of a throughput that is none, while that of the prediction goes on. [1]"""
GROWING: Final = 1.25
"""Growth of a prediction that goes on. [1]"""
BUSY: Final = 0.8
"""Share of the clients that are busy in any closed loop of several rounds. [1]"""
SLIP: Final = 2.0
"""Factor around a thousand within which a time has the wrong unit. [1]"""


def slipped(c: Context) -> str:
    """A time that is a thousand times too long or too short."""
    figure = c.figure
    if figure.metric in RATES:
        return ""
    for ratio, found, column in (
        (figure.ratio, "milliseconds", "seconds"),
        (1 / figure.ratio, "seconds", "milliseconds"),
    ):
        if 1 / SLIP <= ratio * PREFIX["m"] <= SLIP:
            return (
                f"it is {time(figure.measured)} where {time(figure.predicted)} is predicted: "
                f"probably {found} in a column of {column}."
            )
    return ""


def impossible(c: Context) -> str:
    """Faster than the datasheet allows."""
    figure, row = c.figure, c.run.known.row
    if figure.metric == "ttft_s" and figure.measured < c.bounds.prompt:
        return (
            f"no prompt of {row.isl:,.0f} tokens is computed in {time(figure.measured)}: its "
            f"arithmetic alone takes {time(c.bounds.prompt)} at datasheet rates. Prompts may "
            "share a cached prefix, or the model, the format or the number of devices is another."
        )
    if figure.metric in GAPS and figure.measured < c.bounds.token:
        return (
            f"no token is made in {time(figure.measured)}: reading weights and cache alone takes "
            f"{time(c.bounds.token)} at datasheet rates. The format or the number of devices is "
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


def contradictory(c: Context) -> str:
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
        f"{time(follows)}, the latency is {time(whole.measured)}. The answers had another length."
    )


def plateau(c: Context) -> str:
    """More load brings no more, where the prediction goes on growing."""
    if c.slower == (c.figure.metric in GAPS) or c.run.known.row.mode != CLOSED:
        return ""  # fewer together make less, but each of them is faster
    rates = [(each, found) for each in c.series for name in RATES if (found := each.get(name))]
    for (before, low), (after, high) in pairwise(rates):
        if low.metric != high.metric or load(after) > c.clients:
            continue
        grown, hoped = high.measured / low.measured, high.predicted / low.predicted
        if grown < FLAT and hoped > GROWING:
            a, b = load(before), load(after)
            return (
                f"from {a:,.0f} to {b:,.0f} clients the throughput grew {share(grown - 1)}, "
                f"predicted {share(hoped - 1)}: the engine holds no more than about {a:,.0f} "
                "sequences at once (a cap like max-num-seqs, or a smaller cache)."
            )
    return ""


def idle(c: Context) -> str:
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


def follows(c: Context) -> str:
    """A latency or throughput is as far off as what it is made of."""
    if c.figure.metric not in (*RATES, "latency_s"):
        return ""
    for part in (c.gaps, c.run.get("ttft_s")):
        if part is None or part.inside is not False:
            continue
        worse = part.ratio > 1
        if worse == c.slower:
            name = "TTFT" if part.metric == "ttft_s" else "TPOT"
            return f"it follows from its {name}, which is {percent(part.ratio)}."
    return ""
