"""Settings of the server of a deployment, and back: bytes, limits, names."""

from pathlib import Path
from typing import Final

from roofline.api.setting import default_format, make_deployment, network_of
from roofline.content import there
from roofline.cost.adapters import NO_ADAPTERS, Lora
from roofline.cost.deployment import Deployment, Offload, Options
from roofline.cost.layout import different, pipeline
from roofline.cost.measured import NONE
from roofline.cost.memory import MemoryBudget, budget, outside_bytes, weight_bytes
from roofline.errors import InfeasibleError, InputError, UnknownNameError
from roofline.hardware.machine import Gpu, Node
from roofline.interop.commands import llamacpp
from roofline.interop.commands.memory import DIGITS, converted, kept_outside
from roofline.interop.commands.served import ReplicaServer, Room, ServerMemory
from roofline.interop.commands.targets import PRICED_AS, SHARELESS
from roofline.model import catalog, precision
from roofline.model.architecture import Architecture
from roofline.model.checkpoint_names import bases
from roofline.model.mixes import FILES, spelled
from roofline.records import replace
from roofline.serving.room import most_that_fits
from roofline.units import count, show_binary

TYPICAL_CONTEXT: Final = 8192
"""Longest sequence where neither a command nor a network says one. [token]"""
_STEP: Final = 1024
"""Longest sequences that are chosen are multiples of it, where they are longer. [token]"""


def checkpoint(model: str | Architecture) -> tuple[str, str]:
    """Name that an engine finds a network's weights by, and a note on it.

    A name of the catalog has a hub id, a path is one.
    """
    if isinstance(model, Architecture):
        return model.name, f"put the name or folder of the checkpoint in place of {model.name}"
    try:
        return catalog.entry(model)[0].hub, ""
    except UnknownNameError:
        pass
    path = Path(model)
    if path.stem == "config" and path.suffix == ".json":
        return str(path.parent), ""
    if there(path, "folder"):
        return model, ""
    return model, f"nobody published {model}: put the folder of its checkpoint in its place"


def head(model: str) -> str:
    """Name that an engine finds a draft's weights by: heads are in no catalog, networks may be."""
    try:
        return catalog.entry(model)[0].hub
    except UnknownNameError:
        return model


def network_named(name: str) -> Architecture:
    """Network of a checkpoint that a command names: as it is, or by the last part of a path.

    UnknownNameError where the catalog has none that is called so.
    """
    last = name.rstrip("/").rpartition("/")[2].lower()
    for each in [name, *bases(last)]:
        try:
            return network_of(each)
        except UnknownNameError:
            continue
    raise UnknownNameError(
        f"no network {name!r:.80} in the catalog", hint="say which it is with `model`"
    )


def deployment_of(
    served: ReplicaServer, network: Architecture, device: Gpu, box: Node | None
) -> tuple[Deployment, float | None]:
    """Deployment of a server, and the share of its devices' memory that it takes. [1]

    Where the server is told no share, it is the engine's default there, and None under those that
    have none: llama.cpp, TGI and Ollama take what is there. Network and devices are what the
    command does not say.
    """
    known = make_deployment(
        network,
        device,
        box,
        served.layout,
        weights=served.weights or None,
        kv=served.kv,
        engine=PRICED_AS[served.engine],
        options=Options(cuda_graphs=served.cuda_graphs, lora=_lora(served)),
        calibration=NONE,
    )
    if served.offloaded is not None:
        share = kept_outside(served.offloaded, "layers", room_of(known, served))
        known = replace(known, offload=Offload(weights=share))
    memory = served.memory
    if memory is None:
        if served.engine in SHARELESS:
            return known, None
        memory = usual_memory(served.engine, known)
    return known, converted(memory, "device", room_of(known, served))


def _lora(served: ReplicaServer) -> Lora:
    """Adapters of a server, as many as it has room for."""
    adapters = served.adapters
    if adapters is None:
        return NO_ADAPTERS
    return Lora(adapters.slots, adapters.rank or NO_ADAPTERS.lora_rank)


def room_of(deployment: Deployment, served: ReplicaServer) -> Room:
    """Bytes of a device that shares of memory are of."""
    context = longest(deployment, served)
    memory = _memory(deployment, served, context)
    return Room(
        capacity=memory.capacity,
        weights=memory.weights,
        activations=memory.activations,
        reserved=memory.runtime + memory.graphs + memory.buffer,
        layers=_layer_bytes(deployment),
        depth=len(deployment.architecture.layers),
        token=memory.kv / context,
    )


def longest(deployment: Deployment, served: ReplicaServer) -> int:
    """Longest sequence of a server. [token]"""
    return served.max_context or deployment.architecture.max_context or TYPICAL_CONTEXT


def usual_sequences(engine: str, deployment: Deployment) -> int:
    """Sequences that an engine runs at once unless told otherwise, of a replica. [1]"""
    if engine == llamacpp.NAME:
        return llamacpp.MOST_SLOTS
    return deployment.sequences * int(deployment.layout.dp)


def usual_memory(engine: str, deployment: Deployment) -> ServerMemory:
    """Share of memory that an engine takes unless told otherwise, as the engine means it.

    llama.cpp takes what it is told: the margin is what its ``--fit-target`` leaves, 1 GiB.
    """
    gpu = deployment.node.gpu
    if engine == llamacpp.NAME:
        return ServerMemory(round(1.0 - llamacpp.MARGIN / gpu.memory_bytes, DIGITS))
    known = deployment.engine
    return ServerMemory(known.memory_utilization_on(gpu), known.memory_of)


def usual_step(deployment: Deployment, sequences: int) -> int | None:
    """New tokens of a step unless told otherwise; None without limit.

    Enough for all sequences, where they decode in the steps that prefill.
    """
    tokens = int(deployment.step_tokens)
    least = sequences if deployment.engine.first == "decode" else 1
    return max(tokens, least) if tokens else None


def fitted(deployment: Deployment, served: ReplicaServer, least: int) -> tuple[ReplicaServer, str]:
    """A server whose longest sequence fits, and what was done for it.

    Args:
        deployment, served: What runs, and what it is told.
        least: Longest sequence that is going to be sent. [token]

    Raises:
        InputError: It is longer than what was asked for, or what was asked for than the network
            knows.
        InfeasibleError: It does not fit, or not what was asked for.
    """
    asked = served.max_context
    if asked is not None and asked < least:
        raise InputError(
            f"requests of {least:,} tokens are longer than `max_context={asked:,}`",
            hint="give shorter `prompt` and `output`, or a longer `max_context`",
        )
    context = longest(deployment, served)
    limit = deployment.architecture.max_context
    if limit is not None and asked is not None and asked > limit:
        raise InputError(
            f"`max_context={asked:,}` is longer than the {limit:,} that "
            f"{deployment.architecture.name} is made for",
            hint="give a shorter one",
        )
    if limit is not None and least > limit:
        raise InputError(
            f"requests of {least:,} tokens are longer than the {limit:,} that "
            f"{deployment.architecture.name} is made for",
            hint="give shorter `prompt` and `output`",
        )
    fits = most_that_fits(lambda tokens: _memory(deployment, served, tokens).free, context)
    if fits >= context:
        return replace(served, max_context=asked or deployment.architecture.max_context), ""
    wanted = asked or least
    if fits < wanted:
        memory = _memory(deployment, served, wanted)
        if memory.pool <= 0:
            raise InfeasibleError(
                f"{deployment.architecture.name} takes {show_binary(-memory.pool)} more than the "
                f"{show_binary(memory.budget)} it may have of each device, before any cache",
                hint="give more devices, or a narrower `weights`",
            )
        raise InfeasibleError(
            f"{deployment.architecture.name} leaves {show_binary(memory.pool)} of each device for "
            f"caches, and one sequence of {count(wanted)} tokens takes {show_binary(memory.kv)}",
            hint="give more devices, a narrower `weights` or `kv`, or a shorter context",
        )
    chosen = fits // _STEP * _STEP
    chosen = chosen if chosen >= least else fits
    note = (
        f"one sequence of the network's {count(context)} tokens does not fit: the longest is set "
        f"to {count(chosen)}"
    )
    return replace(served, max_context=chosen), note


def _memory(deployment: Deployment, served: ReplicaServer, context: int) -> MemoryBudget:
    """Budget of a device with one sequence in each of its groups."""
    sequences = served.max_sequences or usual_sequences(served.engine, deployment)
    tokens = served.token_budget or usual_step(deployment, sequences) or context
    share = served.memory.value if served.memory and served.memory.of == "device" else None
    return budget(
        deployment,
        batch=float(deployment.layout.dp),
        context=float(context),
        step_tokens=float(tokens),
        step_rows=float(sequences),
        utilization=share,
    )


def _layer_bytes(deployment: Deployment) -> float:
    """Weights of the layers of a device, of the stage with most. [B]"""
    stages = different(pipeline(deployment.architecture, deployment.layout, deployment.node))
    return max(
        float(weight_bytes(deployment, stage) - outside_bytes(deployment, stage.first, stage.last))
        for stage in stages
    )


def other_format(weights: str | None, network: Architecture) -> str:
    """Format that was asked for where it is not that of the checkpoint; else nothing."""
    if weights is None:
        return ""
    if (mix := spelled(weights)) in FILES:
        return mix
    name = precision.named(weights).name
    return "" if name == network.weight_format == default_format(network) else name
