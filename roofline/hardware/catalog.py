"""GPUs and nodes by name, alias or path to a file (``hwspecs/gpus/``, ``hwspecs/nodes/``)."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Final, Literal

from roofline.content import shipped
from roofline.errors import DocumentError, InputError, LayoutError, UnknownNameError
from roofline.hardware.links import NodeEntry, described, improvised
from roofline.hardware.machine import Gpu, Node
from roofline.kept import kept

Shelf = Literal["gpus", "nodes"]

USUAL_BOX: Final = 8
"""Devices in the largest usual server, where a GPU's file does not say how many its wires join."""

_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
_PATH_ENDS: Final = (".yaml", ".yml", ".json")
_MAKERS: Final = re.compile(r"^(nvidia|amd|intel|google)(?=.)")
# Lines of a file that say what it is called and, in a node's file, what is inside; the rest of a
# file is not parsed to find a name.
_CALLED: Final = re.compile(r"^(?:aliases|gpu):(?:.*\n)(?:[ \t\]-].*\n)*", re.MULTILINE)


def gpu(name_or_path: str) -> Gpu:
    """Find a GPU and read its file.

    Args:
        name_or_path: Catalog name or alias, in any case and with any separators; or the path of a
            YAML file.

    Raises:
        UnknownNameError: No GPU is called that.
        DocumentError: The file cannot be read, or a figure in it cannot be.

    Examples:
        >>> gpu("H100_SXM").title
        'NVIDIA H100 SXM5 80GB'
    """
    path = _path("gpus", name_or_path)
    return _shipped_gpu(path.stem) if path.parent == _folder("gpus") else _read_gpu(path)


def gpu_names() -> list[str]:
    """Names of the GPUs in the catalog, sorted."""
    return list(_stems("gpus"))


def node(name_or_path: str) -> Node:
    """Find a node and read its file and that of its GPU.

    Args:
        name_or_path: Catalog name, or the path of a YAML file.

    Raises:
        UnknownNameError: No node is called that, or its GPU is unknown.
        DocumentError: A file cannot be read, or a figure in it cannot be.

    Examples:
        >>> node("hgx-h100-8").gpus
        8
    """
    entry = _read_node(_path("nodes", name_or_path))
    found = gpu(entry.gpu)
    if (built := described(entry, found)) is None:
        has = ", ".join(found.links) or "none"
        raise InputError(
            f"node {entry.name} is joined by {entry.link}, which {found.name} does not have",
            hint=f"give the link a bandwidth, or use one of the GPU's links: {has}",
        )
    return built


def node_names() -> list[str]:
    """Names of the nodes in the catalog, sorted."""
    return list(_stems("nodes"))


def default_node(gpu: Gpu, gpus: int) -> Node:
    """Smallest node that holds so many GPUs, else the largest of which several can be joined.

    A node of the catalog is taken if it has that GPU (by name) and enough of them. Otherwise the
    GPU's first link that joins enough devices is used; where its file does not say how many a
    link joins, `USUAL_BOX` is assumed. If no link does, the largest node of the catalog with that
    GPU and a network is returned: it holds fewer than asked for, and several of them are needed.

    Args:
        gpu, gpus: Its GPU, and the number of them that is needed. [1]

    Raises:
        InputError: Less than one.
        LayoutError: No single node holds so many, and none of the catalog has a network.

    Examples:
        >>> node = default_node(gpu("h100-sxm"), 1024)
        >>> node.name, node.gpus, node.network.kind
        ('hgx-h100-8', 8, 'infiniband')
    """
    if gpus < 1:
        raise InputError(f"{gpus} GPUs cannot run anything", hint="ask for at least one")
    nodes = _nodes_of(gpu)
    if fitting := [entry for entry in nodes if entry.gpus >= gpus]:
        return min(fitting, key=lambda entry: (entry.gpus, entry.name))
    scale_up = [link for kind, link in gpu.links.items() if kind != "c2c"]
    for link in scale_up:
        if gpus <= (link.devices or USUAL_BOX):
            return improvised(gpu, gpus, link)
    if gpus == 1:
        return improvised(gpu, gpus, None)
    if networked := [entry for entry in nodes if entry.network]:
        return min(networked, key=lambda entry: (-entry.gpus, entry.name))
    largest = max(
        [1, *(entry.gpus for entry in nodes), *(link.devices or USUAL_BOX for link in scale_up)]
    )
    raise LayoutError(
        f"{gpus} × {gpu.name} do not fit into one node; the largest holds {largest}",
        hint=f"ask for at most {largest}, or add a file to hwspecs/nodes/ that gives a node of "
        f"{gpu.name} a network",
    )


def _nodes_of(gpu: Gpu) -> tuple[Node, ...]:
    """Nodes of the catalog that have a GPU of that name, built around this one."""
    own = gpu.name in _stems("gpus") and gpu is _shipped_gpu(gpu.name)
    return _nodes_of_shipped(gpu.name) if own else _built_around(gpu)


@cache
def _nodes_of_shipped(stem: str) -> tuple[Node, ...]:
    return _built_around(_shipped_gpu(stem))


def _built_around(gpu: Gpu) -> tuple[Node, ...]:
    built = [described(_shipped_node(name), gpu) for name in _nodes_with().get(gpu.name, ())]
    return tuple(entry for entry in built if entry is not None)


def _path(shelf: Shelf, name: str) -> Path:
    """File of a name, alias or path."""
    text = name.strip()
    if text.lower().endswith(_PATH_ENDS):
        return Path(text)
    plain = re.sub(r"[\s_]+", "-", text.lower())
    folder = _folder(shelf)
    if _PLAIN.fullmatch(plain) and (folder / f"{plain}.yaml").is_file():
        return folder / f"{plain}.yaml"
    if stem := _called(shelf).get(_bare(text[:200])):
        return folder / f"{stem}.yaml"
    if "/" in text or "\\" in text:
        return Path(text)
    raise _unknown(shelf, text)


def _bare(name: str) -> str:
    """Letters and digits of a name, without its maker: how names are compared.

    >>> _bare("NVIDIA H100_SXM") == _bare("h100-sxm")
    True
    """
    return _MAKERS.sub("", re.sub(r"[^a-z0-9]", "", name.lower()))


def _folder(shelf: Shelf) -> Path:
    return shipped("hwspecs") / shelf


@cache
def _stems(shelf: Shelf) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in _folder(shelf).glob("*.yaml")))


@cache
def _shipped_gpu(stem: str) -> Gpu:
    path = _folder("gpus") / f"{stem}.yaml"
    links = (shipped("hwspecs") / "links").glob("*.yaml")  # which complete it
    found = kept(lambda: _read_gpu(path), "gpu", [path, *sorted(links)])
    if found.name != stem:
        raise DocumentError(
            f"name is {found.name!r} but the file is called {path.name!r}",
            hint="call the file after the GPU",
            where=str(path),
        )
    return found


@cache
def _shipped_node(stem: str) -> NodeEntry:
    path = _folder("nodes") / f"{stem}.yaml"
    return kept(lambda: _read_node(path), "node", [path])


def _read_gpu(path: Path) -> Gpu:
    from roofline.hardware.reading import read_gpu

    return read_gpu(path)


def _read_node(path: Path) -> NodeEntry:
    from roofline.hardware.reading import read_node

    return read_node(path)


@cache
def _called(shelf: Shelf) -> Mapping[str, str]:
    """File stem by bare name and alias."""

    def read() -> dict[str, str]:
        out = {}
        for stem in _stems(shelf):
            out[_bare(stem)] = stem
            aliases = _head(shelf, stem).get("aliases")
            for alias in aliases if isinstance(aliases, list) else []:
                out.setdefault(_bare(str(alias)), stem)
        return out

    return kept(read, "names", _files(shelf))


@cache
def _nodes_with() -> Mapping[str, tuple[str, ...]]:
    """Nodes of each GPU, by its name."""

    def read() -> dict[str, tuple[str, ...]]:
        out: dict[str, tuple[str, ...]] = {}
        for stem in _stems("nodes"):
            inside = str(_head("nodes", stem).get("gpu"))
            out[inside] = (*out.get(inside, ()), stem)
        return out

    return kept(read, "nodes by GPU", _files("nodes"))


def _files(shelf: Shelf) -> list[Path]:
    return [_folder(shelf) / f"{stem}.yaml" for stem in _stems(shelf)]


def _head(shelf: Shelf, stem: str) -> dict[str, object]:
    from roofline.schema import decode, parse_yaml

    path = _folder(shelf) / f"{stem}.yaml"
    text = decode(path.read_bytes(), str(path))
    head = ""
    for found in _CALLED.finditer(text):  # empty lines in between keep the numbers of lines
        head += "\n" * (text.count("\n", 0, found.start()) - head.count("\n")) + found.group()
    data = parse_yaml(head, str(path)).data if head else {}
    return data if isinstance(data, dict) else {}


def _unknown(shelf: Shelf, text: str) -> UnknownNameError:
    called = _called(shelf)
    close = get_close_matches(_bare(text[:60]), called, n=5, cutoff=0.6)
    names = list(dict.fromkeys(called[match] for match in close))[:3]
    if names:
        hint = f"did you mean {' or '.join(names)}?"
    elif shelf == "gpus":
        hint = "`roofline gpus` lists what there is; the path of a YAML file works too"
    else:
        hint = f"there are {', '.join(_stems(shelf))}; the path of a YAML file works too"
    word = "GPU" if shelf == "gpus" else "node"
    shown = text if len(text) <= 60 else text[:57] + "..."
    return UnknownNameError(f"no {word} is called {shown!r}", hint=hint)
