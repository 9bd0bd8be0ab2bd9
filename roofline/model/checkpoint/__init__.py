"""Size of a checkpoint that is at hand, from the headers of its files: no tensor is read."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from roofline.errors import DocumentError
from roofline.model import parameters
from roofline.model.architecture import Architecture
from roofline.model.checkpoint import gguf, safetensors
from roofline.model.precision import named
from roofline.units import show

__all__ = ["TOLERANCE", "StoredTensors", "stored_bytes", "warning"]

TOLERANCE: Final = 0.01
"""Share by which a checkpoint may differ from the count before it is worth a warning. [1]"""
_SPLIT: Final = re.compile(r"(?P<name>.+)-(?P<part>\d{5})-of-(?P<parts>\d{5})\.gguf")
_BESIDE: Final = re.compile(
    r"(?:^|\.)(?:mtp|visual|vision\w*|audio\w*|mm_projector|multi_modal_projector|embed_vision)\."
    r"|(?:^|\.)(?:v|mm)\.|nextn"
)
_TABLES: Final = {"safetensors": safetensors.tensors, "gguf": gguf.tensors}
_LAYER: Final = re.compile(r"(?:^|\.)(?:layers|h|blk|blocks)\.(\d{1,9})\.")


@dataclass(frozen=True, slots=True)
class StoredTensors:
    """Tensors of a checkpoint."""

    source: str
    """File or folder, as shown to the user."""
    kind: str
    """``"safetensors"`` or ``"gguf"``; ``"index"`` where only the list of files is there."""
    bytes: int
    """All tensors. [B]"""
    sizes: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Size of each tensor by name; empty for an index. [B]"""
    types: Mapping[str, int] = field(default_factory=dict)
    """All tensors of a number type together, as the files call it. [B]"""

    def decoder_bytes(self, layers: int) -> int:
        """Tensors of a text decoder of that many layers, by their names. [B]

        Vision towers and layers that predict further tokens are left out.
        """
        out = self.bytes
        for name, size in self.sizes.items():
            number = _LAYER.search(name)
            if _BESIDE.search(name) or (number and int(number[1]) >= layers):
                out -= size
        return out


def stored_bytes(path: str | Path) -> StoredTensors | None:
    """Read how large a checkpoint is.

    Args:
        path: A folder with ``*.safetensors``, their index or a GGUF file; or one such file.

    Returns:
        Stored | None: None where there is no checkpoint.

    Raises:
        DocumentError: A header is broken, too large, or contradicts the file it is in.
    """
    path = Path(path)
    try:
        if path.is_file():
            if path.suffix == ".gguf":
                return _stored(path, "gguf", [path])
            return _stored(path, "safetensors", [path]) if path.suffix == ".safetensors" else None
        if not path.is_dir():
            return None
        index = path / "model.safetensors.index.json"
        if index.is_file():
            return _indexed(path, index)
        single = path / "model.safetensors"
        files = [single] if single.is_file() else _files(path, "*.safetensors")
        if files:
            return _stored(path, "safetensors", files)
        files = _files(path, "*.gguf")
        return _stored(path, "gguf", _one_set(path, files)) if files else None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no path"
        raise DocumentError(
            f"the checkpoint cannot be read: {reason}",
            hint="check the path and its permissions",
            where=str(path)[:200],
        ) from None


def warning(stored: StoredTensors, architecture: Architecture) -> str:
    """One sentence where a checkpoint is not as large as the network says; else empty.

    Args:
        stored: The checkpoint.
        architecture: The network, counted by `roofline.model.parameters.weight_bytes`.
    """
    counted = parameters.weight_bytes(architecture)
    found = stored.decoder_bytes(len(architecture.layers))
    if not stored.sizes:  # an index does not say whose tensors they are
        beside = sum(architecture.other_parameters.values())
        counted += int(beside * named(architecture.plain_format).width)
    if abs(found - counted) <= TOLERANCE * counted:
        return ""
    return (
        f"the checkpoint has {show(found, 'B', 4)}, {found / counted - 1:+.1%} against the "
        f"{show(counted, 'B', 4)} that follow from the config as {architecture.weight_format}: "
        f"{stored.source} may be of another format or network"
    )


def _files(folder: Path, pattern: str) -> list[Path]:
    return sorted(file for file in folder.glob(pattern) if file.is_file())


def _indexed(folder: Path, index: Path) -> StoredTensors:
    """The files an index names; its own total where none of them is there."""
    names, total = safetensors.index(index)
    files = [folder / name for name in names]
    missing = [file for file in files if not file.is_file()]
    if len(missing) == len(files) and total is not None:
        return StoredTensors(str(index), "index", total)
    if missing:
        raise DocumentError(
            f"{len(missing)} of the {len(files)} files of the checkpoint are missing, "
            f"{missing[0].name!r:.80} among them",
            hint="download the whole checkpoint, or none of it",
            where=str(index),
        )
    return _stored(folder, "safetensors", files)


def _stored(source: Path, kind: str, files: list[Path]) -> StoredTensors:
    """Tensors of the files of one checkpoint."""
    sizes: dict[str, int] = {}
    types: dict[str, int] = {}
    tables = [_TABLES[kind](file) for file in files]
    for file, tensors in zip(files, tables, strict=True):
        for name, (dtype, size) in tensors.items():
            if name in sizes:
                raise DocumentError(
                    f"tensor {name!r:.80} is in two files of the checkpoint",
                    hint="keep the files of one checkpoint in a folder",
                    where=str(file),
                )
            sizes[name] = size
            types[dtype] = types.get(dtype, 0) + size
    return StoredTensors(str(source), kind, sum(sizes.values()), sizes, types)


def _one_set(folder: Path, files: list[Path]) -> list[Path]:
    """All parts of the one GGUF model in a folder."""
    matches = [_SPLIT.fullmatch(file.name) for file in files]
    sets = {
        (m["name"], m["parts"]) if m else file.name for m, file in zip(matches, files, strict=True)
    }
    if len(sets) > 1:
        raise DocumentError(
            f"there are {len(sets)} GGUF models in the folder",
            hint="give the path of one of them",
            where=str(folder),
        )
    first = matches[0]
    if first and int(first["parts"]) != len(files):
        raise DocumentError(
            f"{len(files)} of {int(first['parts'])} parts of the GGUF model are there",
            hint="download all parts",
            where=str(folder),
        )
    return files
