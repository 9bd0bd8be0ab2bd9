"""Configs and sizes of checkpoints from the hub: asked for by name, never on its own.

A folder is made in the user's home, from which the catalog reads the network as from any other.
No weights are fetched: sizes come from the index of a checkpoint, or from the header of its file.
"""

import json
import os
import re
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from roofline.errors import InputError, MissingEnvironmentError
from roofline.model.catalog import fetched_folder
from roofline.model.checkpoint.safetensors import LARGEST_HEADER, LARGEST_INDEX

HUB: Final = "https://huggingface.co"
"""Where configs are, unless ``HF_ENDPOINT`` names a mirror."""
PATIENCE_S: Final = 20.0
"""Time that an answer may take. [s]"""
INDEX: Final = "model.safetensors.index.json"
_ID: Final = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def fetch(name: str) -> Path:
    """Folder with the config of a checkpoint, how it is quantised, and an index with its size.

    Args:
        name: Hub id, ``OWNER/NAME``.

    Raises:
        InputError: It is no hub id, or the hub has no config of that name for this user.
        MissingEnvironmentError: The hub does not answer, as where there is no network.
    """
    if not _ID.fullmatch(name):
        raise InputError(f"{name!r:.80} is no hub id", hint="write OWNER/NAME")
    config = _read(name, "config.json")
    if config is None:
        raise InputError(
            f"the hub has no config.json of {name}",
            hint="check the spelling; checkpoints in GGUF have none, name their file instead",
        )
    folder = fetched_folder(name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_bytes(config)
    for file, content in (
        ("hf_quant_config.json", _read(name, "hf_quant_config.json")),
        (INDEX, _index(name)),
    ):
        if content is not None:
            (folder / file).write_bytes(content)
        else:
            (folder / file).unlink(missing_ok=True)
    return folder


def _index(name: str) -> bytes | None:
    """Index of the checkpoint: its own, or one made of the header of its only file."""
    if (index := _read(name, INDEX, most=LARGEST_INDEX)) is not None:
        return index
    file = "model.safetensors"
    first = _read(name, file, span=(0, 7))
    if first is None or len(first) != 8:
        return None
    length = int.from_bytes(first, "little")
    if length > LARGEST_HEADER:
        return None
    header = _read(name, file, span=(8, 7 + length), most=LARGEST_HEADER)
    try:
        tensors = json.loads(header or b"null")
        ends = [each["data_offsets"][1] for key, each in tensors.items() if key != "__metadata__"]
    except (ValueError, AttributeError, KeyError, IndexError, TypeError):
        return None
    names = dict.fromkeys((key for key in tensors if key != "__metadata__"), file)
    whole = {"metadata": {"total_size": max(ends, default=0)}, "weight_map": names}
    return json.dumps(whole).encode()


def _read(
    name: str, file: str, *, span: tuple[int, int] | None = None, most: int = LARGEST_INDEX
) -> bytes | None:
    """A file of a checkpoint, or some of its bytes; None where the hub has none."""
    hub = os.environ.get("HF_ENDPOINT", HUB).rstrip("/")
    headers = {"User-Agent": "roofline"}
    if span is not None:
        headers["Range"] = f"bytes={span[0]}-{span[1]}"
    if token := os.environ.get("HF_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    try:
        request = Request(f"{hub}/{name}/resolve/main/{file}", headers=headers)
        with urlopen(request, timeout=PATIENCE_S) as answer:
            content: bytes = answer.read(most + 1)
    except HTTPError as error:
        if error.code in (401, 403):
            raise InputError(
                f"the hub keeps {name} behind a licence",
                hint="accept it on its page and set HF_TOKEN, or download config.json yourself",
            ) from None
        if error.code == 404:
            return None
        raise _silent(hub, f"it answers {error.code}") from None
    except (URLError, HTTPException, OSError, ValueError) as error:
        raise _silent(hub, str(getattr(error, "reason", error))) from None
    if len(content) > most:
        raise InputError(f"{file} of {name} has more than {most:,} bytes", hint="is it a network?")
    return content


def _silent(hub: str, why: str) -> MissingEnvironmentError:
    return MissingEnvironmentError(
        f"the hub at {hub} cannot be asked: {why:.120}",
        hint="where there is no network, copy config.json here and name its file or folder",
    )
