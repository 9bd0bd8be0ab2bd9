"""Values of llm-d's modelservice chart, for one pool of vLLM or prefill and decode, and back.

Fields: ``charts/llm-d-modelservice/values.yaml`` and its schema, of
github.com/llm-d-incubation/llm-d-modelservice (commit 024c0f2d), and
``guides/pd-disaggregation/ms-pd/values.yaml`` of github.com/llm-d/llm-d. ``modelCommand:
vllmServe`` writes the program, the model, the port and the tensor-parallel degree; a sidecar sends
prompts to the pool of prefill first. The gateway and its scheduler are charts of their own.
"""

import json
from typing import Any, Final

from roofline.errors import InputError, LayoutError
from roofline.interop.commands import kubernetes, looking, shared, vllm
from roofline.interop.commands.command import Quoted, ServeCommand, dump
from roofline.interop.commands.dynamo import NIXL
from roofline.interop.commands.reading import Files, ParsedCommand, placed
from roofline.interop.commands.served import PrefillServers, ReplicaServer, Site
from roofline.interop.commands.words import Word
from roofline.records import replace
from roofline.schema import parse_yaml

NAME: Final = "llm-d"
VERSION: Final = "0.9"
TITLE: Final = f"llm-d {VERSION}"
IMAGE: Final = f"ghcr.io/llm-d/llm-d-cuda:v{VERSION}.0"
CHART: Final = "llm-d-modelservice/llm-d-modelservice"
SECRET: Final = "llm-d-hf-token"
PORT: Final = 8000
BEHIND: Final = 8200
"""Ports of the service, and of vLLM behind the sidecar of decode."""
TENSOR: Final = "--tensor-parallel-size"
WRITTEN: Final = ("vllm", "--port", TENSOR)
"""Beginnings of the words that the chart writes itself."""
CONTAINERS: Final = ("decode", "containers")


def write(served: ReplicaServer, site: Site, prefill: PrefillServers | None = None) -> ServeCommand:
    """Values of the chart, and how it is installed.

    Raises:
        InputError: The engine is not vLLM.
        LayoutError: A server lies on several nodes, or has copies of attention.
        InfeasibleError: No room is left for a cache.
    """
    if served.engine != vllm.NAME:
        raise InputError(f"llm-d runs vLLM, not {served.engine}", hint="leave `engine` at vllm")
    name = kubernetes.label(served.model)
    command, decode = _pool(served, site, split=prefill is not None, port=BEHIND)
    before: dict[str, Any] = {"create": False}
    notes, lost = [*command.notes], set(command.lost)
    if prefill is not None:
        other, before = _pool(prefill.served, prefill.site, split=True, port=PORT)
        notes += [f"prefill: {note}" for note in other.notes]
        lost |= other.lost
    values = {
        "modelArtifacts": {
            "name": Quoted(served.model),
            "uri": Quoted(f"hf://{served.model}"),
            "size": Quoted(f"{_gibibytes(site, served)}Gi"),
            "authSecretName": SECRET,
            "labels": {"llm-d.ai/inferenceServing": Quoted("true"), "llm-d.ai/model": Quoted(name)},
        },
        "routing": {"servicePort": PORT, "proxy": {"enabled": True, "connector": "nixlv2"}},
        "decode": decode,
        "prefill": before,
    }
    notes += [
        f"a Secret {SECRET} with the key HF_TOKEN opens networks that have to be asked for",
        "the gateway and the scheduler of llm-d are installed before it: see its guides",
    ]
    return ServeCommand(
        f"{TITLE}, {command.title}",
        (("helm", "install", name, CHART, "-f", f"{name}-values.yaml"),),
        files={f"{name}-values.yaml": dump(values)},
        benchmark=shared.aiperf(served, site),
        notes=tuple(notes),
        lost=frozenset(lost),
    )


def _pool(
    served: ReplicaServer, site: Site, *, split: bool, port: int
) -> tuple[ServeCommand, dict[str, Any]]:
    """Command of a server, and the values of its pool."""
    layout = served.layout
    if site.nodes(layout) > 1 or layout.dp != 1:
        raise LayoutError(
            f"{layout} is not written for llm-d: each server is on one node, with one copy of "
            "attention",
            hint="use tensor and pipeline parallelism within a node",
        )
    command = vllm.write(replace(served, replicas=1), site)
    words = [word for part in command.parts if part[0] not in WRITTEN for word in part]
    if split:
        words += ["--kv-transfer-config", json.dumps(NIXL)]
    ports = [{"containerPort": port, "name": "vllm", "protocol": "TCP"}]
    container: dict[str, Any] = {
        "name": "vllm",
        "image": Quoted(IMAGE),
        "modelCommand": "vllmServe",
        "args": [Quoted(word.replace("$", "$$")) for word in words],
        "ports": ports,
        "mountModelVolume": True,
    }
    variables: list[dict[str, Any]] = [
        {"name": name, "value": Quoted(value.replace("$", "$$"))}
        for name, value in command.environment.items()
    ]
    if split:
        place = {"fieldRef": {"fieldPath": "status.podIP"}}
        variables.append({"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": place})
        ports.append({"containerPort": 5600, "name": "nixl", "protocol": "TCP"})
    if variables:
        container["env"] = variables
    if layout.pp != 1:  # the chart counts the devices of tensor parallelism alone
        limit = {kubernetes.resource(site): Quoted(str(int(layout.devices)))}
        container["resources"] = {"limits": limit}
    return command, {
        "create": True,
        "replicas": served.replicas,
        "parallelism": {"tensor": int(layout.tp)},
        "containers": [container],
    }


def is_config(text: str) -> bool:
    """True for values of the chart."""
    return "modelArtifacts:" in text and "decode:" in text


def read(text: str, source: str, files: Files) -> ParsedCommand:
    """Engine's settings in values of the chart; of two pools those of decode.

    InputError or DocumentError without a container of vLLM, or where it is contradictory.
    """
    document = parse_yaml(text, source)
    for place in range(len(looking.items(document, *CONTAINERS))):
        where = (*CONTAINERS, place)
        words = kubernetes.words_of(document, where)
        if looking.text(document, *where, "modelCommand") == "vllmServe":
            # The chart writes the program, the model and the tensor-parallel degree.
            at, name = document.offset(*where, "modelCommand"), ("modelArtifacts", "name")
            arguments = words[looking.text(document, *where, "image") != "" :]
            model = Word(looking.text(document, *name), document.offset(*name))
            words = [Word("vllm", at), Word("serve", at), model, *arguments]
            degree = ("decode", "parallelism", "tensor")
            if tensor := looking.text(document, *degree):
                at = document.offset(*degree)
                words += [Word(TENSOR, at), Word(tensor, at)]
        line = kubernetes.line_of(document, where, words)
        if vllm.starts(line) is None:
            continue
        with placed(document.where(*where)):
            found: ParsedCommand = vllm.read(line, files)
        replicas = looking.count(document, "decode", "replicas")
        return replace(found, served=replace(found.served, replicas=replicas))
    raise looking.fault(
        document,
        CONTAINERS,
        "no container of decode starts vLLM",
        "give modelCommand: vllmServe, or its command in full",
    )


def _gibibytes(site: Site, served: ReplicaServer) -> int:
    """Room for the checkpoint, a tenth more than the weights of all devices. [GiB]"""
    return round(1.1 * site.room.weights * float(served.layout.devices) / vllm.GIB) + 1
