"""Networks by short name, alias or hub id (``scenarios/models/``), or from any config file.

A network that nobody published is a patch on one of them: see `roofline.model.patches`.
"""

import re
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roofline.content import home, shipped, there
from roofline.errors import DocumentError, UnknownNameError
from roofline.kept import kept
from roofline.model.architecture import Architecture
from roofline.model.changes.pruning import sparsity
from roofline.model.checkpoint_names import bases, readings
from roofline.model.mixes import FILES, mixed, spelled
from roofline.model.precision import named
from roofline.model.precision.naming import split
from roofline.records import replace
from roofline.sources import record

if TYPE_CHECKING:
    from roofline import schema
    from roofline.model.patches import ModelFile, NetworkPatchFile


_PATCHES: Final = re.compile(r"(?m)^base:")
_OWNER: Final = re.compile(r"[a-z0-9][\w.-]*", re.ASCII)
"""Owner of a repository on a hub; what begins otherwise is a folder."""
_DEEPEST: Final = 8
"""Patches on patches; more is a circle."""


def names() -> list[str]:
    """Short names of the networks in the catalog that have a config, sorted."""
    return sorted(_stems() - set(patched()))


def patched() -> list[str]:
    """Short names of the networks in the catalog that are patches on others, sorted."""
    files = _folder().glob("*.yaml")
    return sorted(path.stem for path in files if _PATCHES.search(path.read_text("utf-8")))


def architecture(name_or_path: str) -> Architecture:
    """Find a network and read it.

    Args:
        name_or_path: Name, alias or hub id in the catalog, in any case, perhaps with the ending of
            a quantised checkpoint (``-AWQ``, ``-FP8``, ``-NVFP4``); or a JSON or YAML file, or a
            folder with a ``config.json``. Names win: write ``./gpt2`` for a folder of that name.

    Raises:
        UnknownNameError: Neither a name in the catalog nor a path.
        DocumentError: The file cannot be read.
        UnsupportedModelError: The network cannot be costed.

    Examples:
        >>> architecture("llama-3.1-8b").d_model
        4096
    """
    return _architecture(name_or_path, 0)


def loaded(network: Architecture, weights: str | None = None) -> Architecture:
    """The network as an engine loads it, fp32 in 16 bits.

    Args:
        network: As its checkpoint has it.
        weights: Format that is asked for, or a file of llama.cpp that is called so, with a pattern
            of zeros or without; None for that of the checkpoint.

    Raises:
        UnknownNameError: There is no such format.
    """
    if not weights:
        return network.stored_as("bf16") if network.weight_format == "fp32" else network
    mix, zeros = split(spelled(weights))
    if mix not in FILES:
        return network.stored_as(named(weights).name)
    whole = mixed(network, mix)
    return sparsity(whole, zeros.removeprefix("sparse")) if zeros else whole


def _quantised(name: str) -> Architecture | None:
    """Network of the catalog in the format that the name of a checkpoint ends with."""
    for reading in readings(name):
        path = _find(reading.base)
        if path is None:
            continue
        plain = _architecture(path.stem, 0)
        kind = reading.weight_format
        note = (
            f"Weights are taken to be {kind} throughout, by the name of the checkpoint; its "
            + ("file" if reading.mixed else "folder")
            + " would say which layers are in another format."
            if reading.mix == kind
            else f"Each matrix is in the format that llama.cpp's mix {reading.mix} has for it."
        )
        network = mixed(plain, reading.mix) if reading.mixed else plain.stored_as(kind)
        return replace(network, name=f"{plain.name}{reading.ending}", notes=(*plain.notes, note))
    return None


def _republished(name: str) -> Architecture | None:
    """Network of the catalog that another owner's repository is called after."""
    owner, slash, short = name.partition("/")
    if not slash or "/" in short or not _OWNER.fullmatch(owner):
        return None
    found = next((path for base in bases(short) if (path := _find(base)) is not None), None)
    if found is None:
        return None
    plain = _architecture(found.stem, 0)
    note = f"{owner}'s is taken to be {plain.name}, by its name; its config.json would say."
    return replace(plain, notes=(*plain.notes, note))


def _architecture(name_or_path: str, depth: int) -> Architecture:
    if (found := _find(name_or_path.strip().lower())) is not None:
        network = _shipped(found)
        if isinstance(network, Architecture):
            return network
        patch, document = network
        return _patched(patch, document, found, patch.name, depth)
    if not name_or_path.strip():
        raise _unknown(name_or_path)
    path = Path(name_or_path)
    if there(path, "folder"):
        return _weighed(_from_file(path / "config.json", path.resolve().name, depth), path)
    if path.suffix.lower() == ".gguf" and there(path):
        from roofline.model.checkpoint.gguf_network import gguf_network

        return gguf_network(path)
    if path.suffix.lower() == ".safetensors" and there(path):
        # Its header names tensors, not shapes of heads: the config beside it does.
        return _architecture(str(path.resolve().parent), depth)
    if there(path) or path.suffix.lower() in (".json", ".yaml", ".yml"):
        folder = path.stem == "config"
        return _from_file(path, path.resolve().parent.name if folder else path.stem, depth)
    if (quantised := _quantised(name_or_path.strip().lower())) is not None:
        return quantised
    if there(fetched := fetched_folder(name_or_path), "folder"):
        return _weighed(_from_file(fetched / "config.json", name_or_path.strip(), depth), fetched)
    if (republished := _republished(name_or_path.strip().lower())) is not None:
        return republished
    raise _unknown(name_or_path)


def entry(name: str) -> "tuple[ModelFile, schema.Document]":
    """One file of the catalog by short name, as written.

    Raises:
        UnknownNameError: There is none.
        DocumentError: The file is not one of the catalog's.
    """
    from roofline.model.patches import NetworkPatchFile

    path = _find(name.strip().lower())
    if path is None:
        raise _unknown(name)
    model, document = _read(path)
    if isinstance(model, NetworkPatchFile):
        raise _unknown(name)
    return model, document


def _folder() -> Path:
    return shipped("scenarios") / "models"


@lru_cache(maxsize=256)
def _find(name: str) -> Path | None:
    """File of a lower-case name, alias or hub id; a plain name costs no reading."""
    known = _stems()
    if name in known:
        return _folder() / f"{name}.yaml"
    if not name:
        return None
    for stem in known:
        path = _folder() / f"{stem}.yaml"
        # A file that does not contain the text cannot have it as an alias: no need to parse it.
        if name in path.read_text(encoding="utf-8").lower():
            model, _ = _read(path)
            hub: str = getattr(model, "hub", "")  # which a patch has not
            if name in (alias.lower() for alias in (hub, *model.aliases)):
                return path
    return None


@cache
def _stems() -> frozenset[str]:
    return frozenset(path.stem for path in _folder().glob("*.yaml"))


def _read(path: Path) -> "tuple[ModelFile | NetworkPatchFile, schema.Document]":
    from roofline import schema
    from roofline.model.patches import ModelFile, NetworkPatchFile

    document = schema.read(path)
    model: ModelFile | NetworkPatchFile
    if _is_patch(document.data):
        model = schema.validate(NetworkPatchFile, document)
    else:
        model = schema.validate(ModelFile, document)
    if model.name != path.stem:
        raise DocumentError(
            f"name is {model.name!r} but the file is called {path.stem!r}",
            hint="call the file after the network",
            where=document.where("name"),
        )
    return model, document


def _is_patch(data: Any) -> bool:
    return isinstance(data, dict) and ("base" in data or "patch" in data)


@cache
def _shipped(path: Path) -> "Architecture | tuple[NetworkPatchFile, schema.Document]":
    """A file of the catalog, which does not change while the program runs."""

    def read() -> "Architecture | tuple[NetworkPatchFile, schema.Document]":
        from roofline.model.huggingface import from_config
        from roofline.model.patches import NetworkPatchFile

        model, document = _read(path)
        if isinstance(model, NetworkPatchFile):
            return model, document
        return from_config(document, model.name, path=("config",))

    return kept(read, "network", [path])


def _patched(
    patch: "NetworkPatchFile", document: "schema.Document", path: Path, name: str, depth: int
) -> Architecture:
    """A patch, whose base is a name of the catalog or a path from the patch's folder."""
    from roofline.model.patches import apply_patch

    def find(base: str) -> Architecture:
        if depth >= _DEEPEST:
            raise DocumentError("patches go round in a circle", hint="name a published network")
        known = _find(base.strip().lower()) is not None
        return _architecture(base if known else str(path.parent / base), depth + 1)

    return apply_patch(patch, document, name, find)


def _from_file(path: Path, name: str, depth: int) -> Architecture:
    from roofline import schema
    from roofline.model.huggingface import from_config
    from roofline.model.patches import ModelFile, NetworkPatchFile

    document = schema.read(path, infinity=True)
    data = document.data
    if _is_patch(data) and "model_type" not in data:
        return _patched(schema.validate(NetworkPatchFile, document), document, path, name, depth)
    if isinstance(data, dict) and "schema_version" in data and "model_type" not in data:
        schema.validate(ModelFile, document)
        return from_config(document, name, path=("config",))
    beside = path.with_name("hf_quant_config.json")
    if path.name != "config.json" or not there(beside):
        record(beside, None)
        return from_config(document, name)
    return from_config(document, name, sibling=schema.read(beside))


def fetched_folder(name: str) -> Path:
    """Folder of the user's for the config of a hub id: ``models/OWNER--NAME`` in `home`."""
    return home() / "models" / re.sub(r"[^\w.-]+", "--", name.strip())


def _weighed(network: Architecture, folder: Path) -> Architecture:
    """The network, with a note where the checkpoint beside its config is larger or smaller."""
    from roofline.model import checkpoint  # only where there is one to weigh

    stored = checkpoint.stored_bytes(folder)
    text = checkpoint.warning(stored, network) if stored else ""
    return replace(network, notes=(*network.notes, text)) if text else network


def _unknown(name: str) -> UnknownNameError:
    wanted = name.strip().lower().rpartition("/")[2]
    close = get_close_matches(wanted, _stems(), n=3, cutoff=0.5)
    hint = (
        f"did you mean {' or '.join(close)}?"
        if close
        else "roofline models lists the networks; a config.json or its folder works too"
    )
    shown = name if len(name) <= 80 else name[:77] + "..."
    return UnknownNameError(f"no network {shown!r} in the catalog, and no such file", hint=hint)
