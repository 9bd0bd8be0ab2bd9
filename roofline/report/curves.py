"""Curves of metrics over the batch, before they are drawn."""

from dataclasses import dataclass
from typing import Final

from roofline.table import Result
from roofline.view.known import calibrated
from roofline.view.text import is_number

PANELS: Final = (
    ("ttft_s", "TTFT", "s", "prefill"),
    ("tpot_s", "TPOT", "s", "decode"),
    ("throughput_tok_s", "Throughput", "token/s", "ink"),
)


@dataclass(frozen=True, slots=True)
class Panel:
    """One metric against batch."""

    name: str
    unit: str
    tint: str
    values: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    """Ends of the central 80 %; empty at datasheet rates."""

    @property
    def edges(self) -> tuple[float, float]:
        """Least and most of what is drawn."""
        return min(self.low or self.values), max(self.high or self.values)


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """Curves over the batch."""

    batches: tuple[int, ...]
    panels: tuple[Panel, ...]
    fits: tuple[bool, ...]
    """Whether each batch fits in memory."""
    most: int | None
    """Largest batch that fits; 0 if none does, None if all shown do."""
    current: int | None
    """Batch asked for; None where it is not known."""
    calibrated: bool


def batch_facts(result: Result) -> BatchFacts:
    """Curves of the metrics that exist; a single token has no TPOT."""
    table = result.tables["batch_curve"]
    batches = tuple(int(value) for value in table["batch"])
    fits = tuple(bool(value) for value in table["fits"])
    panels = tuple(
        Panel(name, unit, tint, table[key], *_band(result, key))
        for key, name, unit, tint in PANELS
        if key in table.columns and all(value > 0 for value in table[key])
    )
    current = result.metadata.get("batch")
    return BatchFacts(
        batches,
        panels,
        fits,
        _most(result, batches, fits),
        int(current) if is_number(current) and current in batches else None,
        calibrated(result),
    )


def _band(result: Result, key: str) -> tuple[tuple[float, ...], ...]:
    """Ends of the central 80 % of a metric at each batch, if there are any."""
    table = result.tables["batch_curve"]
    if not calibrated(result) or f"{key}_low" not in table.columns:
        return ()
    return table[f"{key}_low"], table[f"{key}_high"]


def _most(result: Result, batches: tuple[int, ...], fits: tuple[bool, ...]) -> int | None:
    """Largest batch that fits: as counted where it was, else the largest that was tried."""
    if all(fits):
        return None
    tried = max((batch for batch, fit in zip(batches, fits, strict=True) if fit), default=0)
    beyond = min(batch for batch, fit in zip(batches, fits, strict=True) if not fit)
    if "capacity" in result.tables:
        for row in result.tables["capacity"].rows():
            if row["limit"] == "largest batch" and tried <= row["value"] < beyond:
                return int(row["value"])
    return tried
