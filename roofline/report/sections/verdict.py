"""Whether it fits, what binds, what would help, and the figures people ask for first."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from roofline.report.block import NO_UNIT, Block, Cell, Grid, Head, heads
from roofline.report.known import BOUND, MEANINGS, PARTLY, calibrated
from roofline.report.text import UNKNOWN, Amount, amount, between, binary, clean, is_number, percent
from roofline.report.words import heading
from roofline.table import Result

ORDER: Final = 10

NAMES: Final = {
    "ttft_idle_s": "TTFT, idle server",
    "ttft_steady_s": "TTFT, batch kept full",
    "tpot_steady_s": "TPOT, batch kept full",
    "ttft_s": "TTFT",
    "ttft_mean_s": "TTFT, mean over the batch",
    "tpot_s": "TPOT",
    "latency_s": "Latency",
    "throughput_tok_s": "Throughput",
    "throughput_tok_s_per_gpu": "Throughput per GPU",
    "user_tok_s": "Speed for one user",
    "joule_per_mtok": "Energy per Mtok",
    "usd_per_mtok": "Cost per Mtok",
    "parameters": "Parameters",
    "kv_bytes_per_token": "KV cache per token",
    "kv_bytes": "KV cache",
    "weight_bytes": "Weights",
    "memory_bytes": "Memory moved",
    "ridge": "Ridge point",
}
EXPLAINED: Final = {
    "ttft_idle_s": "ttft_idle",
    "ttft_steady_s": "ttft_steady",
    "tpot_steady_s": "tpot_steady",
    "ttft_s": "ttft",
    "ttft_mean_s": "ttft",
    "tpot_s": "tpot",
    "latency_s": "latency",
    "throughput_tok_s": "throughput",
    "throughput_tok_s_per_gpu": "throughput",
    "user_tok_s": "tpot",
    "joule_per_mtok": "energy",
    "usd_per_mtok": "cost",
    "kv_bytes": "kv",
    "weight_bytes": "weights",
    "memory_bytes": "memory",
    "ridge": "ridge",
}
CARDS: Final = (
    "ttft_idle_s",
    "ttft_steady_s",
    "tpot_steady_s",
    "ttft_s",
    "tpot_s",
    "throughput_tok_s",
    "latency_s",
    "usd_per_mtok",
)
DEVICE: Final = frozenset({"pool_bytes"})
"""Metrics that are a part of device memory, which is sold in powers of two."""
MOST: Final = ("throughput_tok_s", "throughput_tok_s_per_gpu", "user_tok_s")
"""Metrics of which more is better: datasheet rates give a ceiling."""


@dataclass(frozen=True, slots=True)
class Headline:
    """One metric with its bounds."""

    name: str
    value: Amount
    """Predicted, or with perfect overlap at datasheet rates."""
    serial: Amount | None
    """At datasheet rates without any overlap; None where the figure is predicted."""
    interval: Amount | None
    """The central 80 % of a predicted figure; None where nothing in it was measured."""
    bound: Amount | None
    bounds: str
    """The figure at datasheet rates, and what that is: ``"floor"`` or ``"ceiling"``."""
    meaning: str
    basis: str
    explained: str
    """Key of its derivation; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Surety:
    """Shares of the time of a step by how it is known, from best to worst. [1]"""

    phase: str
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class VerdictFacts:
    """What a reader takes away."""

    fits: bool | None
    """Whether the deployment fits in memory; None where nobody has said."""
    predicted: bool
    """Whether measured kernels predict the figures."""
    calibration: str
    """Whose they are; empty where there are none, or several."""
    floor: bool
    """Whether times are those of the datasheet: the least possible, not a forecast."""
    both: bool
    """Whether figures have a second bound, without overlap."""
    sentences: tuple[str, ...]
    static: tuple[Headline, ...]
    """Figures of a batch whose prompts all arrive at once, beside those of a server that is kept
    full; none where these are not known."""
    cards: tuple[Headline, ...]
    headlines: tuple[Headline, ...]
    known: tuple[Surety, ...]

    @property
    def bounded(self) -> bool:
        """Whether figures have a bound at datasheet rates beside them."""
        return any(entry.bound for entry in self.headlines)


def verdict_facts(result: Result) -> VerdictFacts:
    """Verdict and headline figures of a result."""
    given = result.metadata
    fits, predicted = given.get("fits"), calibrated(result)
    headline = result.tables.get("headline")
    rows = headline.rows() if headline is not None else ()
    known = {str(row["metric"]): _headline(row, result) for row in rows}
    cards = [known[name] for name in CARDS if name in known and known[name].value.number != "–"]
    static = result.tables.get("static_batch")
    return VerdictFacts(
        static=tuple(_headline(row, result) for row in static.rows()) if static is not None else (),
        fits=fits if isinstance(fits, bool) else None,
        predicted=predicted,
        calibration=str(given.get("calibration") or "") if predicted else "",
        floor=bool(cards) and not predicted and given.get("basis") in (BOUND, "calibrated"),
        both=any(entry.serial for entry in known.values()),
        sentences=tuple(str(sentence) for sentence in given.get("summary", ())),
        cards=tuple(cards),
        headlines=tuple(known.values()),
        known=_known(result) if predicted else (),
    )


def _headline(row: dict[str, Any], result: Result) -> Headline:
    metric, unit, basis = str(row["metric"]), str(row.get("unit", "")), str(row.get("basis", ""))
    explained = EXPLAINED.get(metric, "")
    # Zero is "there is none": one token has no time between tokens.
    none = metric in ("tpot_s", "user_tok_s") and not row["value"]
    serial, bound = row.get("serial"), row.get("roof")
    spread = "low" in row and row["low"] < row["high"]
    return Headline(
        name=NAMES.get(metric) or clean(heading(metric)),
        value=Amount(UNKNOWN) if none else _value(metric, row["value"], unit),
        serial=amount(serial, unit) if is_number(serial) and not none else None,
        interval=between(row["low"], row["high"], unit) if spread else None,
        bound=amount(bound, unit) if is_number(bound) and not none else None,
        bounds="ceiling" if metric in MOST else "floor",
        meaning=str(row.get("meaning", "")),
        basis=PARTLY if spread and basis == BOUND else basis,
        explained=explained if explained in result.derivations else "",
    )


def _value(metric: str, value: object, unit: str) -> Amount:
    return binary(value) if metric in DEVICE and is_number(value) else amount(value, unit)


def _known(result: Result) -> tuple[Surety, ...]:
    """How the time of each step is known."""
    rows = list(result.tables["ops"].rows()) if "ops" in result.tables else []
    phases = dict.fromkeys(str(row["phase"]) for row in rows)
    known = []
    for phase in phases:
        mine = [row for row in rows if row["phase"] == phase and row["seconds"]]
        bases = sorted({str(row["basis"]) for row in mine}, key=_rank)
        sums = {b: sum(row["share"] for row in mine if row["basis"] == b) for b in bases}
        known.append(Surety(phase, sums))
    return tuple(known)


def _rank(basis: str) -> int:
    return list(MEANINGS).index(basis) if basis in MEANINGS else len(MEANINGS)


def _known_grid(facts: VerdictFacts) -> Grid:
    bases = sorted({basis for entry in facts.known for basis in entry.shares}, key=_rank)
    return Grid(
        "known",
        "Confidence: time of a step by how its operators are known",
        (
            Head("Basis"),
            *(Head(entry.phase.capitalize(), numeric=True) for entry in facts.known),
            Head("What it means"),
        ),
        tuple(
            (
                Cell(basis),
                *(Cell(percent(entry.shares.get(basis, 0.0))) for entry in facts.known),
                Cell(MEANINGS.get(basis, "")),
            )
            for basis in bases
        ),
    )


def _grid(facts: VerdictFacts, static: bool = False) -> Grid:
    """Figures of the headline, or of the static batch, as a table."""
    predicted, both = facts.predicted, facts.both
    entries = facts.static if static else facts.headlines
    columns = {"name": "Figure", "value": "Perfect overlap" if both else "Value"}
    title = "All headline figures" + (": the two bounds of the roofline at the same rates" * both)
    if predicted:
        columns |= {"value": "Predicted", "interval": "Central 80 %"}
        title = "All headline figures, as predicted"
        if facts.bounded:
            columns["bound"] = "At datasheet rates"
            title = "All headline figures: as predicted, and what datasheet rates would allow"
    elif both:
        columns["serial"] = "No overlap"
    columns["meaning"] = "What it is"
    based = any(entry.basis for entry in entries)
    if static:
        title = "Static batch: all prompts arrive at once"
    if based:
        columns["basis"] = "Basis"
    return Grid(
        "static-batch" if static else "headline",
        title,
        heads(numbers=["value", "serial", "interval", "bound"], **columns),
        tuple(tuple(_cell(entry, column) for column in columns) for entry in entries),
    )


def _cell(entry: Headline, column: str) -> Cell:
    if column in ("name", "meaning"):
        return Cell(str(getattr(entry, column)))
    if column == "basis":
        return Cell(entry.basis, tone="badge")
    value = getattr(entry, column) or Amount(UNKNOWN)
    # A number lines up with others although it has no unit behind it.
    return Cell(value.number, value.unit or NO_UNIT)


def build(result: Result) -> Block | None:
    """Section of the page; plans, sweeps, traffic and scoreboards have verdicts of their own."""
    headline = result.tables.get("headline")
    own = "verdict" in result.tables or "published_results" in result.tables
    own = own or (headline is None and "points" in result.tables)
    if own or (headline is not None and "value" not in headline.columns and len(headline)):
        return None
    facts = verdict_facts(result)
    if not (facts.headlines or facts.sentences):
        return None
    grids = [_known_grid(facts)] if facts.known else []
    if facts.headlines:
        grids.append(_grid(facts))
    if facts.static:
        grids.append(_grid(facts, static=True))
    return Block("verdict", "Verdict", "verdict.html", facts, grids=tuple(grids))
