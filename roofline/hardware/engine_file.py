"""Engines from the files of ``hwspecs/engines/``."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from roofline import schema
from roofline.errors import InputError
from roofline.hardware.serving_engine import (
    DeviceDefault,
    DeviceRule,
    Engine,
    First,
    MemoryShare,
    Policy,
    Sampler,
)
from roofline.units import parse


class _RuleFile(schema.Strict):
    value: str | float | int
    memory_below: str = ""
    title_has: str = ""


class _DefaultFile(schema.SourcedFigure):
    """Default with exceptions by device, which are of the same place of the same source."""

    devices: tuple[_RuleFile, ...] = ()


class _MemoryFile(_DefaultFile):
    of: MemoryShare = "device"


class _PolicyFile(schema.SourcedFigure):
    value: Policy


class _FirstFile(schema.SourcedFigure):
    value: First


class _SamplerFile(schema.SourcedFigure):
    value: Sampler


class _LayoutsFile(schema.SourcedFigure):
    value: Annotated[str, Field(pattern=r"^[tcdeps]p(-[tcdeps]p)*(, [tcdeps]p(-[tcdeps]p)*)*$")]
    """Degrees that may be above 1 in one layout, one layout after the other: ``tp-pp, dp-ep``."""


class _ChoiceFile(schema.SourcedFigure):
    value: bool


_Release = Annotated[str, Field(pattern=r"^\d+\.\d+$")]


class _VersionsFile(schema.Strict):
    of: str
    since: _Release = "0.0"
    before: _Release | None = None
    note: str = ""


class _StepTokensFile(_DefaultFile):
    of: Literal["group", "replica"] = "group"


class _EngineFile(schema.Strict):
    schema_version: Literal[1]
    name: str
    title: str
    versions: _VersionsFile | None = None
    aliases: tuple[str, ...] = ()
    profile: str = ""
    policy: _PolicyFile
    first: _FirstFile
    reservation: schema.SourcedFigure
    sequences: _DefaultFile
    step_tokens: _StepTokensFile
    memory_utilization: _MemoryFile
    memory_reserved: _DefaultFile = _DefaultFile(value="0 B", source="assumed")
    runtime_memory: schema.SourcedFigure
    graph_memory: schema.SourcedFigure
    block_tokens: schema.SourcedFigure
    fits: _ChoiceFile = _ChoiceFile(value=False, source="assumed")
    graph_kernels: bool = False
    fuses: _ChoiceFile = _ChoiceFile(value=True, source="assumed")
    fused_inputs: _ChoiceFile = _ChoiceFile(value=False, source="assumed")
    integers: _ChoiceFile = _ChoiceFile(value=False, source="assumed")
    copies_above: schema.SourcedFigure | None = None
    wide: _ChoiceFile = _ChoiceFile(value=False, source="assumed")
    flash_attention: _ChoiceFile = _ChoiceFile(value=True, source="assumed")
    micro_batch: schema.SourcedFigure | None = None
    layouts: _LayoutsFile | None = None
    sampler: _SamplerFile = _SamplerFile(value="sort", source="assumed")
    decode_reach: schema.SourcedFigure | None = None
    handover: schema.SourcedFigure = schema.SourcedFigure(value="0 s", source="assumed")
    sources: dict[str, schema.SourceEntry] = Field(default_factory=dict)


def read_engine(path: Path) -> Engine:
    """Read an engine.

    Raises:
        DocumentError: The file has a mistake.
    """
    document = schema.read(path)
    file = schema.validate(_EngineFile, document)
    schema.check_sources(document)

    def number(value: str | float, unit: str, *place: str | int) -> float:
        with document.at(*place):
            found = parse(str(value), unit)
            if found < 0:
                raise InputError(f"{place[0]} is negative", hint="give zero or more")
        return found

    def sourced(field: str, unit: str) -> float:
        return number(getattr(file, field).value, unit, field, "value")

    def default(field: str, unit: str) -> DeviceDefault:
        entry: _DefaultFile = getattr(file, field)
        rules = tuple(
            DeviceRule(
                number(rule.value, unit, field, "devices", place, "value"),
                number(rule.memory_below, "B", field, "devices", place, "memory_below")
                if rule.memory_below
                else float("inf"),
                rule.title_has,
            )
            for place, rule in enumerate(entry.devices)
        )
        return DeviceDefault(number(entry.value, unit, field, "value"), rules)

    versions = file.versions or _VersionsFile(of="")
    range_ = [f"{versions.since} and later"] if versions.since != "0.0" else []
    range_ += [f"before {versions.before}"] if versions.before else []
    major, minor = map(int, versions.since.split("."))
    return Engine(
        name=file.name,
        title=file.title,
        memory_utilization=default("memory_utilization", ""),
        runtime_bytes=sourced("runtime_memory", "B"),
        graph_bytes=sourced("graph_memory", "B"),
        step_tokens=default("step_tokens", ""),
        step_tokens_of=file.step_tokens.of,
        block_tokens=sourced("block_tokens", ""),
        sequences=default("sequences", ""),
        memory_of=file.memory_utilization.of,
        memory_reserved=default("memory_reserved", "B"),
        policy=file.policy.value,
        first=file.first.value,
        reservation=sourced("reservation", ""),
        fits=file.fits.value,
        graph_kernels=file.graph_kernels,
        fuses=file.fuses.value,
        fused_inputs=file.fused_inputs.value,
        integers=file.integers.value,
        copies_above=int(sourced("copies_above", "")) if file.copies_above else 0,
        wide=file.wide.value,
        flash_attention=file.flash_attention.value,
        micro_batch_tokens=int(sourced("micro_batch", "")) if file.micro_batch else 0,
        layouts=tuple(tuple(each.split("-")) for each in file.layouts.value.split(", "))
        if file.layouts
        else (),
        sampler=file.sampler.value,
        decode_reach_bytes_per_s=sourced("decode_reach", "B/s")
        if file.decode_reach
        else float("inf"),
        handover_s=sourced("handover", "s"),
        profile=file.profile or file.name,
        aliases=file.aliases,
        family=versions.of,
        since=(major, minor),
        version=", ".join(range_),
        notes=tuple(
            f"{field.replace('_', ' ')}: {entry.note}"
            for field in (
                "sequences",
                "step_tokens",
                "memory_utilization",
                "memory_reserved",
                "runtime_memory",
                "graph_memory",
            )
            if (entry := getattr(file, field)).note
        ),
    )
