"""Techniques and patches of a scenario: how a batch is run, and what is otherwise as a whole."""

from typing import Any, Final

from roofline.cost.deployment import KEPT, Offload
from roofline.errors import InputError
from roofline.schema import Document
from roofline.serving.acceptance import parse as acceptance_of
from roofline.study.scenario import naming
from roofline.study.scenario.files import OffloadFile, PatchFile, TechniqueFile
from roofline.study.scenario.limits import is_number
from roofline.study.scenario.naming import at, each
from roofline.study.scenario.scenario import (
    AUTO,
    BASE,
    PLAIN,
    Disaggregation,
    Patch,
    Speculation,
    Technique,
)
from roofline.units import parse

UNITS: Final = {
    "memory": ("B", "16 MiB", "1024 TiB"),
    "bandwidth": ("B/s", "1 GB/s", "1000 TB/s"),
    "price": ("$/h", "0 $/h", "10000 $/h"),
}
"""Figures of a GPU that a scenario may change: unit, least and most."""


def figure(name: str, asked: float | str) -> float:
    """A figure of a GPU in base units; InputError where it is in another unit, or cannot be."""
    unit, low, high = UNITS[name]
    text = asked if isinstance(asked, str) else repr(asked)
    value = parse(f"{text} {unit}" if is_number(text) and name == "price" else text, unit)
    if not parse(low, unit) <= value <= parse(high, unit):
        raise InputError(
            f"{name} cannot be {text!r:.60}", hint=f"give a quantity from {low} to {high}"
        )
    return value


def techniques(document: Document, asked: Any) -> tuple[Technique, ...]:
    """Techniques by name, each once."""
    out: list[Technique] = []
    for entry, path in each(document, "techniques", asked):
        with at(document, *path):
            found = technique(entry) if isinstance(entry, TechniqueFile) else PLAIN
            naming.once(found.name, [other.name for other in out])
        out.append(found)
    return tuple(out)


def technique(file: TechniqueFile) -> Technique:
    """A technique, called as it is unless it has a name."""
    speculation, pools, moved = file.speculation, file.disaggregation, file.offload
    if speculation and pools:
        raise InputError("speculation in a pool that decodes is not priced", hint="drop one")
    if speculation and moved:
        raise InputError("speculation with an offload is not priced", hint="drop one")
    if pools and (moved or file.prefill_batch or not file.kv_cache):
        raise InputError(
            "a pool that decodes has no offload, prefill_batch or missing cache",
            hint="leave them out",
        )
    if speculation and not file.kv_cache:
        raise InputError("speculation needs a cache", hint="leave out kv_cache: false")
    return Technique(
        name=file.name or _called(file),
        prefix_hit=float(file.prefix_hit),
        prefill_batch=file.prefill_batch,
        overlap=float(file.overlap),
        memory_utilization=None
        if file.memory_utilization is None
        else float(file.memory_utilization),
        cuda_graphs=file.cuda_graphs,
        kv_cache=file.kv_cache,
        offload=_offload(moved),
        speculation=None
        if speculation is None
        else Speculation(
            speculation.draft,
            str(acceptance_of(str(speculation.acceptance))),
            speculation.length,
            None if speculation.weights is None else naming.number_format(speculation.weights),
        ),
        disaggregation=None
        if pools is None
        else Disaggregation(
            naming.layout(pools.prefill),
            "" if pools.gpu is None else naming.gpu(pools.gpu),
            pools.over,
            pools.overlapped,
        ),
    )


def _offload(file: OffloadFile | None) -> Offload:
    if file is None:
        return KEPT
    least = file.weights == AUTO
    weights = 0.0 if isinstance(file.weights, str) else float(file.weights)
    return Offload(weights, float(file.kv), file.to, file.prefetch, least)


def _called(file: TechniqueFile) -> str:
    """Differences from a plain batch, in short."""
    parts = []
    if file.speculation is not None:
        parts.append(f"{file.speculation.draft} × {file.speculation.length}")
    if file.disaggregation is not None:
        parts.append(f"prefill on {file.disaggregation.prefill}")
    if file.offload is not None:
        parts.append(f"offload {file.offload.weights} weights, {file.offload.kv} KV")
    if file.prefix_hit:
        parts.append(f"prefix {file.prefix_hit:g}")
    if file.prefill_batch:
        parts.append(f"prefill by {file.prefill_batch}")
    if file.overlap:
        parts.append(f"overlap {file.overlap:g}")
    if file.memory_utilization is not None:
        parts.append(f"memory {file.memory_utilization:g}")
    if not file.cuda_graphs:
        parts.append("no CUDA graphs")
    if not file.kv_cache:
        parts.append("no cache")
    return ", ".join(parts) or PLAIN.name


def patches(
    document: Document, asked: tuple[PatchFile, ...], models: list[str], weights: tuple[str, ...]
) -> tuple[Patch, ...]:
    """The base, and the patches by name."""
    out = [BASE]
    for number, file in enumerate(asked):
        path = ("patches", number)
        with at(document, *path, "name"):
            naming.once(file.name, [other.name for other in out])
        for model in models if file.changes else ():
            with at(document, *path, "with"):
                naming.check_changes(model, file.changes or "", weights)
        out.append(_patch(document, file, path))
    return tuple(out)


def _patch(document: Document, file: PatchFile, path: tuple[str | int, ...]) -> Patch:
    figures: dict[str, float | None] = {}
    for name in UNITS:
        value = getattr(file, name)
        with at(document, *path, name):
            figures[name] = None if value is None else figure(name, value)
    names: dict[str, str] = {}
    for name, check in (
        ("weights", naming.number_format),
        ("kv", naming.number_format),
        ("engine", naming.engine),
        ("layout", naming.layout),
    ):
        value = getattr(file, name)
        with at(document, *path, name):
            names[name] = "" if value is None else check(value)
    with at(document, *path, "technique"):
        changed = None if file.technique is None else technique(file.technique)
    return Patch(
        name=file.name,
        memory_bytes=figures["memory"],
        hbm_bytes_per_s=figures["bandwidth"],
        usd_per_hour=figures["price"],
        changes=file.changes or "",
        technique=changed,
        **names,
    )
