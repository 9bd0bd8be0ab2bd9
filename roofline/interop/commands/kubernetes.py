"""A Kubernetes Deployment and Service around an engine's server, and back.

Fields: Kubernetes API reference, ``apps/v1`` Deployment and ``v1`` Service, ConfigMap; "Schedule
GPUs" for ``nvidia.com/gpu`` as a limit; "Using Kubernetes" of vLLM's documentation for the memory
volume at ``/dev/shm``, which NCCL passes data through between devices of a node. The kubelet
expands ``$(NAME)`` in arguments and takes ``$$`` for a dollar.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any, Final

from roofline.errors import InputError, LayoutError
from roofline.interop.commands import llamacpp, sglang, trtllm, vllm
from roofline.interop.commands.command import Command
from roofline.interop.commands.reading import Files, Read
from roofline.interop.commands.served import Served, Site
from roofline.interop.commands.words import Line, Word, split
from roofline.interop.commands.yaml_text import Block, Quoted, dump
from roofline.schema import parse_yaml
from roofline.schema.document import Document, Text

ENGINES: Final[Mapping[str, ModuleType]] = {
    module.NAME: module for module in (vllm, sglang, trtllm, llamacpp)
}
NAME: Final = "k8s"
LIMITS: Final = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
CONFIG: Final = "/etc/engine"
PROGRAMS: Final = {"llama-server": "/app/llama-server"}
"""Where images keep programs that are not on their search path."""
SHELLS: Final = ("sh", "bash")
TOKEN: Final = {
    "name": "HF_TOKEN",
    "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token", "optional": True}},
}
"""For networks that their makers hand out to those who ask."""
SHARED_MEMORY: Final = "16Gi"
_UNFIT: Final = re.compile(r"[^a-z0-9]+")
_APART: Final = re.compile(r"(?m)^---[ \t]*$")
_SAYS: Final = re.compile(r"(?m)^[ \t]*[^#\s]")
_LONGEST: Final = 40


def write(served: Served, site: Site) -> Command:
    """Manifests of a Deployment and its Service, with a ConfigMap where the engine wants a file.

    Parameters
    ----------
    served, site
        What the server is told; what it is written for.

    Raises
    ------
    LayoutError
        A replica lies on several nodes, or the engine has no such layout.
    InfeasibleError
        No room is left for a cache.
    """
    if site.nodes(served.layout) > 1:
        raise LayoutError(
            f"{served.layout} takes {int(served.layout.devices)} devices, and a pod is on one node "
            f"of {site.gpus_per_node}",
            hint="use a layout within a node; a LeaderWorkerSet of several pods is not written",
        )
    engine = ENGINES[served.engine]
    command = engine.write(replace(served, replicas=1), site)
    name = label(served.model)
    documents = [_deployment(served, site, command, engine.IMAGE, name), _service(site, name)]
    if command.files:
        documents.insert(0, _config(command.files, name))
    notes = [
        *command.notes,
        *_where(served),
        f"kubectl port-forward service/{name} {site.port} makes the benchmark reach it",
    ]
    return Command(
        f"Kubernetes, {command.title}",
        (("kubectl", "apply", "-f", f"{name}.yaml"),),
        files={f"{name}.yaml": dump(*documents)},
        benchmark=command.benchmark,
        notes=tuple(notes),
        lost=command.lost,
    )


def _where(served: Served) -> list[str]:
    """What the pod has to find."""
    if served.engine == llamacpp.NAME:
        return ["mount a volume with the GGUF file where the command says"]
    return ["a Secret hf-token with the key token opens networks that have to be asked for"]


def label(model: str) -> str:
    """Name of a model that Kubernetes takes: lower-case letters, digits and single dashes.

    >>> label("meta-llama/Llama-3.1-8B"), label("$(reboot)"), label("…")
    ('llama-3-1-8b', 'reboot', 'model')
    """
    last = model.rstrip("/").rpartition("/")[2].lower()
    return _UNFIT.sub("-", last).strip("-")[:_LONGEST].strip("-") or "model"


def _deployment(
    served: Served, site: Site, command: Command, image: str, name: str
) -> dict[str, Any]:
    labels = {"app": Quoted(name)}
    pod: dict[str, Any] = {"containers": [_container(served, site, command, image)]}
    volumes: list[dict[str, Any]] = []
    if served.layout.devices > 1:
        memory = {"medium": "Memory", "sizeLimit": SHARED_MEMORY}
        volumes.append({"name": "shm", "emptyDir": memory})
    if command.files:
        volumes.append({"name": "config", "configMap": {"name": f"{name}-config"}})
    if volumes:
        pod["volumes"] = volumes
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": Quoted(name), "labels": labels},
        "spec": {
            "replicas": served.replicas,
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
        },
    }


def _container(served: Served, site: Site, command: Command, image: str) -> dict[str, Any]:
    words = [f"{CONFIG}/{word}" if word in command.files else word for word in command.words]
    words[0] = PROGRAMS.get(words[0], words[0])
    host = [] if "--host" in words else ["--host", "0.0.0.0"]
    mounts: list[dict[str, Any]] = []
    if served.layout.devices > 1:
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})
    if command.files:
        mounts.append({"name": "config", "mountPath": CONFIG, "readOnly": True})
    devices = Quoted(str(int(served.layout.devices)))
    limit = {LIMITS.get(site.vendor.lower(), LIMITS["nvidia"]): devices}
    probe = {"httpGet": {"path": "/health", "port": site.port}}
    out: dict[str, Any] = {
        "name": "server",
        "image": Quoted(image),
        "command": [Quoted(_escaped(word)) for word in (*words, *host)],
        "ports": [{"containerPort": site.port, "name": "http"}],
        "resources": {"limits": limit, "requests": dict(limit)},
        "startupProbe": {**probe, "periodSeconds": 10, "failureThreshold": 180},
        "readinessProbe": {**probe, "periodSeconds": 10},
    }
    out["env"] = [TOKEN] + [
        {"name": variable, "value": Quoted(_escaped(value))}
        for variable, value in command.environment.items()
    ]
    if mounts:
        out["volumeMounts"] = mounts
    return out


def _service(site: Site, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": Quoted(name)},
        "spec": {
            "selector": {"app": Quoted(name)},
            "ports": [{"name": "http", "port": site.port, "targetPort": "http"}],
        },
    }


def _config(files: Mapping[str, str], name: str) -> dict[str, Any]:
    data = {file: Block(content) for file, content in files.items()}
    metadata = {"name": Quoted(f"{name}-config")}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _escaped(word: str) -> str:
    """An argument that the kubelet leaves as it is."""
    return word.replace("$", "$$")


def _unescaped(word: str, where: str) -> str:
    """What the kubelet makes of an argument.

    Raises
    ------
    InputError
        It stands for a variable.
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
    for match in (*_APART.finditer(text), None):
        end = len(text) if match is None else match.start()
        # Blank lines in place of what is before keep the places in errors right.
        before = "\n" * text[:start].count("\n")
        if _SAYS.search(text[start:end]):
            out.append(parse_yaml(before + text[start:end].strip("\n") + "\n", source))
        start = len(text) if match is None else match.end() + 1
    return out


def read(text: str, source: str, files: Files) -> Read:
    """What a manifest tells the engine in its container.

    Raises
    ------
    InputError, DocumentError
        There is no container of a known engine, or what it says is contradictory.
    """
    found = documents(text, source)
    configs = {
        name: content
        for document in found
        if document.data.get("kind") == "ConfigMap"
        for name, content in (document.data.get("data") or {}).items()
    }
    for document in found:
        spec = document.data.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("template"), dict):
            return _container_read(document, configs, files)
    raise InputError(
        f"{source} has no object with a pod template", hint="give a Deployment with one container"
    )


def _container_read(document: Document, configs: Mapping[str, str], files: Files) -> Read:
    data = document.data
    where: tuple[str | int, ...] = ("spec", "template", "spec", "containers")
    pod = data["spec"]["template"].get("spec") or {}
    containers = pod.get("containers") or []
    source = Text(document.text, document.source)
    for place, container in enumerate(containers):
        words = _words(document, container, (*where, place))
        variables = tuple(
            (str(entry.get("name")), Word(_unescaped(str(entry["value"]), source.source), 0))
            for entry in container.get("env") or []
            if isinstance(entry, dict) and "value" in entry
        )
        line = Line(tuple(words), source, variables)
        for engine in ENGINES.values():
            if engine.starts(line) is None:
                continue
            read_file = _config_reader(configs, source.source, files)
            result: Read = engine.read(line, read_file)
            _check_devices(document, container, (*where, place), result.served)
            replicas = data["spec"].get("replicas", 1)
            unused = tuple(each for each in result.unused if not each.startswith("--host"))
            return replace(
                result, served=replace(result.served, replicas=int(replicas)), unused=unused
            )
    raise source.error(
        document.offset(*where),
        "no container starts a known engine",
        f"known: {', '.join(ENGINES)}; say its command in full",
    )


def _words(document: Document, container: Any, path: tuple[str | int, ...]) -> list[Word]:
    """What the container runs: its command and arguments, inside of a shell or as they are.

    Without a command it is what the image runs, which stands for the program.
    """
    out = []
    if not container.get("command") and "image" in container:
        out.append(Word(str(container["image"]), document.offset(*path, "image")))
    for key in ("command", "args"):
        for place, word in enumerate(container.get(key) or []):
            at = document.offset(*path, key, place)
            out.append(Word(_unescaped(str(word), document.where(*path, key, place)), at))
    if len(out) == 3 and out[0].text.rpartition("/")[2] in SHELLS and out[1].text == "-c":
        inside = split(out[2].text, document.where(*path))
        return [Word(word.text, out[2].at) for word in inside.words]
    return out


def _config_reader(configs: Mapping[str, str], source: str, files: Files) -> Files:
    def read_file(name: str) -> Document:
        last = name.rpartition("/")[2]
        if last in configs:
            return parse_yaml(configs[last], f"{source}, {last}")
        return files(name)

    return read_file


def _check_devices(
    document: Document, container: Any, path: tuple[str | int, ...], served: Served
) -> None:
    limits = ((container or {}).get("resources") or {}).get("limits") or {}
    for name in LIMITS.values():
        if name in limits and str(limits[name]) != str(int(served.layout.devices)):
            source = Text(document.text, document.source)
            raise source.error(
                document.offset(*path, "resources", "limits", name),
                f"{limits[name]} devices, but {served.layout} takes {int(served.layout.devices)}",
                "give as many as the layout takes",
            )
