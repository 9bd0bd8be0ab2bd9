"""Configurations around a deployment, for a page to choose from."""

from math import isclose
from pathlib import Path
from typing import Any, Final

from roofline.api.sweeps import sweep
from roofline.errors import RooflineError
from roofline.hardware import catalog as hardware
from roofline.model import catalog as networks
from roofline.records import replace
from roofline.schema.document import Document
from roofline.serving.price import usd_per_mtok
from roofline.study.scenario.reading import scenario_of
from roofline.table import Result, Table

GPUS: Final = ("h100-sxm", "h200-sxm", "b200-sxm", "a100-sxm")
"""Beside the one that was asked about."""
DEGREES: Final = (1, 2, 4, 8)
"""Tensor-parallel degrees, where nothing else is split. [1]"""
BATCHES: Final = tuple(2**place for place in range(10))
PROMPTS: Final = tuple(4**place for place in range(4, 9))
MANY: Final = 40
"""Configurations from which on every other batch is left out. [1]"""
CHECKED: Final = ("ttft_s", "tpot_s", "throughput_tok_s", "usd_per_mtok")
"""Figures of a static batch that the sweep must give as the analysis does."""
APPROXIMATE: Final = ("ttft_idle_s", "tpot_steady_s")
"""Figures that a sweep has by a closed form of its own, near those of an analysis and not equal."""
PLAIN: Final = {
    "convention": "engine",
    "kv_cache": True,
    "prefix_hit": 0.0,
    "offload_weights": 0.0,
    "offload_kv": 0.0,
    "replicas": 1,
    "profile": None,
}
"""Properties of a deployment that others can be priced like."""


def around(result: Result) -> Result:
    """The result of `roofline.analyze` with others like it: other GPUs, formats, batches, lengths.

    Each is priced as `roofline.analyze` prices its static batch. A result whose network is in no
    catalog, or whose deployment has settings that a sweep does not know, is given back as it is.
    """
    given = result.metadata
    asked = (given.get("model"), given.get("gpu"))
    known = asked[0] in networks.names() and asked[1] in hardware.gpu_names()
    plain = all(given.get(name) == value for name, value in PLAIN.items())
    if not known or not plain or given.get("adapters"):
        return result
    start = {name: given[name] for name in ("gpu", "weights", "kv", "layout", "batch", "prompt")}
    try:
        document = Document(_scenario(result), "the page")
        priced = sweep(scenario_of(document, Path()), workers=1).result()
    except RooflineError:
        return result  # the page has everything else
    points = priced.tables["points"]
    if not _agrees(result, points, start):
        return result
    every = points.columns.items()
    shown = {name: column for name, column in every if not name.startswith(APPROXIMATE)}
    return replace(
        result,
        tables={**result.tables, "points": Table(shown)},
        metadata={**given, "start": start, "objectives": priced.metadata["objectives"]},
    )


def _scenario(result: Result) -> dict[str, Any]:
    given = result.metadata
    network = networks.architecture(given["model"])
    most = (network.max_context or PROMPTS[-1]) - given["output"]
    formats = dict.fromkeys([given["weights"], "bf16", "fp8"])
    gpus = dict.fromkeys([given["gpu"], *GPUS])
    alone = given["layout"] == f"tp{given['tp']}"
    layouts = {f"tp{n}" for n in (*DEGREES, given["tp"])} if alone else {given["layout"]}
    many = len(gpus) * len(formats) * len(layouts) >= MANY
    return {
        "schema_version": 1,
        "name": "around",
        "title": "around",
        "kind": "batch",
        "models": given["model"],
        "gpus": list(gpus),
        "layouts": sorted(layouts),
        "weights": list(formats),
        "kv": given["kv"],
        "engines": given["engine"],
        "batch": sorted({*BATCHES[:: 2 if many else 1], given["batch"]}),
        "prompt": sorted({*(p for p in PROMPTS if p <= most), given["prompt"]}),
        "output": given["output"],
        "objectives": ["min usd_per_mtok", "max user_tok_s"],
        "keep": "all",
        # At published rates all are, or a GPU would lose to one that was measured.
        "calibration": "none" if given["basis"] == "datasheet" else "auto",
        "prices": {given["gpu"]: _price(result)},
    }


def _price(result: Result) -> float:
    """Dollars for a device and hour, from the price of tokens; 0 where unknown."""
    static = _static(result)
    each_dollar = usd_per_mtok(1.0, 1.0, static["throughput_tok_s"])
    return static.get("usd_per_mtok", 0.0) / each_dollar / float(result.metadata["gpus"])


def _static(result: Result) -> dict[str, float]:
    """Figures of the static batch of an analysis, by name."""
    return {str(row["metric"]): row["value"] for row in result.rows("static_batch")}


def _agrees(result: Result, points: Table, start: dict[str, Any]) -> bool:
    """True where the configuration that the page is about is priced as its analysis is."""
    static = _static(result)
    free = next((row["bytes"] for row in result.rows("memory") if row["part"] == "free"), None)
    row = next(r for r in points.rows() if all(r[name] == start[name] for name in start))
    pairs = [(row[name] or 0.0, static[name]) for name in CHECKED if name in static]
    pairs += [] if free is None else [(row["free_bytes"], free)]
    return all(isclose(found, value) for found, value in pairs)
