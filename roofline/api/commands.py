"""Commands that start a deployment under a serving engine."""

from roofline.api import setting
from roofline.api.parameters import Serving
from roofline.api.question import question
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
from roofline.cost.deployment import KEPT, Offload
from roofline.cost.measured import NONE
from roofline.errors import InputError
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
from roofline.serving.drafts import MTP
from roofline.table import Result


@question(Serving)
def serve_command(asked: Serving) -> Result:
    """Write the command that starts a deployment, and the one that measures it.

    Returns:
        Result: Table ``settings``; metadata ``command``, ``script``, ``benchmark``,
            ``environment``, ``files``, and ``lost``: what the command cannot say, each of which is
            in a note.

    Raises:
        RooflineError: Anything the user can mend: also a layout that the engine does not have, and
            a network that leaves no room for a cache.
    """
    named = targets.engine_of(asked.target, asked.engine)
    setting.check_share(asked.memory_utilization)
    if not 1 <= asked.port < 2**16:
        raise InputError(f"port is {asked.port}", hint="give a number from 1 to 65535")
    load = Load(asked.prompt, asked.output, asked.concurrency)
    network = setting.network_of(asked.model)
    device, box = setting.machine_of(asked.gpu, asked.node, None)
    degrees = setting.degrees_of(asked)
    if degrees.automatic:
        raise InputError(
            "a command is of one layout", hint="give it: roofline layouts says which is best"
        )
    arranged, replicas = setting.layout_of(asked.gpus, degrees)
    cache = asked.kv if asked.kv == "auto" else precision.named(asked.kv).name
    outside = asked.offload_weights
    deployment = setting.deployed(
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
        else Share(asked.memory_utilization)
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
    wanted = Served(
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
        offloaded=Offloaded(outside) if outside else None,
        speculation=_speculation(asked.draft, asked.draft_tokens, asked.draft_model),
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
    written = targets.write(asked.target, served, site)
    said = (unpublished, shortened, drafted)
    return Result(
        "serve-command",
        {"settings": settings(served, deployment, converted(memory, "device", room))},
        notes=(*(note for note in said if note), *written.notes),
        metadata={
            "target": asked.target,
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
