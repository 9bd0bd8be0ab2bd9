"""The answer to each question as a reader sees it: how it was asked, sentences, tables, notes."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from roofline.table import Result
from roofline.units import counted
from roofline.view.block import PageTable
from roofline.view.known import BOUND, calibrated, predicted_from
from roofline.view.operators import operator_grids
from roofline.view.scores import groups, published, reasons
from roofline.view.tables import (
    deployments,
    errors,
    factors,
    headline,
    latencies,
    layouts,
    sensitivity,
    shown,
    speed,
)
from roofline.view.words import spoken

SAID: Final = {"policy": "batching", "convention": "convention"}
"""Further settings of a question, and the word behind each."""
DIGEST: Final = len("sha256:") + 12
"""Characters of a digest that tell files apart; the page has all of them below. [1]"""
TITLES: Final = {
    "calibrate": "Constants of an engine, learnt from its runs",
    "compare-measured": "Predicted against measured",
    "scoreboard": "Scoreboard: predicted against measured",
    "validate": "Validation: predicted against measured",
}
"""Titles of results that are of no network."""
ASKED: Final[Mapping[str, str]] = {
    "calibrate": "constants errors logged",
    "scoreboard": "group published_results",
    "analyze": "headline static_batch facility memory capacity adapters ops",
    "disaggregate": "headline pools pools_memory encoders visits ratios transfer alternatives",
    "speculate": "headline schedule by_request round_work drafts batches memory published",
    "paging": "headline schemes",
    "compare": "variants speed factors training",
    "layouts": "layouts",
    "simulate": "latencies objectives places sessions throughput replica_kinds facility "
    "draft_lengths server cache tiers cache_curve workload",
    "plan": "halls job what_ifs objectives facility owned confidences relaxations deployments "
    "length_pools encoder_pools bounds frontier fleets by_hour gpus_by_rate sensitivity break_even "
    "candidates",
}
"""Tables that answer a question, in the order of the terminal."""
MADE: Final[Mapping[str, Callable[[Result], PageTable | Sequence[PageTable] | None]]] = {
    "deployments": deployments,
    "errors": errors,
    "factors": factors,
    "group": lambda result: tuple(groups(result, "engine and gpu", "all")),
    "headline": headline,
    "latencies": latencies,
    "layouts": layouts,
    "ops": operator_grids,
    "published_results": published,
    "sensitivity": sensitivity,
    "speed": speed,
    "static_batch": partial(headline, name="static_batch"),
}
"""Tables that are more than one of the result as it is."""


class View(Struct, frozen=True):
    """An answer, before it is written to a page or a terminal.

    Attributes:
        title, subtitle: What was asked, and how it was resolved.
        sentences: What the answer says.
        grids: Tables that answer it, in the order of a terminal.
        remarks: Sentences below the tables.
        version: What made it.
        steps: What its steps are of, where that is not the question.
    """

    title: str
    subtitle: str
    sentences: tuple[str, ...]
    grids: tuple[PageTable, ...]
    remarks: tuple[str, ...]
    version: str
    steps: str


def view_of(result: Result) -> View:
    """Title of a result, how it was asked for, and what it says."""
    given: Mapping[str, Any] = result.metadata
    name = given.get("title") or given.get("model") or TITLES.get(result.kind, result.kind)
    version = f"roofline {given['version']}" if "version" in given else "roofline"
    machine, parts = _machine(result), [f"{given['date']} · {version}" if "date" in given else ""]
    parts.append(f"{_listed(given['weights'])} weights" if "weights" in given else "")
    parts.append(f"{_listed(given['kv'])} KV cache" if given.get("kv", "auto") != "auto" else "")
    parts += [_arranged(given), *_load(given)]
    parts.append(str(given.get("engine_title") or given.get("engine", "")))
    parts += [f"{given[name]} {of}" for name, of in SAID.items() if given.get(name)]
    if calibrated(result):
        parts.append(f"predicted from {predicted_from(given.get('calibration'))}")
    elif given.get("basis") == BOUND:
        parts.append("datasheet rates")
    remarks: tuple[str, ...] = ()
    if changed := result.tables.get("why"):
        name = f"{name} and variants"
        remarks = tuple(f"{row['variant']}: {row['why']}" for row in changed.rows())
    elif result.kind == "scoreboard":
        remarks = tuple(reasons(result))
    if "logged" in result.tables:
        parts.append(f"{counted(given['runs'], 'logged mean')} of steps")
    elif "deployments" in given:
        parts.append(
            f"{counted(given['runs'], 'run')} of {counted(given['deployments'], 'deployment')}"
        )
    return View(
        title=f"{name} on {machine}" if machine else f"{name}",
        subtitle=" · ".join(part for part in parts if part),
        sentences=tuple(spoken(str(sentence)) for sentence in given.get("summary") or ()),
        grids=tuple(
            grid for name in ASKED.get(result.kind, "").split() for grid in grids_of(result, name)
        ),
        remarks=remarks,
        version=version,
        steps=str(given.get("steps", "")),
    )


def _machine(result: Result) -> str:
    """On what: so many devices, of each kind where pools differ; a plan says up to how many."""
    given = result.metadata
    device, gpus = given.get("gpu_title") or given.get("gpu", ""), given.get("gpus", 1)
    if "gpus_allowed" in given:
        return f"up to {given['gpus_allowed']} × {_listed(given.get('gpu_titles', ''))}"
    if "machines" in given:
        return str(given["machines"])
    return f"{gpus} × {device}" if gpus != 1 else f"{device}"


def _arranged(given: Mapping[str, Any]) -> str:
    """Layout of the network over several devices; empty for one."""
    if "decode_instances" in given:
        return f"prefill {given['prefill']} apart from decode {given['decode']}"
    layout = given.get("layout_title", f"TP {given.get('tp', 1)}")
    if (replicas := given.get("replicas", 1)) != 1:
        return f"{replicas} replicas of {layout}"
    return "" if layout == "TP 1" else str(layout)


def _load(given: Mapping[str, Any]) -> list[str]:
    """Load: traffic by its name, or a batch with its lengths."""
    if "workload_title" in given:
        parts = [f"{given['workload_title']}", str(given.get("arrivals", ""))]
        if "counted" in given:
            return [*parts, counted(given["counted"], "request")]
        return [*parts, f"prompts {given['prompt']}", f"answers {given['output']}"]
    parts = [f"rows of {given['file']}, {given['digest'][:DIGEST]}…" if "digest" in given else ""]
    parts += [f"batch {given['batch']}" if "batch" in given else ""]
    if "prompt" in given:
        answer = f" → {_grouped(given['output'])}" if "output" in given else ""
        parts.append(f"{_grouped(given['prompt'])}{answer} tokens")
    if given.get("samples", 1) > 1:
        parts.append(f"{given['samples']} answers to each prompt")
    if given.get("beams", 1) > 1:
        parts.append(f"{given['beams']} beams of each prompt")
    if "tree" in given:
        drafts = "draft" if given["draft_kind"] in ("medusa", "ngram") else "drafts"
        parts.append(f"{given['draft']} {drafts} {given['tree']}")
    return parts


def grids_of(result: Result, name: str) -> tuple[PageTable, ...]:
    """Grids that show a table of a result, or that are made of several; none without rows."""
    made = MADE[name](result) if name in MADE else shown(result, name)
    return (made,) if isinstance(made, PageTable) else tuple(made or ())


def _listed(value: object) -> str:
    """A name, or several to choose among."""
    return " or ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _grouped(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
