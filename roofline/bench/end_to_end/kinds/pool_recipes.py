"""Recipes of the decode pools of a benchmark, from ``hwspecs/recipes/``.

An instance runs a fixed number of sequences. Where clients are more than all instances run, a
request waits for one that ends before its first token.
"""

import csv
from collections.abc import Mapping
from functools import cache
from typing import Final

from roofline.bench.end_to_end.cases import Row
from roofline.content import shipped

FOLDER: Final = "recipes"
FILES: Final[Mapping[tuple[str, str], str]] = {("inferencemax", "trtllm"): "inferencex-trtllm"}
"""Name of the file by the family of rows, and the engine."""
NARROW: Final = "nvfp4"
WIDE: Final = "fp8"
"""Formats of DeepSeek-R1 that there are recipes for; the second is that of its own checkpoint."""

Key = tuple[str, str, int, int, int, int, int]
"""GPU and format of the weights, prompt and answer [token], clients, instances, devices of an
instance. [1]"""
Columns = Mapping[str, float]


def recipe_of(decode: Row, instances: int) -> Columns:
    """Columns of an instance of a decode pool, as `row_of` reads them; empty without a recipe.

    Args:
        decode: The row as such an instance would be asked, with all clients.
        instances: How many there are. [1]
    """
    case, name = decode.case, FILES.get((decode.family, decode.engine))
    if name is None:
        return {}
    weights = NARROW if case.weights == NARROW else WIDE
    sizes = (int(decode.batch), instances, int(case.layout.devices))
    key = (case.gpu, weights, int(decode.isl), int(decode.osl), *sizes)
    return recipes(name).get(key, {})


@cache
def recipes(name: str) -> Mapping[Key, Columns]:
    """Recipes of a file.

    A layout is ``tp``, ``tep``, ``dp`` or ``dep`` and its devices: attention that is divided, or
    copied to each of them (``d``), and experts in parallel (``e``).
    """
    text = (shipped("hwspecs") / FOLDER / f"{name}.csv").read_text(encoding="utf-8")
    found: dict[Key, Columns] = {}
    for each in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        kind = each["layout"].rstrip("0123456789")
        devices = int(each["layout"].removeprefix(kind))
        copied, parallel = kind.startswith("d"), "e" in kind
        columns = {
            "tp": 1 if copied else devices,
            "attn_dp": devices if copied else 1,
            "ep": devices if parallel else 1,
            "max_num_seqs": int(each["batch"]),
        }
        lengths, instances = (int(each["prompt"]), int(each["answer"])), int(each["instances"])
        for clients in map(int, each["clients"].split()):
            key = (each["gpu"], each["weights"], *lengths, clients, instances, devices)
            found[key] = columns
    return found
