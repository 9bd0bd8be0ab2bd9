"""Configurations around a deployment, for a page to choose from."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from roofline.api.sweeps import sweep
from roofline.errors import RooflineError
from roofline.hardware import catalog as hardware
from roofline.model import catalog as networks
from roofline.schema.document import Document
from roofline.study.scenario.reading import scenario_of
from roofline.table import Result

GPUS: Final = ("h100-sxm", "h200-sxm", "b200-sxm", "a100-sxm")
"""Beside the one that was asked about."""
BATCHES: Final = tuple(2**place for place in range(10))
PROMPTS: Final = tuple(2**place for place in range(8, 17))
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

    One whose network is in no catalog, or that is run in a way of its own, is given back as it is.
    """
    given = result.metadata
    asked = (given.get("model"), given.get("gpu"))
    known = asked[0] in networks.names() and asked[1] in hardware.gpu_names()
    plain = all(given.get(name) == value for name, value in PLAIN.items())
    if not known or not plain or given.get("adapters"):
        return result
    try:
        found = sweep(scenario_of(Document(_scenario(given), "the page"), Path()), workers=1)
        priced = found.result()
    except RooflineError:
        return result  # the page has everything else
    start = {name: given[name] for name in ("gpu", "weights", "kv", "layout", "batch", "prompt")}
    return replace(
        result,
        tables={**result.tables, "points": priced.tables["points"]},
        metadata={**given, "start": start, "objectives": priced.metadata["objectives"]},
    )


def _scenario(given: Any) -> dict[str, Any]:
    network = networks.architecture(given["model"])
    most = (network.max_context or PROMPTS[-1]) - given["output"]
    formats = dict.fromkeys([given["weights"], "bf16", "fp8"])
    return {
        "schema_version": 1,
        "name": "around",
        "title": "around",
        "kind": "batch",
        "models": given["model"],
        "gpus": list(dict.fromkeys([given["gpu"], *GPUS])),
        "layouts": given["layout"],
        "weights": list(formats),
        "kv": given["kv"],
        "engines": given["engine"],
        "batch": sorted({*BATCHES, given["batch"]}),
        "prompt": sorted({*(p for p in PROMPTS if p <= most), given["prompt"]}),
        "output": given["output"],
        "objectives": ["min usd_per_mtok", "max user_tok_s"],
        "keep": "all",
    }
