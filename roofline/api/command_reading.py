"""Deployments that commands of serving engines start."""

from collections.abc import Mapping
from pathlib import Path

from roofline import schema
from roofline.api.serving_room import deployment_of, network_named
from roofline.api.serving_tables import about, asking, settings
from roofline.api.setting import machine_of, network_of
from roofline.cost.deployment import Deployment
from roofline.hardware.machine import Gpu, Node
from roofline.interop.commands import targets
from roofline.interop.commands.reading import Read
from roofline.model.architecture import Architecture
from roofline.schema import Document
from roofline.table import Result, table


def parse_command(
    command: str,
    gpu: str | Gpu | None = None,
    *,
    node: str | Node | None = None,
    model: str | Architecture = "",
    files: Mapping[str, str] | None = None,
    source: str = "command",
) -> Result:
    """Say what a command of a serving engine deploys, and ask roofline the same.

    Args:
        command: ``"vllm serve …"``, ``"python -m sglang.launch_server …"``, ``"trtllm-serve …"``,
            ``"llama-server …"``; or the text of a Kubernetes manifest or a Ray Serve configuration.
        gpu, node: Where it runs, which it does not say; as for `roofline.api.analyze`.
        model: Network, where the catalog does not know the checkpoint by its name.
        files: Text of files that the command names; others are read from disk.
        source: What errors call the command.

    Returns:
        Result: Tables ``settings`` and ``unused`` (flags that change nothing that is modelled);
            metadata ``analyze`` and ``simulate``, the same deployment as commands of roofline.

    Raises:
        RooflineError: Anything the user can mend: also flags that contradict each other, with their
            place.
    """
    found, deployment, share = _understood(command, gpu, node, model, files, source)
    served = found.served
    unused = table([{"flag": flag} for flag in found.unused], {"flag": ""})
    machine = [node] if isinstance(node, str) else []
    asked = asking(served, deployment, share, machine)
    notes = [*found.notes]
    if served.engine not in ("vllm", "sglang", "trtllm"):
        notes.append("llama.cpp is priced as an ideal engine: its own costs are not known")
    return Result(
        "parse-command",
        {"settings": settings(served, deployment, share), "unused": unused},
        notes=tuple(notes),
        metadata={
            **about(served, deployment),
            "memory_utilization": share,
            "max_sequences": served.max_sequences,
            "token_budget": served.token_budget,
            "max_context": served.max_context,
            "cuda_graphs": served.cuda_graphs,
            "analyze": asked[0],
            "simulate": asked[1],
        },
    )


def deployment_of_command(
    command: str,
    gpu: str | Gpu | None = None,
    *,
    node: str | Node | None = None,
    model: str | Architecture = "",
    files: Mapping[str, str] | None = None,
) -> Deployment:
    """Deployment that a command starts, at the datasheet's rates.

    Args:
        command, gpu, node, model, files: As for `parse_command`.

    Raises:
        RooflineError: Anything the user can mend.
    """
    return _understood(command, gpu, node, model, files)[1]


def _understood(
    command: str,
    gpu: str | Gpu | None,
    node: str | Node | None,
    model: str | Architecture,
    files: Mapping[str, str] | None,
    source: str = "command",
) -> tuple[Read, Deployment, float | None]:
    device, box = machine_of(gpu, node, None)

    def read_file(name: str) -> Document:
        if files is not None and name in files:
            return schema.parse_yaml(files[name], name)
        return schema.read(Path(name))

    found = targets.read(command, read_file, source)
    network = network_of(model) if model else network_named(found.served.model)
    deployment, share = deployment_of(found.served, network, device, box)
    return found, deployment, share
