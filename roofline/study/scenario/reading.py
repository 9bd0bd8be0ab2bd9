"""Scenarios read from YAML: every name looked up, every number checked, at its place."""

import hashlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from roofline.content import shipped, shipped_or_own
from roofline.errors import DocumentError, InputError, UnknownNameError
from roofline.records import replace
from roofline.schema import Document, read, validate
from roofline.schema.document import shown
from roofline.serving.traffic.lengths import ConstantLength, Lengths, spelled
from roofline.serving.traffic.presets import traffic_named
from roofline.serving.traffic.traffic import Traffic
from roofline.sources import recorded
from roofline.study.scenario import naming
from roofline.study.scenario.crossing import NAMED, numbers_of, zipped
from roofline.study.scenario.files import BatchFile, EveryFile, LengthsFile, TrafficFile
from roofline.study.scenario.limits import STATIC, USUAL, limit, objective
from roofline.study.scenario.naming import each, each_once, figure, patches, technique, words
from roofline.study.scenario.scenario import LayoutsOnGpus, Network, Scenario, Technique
from roofline.study.sweep.keep import FigureLimit, SweepObjective


def limits_of(document: Document, file: BatchFile | TrafficFile) -> Iterator[FigureLimit]:
    """Limits in the order in which they are written; that it fits is one always."""
    for column, asked in file.constraints.items():
        if column == "memory":
            if asked != "fits":
                raise DocumentError(
                    "memory can only be asked to fit",
                    hint="write 'memory: fits', or a limit of memory_bytes or free_bytes",
                    where=document.where("constraints", column),
                )
            continue
        try:
            yield limit(file.kind, column, asked)
        except (UnknownNameError, InputError) as error:
            place = document.where_key if isinstance(error, UnknownNameError) else document.where
            where = place("constraints", column)
            raise DocumentError(error.message, hint=error.hint, where=where) from None


def objectives_of(document: Document, file: BatchFile | TrafficFile) -> Iterator[SweepObjective]:
    """Objectives in their order, the usual ones where none are written."""
    usual = STATIC if file.kind == "batch" and file.rank == "static" else USUAL[file.kind]
    asked = usual if file.objectives is None else file.objectives
    made = partial(objective, file.kind)
    return each_once(document, "objectives", asked, made, lambda found: found.column)


def prices_of(
    document: Document, file: BatchFile | TrafficFile, machines: tuple[str, ...]
) -> dict[str, float]:
    """Prices by machine. [$/h]"""
    out = {}
    for name, asked in file.prices.items():
        with document.at("prices", name):
            found = naming.node(name) if file.nodes is not None else naming.gpu(name)
            if found not in machines:
                raise InputError(
                    f"{shown(name)} is not in this scenario",
                    hint=f"prices are of {', '.join(machines)}",
                )
            out[found] = figure("price", asked)
    return out


USUAL_GPU: Final = "h100-sxm"
COLUMNS: Final = {**NAMED, "gpus": "gpu", "nodes": "node", "patches": "patch"}
"""Keys with names, and the column of the result that each of them is."""


def scenario_names() -> list[str]:
    """Scenarios of the catalog, sorted."""
    return sorted(path.stem for path in shipped("scenarios").glob("*.yaml"))


def scenario_named(name_or_path: str) -> Scenario:
    """Scenario by name, or of a file.

    UnknownNameError where it is neither in the catalog nor a file; DocumentError where the file
    cannot be read, or says something that has no meaning.
    """
    return read_scenario(shipped_or_own("scenario", name_or_path, shipped("scenarios")))


def read_scenario(path: Path) -> Scenario:
    """Scenario of a YAML file with the shape of those in ``scenarios/``.

    DocumentError where it cannot be read, a name in it is not known, or a number has no meaning;
    at its place.
    """
    return scenario_of(read(path), path.parent)


def scenario_of(document: Document, folder: Path) -> Scenario:
    """Scenario of a document, whose files are looked for from a folder."""
    with recorded() as sources:
        return replace(_resolved(document, folder), sources=sources)


def _resolved(document: Document, folder: Path) -> Scenario:
    """Scenario with every name looked up."""
    data = document.data
    traffic = isinstance(data, dict) and data.get("kind") == "traffic"
    file: BatchFile | TrafficFile
    file = validate(TrafficFile, document) if traffic else validate(BatchFile, document)
    if file.gpus is not None and file.nodes is not None:
        raise DocumentError(
            "both gpus and nodes are given",
            hint="name the nodes: their GPUs are in their files",
            where=document.where_key("nodes"),
        )
    weights = words(document, "weights", file.weights, naming.number_format)
    models = tuple(_models(document, file, folder, weights))
    kind, asked, find = "gpus", file.gpus or USUAL_GPU, naming.gpu
    if file.nodes is not None:
        kind, asked, find = "nodes", file.nodes, naming.node
    machines = words(document, kind, asked, lambda n: find(naming.path_or_name(n, folder)))
    out = Scenario(
        name=file.name,
        title=file.title,
        about=file.about,
        kind=file.kind,
        models=models,
        machines=machines,
        nodes=file.nodes is not None,
        layouts=_layouts(document, file),
        weights=weights,
        kv=words(document, "kv", file.kv, naming.number_format),
        engines=words(document, "engines", file.engines, naming.engine),
        techniques=tuple(
            each_once(document, "techniques", file.techniques, technique, lambda found: found.name)
        )
        if isinstance(file, BatchFile)
        else (_plain(document, file),),
        patches=patches(document, file.patches, [model.model for model in models], weights),
        workloads=() if isinstance(file, BatchFile) else tuple(_workloads(document, file, folder)),
        policies=()
        if isinstance(file, BatchFile)
        else words(document, "policies", file.policies or (), str),
        numbers=numbers_of(document, file),
        zipped=(),  # checked with the axes at hand
        limits=tuple(limits_of(document, file)),
        objectives=tuple(objectives_of(document, file)),
        prices=prices_of(document, file, machines),
        keep=file.keep,
        each=tuple(_each(document, file)),
        calibration=file.calibration,
        seed=file.seed,
        static=file.kind == "batch" and file.rank == "static",
        said=_said(document),
        source=document.source,
    )
    return zipped(document, file, out)


def _models(
    document: Document, file: BatchFile | TrafficFile, folder: Path, weights: tuple[str, ...]
) -> Iterator[Network]:
    before: list[str] = []
    for asked, path in each(document, "models", file.models):
        inner = path if isinstance(asked, str) else (*path, "model")
        with document.at(*inner):
            found = naming.network(asked, folder, weights)
            naming.once(found.name, before)
        before.append(found.name)
        yield found


def _plain(document: Document, file: TrafficFile) -> Technique:
    """The one technique of traffic."""
    with document.at("temperature"):
        chosen = naming.sampling(file)
    with document.at("adapters"):
        lora = naming.adapters(file)
    return Technique(
        memory_utilization=file.memory_utilization,
        cuda_graphs=file.cuda_graphs,
        sampling=chosen,
        lora=lora,
    )


def _layouts(document: Document, file: BatchFile | TrafficFile) -> tuple[str, ...] | LayoutsOnGpus:
    if isinstance(file.layouts, EveryFile):
        gpus = file.layouts.gpus
        return LayoutsOnGpus(
            gpus if isinstance(gpus, tuple) else (gpus,), file.layouts.choose or ""
        )
    if file.layouts == "auto":
        return LayoutsOnGpus((1, 2, 4, 8), "cost")
    return words(document, "layouts", file.layouts, naming.layout)


def _each(document: Document, file: BatchFile | TrafficFile) -> Iterator[str]:
    """Columns of names of which each has a best."""
    fields = type(file).model_fields
    for key, path in each(document, "each", file.each):
        if key not in fields or (key == "patches" and not file.patches):
            raise DocumentError(
                f"{key} are no axis of this scenario",
                hint="name keys of it that have names, like models or gpus",
                where=document.where(*path),
            )
        yield COLUMNS[key]


def _workloads(document: Document, file: TrafficFile, folder: Path) -> Iterator[Traffic]:
    def made(asked: str | LengthsFile) -> Traffic:
        if isinstance(asked, LengthsFile):
            return Traffic(_lengths(asked.prompt), _lengths(asked.output), name=asked.name)
        return traffic_named(naming.path_or_name(asked, folder))

    return each_once(document, "workloads", file.workloads, made, lambda found: found.name)


def _lengths(asked: int | str) -> Lengths:
    return ConstantLength(asked) if isinstance(asked, int) else spelled(asked)


def _said(document: Document) -> str:
    """Digest of what a scenario says. [sha256]"""
    said = json.dumps(document.data, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(said.encode()).hexdigest()
