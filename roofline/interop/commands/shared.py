"""Parts that the commands of all engines share."""

import math
from collections.abc import Mapping

from roofline.cost.layout import Layout
from roofline.cost.work import Number
from roofline.errors import LayoutError
from roofline.interop.commands.command import Notes
from roofline.interop.commands.flags import GivenFlags, Value
from roofline.interop.commands.served import ReplicaServer, Site

DTYPES: Mapping[str, str] = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""Formats that the engines compute in as asked, by their word for it."""
DTYPES_READ: Mapping[str, str] = {
    "auto": "", "half": "fp16", "float16": "fp16", "bfloat16": "bf16", "float": "fp32",
    "float32": "fp32",
}  # fmt: skip
SPLIT_READ = (
    "{}'s context parallelism does not divide the cache; the model's does: it counts {} times too "
    "few bytes of it"
)
SPLIT = (
    "{}'s context parallelism shares prefill; it does not divide the cache, of which each device "
    "then has {} times what is modelled"
)
"""Notes about context parallelism that is read and that is written, of an engine and a degree."""


def number(value: float) -> str:
    """A number on a command line, without an exponent.

    >>> number(0.9), number(0.8612345), number(4.0)
    ('0.9', '0.8612345', '4')
    """
    return f"{value:.7f}".rstrip("0").rstrip(".")


def parts(*settings: tuple[str, object]) -> list[tuple[str, ...]]:
    """Flags with their values: of true the flag alone, of None and false nothing.

    >>> parts(("--port", 8000), ("--share", 0.5), ("--eager", True), ("--length", None))
    [('--port', '8000'), ('--share', '0.5'), ('--eager',)]
    """
    return [
        (flag,)
        if value is True
        else (flag, number(value) if isinstance(value, float) else str(value))
        for flag, value in settings
        if value is not None and value is not False
    ]


def degrees(*settings: tuple[str, Number]) -> list[tuple[str, ...]]:
    """Flags with the degrees of a layout, those of 1 left out."""
    return [(flag, str(int(degree))) for flag, degree in settings if degree != 1]


def stage_variable(name: str, layout: Layout) -> dict[str, str]:
    """Variable of the environment with the layers of each stage, where a layout says them."""
    return {name: ",".join(map(str, layout.stages))} if layout.stages else {}


def divided(
    served: ReplicaServer, groups: int, notes: Notes, title: str
) -> tuple[int | None, int | None]:
    """Limits on sequences and tokens for each group of devices that has a scheduler of its own.

    Rounded up, with a note, where they do not divide.
    """
    out = []
    for name in ("max_sequences", "token_budget"):
        whole = getattr(served, name)
        each = None if whole is None else math.ceil(whole / groups)
        if each is not None and each * groups != whole:
            what = name.replace("_", " ").replace("max", "").strip()
            notes.lose(
                name,
                f"{title} counts {what} for each of {groups} groups: {each} each are "
                f"{each * groups}, not {whole}",
            )
        out.append(each)
    return out[0], out[1]


def say_replicas(served: ReplicaServer, notes: Notes) -> None:
    """Note that more than one replica is more than one command."""
    if served.replicas > 1:
        notes.lose(
            "replicas",
            f"the command starts one of {served.replicas} replicas; start each on devices of its "
            "own, behind a load balancer",
        )


def say_layout(layout: Layout, notes: Notes, title: str) -> None:
    """Note the parts of a layout that the engine has no flag for."""
    if layout.sequence_parallel:
        notes.lose(
            "sequence_parallel",
            f"{title} has no flag that splits norms by tokens for every network: what it does is "
            "its own choice",
        )
    if layout.microbatches:
        notes.lose(
            "microbatches", f"{title} has no flag for the number of micro-batches in a pipeline"
        )


def say_draft(served: ReplicaServer, notes: Notes) -> None:
    """Note the kind of an EAGLE head: those of one name are of several kinds."""
    if served.speculation is not None and served.speculation.method == "eagle":
        notes.say(f"{served.speculation.model} is started as an EAGLE-3 head")


def say_nodes(served: ReplicaServer, site: Site, notes: Notes, how: str) -> int:
    """Nodes of a replica; how it is started on each where there are several. [1]"""
    nodes = site.nodes(served.layout)
    if nodes > 1:
        notes.say(f"{int(served.layout.devices)} devices are {nodes} nodes: {how}")
    return nodes


def say_deployment(served: ReplicaServer, site: Site, notes: Notes, how: str) -> int:
    """Note replicas, a draft and the nodes of a replica, and how it is started; its nodes. [1]"""
    say_replicas(served, notes)
    say_draft(served, notes)
    return say_nodes(served, site, notes, how)


def aiperf(served: ReplicaServer, site: Site) -> tuple[tuple[str, ...], ...]:
    """Words of the AIPerf command that measures a server by OpenAI's interface."""
    load = site.load
    return (
        ("aiperf", "profile", "--model", served.model),
        ("--url", f"http://localhost:{site.port}"),
        ("--endpoint-type", "completions", "--streaming"),
        ("--isl", str(load.prompt), "--osl", str(load.output)),
        ("--extra-inputs", "ignore_eos:true"),
        ("--concurrency", str(load.concurrency), "--request-count", str(load.requests)),
    )


def lose_adapters(served: ReplicaServer, notes: Notes, how: str) -> None:
    """Note adapters that a command does not say, and how the engine is told of them."""
    if served.adapters is not None:
        notes.lose("adapters", f"the {served.adapters.slots:,} LoRA adapters are left out: {how}")


def refuse_layout(layout: Layout, title: str, why: str, hint: str) -> None:
    """Refuse a layout that an engine does not have."""
    raise LayoutError(f"{title} cannot do {layout}: {why}", hint=hint)


def formats(
    served: ReplicaServer,
    site: Site,
    notes: Notes,
    title: str,
    kv: Mapping[str, str],
    online: Mapping[str, str],
) -> dict[str, str]:
    """Values of the engine's flags for formats other than its defaults; a format it lacks is noted.

    Args:
        served, site, notes, title: What is served and where; what is noted, about which engine.
        kv: Words of the formats of its cache.
        online: Words of the formats that it turns a 16-bit checkpoint into on loading.
    """
    out = {}
    plain = site.stored in DTYPES
    if plain and served.weights in DTYPES:
        out["dtype"] = DTYPES[served.weights]
    elif plain and served.weights in online:
        out["quantization"] = online[served.weights]
    elif served.weights:
        notes.lose(
            "weights",
            f"{title} does not turn {site.stored} weights into {served.weights} on loading: put a "
            f"checkpoint that is stored so in place of {served.model}",
        )
    if served.kv not in kv:
        notes.lose(
            "kv", f"{title} has no {served.kv} cache: it has {', '.join(kv)}; left at its default"
        )
    elif served.kv != "auto":
        out["kv_cache_dtype"] = kv[served.kv]
    return out


def weights_of(given: GivenFlags, quantised: Mapping[str, str]) -> str:
    """Format that ``quantization`` and ``dtype`` ask for; empty where it is the checkpoint's."""
    method = given.chosen("quantization", quantised, "a quantisation that is not modelled")
    dtype = given.chosen("dtype", DTYPES_READ, "no type that weights are computed in")
    return method or ("" if method == "" else dtype or "")


def stages_of(found: Value | None, pp: int) -> tuple[int, ...]:
    """Layers of each stage, ``20,21,20``; DocumentError where they are not one number for each."""
    if found is None:
        return ()
    words = found.text.split(",")
    if not all(word.strip().isdecimal() and len(word) < 8 for word in words):
        found.refuse(f"{found.text!r:.60} are no layers of stages", "write 20,21,20")
    if len(words) != pp:
        found.refuse(f"{len(words)} stages, but {pp} are asked for", "give one number for each")
    return tuple(int(word) for word in words)
