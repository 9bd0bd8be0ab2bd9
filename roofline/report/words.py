"""Columns of any table in a reader's words: heading, unit, and how a value is written."""

from collections.abc import Mapping
from typing import Final

from roofline.report.block import NO_UNIT, Cell, Head
from roofline.report.text import Amount, amount, binary, clean, is_number, percent
from roofline.table import Column

HEADINGS: Final[Mapping[str, str]] = {
    "batch": "Batch",
    "capacity_per_s": "Carries",
    "cp": "CP",
    "decode_bound": "Decode is bound by",
    "decode_tok_s": "Throughput",
    "dp": "DP",
    "ep": "EP",
    "free_bytes": "Free memory",
    "gpu": "GPU",
    "gpus": "GPUs",
    "joule_per_mtok": "Energy per Mtok",
    "kv": "KV cache",
    "latency_s": "Latency",
    "memory_bytes": "Memory",
    "output_per_gpu_tok_s": "Throughput per GPU",
    "output_tok_s": "Throughput",
    "pp": "PP",
    "prefill_bound": "Prefill is bound by",
    "rate_per_s": "Rate",
    "requests_per_s": "Served",
    "saturation_per_s": "Saturates at",
    "served_chance": "All is served",
    "shape": "Deployment",
    "throughput_per_gpu_tok_s": "Throughput per GPU",
    "throughput_tok_s": "Throughput",
    "throughput_tok_s_per_gpu": "Throughput per GPU",
    "tp": "TP",
    "tpot_s": "TPOT",
    "ttft_mean_s": "Mean TTFT",
    "ttft_s": "TTFT",
    "usd_per_hour": "Price",
    "usd_per_mtok": "Cost per Mtok",
    "user_tok_s": "Speed per user",
    "utilisation": "Busy",
}
SHARES: Final = frozenset(
    {
        "headroom",
        "utilisation",
        "attainment",
        "probability",
        "served_chance",
        "margin",
        "share",
        "idle",
    }
)
"""Columns of shares and probabilities, without a unit in their names."""
SENTENCE: Final = 36
"""Characters from which a text needs room to be read."""
_UNITS: Final = (
    ("tok_s_per_gpu", "token/s"),
    ("tok_s", "token/s"),
    ("_per_s", "request/s"),
    ("_bytes", "B"),
    ("usd_per_mtok", "$"),
    ("usd_per_hour", "$/h"),
    ("joule_per_mtok", "J"),
    ("_s", "s"),
)
_ENDS: Final = {"_low": "from", "_high": "to", "_base": "as planned"}


def unit_of(name: str) -> str:
    """Base unit that the name of a column carries; empty where it carries none.

    >>> unit_of("ttft_s"), unit_of("throughput_tok_s_low"), unit_of("layout")
    ('s', 'token/s', '')
    """
    bare = next((name.removesuffix(end) for end in _ENDS if name.endswith(end)), name)
    return next((unit for suffix, unit in _UNITS if bare.endswith(suffix)), "")


def heading(name: str) -> str:
    """Name of a column for people.

    >>> heading("ttft_s_low"), heading("gives_up"), heading("wait_s")
    ('TTFT, from', 'Gives up', 'Wait')
    """
    for end, said in _ENDS.items():
        if name.endswith(end):
            return f"{heading(name.removesuffix(end))}, {said}"
    if name in HEADINGS:
        return HEADINGS[name]
    bare = name
    for suffix, _ in _UNITS:
        if name.endswith(suffix) and not suffix.startswith("usd"):
            bare = name.removesuffix(suffix).rstrip("_") or name
            break
    words = bare.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def head(name: str, column: Column) -> Head:
    """Head of a column: numeric where its values are numbers."""
    numbers = any(is_number(value) for value in column.values)
    wide = any(isinstance(value, str) and len(value) > SENTENCE for value in column.values)
    return Head(clean(heading(name)), numeric=numbers, wide=wide and not numbers)


def written(name: str, value: object, unit: str = "") -> Amount:
    r"""A value as its column is read.

    >>> str(written("usd_per_mtok", 1.5)), written("headroom", 0.3).number
    ('$1.50', '30\xa0%')
    """
    if isinstance(value, bool):
        return Amount("yes" if value else "no")
    if name in SHARES and is_number(value):
        return Amount(percent(float(str(value))))
    found = unit or unit_of(name)
    if found == "B" and is_number(value):
        return binary(float(str(value)))
    return amount(value, found)


def cell(name: str, value: object, unit: str = "", tone: str = "") -> Cell:
    """Cell of a table: numbers line up, whether they have a unit or not."""
    if value is None:
        return Cell("", tone=tone)
    shown = written(name, value, unit)
    units = NO_UNIT if is_number(value) and not shown.unit and name not in SHARES else shown.unit
    return Cell(shown.number, units, tone)
