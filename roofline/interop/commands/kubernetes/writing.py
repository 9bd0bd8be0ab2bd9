"""A server as manifests of Kubernetes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from roofline.errors import LayoutError
from roofline.interop.commands import llamacpp
from roofline.interop.commands.command import Command
from roofline.interop.commands.kubernetes import facts
from roofline.interop.commands.served import Served, Site
from roofline.interop.commands.yaml_text import Block, Quoted, dump


def write(served: Served, site: Site) -> Command:
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
    engine = facts.ENGINES[served.engine]
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
    return facts.UNFIT.sub("-", last).strip("-")[: facts.LONGEST].strip("-") or "model"


def _deployment(
    served: Served, site: Site, command: Command, image: str, name: str
) -> dict[str, Any]:
    labels = {"app": Quoted(name)}
    pod: dict[str, Any] = {"containers": [_container(served, site, command, image)]}
    volumes: list[dict[str, Any]] = []
    if served.layout.devices > 1:
        memory = {"medium": "Memory", "sizeLimit": facts.SHARED_MEMORY}
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
    words = [f"{facts.CONFIG}/{word}" if word in command.files else word for word in command.words]
    words[0] = facts.PROGRAMS.get(words[0], words[0])
    host = [] if "--host" in words else ["--host", "0.0.0.0"]
    mounts: list[dict[str, Any]] = []
    if served.layout.devices > 1:
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})
    if command.files:
        mounts.append({"name": "config", "mountPath": facts.CONFIG, "readOnly": True})
    devices = Quoted(str(int(served.layout.devices)))
    resource = facts.LIMITS.get(
        site.gpu, facts.LIMITS.get(site.vendor.lower(), facts.LIMITS["nvidia"])
    )
    limit = {resource: devices}
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
    out["env"] = [facts.TOKEN] + [
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
