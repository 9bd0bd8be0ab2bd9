"""A ``DynamoGraphDeployment`` of NVIDIA Dynamo around vLLM's or SGLang's workers: written.

Fields: ``nvidia.com/v1beta1`` as in ``examples/backends/*/deploy/v1beta1/`` (``agg.yaml``,
``disagg.yaml``) of github.com/ai-dynamo/dynamo, and the flags of ``dynamo.vllm`` and
``dynamo.sglang`` in the package ai-dynamo 1.6.1: each takes its engine's own, and
``--disaggregation-mode``. Caches go from workers of prefill to those of decode by NIXL.
"""

import json
from typing import Any, Final

from roofline.errors import InputError, LayoutError
from roofline.interop.commands import kubernetes, sglang, shared, vllm
from roofline.interop.commands.command import Quoted, ServeCommand, dump
from roofline.interop.commands.served import PrefillServers, ReplicaServer, Site
from roofline.records import replace

NAME: Final = "dynamo"
VERSION: Final = "1.6.1"
TITLE: Final = f"NVIDIA Dynamo {VERSION}"
REGISTRY: Final = "nvcr.io/nvidia/ai-dynamo"
API: Final = "nvidia.com/v1beta1"
KIND: Final = "DynamoGraphDeployment"
NIXL: Final = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
BOOTSTRAP: Final = 12345
"""Port at which SGLang's workers of prefill and decode find each other."""
SECRET: Final = "hf-token-secret"
SERVED: Final = (vllm.NAME, sglang.NAME)
"""Engines whose workers are written."""


def write(served: ReplicaServer, site: Site, prefill: PrefillServers | None = None) -> ServeCommand:
    """The manifest of a frontend and its workers, of one kind or of prefill and decode.

    Raises:
        InputError: Neither vLLM nor SGLang runs in it.
        LayoutError: A worker lies on several nodes, or the engine has no such layout.
        InfeasibleError: No room is left for a cache.
    """
    if served.engine not in SERVED:
        raise InputError(
            f"workers of {served.engine} are not written for Dynamo",
            hint=f"`engine` takes {' and '.join(SERVED)} here",
        )
    name = kubernetes.label(served.model)
    image = Quoted(f"{REGISTRY}/{served.engine}-runtime:{VERSION}")
    command, worker = _worker(served, site, "decode" if prefill else "", image)
    components = [
        {
            "name": "Frontend",
            "type": "frontend",
            "replicas": 1,
            "podTemplate": {"spec": {"containers": [{"name": "main", "image": image}]}},
        },
        worker,
    ]
    notes, lost = [*command.notes], set(command.lost)
    if prefill is not None:
        other, before = _worker(prefill.served, prefill.site, "prefill", image)
        components.append(before)
        notes += [f"prefill: {note}" for note in other.notes]
        lost |= other.lost
    manifest = {
        "apiVersion": API,
        "kind": KIND,
        "metadata": {"name": Quoted(name)},
        "spec": {"components": components},
    }
    notes += [
        f"a Secret {SECRET} with the key HF_TOKEN opens networks that have to be asked for",
        f"kubectl port-forward service/{name}-frontend {site.port}:8000 makes the benchmark "
        "reach it",
    ]
    return ServeCommand(
        f"{TITLE}, {command.title}",
        (("kubectl", "apply", "-f", f"{name}.yaml"),),
        files={f"{name}.yaml": dump(manifest)},
        benchmark=shared.aiperf(served, site),
        notes=tuple(notes),
        lost=frozenset(lost),
    )


def _worker(
    served: ReplicaServer, site: Site, mode: str, image: Quoted
) -> tuple[ServeCommand, dict[str, Any]]:
    """Command of a worker's engine, and its component of a mode; of neither where that is empty."""
    if site.nodes(served.layout) > 1:
        raise LayoutError(
            f"{served.layout} takes {int(served.layout.devices)} devices, and a worker is on one "
            f"node of {site.gpus_per_node}",
            hint="use a layout within a node: workers of several nodes are not written",
        )
    engine = kubernetes.ENGINES[served.engine]
    command: ServeCommand = engine.write(replace(served, replicas=1), site)
    parts = [part for part in command.parts if part[0] != "--port"]
    words = [word for part in parts for word in part]
    if served.engine == vllm.NAME:
        words = ["--model", *words[len(("vllm", "serve")) :]]
    else:
        words = words[len(("sglang", "serve")) :]
    if mode:
        words += ["--disaggregation-mode", mode]
        if served.engine == vllm.NAME:
            words += ["--kv-transfer-config", json.dumps(NIXL)]
        else:
            words += ["--disaggregation-transfer-backend", "nixl"]
            words += ["--disaggregation-bootstrap-port", str(BOOTSTRAP), "--host", "0.0.0.0"]
    devices = Quoted(str(int(served.layout.devices)))
    container: dict[str, Any] = {
        "name": "main",
        "image": image,
        "command": ["python3", "-m", f"dynamo.{served.engine}"],
        "args": [Quoted(word.replace("$", "$$")) for word in words],
        "envFrom": [{"secretRef": {"name": SECRET}}],
        "resources": {"limits": {kubernetes.resource(site): devices}},
    }
    if command.environment:
        container["env"] = [
            {"name": each, "value": Quoted(value.replace("$", "$$"))}
            for each, value in command.environment.items()
        ]
    return command, {
        "name": f"{mode or 'Worker'}".capitalize(),
        "type": mode or "worker",
        "replicas": served.replicas,
        "podTemplate": {"spec": {"containers": [container]}},
    }
