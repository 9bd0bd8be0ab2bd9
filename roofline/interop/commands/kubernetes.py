"""A Kubernetes Deployment and Service around an engine's server, written and read.

Fields: Kubernetes API reference, ``apps/v1`` Deployment and ``v1`` Service, ConfigMap; "Schedule
GPUs" for ``nvidia.com/gpu`` as a limit, "Intel GPU device plugin for Kubernetes" and "Intel Gaudi
Device Plugin for Kubernetes" for Intel's, "About TPUs in GKE" for Google's; "Using Kubernetes" of
vLLM's documentation for the memory volume at ``/dev/shm``, which NCCL passes data through between
devices of a node. The kubelet expands ``$(NAME)`` in arguments and takes ``$$`` for a dollar.
"""

import re
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Final

from roofline.errors import InputError, LayoutError
from roofline.interop.commands import llamacpp, looking, sglang, trtllm, vllm
from roofline.interop.commands.command import BlockText, Quoted, ServeCommand, dump
from roofline.interop.commands.reading import Files, ParsedCommand, placed
from roofline.interop.commands.served import ReplicaServer, Site
from roofline.interop.commands.words import CommandLine, Word, split
from roofline.records import replace
from roofline.schema import parse_yaml
from roofline.schema.document import Document, Text

ENGINES: Final[Mapping[str, ModuleType]] = {
    module.NAME: module for module in (vllm, sglang, trtllm, llamacpp)
}
NAME: Final = "k8s"
LIMITS: Final = {
    "nvidia": "nvidia.com/gpu",
    "amd": "amd.com/gpu",
    "intel": "gpu.intel.com/xe",
    "google": "google.com/tpu",
    "gaudi2": "habana.ai/gaudi",
    "gaudi3": "habana.ai/gaudi",
}
"""Resource that a device plugin registers: by name of the device, else by its vendor. Arc Pro runs
the driver ``xe``; GPUs of the driver before it are ``gpu.intel.com/i915``."""
OTHERS: Final = frozenset({"gpu.intel.com/i915"})
"""Resources that count devices in manifests of others, beside `LIMITS`."""
CONFIG: Final = "/etc/engine"
PROGRAMS: Final = {"llama-server": "/app/llama-server"}
"""Paths of programs that are not on the search path of their image."""
CONTAINERS: Final = ("spec", "template", "spec", "containers")
WORKERS: Final = ("worker", "decode")
"""Types of the components of a Dynamo graph that answer requests."""
SHELLS: Final = ("sh", "bash")
TOKEN: Final = {
    "name": "HF_TOKEN",
    "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token", "optional": True}},
}
"""Access to networks that their makers hand out to those who ask."""
SHARED_MEMORY: Final = "16Gi"
UNFIT: Final = re.compile(r"[^a-z0-9]+")
APART: Final = re.compile(r"(?m)^---[ \t]*$")
SAYS: Final = re.compile(r"(?m)^[ \t]*[^#\s]")
LONGEST: Final = 40


def _unescaped(word: str, where: str) -> str:
    """An argument as the kubelet passes it on; InputError where it stands for a variable."""
    if re.search(r"(?<!\$)(?:\$\$)*\$\(", word):
        raise InputError(
            f"{where}: {word!r:.40} stands for a variable of the container", hint="write its value"
        )
    return word.replace("$$", "$")


def is_manifest(text: str) -> bool:
    """True for a text of one or more objects of Kubernetes."""
    lines = (rf"(?m)^[^\S\n]*{key}:" for key in ("apiVersion", "kind"))
    return all(re.search(line, text) for line in lines)


def documents(text: str, source: str) -> list[Document]:
    """Documents of a manifest, each with the lines that it has in the whole."""
    out, start = [], 0
    for match in (*APART.finditer(text), None):
        end = len(text) if match is None else match.start()
        # Blank lines in place of what is before keep the places in errors right.
        before = "\n" * text[:start].count("\n")
        if SAYS.search(text[start:end]):
            out.append(parse_yaml(before + text[start:end].strip("\n") + "\n", source))
        start = len(text) if match is None else match.end() + 1
    return out


def read(text: str, source: str, files: Files) -> ParsedCommand:
    """Engine's settings in a manifest; of Dynamo's graphs those of the workers of decode.

    InputError or DocumentError without a container of a known engine, or where it is contradictory.
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
        for place in range(len(looking.items(document, "spec", "components"))):
            component = ("spec", "components", place)
            if looking.text(document, *component, "type") in WORKERS:
                inside = (*component, "podTemplate", "spec", "containers")
                return _pod_read(document, configs, files, inside, (*component, "replicas"))
    raise InputError(
        f"{source} has no object with a pod template", hint="give a Deployment with one container"
    )


def _pod_read(
    document: Document,
    configs: Mapping[str, str],
    files: Files,
    containers: looking.Path = CONTAINERS,
    copies: looking.Path = ("spec", "replicas"),
) -> ParsedCommand:
    """Settings in the first container that starts an engine."""

    def read_file(name: str) -> Document:
        last = name.rpartition("/")[2]
        return (
            parse_yaml(configs[last], f"{document.source}, {last}")
            if last in configs
            else files(name)
        )

    for place in range(len(looking.items(document, *containers))):
        where = (*containers, place)
        line = line_of(document, where, words_of(document, where))
        for engine in ENGINES.values():
            if engine.starts(line) is None:
                continue
            with placed(document.where(*where)):
                result: ParsedCommand = engine.read(line, read_file)
            _check_devices(document, (*where, "resources", "limits"), result.served)
            replicas = looking.count(document, *copies)
            served = replace(result.served, replicas=replicas)
            unused = tuple(each for each in result.unused if not each.startswith("--host"))
            return replace(result, served=served, unused=unused)
    raise looking.fault(
        document,
        containers,
        "no container starts a known engine",
        f"known: {', '.join(ENGINES)}; say its command in full",
    )


def line_of(document: Document, where: looking.Path, words: Sequence[Word]) -> CommandLine:
    """Command of a container in words, with the variables that are set there by value."""
    variables = []
    for item in range(len(looking.items(document, *where, "env"))):
        entry = (*where, "env", item)
        if "value" in looking.mapping(document, *entry):
            at = document.offset(*entry, "value")
            text = looking.text(document, *entry, "value")
            value = _unescaped(text, document.where(*entry))
            variables.append((looking.text(document, *entry, "name"), Word(value, at)))
    return CommandLine(tuple(words), Text(document.text, document.source), tuple(variables))


def words_of(document: Document, where: looking.Path) -> list[Word]:
    """Words of the container's command and arguments, inside of a shell or as they are.

    Without a command the image stands for the program that it runs.
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
    if len(out) == 3 and out[0].text.rpartition("/")[2] in SHELLS and out[1].text == "-c":
        inside = split(out[2].text, document.where(*where))
        return [Word(word.text, out[2].at) for word in inside.words]
    return out


def _check_devices(document: Document, limits: looking.Path, served: ReplicaServer) -> None:
    """Refuse a number of devices that is not the layout's, if the pod says one."""
    devices, counted = int(served.layout.devices), {*LIMITS.values(), *OTHERS}
    for name in looking.mapping(document, *limits):
        given = looking.text(document, *limits, name)
        if name in counted and given != str(devices):
            raise looking.fault(
                document,
                (*limits, name),
                f"{given} devices, but {served.layout} takes {devices}",
                "give as many as the layout takes",
            )


def write(served: ReplicaServer, site: Site) -> ServeCommand:
    """Manifests of a Deployment and its Service, with a ConfigMap where the engine wants a file.

    Raises:
        LayoutError: A replica lies on several nodes, or the engine has no such layout.
        InfeasibleError: No room is left for a cache.
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
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": Quoted(name)},
        "spec": {
            "selector": {"app": Quoted(name)},
            "ports": [{"name": "http", "port": site.port, "targetPort": "http"}],
        },
    }
    documents = [_deployment(served, site, command, engine.IMAGE, name), service]
    if command.files:
        data = {file: BlockText(content) for file, content in command.files.items()}
        metadata = {"name": Quoted(f"{name}-config")}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        documents.insert(0, config)
    notes = [
        *command.notes,
        "mount a volume with the GGUF file where the command says"
        if served.engine == llamacpp.NAME
        else "a Secret hf-token with the key token opens networks that have to be asked for",
        f"kubectl port-forward service/{name} {site.port} makes the benchmark reach it",
    ]
    return ServeCommand(
        f"Kubernetes, {command.title}",
        (("kubectl", "apply", "-f", f"{name}.yaml"),),
        files={f"{name}.yaml": dump(*documents)},
        benchmark=command.benchmark,
        notes=tuple(notes),
        lost=command.lost,
    )


def label(model: str) -> str:
    """Name of a model that Kubernetes takes: lower-case letters, digits and single dashes.

    That of a Service begins with a letter (RFC 1035).

    >>> label("meta-llama/Llama-3.1-8B"), label("$(reboot)"), label("…"), label("7b")
    ('llama-3-1-8b', 'reboot', 'model', 'model-7b')
    """
    last = model.rstrip("/").rpartition("/")[2].lower()
    name = UNFIT.sub("-", last).strip("-")[:LONGEST].strip("-") or "model"
    return f"model-{name}" if name[0].isdigit() else name


def resource(site: Site) -> str:
    """Resource that counts the devices of a machine."""
    return LIMITS.get(site.gpu, LIMITS.get(site.vendor.lower(), LIMITS["nvidia"]))


def _deployment(
    served: ReplicaServer, site: Site, command: ServeCommand, image: str, name: str
) -> dict[str, Any]:
    words = [f"{CONFIG}/{word}" if word in command.files else word for word in command.words]
    words[0] = PROGRAMS.get(words[0], words[0])
    host = [] if "--host" in words else ["--host", "0.0.0.0"]
    limit = {resource(site): Quoted(str(int(served.layout.devices)))}
    probe = {"httpGet": {"path": "/health", "port": site.port}}
    variables = [
        {"name": variable, "value": Quoted(_escaped(value))}
        for variable, value in command.environment.items()
    ]
    container: dict[str, Any] = {
        "name": "server",
        "image": Quoted(image),
        "command": [Quoted(_escaped(word)) for word in (*words, *host)],
        "ports": [{"containerPort": site.port, "name": "http"}],
        "resources": {"limits": limit, "requests": dict(limit)},
        "startupProbe": {**probe, "periodSeconds": 10, "failureThreshold": 180},
        "readinessProbe": {**probe, "periodSeconds": 10},
        "env": [TOKEN, *variables],
    }
    volumes: list[dict[str, Any]] = []
    mounts: list[dict[str, Any]] = []
    if served.layout.devices > 1:
        memory = {"medium": "Memory", "sizeLimit": SHARED_MEMORY}
        volumes.append({"name": "shm", "emptyDir": memory})
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})
    if command.files:
        volumes.append({"name": "config", "configMap": {"name": f"{name}-config"}})
        mounts.append({"name": "config", "mountPath": CONFIG, "readOnly": True})
    pod: dict[str, Any] = {"containers": [container]}
    if volumes:
        container["volumeMounts"] = mounts
        pod["volumes"] = volumes
    labels = {"app": Quoted(name)}
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


def _escaped(word: str) -> str:
    """An argument that the kubelet leaves as it is."""
    return word.replace("$", "$$")
