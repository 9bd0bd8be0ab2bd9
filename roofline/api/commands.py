"""Commands of serving engines: written for a deployment, and read back to one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from roofline import schema
from roofline.api import setting
from roofline.api.parameters import ServeCommandQuestion
from roofline.api.question import question
from roofline.api.serving_room import (
    checkpoint,
    deployment_of,
    fitted,
    head,
    network_named,
    other_format,
    room_of,
    usual_memory,
    usual_sequences,
    usual_step,
)
from roofline.api.setting import machine_of, network_of
from roofline.cost.deployment import KEPT, Deployment, Offload
from roofline.cost.layout import Layout
from roofline.cost.layout import parse as parse_layout
from roofline.cost.measured import NONE
from roofline.errors import InputError, not_one_of
from roofline.hardware.machine import Gpu, Node
from roofline.interop.commands import targets, vllm
from roofline.interop.commands.command import shell
from roofline.interop.commands.memory import converted
from roofline.interop.commands.reading import ParsedCommand
from roofline.interop.commands.served import (
    METHODS,
    Adapters,
    BenchmarkLoad,
    DraftSettings,
    OffloadedWeights,
    PrefillServers,
    ReplicaServer,
    ServerMemory,
    Site,
)
from roofline.model import precision
from roofline.model.architecture import Architecture
from roofline.records import replace
from roofline.schema import Document
from roofline.serving.drafts import MTP
from roofline.study.commands import command_line
from roofline.table import Result, Table, table

AUTO: Final = "auto"
"""Target that stands for the fastest engine."""


def about(served: ReplicaServer, deployment: Deployment) -> dict[str, Any]:
    """Network, devices and formats of a server, as plain values."""
    gpu = deployment.node.gpu
    return {
        "engine": served.engine,
        "model": deployment.architecture.name,
        "checkpoint": served.model,
        "gpu": gpu.name,
        "gpu_title": gpu.title,
        "gpus": served.replicas * deployment.devices,
        "replicas": served.replicas,
        "layout": deployment.layout.spelled,
        "weights": deployment.weights_name,
        "kv": deployment.precision.kv.name,
    }


def settings(served: ReplicaServer, deployment: Deployment, share: float | None) -> Table:
    """Settings of the server, in words."""
    draft = served.speculation
    drafts = "none" if draft is None else f"{draft.tokens} by {draft.method} {draft.model}".strip()
    outside = deployment.offload.weights
    rows = {
        "engine": served.engine,
        "checkpoint": served.model,
        "layout": str(deployment.layout),
        "replicas": str(served.replicas),
        "weights": served.weights or f"{deployment.weights_name}, as stored",
        "KV cache": deployment.precision.kv.name,
        "memory": "the engine's own share" if share is None else f"{share:.4g} of each device",
        "sequences at once": _or_own(served.max_sequences),
        "new tokens of a step": _or_own(served.token_budget),
        "steps between looks at new requests": f"{served.recv_interval:,}",
        "tokens sent together": f"{served.stream_interval:,}",
        "steps that prompts wait for others": f"{served.dp_timeout_iters:,}",
        "longest sequence": _or_own(served.max_context),
        "chunked prefill": "yes" if served.chunked_prefill else "no",
        "prefix caching": "yes" if served.prefix_caching else "no",
        "CUDA graphs": "yes" if served.cuda_graphs else "no",
        "weights on the host": f"{outside:.4g} of the layers" if outside else "none",
        "drafted tokens": drafts,
        "LoRA adapters": _adapters_said(served.adapters),
    }
    return table([{"setting": name, "value": value} for name, value in rows.items()], {})


def _adapters_said(adapters: Adapters | None) -> str:
    if adapters is None:
        return "none"
    return f"{adapters.slots:,} in a step, of rank {adapters.rank or 'their own'}"


def _or_own(value: int | None) -> str:
    return "the engine's own" if value is None else f"{value:,}"


def asking(
    served: ReplicaServer, deployment: Deployment, share: float | None, node: list[str]
) -> tuple[str, str]:
    """Commands of roofline about the same deployment."""
    layout, outside = deployment.layout, deployment.offload.weights
    replicas = served.replicas * deployment.devices if served.replicas > 1 else None
    same = {
        "gpu": deployment.node.gpu.name,
        "node": "".join(node),
        "layout": layout.spelled if deployment.devices > 1 else "",
        "gpus": replicas,
        "weights": served.weights,
        "kv": "" if served.kv == "auto" else served.kv,
        "engine": targets.PRICED_AS[served.engine],
        "memory_utilization": None if served.memory is None else f"{share:.4g}",
        "adapters": served.adapters and served.adapters.slots,
        "lora_rank": served.adapters and served.adapters.rank,
    }
    eager = {"no_cuda_graphs": None if served.cuda_graphs else True}
    analyze = {
        "stages": ",".join(map(str, layout.stages)),
        "offload_weights": f"{outside:.4g}" if outside else "",
    }
    simulate = {
        "max_sequences": served.max_sequences,
        "token_budget": served.token_budget,
        "recv_interval": served.recv_interval if served.recv_interval > 1 else None,
        "stream_interval": served.stream_interval if served.stream_interval > 1 else None,
        "dp_timeout_iters": served.dp_timeout_iters or None,
    }
    whole = {"no_prefix_caching": None if served.prefix_caching else True}
    name = deployment.architecture.name
    return (
        command_line("analyze", name, same | analyze | eager),
        command_line("simulate", name, same | simulate | eager | whole),
    )


@question(ServeCommandQuestion)
def serve_command(asked: ServeCommandQuestion) -> Result:
    """Write the command that starts a deployment, and the one that measures it.

    Returns:
        Result: Table ``settings``; metadata ``command``, ``script``, ``benchmark``,
            ``environment``, ``files``, and ``lost``: what the command cannot say, each of which is
            in a note.

    Raises:
        RooflineError: Anything the user can mend: also a layout that the engine does not have, and
            a network that leaves no room for a cache.
    """
    target = asked.target or asked.engine or vllm.NAME
    priced = tuple[str, ...]()
    if target == AUTO:
        from roofline.api.fastest import fastest  # which loads all that prices

        target, priced = fastest(asked)
    named = targets.engine_of(target, asked.engine)
    setting.check_share(asked.memory_utilization)
    if not 1 <= asked.port < 2**16:
        raise InputError(f"port is {asked.port}", hint="give a number from 1 to 65535")
    load = BenchmarkLoad(asked.prompt, asked.output, asked.concurrency)
    network = setting.network_of(asked.model)
    device, box = setting.machine_of(asked.gpu, asked.node, None)
    degrees = setting.degrees_of(asked)
    if degrees.automatic:
        raise InputError(
            "a command is of one layout", hint="give it: roofline layouts says which is best"
        )
    arranged, replicas = setting.layout_of(asked.gpus, degrees)
    decode = _server(asked, named, device, box, network, arranged, replicas, load)
    before = _prefill(asked, named, device, box, network, load)
    served, deployment, room = decode.served, decode.deployment, decode.site.room
    pool, more = None, 0
    if before is not None:
        lengths = [each.max_context for each in (served, before.served) if each.max_context]
        both = min(lengths, default=None)  # a sequence goes through either
        served = replace(served, max_context=both)
        pool = PrefillServers(replace(before.served, max_context=both), before.site)
        more = before.served.replicas * before.deployment.devices
    written = targets.write(target, served, decode.site, pool)
    said = (*priced, *decode.notes, *(before.notes if before else ()))
    share = None if served.memory is None else converted(served.memory, "device", room)
    return Result(
        "serve-command",
        {"settings": settings(served, deployment, share)},
        notes=(*dict.fromkeys(said), *written.notes),
        metadata={
            "target": target,
            "title": written.title,
            **about(served, deployment),
            "gpus": served.replicas * deployment.devices + more,
            "command": list(written.words),
            "environment": dict(written.environment),
            "files": dict(written.files),
            "script": written.script,
            "benchmark": shell(written.benchmark),
            "lost": sorted(written.lost),
        },
    )


class _Server(Struct, frozen=True):
    """A server as it is written: settings, machine, deployment, and notes on them."""

    served: ReplicaServer
    site: Site
    deployment: Deployment
    notes: tuple[str, ...]


def _prefill(
    asked: ServeCommandQuestion,
    named: str,
    device: Gpu,
    box: Node | None,
    network: Architecture,
    load: BenchmarkLoad,
) -> _Server | None:
    """Servers of prefill beside those of decode, with the same limits; None where none are asked.

    They draft nothing: answers begin in them and go on elsewhere.
    """
    if not asked.prefill:
        if asked.prefill_replicas != 1:
            raise InputError("servers of prefill without `prefill`", hint="say its layout")
        return None
    if asked.prefill_replicas < 1:
        raise InputError(f"{asked.prefill_replicas} servers of prefill", hint="give 1 or more")
    alone = ServeCommandQuestion(**vars(asked) | {"draft": "", "draft_model": ""})
    arranged = parse_layout(asked.prefill)
    return _server(alone, named, device, box, network, arranged, asked.prefill_replicas, load)


def _server(
    asked: ServeCommandQuestion,
    named: str,
    device: Gpu,
    box: Node | None,
    network: Architecture,
    arranged: Layout,
    replicas: int,
    load: BenchmarkLoad,
) -> _Server:
    """A server of an engine in a layout, as it is asked for."""
    cache = asked.kv if asked.kv == "auto" else precision.named(asked.kv).name
    outside = asked.offload_weights
    deployment = setting.make_deployment(
        network,
        device,
        box,
        arranged,
        weights=asked.weights,
        # What the engine does not have is said below, and takes no room here.
        kv=cache if cache in targets.ENGINES[named].KV else "auto",
        engine=targets.PRICED_AS[named],
        options=setting.options_asked(asked),
        offload=Offload(weights=outside) if outside else KEPT,
        calibration=NONE,
    )
    memory = (
        usual_memory(named, deployment)
        if asked.memory_utilization is None
        else ServerMemory(asked.memory_utilization)
    )
    if asked.draft == "mtp" and MTP not in network.other_parameters:
        raise InputError(
            f"{network.name} has no layer that predicts further tokens",
            hint="draft with eagle, ngram or model",
        )
    sequences, budget = asked.max_sequences, asked.token_budget
    if sequences is None:
        sequences = usual_sequences(named, deployment)
        if budget is not None and named == vllm.NAME:
            sequences = min(sequences, max(budget, 1))  # as the engine does by itself
    name, unpublished = checkpoint(asked.model)
    wanted = ReplicaServer(
        named,
        name,
        arranged,
        replicas=replicas,
        weights=other_format(asked.weights, network),
        kv=cache,
        max_sequences=sequences,
        token_budget=usual_step(deployment, sequences) if budget is None else budget,
        max_context=asked.max_context,
        memory=memory,
        chunked_prefill=asked.chunked_prefill,
        prefix_caching=asked.prefix_caching,
        cuda_graphs=asked.cuda_graphs,
        offloaded=OffloadedWeights(outside) if outside else None,
        speculation=_speculation(asked.draft, asked.draft_tokens, asked.draft_model),
        adapters=_adapters(deployment),
    )
    served, shortened = fitted(deployment, wanted, asked.prompt + asked.output)
    drafted = ""
    if asked.draft_model:
        drafted = "weights and cache of the draft are not in the share of memory"
    room = room_of(deployment, served)
    site = Site(
        room,
        device.name,
        device.vendor,
        deployment.node.gpus,
        setting.default_format(network),
        load,
        asked.port,
    )
    said = (unpublished, shortened, drafted)
    return _Server(served, site, deployment, tuple(note for note in said if note))


def _adapters(deployment: Deployment) -> Adapters | None:
    """Room of a server for the adapters that a deployment keeps on its devices."""
    lora = deployment.options.lora
    return Adapters(lora.kept, lora.lora_rank) if lora.adapters else None


def _speculation(draft: str, tokens: int, model: str) -> DraftSettings | None:
    if not draft:
        if model:
            raise InputError("a draft model without `draft`", hint="say `draft=eagle` or model")
        return None
    method = next((name for name in METHODS if name == draft.strip().lower()), None)
    if method is None:
        raise not_one_of("draft", draft, METHODS)
    return DraftSettings(method, tokens, head(model) if model else "")


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
        command: ``"vllm serve …"``, ``"sglang serve …"``, ``"trtllm-serve …"``,
            ``"llama-server …"``, ``"text-generation-launcher …"``, ``"lmdeploy serve api_server
            …"``, ``"ollama run …"``; or the text of a Kubernetes manifest, a Ray Serve
            configuration or a Docker Compose file.
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
    if served.engine in targets.STANDS_IN:
        notes.append(targets.STANDS_IN[served.engine])
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
) -> tuple[ParsedCommand, Deployment, float | None]:
    device, box = machine_of(gpu, node, None)

    def read_file(name: str) -> Document:
        if files is not None and name in files:
            return schema.parse_yaml(files[name], name)
        return schema.read(Path(name))

    found = targets.read(command, read_file, source)
    network = network_of(model) if model else network_named(found.served.model)
    deployment, share = deployment_of(found.served, network, device, box)
    return found, deployment, share
