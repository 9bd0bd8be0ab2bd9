"""Commands that start a deployment under a serving engine."""

from roofline.api.serving_room import (
    checkpoint,
    fitted,
    head,
    other_format,
    room_of,
    usual_memory,
    usual_sequences,
    usual_step,
)
from roofline.api.serving_tables import about, settings
from roofline.api.setting import (
    DEFAULT_MODEL,
    Degrees,
    check_share,
    default_format,
    deployed,
    layout_of,
    machine_of,
    network_of,
    options_of,
)
from roofline.bench.calibrations import NONE
from roofline.cost.offload import KEPT, Offload
from roofline.errors import InputError
from roofline.hardware.machine import Gpu, Node
from roofline.interop.commands import targets, vllm
from roofline.interop.commands.command import shell
from roofline.interop.commands.memory import converted
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
from roofline.serving.drafts import MTP
from roofline.table import Result


def serve_command(
    model: str | Architecture = DEFAULT_MODEL,
    gpu: str | Gpu | None = None,
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
    cuda_graphs: bool = True,
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
    offload_weights, cuda_graphs
        As for `roofline.api.analyze`.
    target, engine
        ``"vllm"``, ``"sglang"``, ``"trtllm"``, ``"llamacpp"``; or ``"k8s"`` and ``"ray-serve"``
        around an engine.
    max_sequences, token_budget
        Sequences at once and new tokens of a step, of a replica; None for the engine's default on
        that device. [1]
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
        options=options_of(cuda_graphs=cuda_graphs),
        offload=Offload(weights=offload_weights) if offload_weights else KEPT,
        calibration=NONE,
    )
    memory = (
        usual_memory(named, deployment) if memory_utilization is None else Share(memory_utilization)
    )
    if draft == "mtp" and MTP not in network.other_parameters:
        raise InputError(
            f"{network.name} has no layer that predicts further tokens",
            hint="draft with eagle, ngram or model",
        )
    sequences = usual_sequences(named, deployment) if max_sequences is None else max_sequences
    if max_sequences is None and token_budget is not None and named == vllm.NAME:
        sequences = min(sequences, max(token_budget, 1))  # as the engine does by itself
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
        memory=memory,
        chunked_prefill=chunked_prefill,
        prefix_caching=prefix_caching,
        cuda_graphs=cuda_graphs,
        offloaded=Offloaded(offload_weights) if offload_weights else None,
        speculation=_speculation(draft, draft_tokens, draft_model),
    )
    served, shortened = fitted(deployment, asked, prompt + output)
    drafted = "weights and cache of the draft are not in the share of memory" if draft_model else ""
    room = room_of(deployment, served)
    site = Site(
        room,
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
        {"settings": settings(served, deployment, converted(memory, "device", room))},
        notes=(*(note for note in said if note), *written.notes),
        metadata={
            "target": target,
            "title": written.title,
            **about(served, deployment),
            "command": list(written.words),
            "environment": dict(written.environment),
            "files": dict(written.files),
            "script": written.script,
            "benchmark": shell(written.benchmark),
            "lost": sorted(written.lost),
        },
    )


def _speculation(draft: str, tokens: int, model: str) -> Speculation | None:
    if not draft:
        if model:
            raise InputError("a draft model without --draft", hint="say --draft eagle or model")
        return None
    method = next((name for name in METHODS if name == draft.strip().lower()), None)
    if method is None:
        raise InputError(f"draft is {draft!r:.40}", hint=f"it is one of {', '.join(METHODS)}")
    return Speculation(method, tokens, head(model) if model else "")
