"""Columns of any table, and values of derivations, in a reader's words: heading, unit, digits."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from roofline.table import Column, Derivation
from roofline.units import chance
from roofline.view.block import NO_UNIT, Cell, Head
from roofline.view.text import Amount, amount, binary, clean, is_number, percent

HEADINGS: Final[Mapping[str, str]] = {
    "best_speed_up": "Its speed-up",
    "bytes_per_token": "Memory traffic of a token",
    "capacity_per_s": "Carries",
    "chance": "Likely",
    "copied_pages": "Pages copied",
    "copied_s": "Copying them",
    "cp": "CP",
    "decode_bound": "Decode is bound by",
    "decode_tok_s": "Throughput",
    "board_w": "Board at load",
    "board_decode_w": "Board in decode",
    "board_prefill_w": "Board in prefill",
    "dp": "DP",
    "electricity_usd_per_mtok": "Electricity per Mtok",
    "electricity_usd_per_request": "Electricity per request",
    "external_share": "External fragmentation",
    "facility_w": "Building at load",
    "gco2e_per_mtok": "Carbon per Mtok",
    "gco2e_per_request": "Carbon per request",
    "provisioned_w": "Provisioned",
    "server_w": "Server at load",
    "table_bytes": "A block table",
    "tables_bytes": "Block tables",
    "tables_s": "Reading them",
    "throughput_char_s": "Throughput of text",
    "usd_per_mchar": "Cost per million characters",
    "wh_per_mtok": "Energy drawn per Mtok",
    "wh_per_request": "Energy drawn per request",
    "ep": "EP",
    "extra_bytes": "Extra memory traffic",
    "extra_flops": "Extra arithmetic",
    "flops_per_token": "Arithmetic of a token",
    "gain_bound": "Upper bound",
    "free_bytes": "Free memory",
    "goodput_requests_per_s": "Goodput",
    "inside": "Within",
    "intensity": "Arithmetic intensity",
    "joule_per_mtok": "Energy per Mtok",
    "joule_per_token": "Energy per token",
    "known": "How known",
    "kv": "KV cache",
    "kv_bytes": "KV cache",
    "kv_bytes_per_token": "KV cache per token",
    "mean_error": "Mean",
    "meaning": "What it is",
    "median_error": "Median",
    "n": "Figures",
    "offered_requests_per_s": "Load",
    "op": "Operator",
    "output_per_gpu_tok_s": "Throughput per GPU",
    "output_tok_s": "Throughput",
    "p90": "90th percentile",
    "p90_error": "90th percentile",
    "page_bytes": "A page",
    "pool_bytes": "Room for caches",
    "pp": "PP",
    "prefill_bound": "Prefill is bound by",
    "probability": "Likely",
    "requests_per_s": "Served",
    "ridge": "Ridge point",
    "saturation_per_s": "Saturates at",
    "saturation_requests_per_s": "Saturates at",
    "served_chance": "All is served",
    "shape": "Deployment",
    "slo_met": "SLO kept",
    "speed_up": "Speed-up",
    "state_bytes": "A sequence beside it",
    "steady_tok_s": "Throughput",
    "steady_usd_per_mtok": "Cost per Mtok",
    "step_s": "A step",
    "throughput_tok_s_per_gpu": "Throughput per GPU",
    "token_bytes": "A cached token",
    "tokens_per_usd": "Tokens for a dollar",
    "total_tok_s": "Prompts and answers",
    "tp": "TP",
    "ttft_mean_s": "Mean TTFT",
    "usd_per_hour": "Price",
    "usd_per_mtok": "Cost per Mtok",
    "user_tok_s": "Speed per user",
    "utilisation": "Busy",
    "verify_s": "Verification",
    "weight_bytes": "Weights",
}
SHORT: Final[Mapping[str, str]] = {
    "e2e": "latency",
    "gpu": "GPU",
    "gpus": "GPUs",
    "itl": "ITL",
    "kv": "KV",
    "slo": "SLO",
    "tpot": "TPOT",
    "ttft": "TTFT",
    "usd": "$",
}
"""Words of names that people write otherwise."""
NARROW: Final = {"requests/s": "req/s", "token/s": "tok/s"}
"""Units in the columns of a table, which has many."""
SHARES: Final = frozenset(
    {
        *("attainment", "confidence", "headroom", "idle", "inside", "load", "margin", "share"),
        "utilisation",
    }
)
"""Columns of shares, without a unit in their names; others end in ``_share``."""
CHANCES: Final = frozenset({"chance", "probability", "served_chance"})
"""Columns of probabilities."""
RATIOS: Final = frozenset({"speed_up", "speed_up_to", "best_speed_up", "gain_bound", "operations"})
"""Columns of factors."""
ERRORS: Final = frozenset({"error", "mean_error", "median", "median_error", "p90", "p90_error"})
"""Columns of relative errors."""
NAMED: Final = frozenset({"best_in", "binds", "metric", "objective"})
"""Columns of text whose values are names of columns or statistics."""
MORE: Final = frozenset(
    {
        *("user_tok_s", "throughput_tok_s", "throughput_per_gpu_tok_s", "output_tok_s"),
        *("output_per_gpu_tok_s", "requests_per_s", "saturation_per_s", "free_bytes"),
        *("throughput", "steady_tok_s", "largest_batch"),
    }
)
"""Figures of which more is better."""
SENTENCE: Final = 36
"""Characters from which a text needs room to be read."""
NAME: Final = 16
"""Characters up to which a text is a name that stays on one line."""
_UNITS: Final = (
    ("tok_s_per_gpu", "token/s"),
    ("tok_s", "token/s"),
    ("_per_s", "requests/s"),
    ("_bytes", "B"),
    ("usd_per_mtok", "$"),
    ("usd_per_hour", "$/h"),
    ("joule_per_mtok", "J"),
    ("_s", "s"),
)
_ENDS: Final = {"_low": "from", "_high": "to", "_base": "as planned"}
_STATISTIC: Final = re.compile(r"\b(?:ttft|tpot|itl|e2e)_(?:p\d+|mean)\b")
_PLURAL: Final = frozenset({"token", "sequence", "request", "page", "slot", "step", "adapter"})
"""Units that are counted: one token, two tokens."""


def unit_of(name: str) -> str:
    """Base unit that the name of a column carries; empty where it carries none.

    >>> unit_of("ttft_s"), unit_of("throughput_tok_s_low"), unit_of("layout")
    ('s', 'token/s', '')
    """
    bare = next((name.removesuffix(end) for end in _ENDS if name.endswith(end)), name)
    return next((unit for suffix, unit in _UNITS if bare.endswith(suffix)), "")


def heading(name: str) -> str:
    """Name of a column, a metric or a statistic for people.

    >>> heading("ttft_s_low"), heading("ttft_low_s"), heading("tpot_p99"), heading("gives_up")
    ('TTFT, from', 'TTFT, from', 'TPOT p99', 'Gives up')
    """
    if name in HEADINGS:
        return HEADINGS[name]
    for end, said in _ENDS.items():
        if name.endswith(end) and name != end[1:]:
            return f"{heading(name.removesuffix(end))}, {said}"
    bare = _bare(name)
    if bare != name and any(bare.endswith(end) for end in _ENDS):
        return heading(bare)
    words = " ".join(SHORT.get(word, word) for word in bare.split("_")).strip()
    return words[:1].upper() + words[1:]


def mid(words: str) -> str:
    """A heading in the middle of a sentence.

    >>> mid("Cost per Mtok"), mid("TTFT p99")
    ('cost per Mtok', 'TTFT p99')
    """
    return words if words[:2].isupper() else words[:1].lower() + words[1:]


def _bare(name: str) -> str:
    """A name without the unit that it ends with."""
    for suffix, _ in _UNITS:
        if name.endswith(suffix) and not suffix.startswith("usd"):
            return name.removesuffix(suffix).rstrip("_") or name
    return name


def spoken(text: str, name: str = "") -> str:
    """A text with the names of statistics, or in some columns of metrics, as people write them.

    >>> spoken("ttft_p99 279 ms of 1.00 s"), spoken("ttft, headroom", "best_in")
    ('TTFT p99 279 ms of 1.00 s', 'TTFT, Headroom')
    """
    if name in NAMED:
        return ", ".join(heading(part) for part in text.split(", "))
    return _STATISTIC.sub(lambda found: heading(found[0]), text)


def head(name: str, column: Column) -> Head:
    """Head of a column: numeric where its values are numbers."""
    numbers = any(is_number(value) for value in column.values)
    longest = max((len(value) for value in column.values if isinstance(value, str)), default=0)
    return Head(
        clean(heading(name)),
        numeric=numbers,
        wide=longest > SENTENCE and not numbers,
        short=longest <= NAME and not numbers,
    )


def written(name: str, value: object, unit: str = "") -> Amount:
    r"""A value as its column is read.

    >>> str(written("usd_per_mtok", 1.5)), written("headroom", 0.3).number
    ('$1.50', '30\xa0%')
    >>> str(written("slots", 2.0, "token")), str(written("parameters", 8.03e9, "parameter"))
    ('2\xa0tokens', '8.03\xa0G')
    """
    if isinstance(value, bool):
        return Amount("yes" if value else "no")
    if is_number(value):
        number = float(str(value))
        if is_share(name):
            return Amount(percent(number))
        if _of(name, CHANCES):
            return Amount(sure(number))
        if name in RATIOS:
            return Amount(f"× {number:.2f}")
        if name in ERRORS and not unit:  # a latency has a 90th percentile, too
            sign = "+" if name == "error" and number > 0 else ""
            return Amount(sign + percent(number).replace("-", "−"))
        found = unit or unit_of(name)
        if found == "B":
            exact = name.endswith("_per_token")
            return Amount(f"{number:,.0f}", "B") if exact else binary(number)
        if found == "parameter":
            return amount(number, found)
        if found in _PLURAL:
            return amount(number, found if number == 1 else f"{found}s")
        if found == "request/s":
            return amount(number, "requests/s")
    return amount(value, unit or unit_of(name))


def is_share(name: str) -> bool:
    """True for a column of shares.

    >>> is_share("headroom"), is_share("wire_share"), is_share("attainment_low"), is_share("gpus")
    (True, True, True, False)
    >>> is_share("kv_share_most")
    True
    """
    return _of(name, SHARES) or name.removesuffix("_most").endswith("_share")


def _of(name: str, names: frozenset[str]) -> bool:
    """True for a name among some, or an end of one."""
    return name in names or name.removesuffix("_low").removesuffix("_high") in names


def sure(probability: float) -> str:
    """A probability for people; none is a certainty.

    >>> print(sure(0.9999999), sure(0.874), sure(0.0), sep=", ")
    > 99 %, 87 %, < 1 %
    """
    return chance(probability).replace("%", " %").replace(" ", "\N{NO-BREAK SPACE}")


def cell(name: str, value: object, unit: str = "") -> Cell:
    """Cell of a table: numbers line up, whether they have a unit or not."""
    if value is None:
        return Cell("")
    shown = written(name, value, unit)
    units = NO_UNIT if is_number(value) and not shown.unit and "%" not in shown.number else ""
    return Cell(shown.number, NARROW.get(shown.unit, shown.unit) or units)


BINARY: Final = (
    "weights",
    "KV cache",
    "capacity",
    "memory in use",
    "activations",
    "runtime",
    "graphs",
)
"""Device memory, which people know in powers of two."""


def derived(entry: Derivation) -> Amount:
    """A value in its unit; device memory in powers of two, a share in percent."""
    if entry.name in BINARY and entry.unit == "B":
        return binary(entry.value)
    if not entry.unit and is_share(entry.name):
        return Amount(percent(entry.value))
    return amount(entry.value, entry.unit.replace("request/s", "requests/s"), 4)


def derivation_lines(
    derivation: Derivation,
) -> Iterator[tuple[int, str, tuple[tuple[str, str], ...]]]:
    """Each number of a derivation: its depth, what it is, and what is said about it, marked."""
    for depth, entry in derivation.walk():
        marked = {"=": entry.formula, "= ": entry.substituted, "from": entry.source}
        said = tuple(
            (mark, text) for mark, text in (marked | {"note:": entry.note}).items() if text
        )
        known = f"  [{entry.basis}]" if entry.basis and not entry.formula else ""
        yield depth, f"{entry.name} = {derived(entry)}{known}", said
