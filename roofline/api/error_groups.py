"""Errors of figures that were measured, by engine, GPU, network and load."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from roofline.table import Table, table

SPLITS: Final = (("engine", "gpu"), ("engine",), ("gpu",), ("network",), ("mode",))
"""Columns that figures are grouped by, one table for each."""
GROUP_COLUMNS: Final = (
    "by", "engine", "gpu", "network", "mode", "metric", "figures", "median_error", "mean_error",
    "p90_error", "inside",
)  # fmt: skip
FIRST: Final = ("ttft_s", "tpot_s", "latency_s", "throughput_tok_s")
"""Metrics in the order of the table; others follow as they come."""


def error_groups(figures: Sequence[Mapping[str, Any]]) -> Table:
    """Errors and shares inside, by each of `SPLITS` and of all figures.

    A column that has one value says nothing that all figures do not.
    """
    rows: list[dict[str, Any]] = []
    for split in SPLITS if figures else ():
        keys = sorted({tuple(entry[name] for name in split) for entry in figures})
        for key in keys if len(keys) > 1 or len(split) > 1 else ():
            chosen = dict(zip(split, key, strict=True))
            mine = [e for e in figures if all(e[name] == value for name, value in chosen.items())]
            rows += _errors(" and ".join(split), chosen, mine)
    rows += _errors("all", {}, figures)
    return table(rows, dict.fromkeys(GROUP_COLUMNS, ""))


def _errors(
    by: str, key: Mapping[str, str], mine: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    there = dict.fromkeys(entry["metric"] for entry in mine)
    for metric in dict.fromkeys((*(name for name in FIRST if name in there), *there)):
        entries = [entry for entry in mine if entry["metric"] == metric]
        off = np.abs([entry["error"] for entry in entries])
        median, p90 = (float(each) for each in np.quantile(off, (0.5, 0.9)))
        held = [entry["inside"] for entry in entries if entry["inside"] is not None]
        inside = float(np.mean(held)) if held else None
        named = [key.get(name, "") for name in ("engine", "gpu", "network", "mode")]
        values = (by, *named, metric, len(off), median, float(off.mean()), p90, inside)
        yield dict(zip(GROUP_COLUMNS, values, strict=True))
