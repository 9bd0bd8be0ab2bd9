"""How rules say times, shares and loads."""

from roofline.bench.end_to_end.comparing import Compared
from roofline.bench.end_to_end.evidence import load
from roofline.bench.end_to_end.modes import OPEN
from roofline.units import show


def time(seconds: float) -> str:
    """A time for people."""
    return show(seconds, "s")


def percent(ratio: float) -> str:
    """How much larger or smaller a measured figure is than its prediction.

    >>> percent(1.25), percent(0.9)
    ('25 % above its prediction', '10 % below its prediction')
    """
    word = "above" if ratio >= 1 else "below"
    return f"{share(abs(ratio - 1))} {word} its prediction"


def share(part: float) -> str:
    """A share in percent."""
    return f"{100 * part:.0f} %"


def many(run: Compared) -> str:
    """The load of a run."""
    clients = load(run)
    if run.known.row.mode == OPEN:
        return f"{run.known.row.rate:g} requests/s, about {clients:,.0f} in flight"
    return f"{clients:,.0f} client{'s' if clients > 1 else ''}"
