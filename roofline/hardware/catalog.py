"""GPUs and nodes by name, alias or path to a file (``hwspecs/gpus/``, ``hwspecs/nodes/``)."""

import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Final, Literal

from roofline.content import shipped
from roofline.errors import DocumentError, InputError, LayoutError, UnknownNameError
from roofline.hardware.files import NodeFile
from roofline.hardware.machine import Fact, Gpu, Link, Node
from roofline.hardware.reading import read_gpu, read_node
from roofline.schema import decode, parse_yaml

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

    Parameters
    ----------
    name_or_path
        Catalog name or alias, in any case and with any separators; or the path of a YAML file.

    Raises
    ------
    UnknownNameError
        No GPU is called that.
    DocumentError
        The file cannot be read, or a figure in it cannot be.

    Examples
    --------
    >>> gpu("H100_SXM").title
    'NVIDIA H100 SXM5 80GB'
    """
    path = _path("gpus", name_or_path)
    return _shipped_gpu(path.stem) if path.parent == _folder("gpus") else read_gpu(path)


def gpu_names() -> list[str]:
    """Names of the GPUs in the catalog, sorted."""
    return list(_stems("gpus"))


def node(name_or_path: str) -> Node:
    """Find a node and read its file and that of its GPU.

    Parameters
    ----------
    name_or_path
        Catalog name, or the path of a YAML file.

    Raises
    ------
    UnknownNameError
        No node is called that, or its GPU is unknown.
    DocumentError
        A file cannot be read, or a figure in it cannot be.

    Examples
    --------
    >>> node("hgx-h100-8").gpus
    8
    """
    file, facts = read_node(_path("nodes", name_or_path))
    found = gpu(file.gpu)
    if (built := _node(file, facts, found)) is None:
        has = ", ".join(found.links) or "none"
        raise InputError(
            f"node {file.name} is joined by {file.link.kind}, which {found.name} does not have",
            hint=f"give the link a bandwidth, or use one of the GPU's links: {has}",
        )
    return built


def node_names() -> list[str]:
    """Names of the nodes in the catalog, sorted."""
    return list(_stems("nodes"))


def default_node(gpu: Gpu, gpus: int) -> Node:
    """Smallest node that holds so many GPUs: from the catalog, else one that is put together.

    Parameters
    ----------
    gpu
        What is in it.
    gpus
        How many are needed. [1]

    Raises
    ------
    InputError
        Less than one.
    LayoutError
        No single node holds so many.

    Notes
    -----
    A node of the catalog is taken if it has that GPU (by name) and enough of them. Otherwise the
    GPU's first link that joins enough devices is used; where its file does not say how many a
    link joins, `USUAL_BOX` is assumed.
    """
    if gpus < 1:
        raise InputError(f"{gpus} GPUs cannot run anything", hint="ask for at least one")
    fitting = [entry for entry in _nodes_of(gpu) if entry.gpus >= gpus]
    if fitting:
        return min(fitting, key=lambda entry: (entry.gpus, entry.name))
    scale_up = [link for kind, link in gpu.links.items() if kind != "c2c"]
    for link in scale_up:
        if gpus <= (link.devices or USUAL_BOX):
            return _improvised(gpu, gpus, link)
    if gpus == 1:
        return _improvised(gpu, gpus, None)
    largest = max(
        [entry.gpus for entry in _nodes_of(gpu)]
        + [link.devices or USUAL_BOX for link in scale_up]
        + [1]
    )
    raise LayoutError(
        f"{gpus} × {gpu.name} do not fit into one node; the largest holds {largest}",
        hint=f"ask for at most {largest}; several nodes are not priced yet",
    )


def _node(file: NodeFile, facts: Mapping[str, Fact], gpu: Gpu) -> Node | None:
    """Node of a file around a GPU; None if the GPU lacks the link."""

    def value(name: str) -> float:
        return facts[name].value if name in facts else 0.0

    facts = dict(facts)
    kind = file.link.kind
    inherited = gpu.links.get(kind)
    if file.link.bandwidth is not None:
        link = Link(kind, value("link.bandwidth"), value("link.latency"))
    elif inherited is not None:
        link = replace(inherited, latency_s=value("link.latency") or inherited.latency_s)
        facts["link.bandwidth"] = gpu.facts[f"links.{kind}.bandwidth"]
    else:
        return None
    network = None
    if file.network:
        network = Link(file.network.kind, value("network.bandwidth"), value("network.latency"))
    return Node(file.name, file.title, gpu, int(value("gpus")), link, network, facts)


def _nodes_of(gpu: Gpu) -> list[Node]:
    """Nodes of the catalog that have a GPU of that name, built around this one."""
    files = [read_node(_folder("nodes") / f"{name}.yaml") for name in _nodes_with(gpu.name)]
    built = [_node(file, facts, gpu) for file, facts in files]
    return [entry for entry in built if entry is not None]


def _improvised(gpu: Gpu, gpus: int, link: Link | None) -> Node:
    by = f"joined by {link.title or link.kind}" if link else "without links"
    count = Fact(str(gpus), gpus, "assumed", note=f"no file describes such a node; {by}")
    facts = {"gpus": count}
    if link:
        facts["link.bandwidth"] = gpu.facts[f"links.{link.kind}.bandwidth"]
    title = f"{gpus} × {gpu.title}, {by}" if gpus > 1 else gpu.title
    return Node(f"{gpu.name}-x{gpus}", title, gpu, gpus, link, None, facts)


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
    found = read_gpu(path)
    if found.name != stem:
        raise DocumentError(
            f"name is {found.name!r} but the file is called {path.name!r}",
            hint="call the file after the GPU",
            where=str(path),
        )
    return found


@cache
def _called(shelf: Shelf) -> Mapping[str, str]:
    """File stem by bare name and alias."""
    out = {}
    for stem in _stems(shelf):
        out[_bare(stem)] = stem
        aliases = _head(shelf, stem).get("aliases")
        for alias in aliases if isinstance(aliases, list) else []:
            out.setdefault(_bare(str(alias)), stem)
    return out


@cache
def _nodes_with(gpu: str) -> tuple[str, ...]:
    return tuple(stem for stem in _stems("nodes") if _head("nodes", stem).get("gpu") == gpu)


def _head(shelf: Shelf, stem: str) -> dict[str, object]:
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
