"""Whether it fits, what binds, what would help, and the figures people ask for first."""

from dataclasses import dataclass
from typing import Any, Final

from roofline.report.block import Block, Cell, Grid, heads
from roofline.report.text import UNKNOWN, Amount, amount, is_number
from roofline.table import Result

ORDER: Final = 10

NAMES: Final = {
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
    "ttft_s",
    "tpot_s",
    "throughput_tok_s",
    "latency_s",
    "usd_per_mtok",
    "joule_per_mtok",
)


@dataclass(frozen=True, slots=True)
class Headline:
    """One metric with its two bounds.

    Attributes
    ----------
    overlap, serial
        With perfect overlap of arithmetic and memory, and with none.
    explained
        Key of its derivation; empty if there is none.
    """

    name: str
    overlap: Amount
    serial: Amount | None
    meaning: str
    basis: str
    explained: str


@dataclass(frozen=True, slots=True)
class VerdictFacts:
    """What a reader takes away.

    Attributes
    ----------
    fits
        Whether the deployment fits in memory; None where nobody has said.
    floor
        Whether times are those of the datasheet: the least possible, not a forecast.
    both
        Whether figures have a second bound, without overlap.
    """

    fits: bool | None
    floor: bool
    both: bool
    sentences: tuple[str, ...]
    cards: tuple[Headline, ...]
    headlines: tuple[Headline, ...]


def verdict_facts(result: Result) -> VerdictFacts:
    """Verdict and headline figures of a result."""
    given = result.metadata
    fits = given.get("fits")
    rows = result.tables["headline"].rows() if "headline" in result.tables else ()
    known = {str(row["metric"]): _headline(row, result) for row in rows}
    cards = [known[name] for name in CARDS if name in known and known[name].overlap.number != "–"]
    return VerdictFacts(
        fits=fits if isinstance(fits, bool) else None,
        floor=given.get("basis") == "datasheet",
        both=any(entry.serial for entry in known.values()),
        sentences=tuple(str(sentence) for sentence in given.get("summary", ())),
        cards=tuple(cards),
        headlines=tuple(known.values()),
    )


def _headline(row: dict[str, Any], result: Result) -> Headline:
    metric, unit = str(row["metric"]), str(row.get("unit", ""))
    explained = EXPLAINED.get(metric, "")
    # Zero is "there is none": one token has no time between tokens.
    none = metric in ("tpot_s", "user_tok_s") and not row["value"]
    serial = row.get("serial")
    return Headline(
        name=NAMES.get(metric, metric),
        overlap=Amount(UNKNOWN) if none else amount(row["value"], unit),
        serial=amount(serial, unit) if is_number(serial) and not none else None,
        meaning=str(row.get("meaning", "")),
        basis=str(row.get("basis", "")),
        explained=explained if explained in result.derivations else "",
    )


def _grid(facts: VerdictFacts) -> Grid:
    both = facts.both
    columns = {"name": "Figure", "overlap": "Perfect overlap" if both else "Value"}
    if both:
        columns["serial"] = "No overlap"
    columns["meaning"] = "What it is"
    based = any(entry.basis for entry in facts.headlines)
    if based:
        columns["basis"] = "Basis"
    return Grid(
        "headline",
        "All headline figures" + (": the two bounds of the roofline at the same rates" * both),
        heads(numbers=["overlap", "serial"], **columns),
        tuple(
            (
                Cell(entry.name),
                _aligned(entry.overlap),
                *((_aligned(entry.serial or Amount(UNKNOWN)),) if both else ()),
                Cell(entry.meaning),
                *((Cell(entry.basis, tone="badge"),) if based else ()),
            )
            for entry in facts.headlines
        ),
    )


def _aligned(value: Amount) -> Cell:
    """A number that lines up with others although it has no unit behind it."""
    return Cell(value.number, value.unit or "\N{NO-BREAK SPACE}")


def build(result: Result) -> Block | None:
    """Section of the page."""
    facts = verdict_facts(result)
    grids = (_grid(facts),) if facts.headlines else ()
    return Block("verdict", "Verdict", "verdict.html", facts, grids=grids)
