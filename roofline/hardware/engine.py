"""What a serving engine takes of a device, and how it fills it: one YAML file per engine."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from roofline import content, schema
from roofline.errors import DocumentError, QuantityError, UnknownNameError
from roofline.units import parse


@dataclass(frozen=True, slots=True)
class Engine:
    """Memory policy of a serving engine.

    Attributes
    ----------
    name, title
        Catalog name and what its makers call it.
    memory_utilization
        Share of device memory it uses by default. [1]
    runtime_bytes
        Taken by the driver context, libraries and communication buffers. [B]
    graph_bytes
        Taken by captured CUDA graphs. [B]
    step_tokens
        Most tokens in one step; longer prefills are cut into chunks. 0 means no limit. [token]
    block_tokens
        KV cache page. [token]
    notes
        What the figures rest on, one sentence each.
    """

    name: str
    title: str
    memory_utilization: float
    runtime_bytes: float
    graph_bytes: float
    step_tokens: float
    block_tokens: float
    notes: tuple[str, ...] = ()


class _EngineFile(schema.Strict):
    schema_version: Literal[1]
    name: str
    title: str
    memory_utilization: schema.Sourced
    runtime_memory: schema.Sourced
    graph_memory: schema.Sourced
    step_tokens: schema.Sourced
    block_tokens: schema.Sourced
    sources: dict[str, schema.SourceEntry] = Field(default_factory=dict)


def _folder() -> Path:
    return content.shipped("hwspecs") / "engines"


def engine_names() -> list[str]:
    """Engines of the catalog, by name."""
    return sorted(path.stem for path in _folder().glob("*.yaml"))


@cache
def engine(name: str) -> Engine:
    """Read an engine of the catalog.

    Raises
    ------
    UnknownNameError
        There is no such engine.
    DocumentError
        Its file has a mistake.
    """
    path = _folder() / f"{name.lower()}.yaml"
    if name.lower() not in engine_names():
        known = ", ".join(engine_names())
        raise UnknownNameError(f"no engine {name!r}", hint=f"engines: {known}")
    document = schema.read(path)
    file = schema.validate(_EngineFile, document)
    schema.check_sources(document)

    def number(field: str, unit: str) -> float:
        sourced: schema.Sourced = getattr(file, field)
        try:
            value = parse(str(sourced.value), unit)
        except QuantityError as error:
            where = document.where(field, "value")
            raise DocumentError(error.message, hint=error.hint, where=where) from None
        if value < 0:
            where = document.where(field, "value")
            raise DocumentError(f"{field} is negative", hint="give zero or more", where=where)
        return value

    return Engine(
        name=file.name,
        title=file.title,
        memory_utilization=number("memory_utilization", ""),
        runtime_bytes=number("runtime_memory", "B"),
        graph_bytes=number("graph_memory", "B"),
        step_tokens=number("step_tokens", ""),
        block_tokens=number("block_tokens", ""),
        notes=tuple(
            f"{field.replace('_', ' ')}: {entry.note}"
            for field in ("memory_utilization", "runtime_memory", "graph_memory", "step_tokens")
            if (entry := getattr(file, field)).note
        ),
    )
