"""Machine, layout, formats and options for the cost model, from what people write."""

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, overload

from msgspec import Struct, structs

from roofline.api.parameters import (
    DEFAULT_GPU,
    CalibrationOptions,
    DegreeOptions,
    FacilityOptions,
    Placed,
)
from roofline.api.question import Question, refuse_unused, shared
from roofline.cost.adapters import NO_ADAPTERS
from roofline.cost.deployment import KEPT, Deployment, Offload, Options
from roofline.cost.layout import SINGLE, Layout, parse
from roofline.cost.measured import NONE
from roofline.cost.moe import Routing
from roofline.cost.sampling import LIKELIEST
from roofline.errors import InputError, LayoutError, QuantityError
from roofline.hardware import catalog as hardware
from roofline.hardware.engine import engine_on
from roofline.hardware.machine import Gpu, Node
from roofline.model import catalog as networks
from roofline.model import precision
from roofline.model.architecture import Architecture
from roofline.model.tower import TEXT_ALONE
from roofline.records import replace
from roofline.table import Result, table
from roofline.units import counted
from roofline.units import parse as parse_quantity

if TYPE_CHECKING:
    from roofline.serving.facility import Facility

MOST_GPUS: Final = 2**20


class Degrees(Struct, frozen=True):
    """A layout as it was asked for: spelled out, degree by degree, or left to be chosen."""

    spelled: str = ""
    """``"tp8-pp2"``; empty to give degrees one by one; ``"auto"`` to have it chosen."""
    tp: int | None = None
    cp: int | None = None
    dp: int | None = None
    ep: int | None = None
    pp: int | None = None
    """Degrees; None where not given. [1]"""
    stages: Sequence[int] = ()
    """Layers of each stage, where not even. [1]"""
    sequence_parallel: bool = False
    microbatches: int = 0
    """Options of the layout, as in `Layout`."""

    @property
    def automatic(self) -> bool:
        """True if the layout is to be chosen."""
        return self.spelled.strip().lower() == "auto"


def degrees_of(asked: DegreeOptions) -> Degrees:
    """Layout as a question spells it, as a whole or by its degrees."""
    return Degrees(spelled=asked.layout, **shared(asked, Degrees))


def models() -> list[str]:
    """Names of the networks that can be asked about.

    Examples:
        >>> "llama-3.1-8b" in models()
        True
    """
    return sorted({*networks.names(), *networks.patched()})


def gpus() -> list[str]:
    """Names of the GPUs that can be asked about.

    Examples:
        >>> "h100-sxm" in gpus()
        True
    """
    return hardware.gpu_names()


def network_of(model: str | Architecture) -> Architecture:
    """Network by name, or as it is."""
    return networks.architecture(model) if isinstance(model, str) else model


def machine_of(
    gpu: str | Gpu | None, node: str | Node | None, usd_per_hour: float | None
) -> tuple[Gpu, Node | None]:
    """GPU and, where one was named, the node that it is in.

    Without a GPU it is that of the node, and without either the `DEFAULT_GPU`. InputError where
    the node has other GPUs than were asked for, or the price has no meaning.
    """
    box = hardware.node(node) if isinstance(node, str) else node
    if gpu is None:
        gpu = DEFAULT_GPU if box is None else box.gpu
    device = hardware.gpu(gpu) if isinstance(gpu, str) else gpu
    if box is not None and box.gpu.name != device.name:
        raise InputError(
            f"{box.name} has {box.gpu.name}, not {device.name}",
            hint="leave `gpu` out, or give a node with that GPU",
        )
    if box is not None:
        device = box.gpu
    if usd_per_hour is not None:
        device = priced(device, usd_per_hour)
        box = None if box is None else replace(box, gpu=device)
    return device, box


def prices_of(
    asked: float | Sequence[float] | Mapping[str, float] | None,
    devices: Sequence[str | Gpu | None],
    node: str | Node | None,
    name: str = "usd_per_hour",
) -> tuple[float | None, ...]:
    """Price of each kind of device; None for the assumed one. [$/h]

    Args:
        asked: One price for all, one for each, or those of some by name. [$/h]
        devices, node: Kinds of device, as of `machine_of`.
        name: Parameter that gives them.

    Raises:
        InputError: Another number of prices than of kinds, or a name of none of them.
    """
    if asked is None or isinstance(asked, int | float):
        return (asked,) * len(devices)
    if isinstance(asked, Mapping):
        names = [machine_of(each, node, None)[0].name for each in devices]
        known = {key if key in names else hardware.gpu(key).name: asked[key] for key in asked}
        if other := [key for key in known if key not in names]:
            raise InputError(
                f"a price of {other[0]}, which is no `gpu` of the question",
                hint=f"`{name}` is of {', '.join(names)}",
            )
        return tuple(known.get(each) for each in names)
    given = tuple(asked)
    if len(given) in (0, 1):
        return (given or (None,)) * len(devices)
    if len(given) != len(devices):
        raise InputError(
            f"{counted(len(given), 'price')} for {counted(len(devices), 'kind')} of GPU",
            hint=f"give one `{name}` for all, one for each `gpu` in their order, or some by name",
        )
    return given


@overload
def tokens_of(name: str, asked: None) -> None: ...
@overload
def tokens_of(name: str, asked: float | str) -> float: ...
def tokens_of(name: str, asked: float | str | None) -> float | None:
    """Number of tokens that a parameter gives, as a number or in words; None for none. [token]

    Raises:
        InputError: The words are no number above 0.

    Examples:
        >>> tokens_of("job", "10G"), tokens_of("job", "15 tokens"), tokens_of("job", 2e12)
        (10000000000.0, 15.0, 2000000000000.0)
    """
    if not isinstance(asked, str):
        return asked
    text = asked.strip().removesuffix("tokens").removesuffix("token").strip()
    try:
        value = parse_quantity(f"{text}t", "t")
    except QuantityError:
        value = 0.0
    if value <= 0:
        raise InputError(f"`{name}` {asked!r:.60} is no number of tokens", hint="write 15T")
    return value


def subject_of(asked: Placed) -> tuple[Architecture, Gpu, Node | None]:
    """Network, GPU and node of a question; InputError where its numbers have no meaning."""
    network = network_of(asked.model)
    check_parts(network, asked.mla, asked.routing)
    check_share(asked.memory_utilization)
    check_gpus(asked.gpus)
    return network, *machine_of(asked.gpu, asked.node, asked.usd_per_hour)


def facility_of(asked: FacilityOptions, *, wanted: bool = False) -> "Facility | None":
    """Building of a question; None where nothing is said of it, unless it is wanted anyway."""
    given = asked.pue != 1.0 or asked.usd_per_kwh is not None or asked.carbon != ""
    if not (given or wanted):
        return None
    from roofline.hardware.carbon import carbon_intensity
    from roofline.serving.facility import Facility

    carbon = None if asked.carbon == "" else carbon_intensity(asked.carbon)
    return Facility(asked.pue, asked.usd_per_kwh, carbon)


def check_powered(facility: "Facility | None", *devices: Gpu) -> None:
    """Refuse energy of devices whose power no file states."""
    for device in devices if facility else ():
        if not device.tdp_w:
            raise InputError(
                f"{device.name} states no board power",
                hint="give a GPU file with power: tdp, or leave out `pue`, `carbon` and the like",
            )


def priced(gpu: Gpu, usd_per_hour: float) -> Gpu:
    """The GPU at another price; InputError where it is negative or beyond all measure."""
    if not 0 <= usd_per_hour < MOST_GPUS:
        raise InputError(f"price is ${usd_per_hour:g}/h", hint="give dollars for a device and hour")
    facts = {key: fact for key, fact in gpu.facts.items() if key != "price.per_hour"}
    return replace(gpu, usd_per_hour=usd_per_hour, facts=facts)


def check_gpus(number: int | None, name: str = "gpus") -> None:
    """Refuse a number of GPUs, or a degree of parallelism, that has no meaning."""
    if number is None:
        return
    _check_whole(number, name)
    if not 1 <= number <= MOST_GPUS:
        raise InputError(f"{name} is {number}", hint=f"give a number from 1 to {MOST_GPUS:,}")


def _check_whole(number: int, name: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int):
        raise InputError(f"{name} is {number!r:.40}", hint="give a whole number")


def layout_of(gpus: int | None, degrees: Degrees) -> tuple[Layout, int]:
    """Layout and replicas of a number of GPUs.

    Without degrees all GPUs share every layer; where only tensor parallelism is left out, it takes
    what the other degrees leave.

    Raises:
        InputError, LayoutError: A number out of range, a layout said twice, or GPUs that are not
            whole replicas.
    """
    check_gpus(gpus)
    given = {
        name: value
        for name in ("tp", "cp", "dp", "ep", "pp")
        if (value := getattr(degrees, name)) is not None
    }
    for name, value in given.items():
        check_gpus(value, name)
    _check_whole(degrees.microbatches, "microbatches")
    if not all(isinstance(layers, int) for layers in degrees.stages):
        raise InputError("stages are not whole numbers", hint="give layers, like (20, 21, 20)")
    if degrees.microbatches < 0:
        raise InputError(
            f"{degrees.microbatches} micro-batches", hint="give 1 or more, or 0 for the default"
        )
    if degrees.spelled:
        if given:
            named = ", ".join(f"`{name}`" for name in given)
            raise InputError(
                f"`layout={degrees.spelled!r:.40}` and {named} say the same",
                hint="give the layout, or its degrees",
            )
        layout = parse(degrees.spelled)
    else:
        others = given.get("cp", 1) * given.get("dp", 1) * given.get("pp", 1)
        if "tp" not in given and gpus is not None:
            if gpus % others:
                raise LayoutError(
                    f"{counted(gpus, 'GPU')} cannot be divided into groups of {others}",
                    hint="make `gpus` a multiple of the product of the degrees",
                )
            given["tp"] = gpus // others
        layout = Layout(**given)
    if layout.pp == 1 and (degrees.microbatches or degrees.stages):
        raise InputError(
            "micro-batches and stages are those of a pipeline", hint="give `pp`, or leave them out"
        )
    layout = replace(
        layout,
        sequence_parallel=layout.sequence_parallel or degrees.sequence_parallel,
        stages=tuple(degrees.stages),
        microbatches=degrees.microbatches,
    )
    whole = gpus or int(layout.devices)
    if whole % int(layout.devices):
        size = f"{int(layout.devices)}" + (f" ({layout})" if layout.devices != layout.tp else "")
        raise LayoutError(
            f"{counted(whole, 'GPU')} cannot be divided into groups of {size}",
            hint="make `gpus` a multiple of the devices of a replica: `tp` and the other degrees",
        )
    return layout, whole // int(layout.devices)


def check_parts(network: Architecture, mla: str, routing: Routing) -> None:
    """Refuse options about parts that the network does not have."""
    refuse_unused(
        network.name,
        {
            "`mla`": mla != "auto" and not network.latent_forms,
            "`routing`": (routing.skew > 0 or bool(routing.loads)) and not network.mixtures,
            "`redundant`": routing.redundant > 0 and not network.mixtures,
        },
    )


def check_groups(asked: Routing, two_batch: bool, *deployments: Deployment) -> None:
    """Refuse options of experts on several groups of devices where no deployment has these."""
    layouts = " and ".join(dict.fromkeys(each.layout.spelled for each in deployments))
    exchanges = any(each.exchanges for each in deployments)
    spread = any(each.layout.ep > 1 for each in deployments)
    refuse_unused(
        f"a layout of {layouts}, whose tokens go to no experts elsewhere,",
        {
            "`two_batch`": two_batch and not exchanges,
            "`redundant`": asked.redundant > 0 and not spread,
        },
    )


def check_share(share: float | None) -> None:
    """Refuse a share of memory that has no meaning."""
    if share is not None and not 0 < share <= 1:
        raise InputError(
            f"memory utilization is {share:g}", hint="give a share above 0 and up to 1, like 0.9"
        )


def cache_room(name: str, asked: str) -> float:
    """Room for prefixes outside the devices. [B]"""
    try:
        room = parse_quantity(asked, "B")
    except QuantityError as error:
        raise InputError(f"{name.replace('_', ' ')}: {error.message}", hint="write 256GB") from None
    if room < 0:
        raise InputError(f"{name.replace('_', ' ')} of {asked}", hint="give 0 or more")
    return room


def options_asked(asked: Question) -> Options:
    """Choices of how the network is run and counted that a question makes."""
    parts: dict[str, Any] = {"sampling": LIKELIEST, "lora": NO_ADAPTERS, "media": TEXT_ALONE}
    for name, usual in parts.items():
        given, known = shared(asked, type(usual)), structs.asdict(usual)
        # False equals 0, and is no number of adapters.
        if any((type(each), each) != (type(known[at]), known[at]) for at, each in given.items()):
            parts[name] = replace(usual, **given)
    return Options(**parts, **shared(asked, Options))


def profiled(deployment: Deployment, profile: str | Path) -> Deployment:
    """Deployment with the engine's constants of a file, if one is named."""
    if not profile:
        return deployment
    from roofline.bench.end_to_end.profiles import with_profile

    return with_profile(deployment, profile)


def roomiest(device: Gpu, gpus: int) -> Node:
    """Node that holds as many of some GPUs as one can; LayoutError where none holds even one."""
    try:
        return hardware.default_node(device, gpus)
    except LayoutError:
        if gpus == 1:
            raise
        return roomiest(device, gpus // 2)


def make_deployment(
    network: Architecture,
    device: Gpu,
    box: Node | None,
    layout: Layout = SINGLE,
    *,
    weights: str | None = None,
    kv: str = "auto",
    engine: str = "vllm",
    options: Options | None = None,
    offload: Offload = KEPT,
    calibration: str = NONE,
) -> Deployment:
    """A network as an engine loads it, on the nodes that hold its layout.

    Args:
        network, device, box, layout: What runs on what; the node is the smallest of the catalog
            that is large enough, or the largest with a network, where none was named.
        weights, kv, engine, options, offload: Formats, memory policy, choices, and what is kept
            outside.
        calibration: Measured kernels to price with: see
            `roofline.bench.calibrations.calibration_of`.
    """
    checkpoint = networks.loaded(network, weights)
    kv_format = (checkpoint.kv_format or kv) if kv == "auto" else kv
    node = box or hardware.default_node(device, int(layout.devices))
    runs = engine_on(engine, device.architecture)
    measured = None
    if calibration != NONE:  # forms of kernels take long to import
        from roofline.bench.calibrations import calibration_of, joined

        measured = calibration_of(calibration, device, engine, switched=joined(node))
    return Deployment(
        architecture=checkpoint,
        node=node,
        precision=precision.resolve(
            checkpoint.weight_format,
            kv_format,
            device,
            also=checkpoint.formats,
            integers=runs.integers,
        ),
        engine=runs,
        layout=layout,
        options=options or Options(),
        offload=offload,
        calibration=measured,
    )


def make_asked_deployment(
    asked: CalibrationOptions,
    network: Architecture,
    device: Gpu,
    box: Node | None,
    layout: Layout = SINGLE,
    *,
    options: Options | None = None,
    offload: Offload = KEPT,
) -> Deployment:
    """The deployment that a question is about: see `make_deployment`."""
    return make_deployment(
        network,
        device,
        box,
        layout,
        weights=asked.weights,
        kv=asked.kv,
        engine=asked.engine,
        options=options or options_asked(asked),
        offload=offload,
        calibration=asked.calibration,
    )


def one_replica(gpus: int | None, layout: str) -> Layout:
    """Layout of GPUs that have to be a single replica; InputError where they are several."""
    arranged, replicas = layout_of(gpus, Degrees(spelled=layout))
    if replicas > 1:
        raise InputError(
            f"{gpus} GPUs are {replicas} replicas of {arranged}",
            hint="ask for one replica: all of them do the same",
        )
    return arranged


def default_format(network: Architecture) -> str:
    """Format of the checkpoint; engines load fp32 checkpoints as 16 bits."""
    return "bf16" if network.weight_format == "fp32" else network.weight_format


def in_characters(result: Result, name: str, characters: float) -> Result:
    """The result with throughput and price of characters beside those of tokens.

    A tokenizer with c characters a token makes c · tokens/s characters a second, and a million of
    them cost as much as a million / c tokens. Source: arithmetic.

    Args:
        result: Answer, as it is where nothing is said of characters.
        name: Table with its throughput.
        characters: Characters of a token, of the text that is served; 0 where nobody says. [1]

    Raises:
        InputError: It is no number of characters.
    """
    if not characters:
        return result
    if not (isfinite(characters) and 0 < characters <= 100):
        raise InputError(
            f"{characters:g} characters of a token",
            hint="give a mean of the text, such as 4.2: English takes 4 to 5 in large vocabularies",
        )
    rows, more = list(result.tables[name].rows()), []
    for metric, new, unit, factor, meaning in (
        ("throughput_tok_s", "throughput_char_s", "char/s", characters, "output in characters"),
        ("usd_per_mtok", "usd_per_mchar", "$", 1.0 / characters, "per million characters of it"),
    ):
        for row in rows:
            if row["metric"] == metric:
                ends = {
                    end: row[end] * factor
                    for end in ("value", "low", "high")
                    if row.get(end) is not None
                }
                more.append({**row, **ends, "metric": new, "unit": unit, "meaning": meaning})
    metadata = {**result.metadata, "characters_per_token": characters}
    tables = {**result.tables, name: table([*rows, *more], {})}
    return replace(result, tables=tables, metadata=metadata)
