"""Names, techniques and patches of a scenario: each is checked where it is read, at its place."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from roofline.content import there
from roofline.cost import layout as layouts
from roofline.cost.adapters import Lora
from roofline.cost.deployment import KEPT, Offload
from roofline.cost.moe import Routing
from roofline.cost.sampling import Sampling
from roofline.errors import InputError
from roofline.hardware import catalog as hardware
from roofline.hardware.engine import engine as engine_named
from roofline.model import catalog as networks
from roofline.model import mixes, precision
from roofline.model.changes import settings
from roofline.model.precision.naming import split
from roofline.schema import Document
from roofline.schema.document import shown
from roofline.serving.acceptance import parse as acceptance_of
from roofline.serving.acceptance import spread_out
from roofline.study.scenario.files import (
    AdaptedFile,
    NetworkFile,
    OffloadFile,
    PatchFile,
    SampledFile,
    T,
    TechniqueFile,
)
from roofline.study.scenario.limits import is_number
from roofline.study.scenario.scenario import (
    AUTO,
    BASE,
    PLAIN,
    Disaggregation,
    Network,
    Patch,
    ScenarioDraft,
    Technique,
)
from roofline.units import parse

ELSEWHERE: Final = {"gpu": "gpus", "batch": "batch", "tp": "layouts"}
"""Changes that are axes of a scenario, and what they are called there."""
FILES: Final = (".yaml", ".yml", ".json")

UNITS: Final = {
    "memory": ("B", "16 MiB", "1024 TiB"),
    "bandwidth": ("B/s", "1 GB/s", "1000 TB/s"),
    "price": ("$/h", "0 $/h", "10000 $/h"),
}
"""Figures of a GPU that a scenario may change: unit, least and most."""


def each(document: Document, key: str, asked: Any) -> Iterator[tuple[Any, tuple[str | int, ...]]]:
    """Values under a key, one by one, and the path of each."""
    if not isinstance(asked, tuple):
        yield asked, (key,)
        return
    for number, value in enumerate(asked):
        yield value, (key, number)


def each_once(
    document: Document, key: str, asked: Any, made: Callable[[Any], T], name: Callable[[T], str]
) -> Iterator[T]:
    """Values under a key, made of what is asked; DocumentError where two have one name."""
    before: list[str] = []
    for value, path in each(document, key, asked):
        with document.at(*path):
            found = made(value)
            once(name(found), before)
        before.append(name(found))
        yield found


def words(document: Document, key: str, asked: Any, check: Callable[[str], str]) -> tuple[str, ...]:
    """Names under a key as a catalog has them; DocumentError at unknown ones and repeated ones."""
    return tuple(each_once(document, key, asked, check, str))


def once(name: str, before: Sequence[str]) -> None:
    """Refuse what is there already."""
    if name in before:
        raise InputError(f"{shown(name)} is there twice", hint="say it once, or name the variants")


def path_or_name(name: str, folder: Path) -> str:
    """A file from the folder of the scenario, or the name as it is."""
    beside = folder / name
    is_path = name.lower().endswith(FILES) or "/" in name
    found = there(beside) or there(beside, "folder")
    return str(beside) if is_path and not Path(name).is_absolute() and found else name


def network(asked: str | NetworkFile, folder: Path, weights: Sequence[str]) -> Network:
    """A network of a scenario in a folder, looked up and changed on trial.

    A change of formats would contradict the weights of the scenario.
    """
    if isinstance(asked, str):
        model = path_or_name(asked, folder)
        return Network(networks.architecture(model).name, model)
    model = path_or_name(asked.model, folder)
    check_changes(model, asked.changes, weights)
    found = networks.architecture(model).name
    return Network(asked.name or f"{found} {asked.changes}", model, asked.changes)


def check_changes(model: str, changes: str, weights: Sequence[str]) -> None:
    """Refuse changes that this network cannot have, or that are axes of a scenario."""
    parsed = settings.parse(changes)
    for name, _ in parsed:
        if name in ELSEWHERE:
            raise InputError(
                f"{name} is no change of a network here", hint=f"write it under {ELSEWHERE[name]}:"
            )
        if name == "weights" and tuple(weights) != (AUTO,):
            raise InputError(
                "weights are given twice, here and under weights:", hint="leave one of them out"
            )
    base = settings.setup_of(networks.architecture(model), hardware.gpu("h100-sxm"))
    settings.apply(base, parsed)


def gpu(name: str) -> str:
    """Catalog name of a GPU, or the path of its file."""
    return name if name.lower().endswith(FILES) else hardware.gpu(name).name


def node(name: str) -> str:
    """Catalog name of a node, or the path of its file."""
    return name if name.lower().endswith(FILES) else hardware.node(name).name


def number_format(name: str) -> str:
    """Name of a number format or of a GGUF file's mix, or that it is left to the checkpoint."""
    spelled = mixes.spelled(name)
    known = spelled == AUTO or split(spelled)[0] in mixes.FILES
    return spelled if known else precision.named(name).name


def engine(name: str) -> str:
    """Name of an engine."""
    return engine_named(name).name


def layout(text: str) -> str:
    """A layout as it is spelled everywhere."""
    return layouts.parse(text).spelled


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


def technique(file: TechniqueFile | Literal["plain"]) -> Technique:
    """A technique, called as it is unless it has a name."""
    if not isinstance(file, TechniqueFile):
        return PLAIN
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
    if speculation and file.adapters:
        raise InputError("speculation beside LoRA adapters is not priced", hint="drop one")
    if file.samples > 1 or file.beams > 1:
        _check_branches(file)
    if speculation and not file.kv_cache:
        raise InputError("speculation needs a cache", hint="leave out kv_cache: false")
    return Technique(
        name=file.name or _called(file),
        prefix_hit=float(file.prefix_hit),
        prefill_batch=file.prefill_batch,
        overlap=float(file.overlap),
        two_batch=file.two_batch,
        routing=Routing(float(file.routing_skew), redundant=file.redundant_experts),
        memory_utilization=None
        if file.memory_utilization is None
        else float(file.memory_utilization),
        cuda_graphs=file.cuda_graphs,
        sampling=sampling(file),
        lora=adapters(file),
        kv_cache=file.kv_cache,
        samples=file.samples,
        offload=_offload(moved),
        speculation=None
        if speculation is None
        else ScenarioDraft(
            speculation.draft,
            str(
                spread_out(
                    acceptance_of(str(speculation.acceptance)), float(speculation.acceptance_spread)
                )
            ),
            speculation.length,
            None if speculation.weights is None else number_format(speculation.weights),
            float(speculation.acceptance_spread),
        ),
        disaggregation=None
        if pools is None
        else Disaggregation(
            layout(pools.prefill),
            "" if pools.gpu is None else gpu(pools.gpu),
            pools.over,
            pools.overlapped,
            "" if pools.ffn is None else layout(pools.ffn),
            pools.ffn_over,
            pools.microbatches,
        ),
    )


def _check_branches(file: TechniqueFile) -> None:
    """Refuse several answers or beams of each prompt beside what they are not priced with."""
    if file.samples > 1 < file.beams:
        raise InputError("samples of beams are not priced", hint="drop one")
    others = {
        "speculation": file.speculation is not None,
        "disaggregation": file.disaggregation is not None,
        "an offload": file.offload is not None,
        "adapters": file.adapters > 0,
        "a missing cache": not file.kv_cache,
    }
    if found := [name for name, given in others.items() if given]:
        raise InputError(f"samples or beams with {found[0]} are not priced", hint="drop one")


def _offload(file: OffloadFile | None) -> Offload:
    if file is None:
        return KEPT
    least = file.weights == AUTO
    weights = 0.0 if isinstance(file.weights, str) else float(file.weights)
    return Offload(weights, float(file.kv), file.to, file.prefetch, least)


def sampling(file: SampledFile) -> Sampling:
    """Choice of the next token that a file asks for; InputError where it has no meaning."""
    heat = None if file.temperature is None else float(file.temperature)
    return Sampling(heat, file.top_k, float(file.top_p), file.beams)


def adapters(file: AdaptedFile) -> Lora:
    """LoRA adapters that a file asks for; InputError where they have no meaning."""
    skew = float(file.adapter_skew)
    return Lora(file.adapters, file.lora_rank, file.lora_targets, file.max_loras, skew)


def _called(file: TechniqueFile) -> str:
    """Differences from a plain batch, in short."""
    parts = []
    if file.speculation is not None:
        parts.append(f"{file.speculation.draft} × {file.speculation.length}")
    if file.disaggregation is not None:
        parts.append(f"prefill on {file.disaggregation.prefill}")
        if file.disaggregation.ffn is not None:
            parts.append(f"feed-forward parts on {file.disaggregation.ffn}")
    if file.offload is not None:
        parts.append(f"offload {file.offload.weights} weights, {file.offload.kv} KV")
    if file.prefix_hit:
        parts.append(f"prefix {file.prefix_hit:g}")
    if file.prefill_batch:
        parts.append(f"prefill by {file.prefill_batch}")
    if file.overlap:
        parts.append(f"overlap {file.overlap:g}")
    if file.two_batch:
        parts.append("two batches")
    if file.routing_skew:
        parts.append(f"skew {file.routing_skew:g}")
    if file.redundant_experts:
        parts.append(f"{file.redundant_experts} redundant experts")
    if file.memory_utilization is not None:
        parts.append(f"memory {file.memory_utilization:g}")
    if file.temperature is not None:
        parts.append(f"temperature {file.temperature:g}")
    if file.top_k:
        parts.append(f"top-k {file.top_k}")
    if file.top_p < 1:
        parts.append(f"top-p {file.top_p:g}")
    if file.beams > 1:
        parts.append(f"{file.beams} beams")
    if file.samples > 1:
        parts.append(f"{file.samples} samples")
    if file.adapters:
        parts.append(f"{file.adapters} adapters of rank {file.lora_rank}")
    if file.lora_targets:
        parts.append(f"on {file.lora_targets}")
    if file.max_loras:
        parts.append(f"{file.max_loras} of them kept")
    if file.adapter_skew:
        parts.append(f"skew {file.adapter_skew:g}")
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
        with document.at(*path, "name"):
            once(file.name, [other.name for other in out])
        for model in models if file.changes else ():
            with document.at(*path, "with"):
                check_changes(model, file.changes or "", weights)
        out.append(_patch(document, file, path))
    return tuple(out)


def _patch(document: Document, file: PatchFile, path: tuple[str | int, ...]) -> Patch:
    figures: dict[str, float | None] = {}
    for name in UNITS:
        value = getattr(file, name)
        with document.at(*path, name):
            figures[name] = None if value is None else figure(name, value)
    names: dict[str, str] = {}
    for name, check in (
        ("weights", number_format),
        ("kv", number_format),
        ("engine", engine),
        ("layout", layout),
    ):
        value = getattr(file, name)
        with document.at(*path, name):
            names[name] = "" if value is None else check(value)
    with document.at(*path, "technique"):
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
