"""Rows of a sweep as a result, with what was asked in words: what pages and notebooks show."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from roofline.errors import DocumentError
from roofline.study.grounds import notes
from roofline.study.store.merging import KEY
from roofline.table import Column, Result, Table
from roofline.units import show

if TYPE_CHECKING:
    import pyarrow as pa

NAMES: Final[Mapping[str, str]] = {
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "latency_s": "latency",
    "usd_per_mtok": "cost of a token",
    "joule_per_mtok": "energy of a token",
    "user_tok_s": "speed for one user",
    "throughput_tok_s": "throughput",
    "throughput_per_gpu_tok_s": "throughput per GPU",
    "memory_bytes": "memory",
    "gpus": "GPUs",
}


def result_of(found: "pa.Table", source: str = "the table", rows: int | None = None) -> Result:
    """Rows of a sweep as what a page is made of.

    Parameters
    ----------
    found
        As a sweep gives them, with what it says of itself in the metadata of the schema.
    source
        Name of where it was read.
    rows
        How many there are, where these are only some of them; None for all. [1]

    Raises
    ------
    DocumentError
        It is something else.
    """
    about = _about(found, source)
    points = {
        name: Column(tuple(found.column(name).to_pylist()), about.get("units", {}).get(name, ""))
        for name in found.column_names
    }
    return Result(
        "sweep",
        {"points": Table(points)},
        notes=notes(found, about),
        metadata={
            **about,
            "title": str(about.get("title") or about.get("name") or "sweep"),
            "summary": _summary(about, len(found) if rows is None else rows),
            "objectives": _objectives(about.get("objectives", ())),
            "limits": _limits(about.get("constraints", {})),
        },
    )


def _about(found: "pa.Table", source: str) -> dict[str, Any]:
    """What the file says of itself."""
    said = (found.schema.metadata or {}).get(KEY)
    if said is None or not {"index", "feasible"} <= set(found.column_names):
        raise DocumentError(
            f"{source} is not the result of a sweep", hint="give the result.parquet of one"
        )
    about: dict[str, Any] = json.loads(said)
    return about


def _summary(about: Mapping[str, Any], rows: int) -> tuple[str, ...]:
    kept = {
        "pareto": "that nothing else beats in all objectives",
        "all": "all of them",
        "feasible": "that keep all limits",
    }
    wanted, keep = about.get("objectives", ()), str(about.get("keep", ""))
    out = [str(about["about"]).strip()] if about.get("about") else []
    if about.get("configurations"):
        out.append(
            f"{rows:,} of {about['configurations']:,} configurations are kept, "
            f"{kept.get(keep, 'the best')}. Wanted: {', then '.join(map(_aim, wanted))}."
        )
    if limits := about.get("constraints"):
        named = (f"{NAMES.get(name, name)} {_bound(name, text)}" for name, text in limits.items())
        out.append(f"Limits: {', '.join(named)}.")
    return tuple(out)


def _aim(said: str) -> str:
    """``"min usd_per_mtok"`` in words."""
    side, _, column = said.partition(" ")
    return f"{'most' if side == 'max' else 'least'} {NAMES.get(column, column)}"


def _bound(column: str, said: str) -> str:
    """``"<= 0.06"`` with the unit of its column."""
    side, _, value = said.partition(" ")
    unit = "s" if column.endswith("_s") and not column.endswith("_per_s") else ""
    return f"{'at most' if side == '<=' else 'at least'} {show(float(value), unit)}".strip()


def _objectives(said: Sequence[str]) -> tuple[tuple[str, bool], ...]:
    """Columns and whether more is better, from ``"min usd_per_mtok"``."""
    pairs = [str(each).split() for each in said]
    return tuple((pair[1], pair[0] == "max") for pair in pairs if len(pair) == 2)


def _limits(said: Mapping[str, str]) -> dict[str, float]:
    """Upper limits by column, from ``"<= 0.5"``."""
    pairs = {name: str(text).split() for name, text in said.items()}
    return {name: float(pair[1]) for name, pair in pairs.items() if pair[0] == "<="}
