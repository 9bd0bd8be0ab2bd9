"""Commands that start a deployment under a serving engine, and deployments that commands start."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from roofline import schema
from roofline.api.calibration import NONE
from roofline.api.serving_room import (
    checkpoint,
    deployment_of,
    fitted,
    habit,
    network_named,
    other_format,
    room_of,
    usual_share,
    usual_step,
)
from roofline.api.setting import (
    DEFAULT_GPU,
    DEFAULT_MODEL,
    Degrees,
    check_share,
    default_format,
    deployed,
    layout_of,
    machine_of,
    network_of,
)
from roofline.cost.deployment import Deployment
from roofline.cost.offload import KEPT, Offload
from roofline.errors import InputError
from roofline.hardware.machine import Gpu, Node
from roofline.interop.commands import targets
from roofline.interop.commands.command import shell
from roofline.interop.commands.reading import Read
from roofline.interop.commands.served import (
    METHODS,
    Load,
    Offloaded,
    Served,
    Share,
    Site,
    Speculation,
)
from roofline.model import precision
from roofline.model.architecture import Architecture
from roofline.schema import Document
from roofline.serving.drafts import MTP
from roofline.table import Result, Table, table

PAGE: Final = 100
"""Longest line of a command. [character]"""


def serve_command(
    model: str | Architecture = DEFAULT_MODEL,
    gpu: str | Gpu = DEFAULT_GPU,
    *,
    target: str = "vllm",
    engine: str | None = None,
    node: str | Node | None = None,
    gpus: int | None = None,
    layout: str = "",
    tp: int | None = None,
    pp: int | None = None,
    ep: int | None = None,
    dp: int | None = None,
    cp: int | None = None,
    stages: tuple[int, ...] = (),
    weights: str | None = None,
    kv: str = "auto",
    memory_utilization: float | None = None,
    max_sequences: int | None = None,
    max_context: int | None = None,
    token_budget: int | None = None,
    chunked_prefill: bool = True,
    prefix_caching: bool = True,
    offload_weights: float = 0.0,
    draft: str = "",
    draft_tokens: int = 3,
    draft_model: str = "",
    prompt: int = 2048,
    output: int = 256,
    concurrency: int = 16,
    port: int = 8000,
) -> Result:
    """Write the command that starts a deployment, and the one that measures it.

    Parameters
    ----------
    model, gpu, node, gpus, layout, tp, pp, ep, dp, cp, stages, weights, kv, memory_utilization, \
    offload_weights
        As for `roofline.api.analyze`.
    target, engine
        ``"vllm"``, ``"sglang"``, ``"trtllm"``, ``"llamacpp"``; or ``"k8s"`` and ``"ray-serve"``
        around an engine.
    max_sequences, token_budget
        Sequences at once and new tokens of a step, of a replica; None for the engine's habit. [1]
    max_context
        Longest sequence; None for the network's, or as much of it as fits. [token]
    chunked_prefill, prefix_caching
        Whether prompts are cut to fill a step; whether equal prefixes are kept once.
    draft, draft_tokens, draft_model
        What drafts (``"mtp"``, ``"eagle"``, ``"ngram"``, ``"model"``), how many tokens in a row,
        and the checkpoint of a head or network. [token]
    prompt, output, concurrency
        Lengths of the benchmark's requests [token], and how many at once [1].
    port
        Where the server listens.

    Returns
    -------
    Result
        Table ``settings``; metadata ``command``, ``script``, ``benchmark``, ``environment``,
        ``files``, and ``lost``: what the command cannot say, each of which is in a note.

    Raises
    ------
    RooflineError
        Anything the user can mend: also a layout that the engine does not have, and a network that
        leaves no room for a cache.
    """
    named = targets.engine_of(target, engine)
    check_share(memory_utilization)
    if not 1 <= port < 2**16:
        raise InputError(f"port is {port}", hint="give a number from 1 to 65535")
    load = Load(prompt, output, concurrency)
    network = network_of(model)
    device, box = machine_of(gpu, node, None)
    degrees = Degrees(layout, tp, cp, dp, ep, pp, tuple(stages))
    if degrees.automatic:
        raise InputError(
            "a command is of one layout", hint="give it: roofline layouts says which is best"
        )
    arranged, replicas = layout_of(gpus, degrees)
    cache = kv if kv == "auto" else precision.named(kv).name
    deployment = deployed(
        network,
        device,
        box,
        arranged,
        weights=weights,
        # What the engine does not have is said below, and takes no room here.
        kv=cache if cache in targets.ENGINES[named].KV else "auto",
        engine=targets.PRICED_AS[named],
        offload=Offload(weights=offload_weights) if offload_weights else KEPT,
        calibration=NONE,
    )
    share = memory_utilization or usual_share(named, deployment)
    if draft == "mtp" and MTP not in network.other_parameters:
        raise InputError(
            f"{network.name} has no layer that predicts further tokens",
            hint="draft with eagle, ngram or model",
        )
    sequences = habit(deployment) if max_sequences is None else max_sequences
    name, unpublished = checkpoint(model)
    asked = Served(
        named,
        name,
        arranged,
        replicas=replicas,
        weights=other_format(weights, network),
        kv=cache,
        max_sequences=sequences,
        token_budget=usual_step(deployment, sequences) if token_budget is None else token_budget,
        max_context=max_context,
        memory=Share(share),
        chunked_prefill=chunked_prefill,
        prefix_caching=prefix_caching,
        offloaded=Offloaded(offload_weights) if offload_weights else None,
        speculation=_speculation(draft, draft_tokens, draft_model),
    )
    served, shortened = fitted(deployment, asked, prompt + output)
    drafted = "weights and cache of the draft are not in the share of memory" if draft_model else ""
    site = Site(
        room_of(deployment, served),
        device.name,
        device.vendor,
        deployment.node.gpus,
        default_format(network),
        load,
        port,
    )
    written = targets.write(target, served, site)
    said = (unpublished, shortened, drafted)
    return Result(
        "serve-command",
        {"settings": _settings(served, deployment, share)},
        notes=(*(note for note in said if note), *written.notes),
        metadata={
            "target": target,
            "title": written.title,
            **_about(served, deployment),
            "command": list(written.words),
            "environment": dict(written.environment),
            "files": dict(written.files),
            "script": written.script,
            "benchmark": shell(written.benchmark),
            "lost": sorted(written.lost),
        },
    )


def parse_command(
    command: str,
    gpu: str | Gpu = DEFAULT_GPU,
    *,
    node: str | Node | None = None,
    model: str | Architecture = "",
    files: Mapping[str, str] | None = None,
    source: str = "command",
) -> Result:
    """Say what a command of a serving engine deploys, and ask roofline the same.

    Parameters
    ----------
    command
        ``"vllm serve …"``, ``"python -m sglang.launch_server …"``, ``"trtllm-serve …"``,
        ``"llama-server …"``; or the text of a Kubernetes manifest or a Ray Serve configuration.
    gpu, node
        Where it runs, which it does not say.
    model
        Network, where the catalog does not know the checkpoint by its name.
    files
        Text of files that the command names; others are read from disk.
    source
        What errors call the command.

    Returns
    -------
    Result
        Tables ``settings`` and ``unused`` (flags that change nothing that is modelled); metadata
        ``analyze`` and ``simulate``, the same deployment as commands of roofline.

    Raises
    ------
    RooflineError
        Anything the user can mend: also flags that contradict each other, with their place.
    """
    found, deployment, share = _understood(command, gpu, node, model, files, source)
    served = found.served
    unused = table([{"flag": flag} for flag in found.unused], {"flag": ""})
    machine = [node] if isinstance(node, str) else []
    asked = _asking(served, deployment, share, machine)
    notes = list(found.notes)
    if served.engine not in ("vllm", "sglang", "trtllm"):
        notes.append("llama.cpp is priced as an ideal engine: its own costs are not known")
    return Result(
        "parse-command",
        {"settings": _settings(served, deployment, share), "unused": unused},
        notes=tuple(notes),
        metadata={
            **_about(served, deployment),
            "memory_utilization": share,
            "max_sequences": served.max_sequences,
            "token_budget": served.token_budget,
            "max_context": served.max_context,
            "analyze": asked[0],
            "simulate": asked[1],
        },
    )


def deployment_of_command(
    command: str,
    gpu: str | Gpu = DEFAULT_GPU,
    *,
    node: str | Node | None = None,
    model: str | Architecture = "",
    files: Mapping[str, str] | None = None,
) -> Deployment:
    """Deployment that a command starts, at the datasheet's rates: see `parse_command`."""
    return _understood(command, gpu, node, model, files)[1]


def _understood(
    command: str,
    gpu: str | Gpu,
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


def _speculation(draft: str, tokens: int, model: str) -> Speculation | None:
    if not draft:
        if model:
            raise InputError("a draft model without --draft", hint="say --draft eagle or model")
        return None
    method = next((name for name in METHODS if name == draft.strip().lower()), None)
    if method is None:
        raise InputError(f"draft is {draft!r:.40}", hint=f"it is one of {', '.join(METHODS)}")
    return Speculation(method, tokens, model)


def _about(served: Served, deployment: Deployment) -> dict[str, Any]:
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
        "weights": deployment.precision.weights.name,
        "kv": deployment.precision.kv.name,
    }


def _settings(served: Served, deployment: Deployment, share: float | None) -> Table:
    """What the server is told, in words."""
    draft = served.speculation
    drafts = "none" if draft is None else f"{draft.tokens} by {draft.method} {draft.model}".strip()
    outside = deployment.offload.weights
    rows = {
        "engine": served.engine,
        "checkpoint": served.model,
        "layout": str(deployment.layout),
        "replicas": str(served.replicas),
        "weights": deployment.precision.weights.name + ("" if served.weights else ", as stored"),
        "KV cache": deployment.precision.kv.name,
        "memory": "the engine's own share" if share is None else f"{share:.4g} of each device",
        "sequences at once": _or_own(served.max_sequences),
        "new tokens of a step": _or_own(served.token_budget),
        "longest sequence": _or_own(served.max_context),
        "chunked prefill": "yes" if served.chunked_prefill else "no",
        "prefix caching": "yes" if served.prefix_caching else "no",
        "weights on the host": f"{outside:.4g} of the layers" if outside else "none",
        "drafted tokens": drafts,
    }
    return table([{"setting": name, "value": value} for name, value in rows.items()], {})


def _or_own(value: int | None) -> str:
    return "the engine's own" if value is None else f"{value:,}"


def _asking(
    served: Served, deployment: Deployment, share: float | None, node: list[str]
) -> tuple[str, str]:
    """Commands of roofline about the same deployment."""
    layout, outside = deployment.layout, deployment.offload.weights
    replicas = served.replicas * deployment.devices if served.replicas > 1 else None
    same = [
        ("--gpu", deployment.node.gpu.name),
        ("--node", *node),
        ("--layout", layout.spelled if deployment.devices > 1 else ""),
        ("--gpus", replicas),
        ("--weights", served.weights),
        ("--kv", "" if served.kv == "auto" else served.kv),
        ("--engine", targets.PRICED_AS[served.engine]),
        ("--memory-utilization", None if share is None else f"{share:.4g}"),
    ]
    stages = ",".join(map(str, layout.stages))
    analyze = [("--stages", stages), ("--offload-weights", f"{outside:.4g}" if outside else "")]
    simulate = [
        ("--max-sequences", served.max_sequences),
        ("--token-budget", served.token_budget),
    ]
    return (
        _asked("analyze", deployment, [*same, *analyze]),
        _asked("simulate", deployment, [*same, *simulate])
        + ("" if served.prefix_caching else " --no-prefix-caching"),
    )


def _asked(question: str, deployment: Deployment, given: Sequence[tuple[Any, ...]]) -> str:
    """A command of roofline, on lines of a page; options without a value are left out."""
    words = [(str(flag), str(*value)) for flag, *value in given if value and value[0]]
    parts = (("roofline", question, deployment.architecture.name), *words)
    line = shlex.join(word for part in parts for word in part)
    return line if len(line) <= PAGE else shell(parts)
