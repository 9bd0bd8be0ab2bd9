"""How rules say times, shares and loads."""

from roofline.bench.end_to_end.comparing import Compared
from roofline.bench.end_to_end.evidence import load
from roofline.bench.end_to_end.replay import OPEN
from roofline.units import show


def time(seconds: float) -> str:
    """A time for people."""
    return show(seconds, "s")


def percent(ratio: float) -> str:
    """How far off the prediction is of a measured figure that is this many times it.

    Predicted over measured, as errors are everywhere.

    >>> percent(1.25), percent(0.8)
    ('predicted 20 % too low', 'predicted 25 % too high')
    """
    word = "low" if ratio >= 1 else "high"
    return f"predicted {share(abs(1 / ratio - 1))} too {word}"


def share(part: float) -> str:
    """A share in percent."""
    return f"{100 * part:.0f} %"


def many(run: Compared) -> str:
    """The load of a run."""
    clients = load(run)
    if run.known.row.mode == OPEN:
        return f"{run.known.row.rate:g} requests/s, about {clients:,.0f} in flight"
    return f"{clients:,.0f} client{'s' if clients > 1 else ''}"
