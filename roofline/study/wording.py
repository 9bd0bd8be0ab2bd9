"""Figures, limits and what is missed of them, in words: what is printed and what pages say."""

from collections.abc import Mapping
from typing import Final

from roofline.study.pricing import FEASIBLE
from roofline.study.sweep.keep import UNKNOWN
from roofline.units import SECONDS_PER_HOUR, show, show_binary, significant

NAMES: Final[Mapping[str, str]] = {
    "ttft_idle_s": "TTFT on an idle server",
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "tpot_steady_s": "TPOT with the batch kept full",
    "latency_s": "latency",
    "queue_s": "wait",
    "ttft_p99_s": "TTFT p99",
    "tpot_p99_s": "TPOT p99",
    "usd_per_mtok": "cost of a million tokens",
    "served_chance": "chance that all is served",
    "joule_per_mtok": "energy of a million tokens",
    "user_tok_s": "speed for one user",
    "throughput_tok_s": "throughput",
    "throughput_per_gpu_tok_s": "throughput per GPU",
    "output_tok_s": "throughput",
    "output_per_gpu_tok_s": "throughput per GPU",
    "requests_per_s": "rate served",
    "rate_per_s": "rate",
    "saturation_per_s": "saturation",
    "utilisation": "share of time at work",
    "concurrency": "clients",
    "memory_bytes": "memory",
    "free_bytes": "free memory",
    "gpus": "GPUs",
}
ENDS: Final = {"_low": "lower end", "_high": "upper end"}
MISSES: Final[Mapping[str, tuple[str, str]]] = {
    "memory": ("does not fit into memory", "do not fit into memory"),
    "layout": ("cannot be laid out", "cannot be laid out"),
    "format": ("has no rate for its formats", "have no rate for their formats"),
    "deployment": ("cannot be deployed", "cannot be deployed"),
    "technique": ("does not go with its technique", "do not go with their technique"),
    "context": (
        "is longer than the network is made for",
        "are longer than the network is made for",
    ),
    "saturation": ("is more than can be served", "are more than can be served"),
}
"""Of one configuration, and of several."""
MINUTE: Final = 60.0
LONG: Final = 1000.0
"""Seconds from which on times are told in minutes, and minutes in hours where there are 100."""


def figure(column: str) -> str:
    """Name of a figure.

    >>> figure("tpot_s_high")
    'TPOT, upper end'
    """
    for end, words in ENDS.items():
        if column.endswith(end):
            return f"{figure(column.removesuffix(end))}, {words}"
    return NAMES.get(column, column)


def duration(seconds: float) -> str:
    """A time, with minutes and hours where there are many seconds. [s]

    >>> duration(0.06), duration(1800.0), duration(36_000.0)
    ('60.0 ms', '30.0 min', '10.0 h')
    """
    if not LONG <= seconds < float("inf"):
        return show(seconds, "s")
    if seconds < 100 * MINUTE:
        return f"{significant(seconds / MINUTE)} min"
    return f"{significant(seconds / SECONDS_PER_HOUR)} h"


def quantity(value: float, unit: str) -> str:
    """A value with the unit of its column.

    >>> quantity(20.0, "token/s"), quantity(0.5, "s"), quantity(8.0, "")
    ('20.0 token/s', '500 ms', '8')
    """
    if unit == "s":
        return duration(value)
    if unit == "B":
        return show_binary(value)
    if unit == "J":
        return show(value, unit)
    if unit == "$":
        return f"${value:,.3f}"
    return f"{significant(value)} {unit}" if unit else f"{value:,.4g}"


def missed(code: str) -> str:
    """What a configuration misses, as a word or two.

    >>> missed("tpot_s_high"), missed("usd_per_mtok unknown")
    ('TPOT, upper end', 'cost of a million tokens not known')
    """
    if code.endswith(UNKNOWN):
        return f"{figure(code.removesuffix(UNKNOWN))} not known"
    return figure(code)


def counted(
    counts: Mapping[str, int], limits: Mapping[str, str], units: Mapping[str, str]
) -> tuple[str, ...]:
    """How many configurations there are, how many keep to all limits, what the others miss.

    Args:
        counts: By what is missed first. [1]
        limits: By column: ``"<= 0.06"``.
        units: By column.
    """
    every, good = sum(counts.values()), counts.get(FEASIBLE, 0)
    plural = "" if every == 1 else "s"
    out = [f"{every:,} configuration{plural}, {good:,} of them feasible."]
    rest = sorted((-count, code) for code, count in counts.items() if code != FEASIBLE and count)
    if rest:
        parts = [_part(-count, code, limits, units) for count, code in rest]
        out.append(f"Of the others {', '.join(parts)}.")
    return tuple(out)


def _part(count: int, code: str, limits: Mapping[str, str], units: Mapping[str, str]) -> str:
    one = count == 1
    if code in MISSES:
        return f"{count:,} {MISSES[code][0 if one else 1]}"
    has = "has" if one else "have"
    if code.endswith(UNKNOWN):
        return f"{count:,} {has} no known {figure(code.removesuffix(UNKNOWN))}"
    side, _, value = limits[code].partition(" ")
    words = "above" if side == "<=" else "below"
    said = quantity(float(value), units.get(code, ""))
    return f"{count:,} {has} {figure(code)} {words} {said}"
