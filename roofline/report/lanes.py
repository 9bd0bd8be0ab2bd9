"""Priced configurations as a page can hold them: what can be chosen, at which numbers, what comes.

The table ``points`` has a row for each configuration: names (model, GPU, layout, formats), numbers
(batch, lengths, rates), figures with units in their names, and words (what binds, what it misses).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from roofline.report.figures import log_axis
from roofline.table import Result, Table
from roofline.view.known import is_bound
from roofline.view.text import is_number, plain
from roofline.view.words import MORE, heading, unit_of

NAMES: Final = (
    "scenario",
    "model",
    "gpu",
    "layout",
    "weights",
    "kv",
    "engine",
    "technique",
    "workload",
    "policy",
    "patch",
)
LENGTHS: Final = ("prompt", "output")
NUMBERS: Final = ("batch", "rate_per_s", "concurrency", "prompt", "output")
FIGURES: Final = (
    "ttft_idle_s",
    "ttft_s",
    "ttft_p99_s",
    "tpot_steady_s",
    "tpot_s",
    "tpot_p99_s",
    "latency_s",
    "user_tok_s",
    "throughput_tok_s",
    "output_tok_s",
    "throughput_per_gpu_tok_s",
    "output_per_gpu_tok_s",
    "requests_per_s",
    "saturation_per_s",
    "utilisation",
    "usd_per_mtok",
    "joule_per_mtok",
    "memory_bytes",
    "free_bytes",
)
SPEED: Final = "user_tok_s"
RATES: Final = ("throughput_per_gpu_tok_s", "output_per_gpu_tok_s")
WORDS: Final = ("prefill_bound", "decode_bound", "basis", "limit")
MOST: Final = 2500
"""Rows that a page has room for."""
DIGITS: Final = 5
"""Digits of a figure on a page at least, more than it shows. [1]"""


class VariedSetting(Struct, frozen=True):
    """Something with several values: a name, or a number."""

    name: str
    title: str
    values: tuple[Any, ...]


class PageConfigurations(Struct, frozen=True):
    """Configurations of a page."""

    axes: tuple[VariedSetting, ...]
    numbers: tuple[VariedSetting, ...]
    """Names and numbers that differ between rows, with their values in order."""
    fixed: tuple[tuple[str, Any], ...]
    """Names and numbers that are the same everywhere."""
    figures: tuple[str, ...]
    words: tuple[str, ...]
    """Columns that are there."""
    rows: tuple[Mapping[str, Any], ...]
    """Configurations, the best first, bounds after forecasts; as many as a page has room for."""
    left_out: int
    """Number of further configurations. [1]"""

    @property
    def rate(self) -> str:
        """Column of the throughput of a GPU; empty where none is known."""
        return next((name for name in RATES if name in self.figures), "")


def alike(result: Result, table: Table) -> Table:
    """Configurations that are asked the same: of the lengths that a page is about.

    A short prompt beats a long one in everything and says nothing about a GPU.
    """
    start = result.metadata.get("start")
    asked = {name: start[name] for name in LENGTHS if name in start} if start else {}
    return table.of_rows(
        [row for row in table.rows() if all(row.get(n) == value for n, value in asked.items())]
    )


def swept(result: Result, table: Table) -> PageConfigurations:
    """Configurations of a table of points, the best by the objectives of its result first.

    A table of many has only the best; the result says how many there are.
    """
    every = [
        _completed(row) for row in table.rows() if any(is_number(row.get(name)) for name in FIGURES)
    ]
    for name, largest in reversed(result.metadata.get("objectives", ())):
        every.sort(key=lambda row: rank(row.get(str(name)), bool(largest)))
    every.sort(key=lambda row: (not row.get("feasible", True), is_bound(row)))
    rows, total = every[:MOST], result.metadata.get("rows")

    def choices(names: Sequence[str]) -> list[VariedSetting]:
        found = []
        for name in names:
            if name in table.columns:
                values = dict.fromkeys(row[name] for row in rows if row[name] is not None)
                ordered = sorted(values) if name in NUMBERS else values
                found.append(VariedSetting(name, heading(name), tuple(ordered)))
        return found

    axes, numbers = choices(NAMES), choices(NUMBERS)
    return PageConfigurations(
        axes=tuple(axis for axis in axes if len(axis.values) > 1),
        numbers=tuple(number for number in numbers if len(number.values) > 1),
        fixed=tuple((c.title, c.values[0]) for c in (*axes, *numbers) if len(c.values) == 1),
        figures=tuple(name for name in FIGURES if any(is_number(row.get(name)) for row in rows)),
        words=tuple(name for name in WORDS if any(row.get(name) for row in rows)),
        rows=tuple(rows),
        left_out=max(len(every), total if isinstance(total, int) else 0) - len(rows),
    )


def speed_axes(rows: Sequence[Mapping[str, Any]], rate: str) -> dict[str, Any]:
    """Logarithmic axes of the speed for one user and of what a GPU gives, wide enough for rows."""
    out = {}
    for place, name, title in (
        ("xaxis", SPEED, "Speed for one user [token/s]"),
        ("yaxis", rate, "Throughput of a GPU [token/s]"),
    ):
        values = [row[name] for row in rows if is_number(row.get(name)) and row[name] > 0]
        out[place] = log_axis(title, min(values) / 1.3, max(values) * 1.3)
    return out


def _completed(row: dict[str, Any]) -> dict[str, Any]:
    """A row with what follows from it: the speed for one user, ends of the rate of a GPU."""
    if row.get("user_tok_s") is None and is_number(row.get("tpot_s")) and row["tpot_s"] > 0:
        row["user_tok_s"] = 1.0 / row["tpot_s"]
    whole, part = row.get("throughput_tok_s"), row.get("throughput_per_gpu_tok_s")
    if is_number(whole) and is_number(part) and whole > 0:
        for end in ("_low", "_high"):
            if is_number(row.get(f"throughput_tok_s{end}")):
                row[f"throughput_per_gpu_tok_s{end}"] = row[f"throughput_tok_s{end}"] * part / whole
    return row


def rank(value: object, largest: bool) -> float:
    """Place of a value among others, the best least; what is unknown is last.

    >>> sorted([3.0, None, 5.0], key=lambda value: rank(value, largest=True))
    [5.0, 3.0, None]
    """
    if not is_number(value):
        return float("inf")
    return -float(value) if largest else float(value)


def embedded(lanes: PageConfigurations) -> dict[str, Any]:
    """Configurations as plain data for the page's script: columns of numbers."""
    choices = (*lanes.axes, *lanes.numbers)
    places = [{value: place for place, value in enumerate(choice.values)} for choice in choices]
    words = {
        name: list(dict.fromkeys(str(row[name]) for row in lanes.rows)) for name in lanes.words
    }
    return {
        "axes": [choice.name for choice in lanes.axes],
        "numbers": [
            {"title": choice.title, "unit": unit_of(choice.name), "values": list(choice.values)}
            for choice in lanes.numbers
        ],
        "at": [
            [places[n][row[choice.name]] for n, choice in enumerate(choices)] for row in lanes.rows
        ],
        "figures": [
            {
                "name": name,
                "title": heading(name),
                "unit": "share" if name == "utilisation" else unit_of(name),
                "more": name in MORE,
                "value": _column(lanes, name),
                "low": _column(lanes, f"{name}_low"),
                "high": _column(lanes, f"{name}_high"),
            }
            for name in lanes.figures
        ],
        "words": [
            {
                "name": name,
                "title": heading(name),
                "texts": texts,
                "value": [texts.index(str(row[name])) for row in lanes.rows],
            }
            for name, texts in words.items()
        ],
        "fits": [int(bool(row.get("fits", True))) for row in lanes.rows],
    }


def _column(lanes: PageConfigurations, name: str) -> list[float | None] | None:
    """Values of a column, cut short; None where no row has one."""
    values = [row.get(name) for row in lanes.rows]
    if not any(is_number(value) for value in values):
        return None
    return [cut(value) if is_number(value) else None for value in values]


def cut(value: float) -> float:
    """A number with few digits that is shown with the digits of the whole one.

    Rounded twice a number can end one off: 2.0749 is 2.1 by way of 2.075, so none is cut to end
    in a five.

    >>> cut(31.72836451), cut(0.010249617), cut(123456.789)
    (31.728, 0.01024962, 123456.79)
    """
    whole = len(f"{abs(value):.0f}") if abs(value) >= 1.0 else 0
    for digits in range(max(DIGITS, whole + 2), 16, 2):
        text = f"{value:.{digits - 1}e}"
        few = not text.partition("e")[0].rstrip("0").endswith("5")
        if few and plain(float(text)) == plain(value):
            return float(text)
    return float(value)
