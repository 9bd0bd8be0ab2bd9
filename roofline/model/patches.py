"""Networks that have no config: changes to another one, in a small YAML file."""

from collections.abc import Callable
from typing import Any, Literal

from roofline import schema
from roofline.errors import DocumentError, did_you_mean
from roofline.model.architecture import Architecture
from roofline.model.changes import NETWORK, canonical, changed
from roofline.records import replace


class ModelSource(schema.Strict):
    """Source of the geometry of a network."""

    title: str
    where: str = ""
    note: str = ""


class NetworkPatchFile(schema.Strict):
    """A network as changes to another one."""

    schema_version: Literal[1]
    name: str
    aliases: tuple[str, ...] = ()
    source: ModelSource
    """Publication of the changes."""
    base: str
    """Name, alias or hub id in the catalog, or a path from the file's folder."""
    patch: dict[str, bool | int | float | str]
    """Changes of `roofline.model.changes` by name; ``true`` for one that takes no value."""


class ModelFile(schema.Strict):
    """One file of the catalog: a network and the fields of its config that shape it."""

    schema_version: Literal[1]
    name: str
    hub: str
    aliases: tuple[str, ...] = ()
    source: ModelSource
    config: dict[str, Any]


def apply_patch(
    model: NetworkPatchFile,
    document: schema.Document,
    name: str,
    find: Callable[[str], Architecture],
) -> Architecture:
    """The base with the changes, in the order of `NETWORK` whatever order they are written in.

    Args:
        model, document: The file as read, and its places.
        name: What the network is called.
        find: Base by name or path.

    Raises:
        DocumentError: At the base that is not found, or the change that has no meaning for it.
    """
    with document.at("base"):
        network = find(model.base)
    changes = _by_name(model, document)
    said = [f"base = {model.base}, {document.where('base')}"]
    for change in NETWORK:
        if change not in changes:
            continue
        key, value = changes[change]
        where = document.where("patch", key)
        with document.at("patch", key):
            network = changed(network, change, value, where)
        said.append(f"{change} {value}".rstrip() + f", {where}")
    listed = ", ".join(f"{change} {value}".rstrip() for change, (_, value) in changes.items())
    patches = {f"patch {number}" if number else "base": text for number, text in enumerate(said)}
    return replace(
        network,
        name=name,
        provenance={**network.provenance, **patches},
        notes=(*network.notes, f"{name} is {model.base} with {listed}: a what-if."),
    )


def _by_name(model: NetworkPatchFile, document: schema.Document) -> dict[str, tuple[str, str]]:
    """Changes as `NETWORK` calls them: the key as written, and the value as text."""
    out: dict[str, tuple[str, str]] = {}
    if not model.patch:
        raise DocumentError(
            "the patch is empty",
            hint=f"name a change: {', '.join(NETWORK)}",
            where=document.where("patch"),
        )
    for key, value in model.patch.items():
        change = canonical(key)
        if change not in NETWORK:
            raise DocumentError(
                f"no change called {key[:40]!r}",
                hint=f"{did_you_mean(change, NETWORK)}changes: {', '.join(NETWORK)}",
                where=document.where_key("patch", key),
            )
        if change in out:
            raise DocumentError(
                f"{change} is given twice",
                hint="leave one of them",
                where=document.where_key("patch", key),
            )
        if value is False:
            raise DocumentError(
                f"{change} is false",
                hint="leave out what is not to change",
                where=document.where("patch", key),
            )
        out[change] = (key, "" if value is True else str(value))
    return out
