"""Verdict of a deployment: fit, bounds, improvements, and the figures people ask for first."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from roofline.report.statuses import STATUSES, layout_cards
from roofline.table import Result, table
from roofline.view.block import Card, PageTable, Section
from roofline.view.grids import NONE, grid
from roofline.view.known import BOUND, MEANINGS, PARTLY, calibrated, predicted_from
from roofline.view.questions import grids_of
from roofline.view.text import amount, between, clean, is_number
from roofline.view.words import MORE, heading

CARDS: Final = {
    "ttft_idle_s": "ttft_idle",
    "ttft_steady_s": "ttft_steady",
    "tpot_steady_s": "tpot_steady",
    "ttft_s": "ttft",
    "tpot_s": "tpot",
    "throughput_tok_s": "throughput",
    "latency_s": "latency",
    "usd_per_mtok": "cost",
}
"""Metrics that have a card, and the derivation of each."""
LASTING: Final = frozenset({"throughput_tok_s", "usd_per_mtok"})
"""Metrics that are of a batch that is kept full where the headline has a steady state."""


class BasisShares(Struct, frozen=True):
    """Shares of the time of a step by how it is known, from best to worst. [1]"""

    phase: str
    shares: Mapping[str, float]


class VerdictFacts(Struct, frozen=True):
    """Status, sentences and cards of the verdict."""

    fits: bool | None
    """True where the deployment fits in memory; None where it is not known."""
    status: str
    """Answer in a line; whether it fits where the question has none of its own."""
    predicted: bool
    """True where measured kernels predict the figures."""
    grounds: str
    """Grounds of predicted times; empty where there are none."""
    floor: bool
    """True where times are those of the datasheet: the least possible, not a forecast."""
    both: bool
    """True where figures have a second bound, without overlap."""
    sentences: tuple[str, ...]
    bounded: bool
    """True where figures have a bound at datasheet rates beside them."""
    cards: tuple[Card, ...]
    known: tuple[BasisShares, ...]


def verdict_facts(result: Result) -> VerdictFacts:
    """Verdict and headline figures of a result."""
    given = result.metadata
    fits, predicted = given.get("fits"), calibrated(result)
    status = STATUSES[result.kind](result) if fits and result.kind in STATUSES else ""
    rows = {str(row["metric"]): row for row in result.rows("headline")}
    known = [rows[name] for name in CARDS if name in rows and is_number(rows[name]["value"])]
    shown = [row for row in known if row["value"] or row["metric"] not in NONE]
    return VerdictFacts(
        fits=fits if isinstance(fits, bool) else None,
        status=status or ("Fits in memory" if fits else "Does not fit in memory"),
        predicted=predicted,
        grounds=predicted_from(given.get("calibration")) if predicted else "",
        floor=bool(shown) and not predicted and given.get("basis") in (BOUND, "calibrated"),
        both=any(is_number(row.get("serial")) for row in shown),
        bounded=any(is_number(row.get("roof")) for row in shown),
        sentences=tuple(str(sentence) for sentence in given.get("summary", ())),
        cards=tuple(_card(row, result) for row in shown) or layout_cards(result),
        known=_known(result) if predicted else (),
    )


def _card(row: Mapping[str, Any], result: Result) -> Card:
    metric, unit, basis = str(row["metric"]), str(row.get("unit", "")), str(row.get("basis", ""))
    value, explained = amount(row["value"], unit), CARDS[metric]
    spread, said = "low" in row and row["low"] < row["high"], []
    if metric in LASTING and any(r["metric"] == "tpot_steady_s" for r in result.rows("headline")):
        said.append("batch kept full")
    if is_number(row.get("serial")):
        said.append(f"{amount(row['serial'], unit)} without overlap")
    if calibrated(result) and not spread:
        said.append("nothing measured")
    if is_number(row.get("roof")):
        bound = amount(row["roof"], unit)
        shown = bound.number if bound.unit == value.unit else str(bound)
        said.append(f"datasheet {'ceiling' if metric in MORE else 'floor'} {shown}")
    return Card(
        clean(heading(metric)),
        value,
        between(row["low"], row["high"], unit) if spread else None,
        tuple(said),
        basis=PARTLY if spread and basis == BOUND else basis,
        explained=explained if explained in result.derivations else "",
    )


def _known(result: Result) -> tuple[BasisShares, ...]:
    """Time of each step by basis."""
    rows = result.rows("ops")
    known = []
    for phase in dict.fromkeys(str(row["phase"]) for row in rows):
        mine = [row for row in rows if row["phase"] == phase and row["seconds"]]
        bases = sorted({str(row["basis"]) for row in mine}, key=_rank)
        sums = {b: sum(row["share"] for row in mine if row["basis"] == b) for b in bases}
        known.append(BasisShares(phase, sums))
    return tuple(known)


def _rank(basis: str) -> int:
    return list(MEANINGS).index(basis) if basis in MEANINGS else len(MEANINGS)


def _known_grid(facts: VerdictFacts) -> PageTable:
    bases = sorted({basis for entry in facts.known for basis in entry.shares}, key=_rank)
    rows = [
        {
            "known": basis,
            **{f"{n}_share": each.shares.get(basis, 0.0) for n, each in enumerate(facts.known)},
            "means": MEANINGS.get(basis, ""),
        }
        for basis in bases
    ]
    names = [entry.phase.capitalize().replace(",", "") for entry in facts.known]
    phases = "".join(f"{n}_share={name}, " for n, name in enumerate(names))
    title = "Confidence: time of a step by how its operators are known"
    return grid("known", title, table(rows, {}), f"known=Basis, {phases}means=What it means")


def build(result: Result) -> Section | None:
    """Section of the page; plans, sweeps, traffic and scoreboards have verdicts of their own."""
    headline = result.tables.get("headline")
    own = not {"verdict", "scores"}.isdisjoint(result.tables)
    own = own or (headline is None and "points" in result.tables)
    if own or (headline is not None and "value" not in headline.columns and len(headline)):
        return None
    facts = verdict_facts(result)
    grids = (*grids_of(result, "headline"), *grids_of(result, "static_batch"))
    if not (grids or facts.sentences):
        return None
    known = (_known_grid(facts),) if facts.known else ()
    return Section(10, "verdict", "Verdict", "verdict.html", facts, grids=(*known, *grids))
