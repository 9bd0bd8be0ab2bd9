"""What manifests of Kubernetes tell the engine in them."""

import re
from collections.abc import Mapping
from dataclasses import replace

from roofline.errors import InputError
from roofline.interop.commands import looking
from roofline.interop.commands.kubernetes import facts
from roofline.interop.commands.reading import Files, Read, placed
from roofline.interop.commands.served import Served
from roofline.interop.commands.words import Line, Word, split
from roofline.schema import parse_yaml
from roofline.schema.document import Document, Text


def _unescaped(word: str, where: str) -> str:
    """What the kubelet makes of an argument.

    Raises:
        InputError: It stands for a variable.
    """
    if re.search(r"(?<!\$)(?:\$\$)*\$\(", word):
        raise InputError(
            f"{where}: {word!r:.40} stands for a variable of the container",
            hint="write its value",
        )
    return word.replace("$$", "$")


def is_manifest(text: str) -> bool:
    """Whether a text is one or more objects of Kubernetes."""
    return bool(re.search(r"(?m)^\s*apiVersion:", text) and re.search(r"(?m)^\s*kind:", text))


def documents(text: str, source: str) -> list[Document]:
    """Documents of a manifest, each with the lines that it has in the whole."""
    out, start = [], 0
    for match in (*facts.APART.finditer(text), None):
        end = len(text) if match is None else match.start()
        # Blank lines in place of what is before keep the places in errors right.
        before = "\n" * text[:start].count("\n")
        if facts.SAYS.search(text[start:end]):
            out.append(parse_yaml(before + text[start:end].strip("\n") + "\n", source))
        start = len(text) if match is None else match.end() + 1
    return out


def read(text: str, source: str, files: Files) -> Read:
    """What a manifest tells the engine in its container.

    Raises:
        InputError, DocumentError: There is no container of a known engine, or what it says is
            contradictory.
    """
    found = documents(text, source)
    configs = {
        name: looking.text(document, "data", name)
        for document in found
        if looking.text(document, "kind") == "ConfigMap"
        for name in looking.mapping(document, "data")
    }
    for document in found:
        if looking.mapping(document, "spec").get("template") is not None:
            return _pod_read(document, configs, files)
    raise InputError(
        f"{source} has no object with a pod template", hint="give a Deployment with one container"
    )


def _pod_read(document: Document, configs: Mapping[str, str], files: Files) -> Read:
    """The first container that starts an engine."""
    read_file = _config_reader(configs, document.source, files)
    for place in range(len(looking.items(document, *facts.CONTAINERS))):
        where = (*facts.CONTAINERS, place)
        source = Text(document.text, document.source)
        line = Line(tuple(_words(document, where)), source, _variables(document, where))
        for engine in facts.ENGINES.values():
            if engine.starts(line) is None:
                continue
            with placed(document.where(*where)):
                result: Read = engine.read(line, read_file)
            _check_devices(document, where, result.served)
            replicas = looking.count(document, "spec", "replicas")
            served = replace(result.served, replicas=replicas)
            unused = tuple(each for each in result.unused if not each.startswith("--host"))
            return replace(result, served=served, unused=unused)
    raise looking.fault(
        document,
        facts.CONTAINERS,
        "no container starts a known engine",
        f"known: {', '.join(facts.ENGINES)}; say its command in full",
    )


def _variables(document: Document, where: looking.Path) -> tuple[tuple[str, Word], ...]:
    """Variables of the container that have a value of their own."""
    out = []
    for place in range(len(looking.items(document, *where, "env"))):
        entry = (*where, "env", place)
        if "value" in looking.mapping(document, *entry):
            at = document.offset(*entry, "value")
            value = _unescaped(looking.text(document, *entry, "value"), document.where(*entry))
            out.append((looking.text(document, *entry, "name"), Word(value, at)))
    return tuple(out)


def _words(document: Document, where: looking.Path) -> list[Word]:
    """What the container runs: its command and arguments, inside of a shell or as they are.

    Without a command it is what the image runs, which stands for the program.
    """
    out = []
    container = looking.mapping(document, *where)
    if not container.get("command") and "image" in container:
        image = looking.text(document, *where, "image")
        out.append(Word(image, document.offset(*where, "image")))
    for key in ("command", "args"):
        for place in range(len(looking.items(document, *where, key))):
            path = (*where, key, place)
            word = _unescaped(looking.text(document, *path), document.where(*path))
            out.append(Word(word, document.offset(*path)))
    if len(out) == 3 and out[0].text.rpartition("/")[2] in facts.SHELLS and out[1].text == "-c":
        inside = split(out[2].text, document.where(*where))
        return [Word(word.text, out[2].at) for word in inside.words]
    return out


def _config_reader(configs: Mapping[str, str], source: str, files: Files) -> Files:
    def read_file(name: str) -> Document:
        last = name.rpartition("/")[2]
        if last in configs:
            return parse_yaml(configs[last], f"{source}, {last}")
        return files(name)

    return read_file


def _check_devices(document: Document, where: looking.Path, served: Served) -> None:
    """As many devices as the layout takes, if the pod says how many."""
    path = (*where, "resources", "limits")
    devices, counted = int(served.layout.devices), {*facts.LIMITS.values(), *facts.OTHERS}
    for name in looking.mapping(document, *path):
        if name in counted and looking.text(document, *path, name) != str(devices):
            raise looking.fault(
                document,
                (*path, name),
                f"{looking.text(document, *path, name)} devices, but {served.layout} takes "
                f"{devices}",
                "give as many as the layout takes",
            )
