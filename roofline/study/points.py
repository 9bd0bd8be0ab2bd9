"""Rows of a sweep as a result, with figures, limits and misses in words."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from roofline.errors import DocumentError
from roofline.study.grounds import notes
from roofline.study.store.parts import KEY
from roofline.study.sweep.keep import FEASIBLE, UNKNOWN, SweepObjective
from roofline.table import Column, Result, Table
from roofline.units import SECONDS_PER_HOUR, show, show_binary, significant

if TYPE_CHECKING:
    import pyarrow as pa

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
"""Words for one configuration, and for several."""
MINUTE: Final = 60.0
LONG: Final = 1000.0
"""Seconds from which on times are told in minutes, and minutes in hours where there are 100."""

TRUTHS: Final = frozenset({"fits", "feasible"})
WORDS: Final = frozenset(
    {
        *("model", "gpu", "node", "layout", "weights", "kv", "engine", "technique", "patch"),
        *("workload", "policy", "decode_bound", "prefill_bound", "basis", "limit"),
    }
)
"""Columns of rows that are no numbers."""
SAID: Final = ("counts", "engine_costs", "unpriced")
"""Metadata of the file that are sentences here."""


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
    """Limit that a configuration misses, as a word or two.

    >>> missed("tpot_s_high"), missed("usd_per_mtok unknown")
    ('TPOT, upper end', 'cost of a million tokens not known')
    """
    if code.endswith(UNKNOWN):
        return f"{figure(code.removesuffix(UNKNOWN))} not known"
    return figure(code)


def counted(
    counts: Mapping[str, int], limits: Mapping[str, str], units: Mapping[str, str]
) -> tuple[str, ...]:
    """Sentences: number of configurations, number of feasible ones, misses of the others.

    Counts are by what is missed first, limits by column: ``"<= 0.06"``, and so are units.
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


def result_of(found: "pa.Table", source: str = "the table", rows: int | None = None) -> Result:
    """Rows of a sweep as what a page is made of; DocumentError for something else.

    Args:
        found: Rows as a sweep gives them, with its metadata in the schema.
        source: Name of where it was read.
        rows: How many there are, where these are only some of them; None for all. [1]
    """
    about = _about(found.schema, source)
    points = {
        name: Column(tuple(found.column(name).to_pylist()), about.get("units", {}).get(name, ""))
        for name in found.column_names
    }
    return Result(
        "sweep",
        {"points": Table(points)},
        notes=notes(found, about),
        metadata={
            **{key: value for key, value in about.items() if key not in SAID},
            **({} if rows is None else {"rows": rows}),
            "title": str(about.get("title") or about.get("name") or "sweep"),
            "summary": _summary(about, len(found) if rows is None else rows),
            "objectives": _objectives(about.get("objectives", ())),
            "limits": _limits(about.get("constraints", {})),
        },
    )


def objectives_of(schema: "pa.Schema", source: str) -> tuple[SweepObjective, ...]:
    """Objectives of a sweep, as its file says; DocumentError for the file of something else."""
    said = _objectives(_about(schema, source).get("objectives", ()))
    return tuple(SweepObjective(name, most) for name, most in said if name in schema.names)


def _about(schema: "pa.Schema", source: str) -> dict[str, Any]:
    """Metadata of the file of a sweep."""
    said = (schema.metadata or {}).get(KEY)
    if said is None or not {"index", "feasible"} <= set(schema.names):
        raise DocumentError(
            f"{source} is not the result of a sweep", hint="give the result.parquet of one"
        )
    _check_kinds(schema, source)
    about: dict[str, Any] = json.loads(said)
    return about


def _check_kinds(schema: "pa.Schema", source: str) -> None:
    """Refuse columns that hold something else than those of a sweep do."""
    import pyarrow.types as kinds

    for field in schema:
        kind = field.type.value_type if kinds.is_dictionary(field.type) else field.type
        if field.name in TRUTHS:
            wanted, right = "true or false", kinds.is_boolean(kind)
        elif field.name in WORDS:
            wanted, right = "text", kinds.is_string(kind)
        else:
            wanted, right = "numbers", kinds.is_integer(kind) or kinds.is_floating(kind)
        if not right and not kinds.is_null(kind):  # which a table without rows has
            raise DocumentError(
                f"{source} is not as it was saved: the column {field.name!r:.60} holds {kind}",
                hint=f"it has {wanted} in the result of a sweep; sweep again",
            )


def _summary(about: Mapping[str, Any], rows: int) -> tuple[str, ...]:
    kept = {
        "pareto": "that nothing else beats in all objectives",
        "all": "all of them",
        "feasible": "that keep all limits",
    }
    wanted, keep = about.get("objectives", ()), str(about.get("keep", ""))
    limits, units = about.get("constraints", {}), about.get("units", {})
    out = [str(about["about"]).strip()] if about.get("about") else []
    if about.get("counts"):
        out.append(" ".join(counted(about["counts"], limits, units)))
    if rows:
        which = "1 row is kept" if rows == 1 else f"{rows:,} rows are kept"
        out.append(f"{which}: {kept.get(keep, 'the best')}.")
    if wanted:
        out.append(f"Wanted: {', then '.join(map(_aim, wanted))}.")
    if limits:
        named = (
            f"{figure(name)} {_bound(text, units.get(name, ''))}" for name, text in limits.items()
        )
        out.append(f"Limits: {'; '.join(named)}.")
    return tuple(out)


def _aim(said: str) -> str:
    """``"min usd_per_mtok"`` in words."""
    side, _, column = said.partition(" ")
    return f"{'most' if side == 'max' else 'least'} {figure(column)}"


def _bound(said: str, unit: str) -> str:
    """``"<= 0.06"`` with its unit."""
    side, _, value = said.partition(" ")
    return f"{'at most' if side == '<=' else 'at least'} {quantity(float(value), unit)}"


def _objectives(said: Sequence[str]) -> tuple[tuple[str, bool], ...]:
    """Columns and whether more is better, from ``"min usd_per_mtok"``."""
    pairs = [str(each).split() for each in said]
    return tuple((pair[1], pair[0] == "max") for pair in pairs if len(pair) == 2)


def _limits(said: Mapping[str, str]) -> dict[str, float]:
    """Upper limits by column, from ``"<= 0.5"``."""
    pairs = {name: str(text).split() for name, text in said.items()}
    return {name: float(pair[1]) for name, pair in pairs.items() if pair[0] == "<="}
