"""Figures of a variant of a deployment, in both conventions, and a sentence on why they moved."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import floor, inf, log
from typing import Final, Literal

from msgspec import Struct

from roofline.cost.deployment import Deployment, Options
from roofline.cost.layout import Layout
from roofline.cost.measured import Calibration
from roofline.errors import LayoutError, RooflineError
from roofline.hardware.catalog import default_node
from roofline.hardware.machine import Gpu
from roofline.hardware.serving_engine import Engine
from roofline.model import parameters, precision
from roofline.model.changes.settings import Setup
from roofline.records import replace
from roofline.serving import advice, lecture, room
from roofline.serving.notes import conventions
from roofline.serving.price import usd_per_mtok
from roofline.serving.static import StaticBatch, static_batch
from roofline.serving.steady import SteadyState, steady_state
from roofline.serving.workload import MOST_SEQUENCES, Workload
from roofline.units import count, show, show_binary

STILL: Final = 0.005
"""Relative change below which a figure is said to stay."""

_DOING: Final = {
    "arithmetic": "arithmetic",
    "weights": "reading weights",
    "KV cache": "reading the KV cache",
    "activations": "moving activations",
    "wires": "the interconnect between devices",
    "host": "the host: loads or launches",
    "engine": "the engine's own work",
}


class Conditions(Struct, frozen=True):
    """Conditions that all variants have in common."""

    workload: Workload
    """Lengths; the batch is the variant's own."""
    engine: Engine
    options: Options
    """Engine with its memory policy; choices of how the network is run and counted."""
    gpus: int | None = None
    """Devices in all, replicas beyond tensor parallelism; None for one replica. [1]"""
    utilization: float | None = None
    """Share of device memory the engine takes; None for its default. [1]"""
    convention: Literal["engine", "textbook"] = "engine"
    """Behaviour of an engine, or published closed forms."""
    calibrate: Callable[[Gpu], Calibration | None] = lambda _: None
    """Measured kernels of a device; none for the datasheet's rates."""
    rank: Literal["steady", "static"] = "steady"
    """State in which variants are compared: the steady one, where they have one, or the static
    batch."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One variant. Memory is that of each device, throughput that of all.

    Attributes:
        parameters, active_parameters: Of the network; those a token meets. [parameter]
        weight_bytes, kv_bytes, memory_bytes: Weights, cache of the batch at its longest context,
            all that is in use. [B]
        kv_bytes_per_token: Growth of the cache of a sequence over all layers, inside every window.
            [B]
        largest_batch: Most sequences that fit at these lengths. [1]
        gpus: Devices in all. [1]
        ttft_s, tpot_s, throughput_tok_s, usd_per_mtok: As of `roofline.serving.static.StaticBatch`;
            0 $ where no price is assumed.
        fits: Whether the batch fits.
        ttft_log_sd, tpot_log_sd, latency_log_sd: Standard deviation of the logarithms of TTFT, TPOT
            and, of throughput and price, latency; 0 at datasheet rates. [1]
        prefill, decode: TTFT and TPOT of the static batch by what binds them. [s]
        steady: Of a replica that is kept full; None where there is none, or nobody asked.
        notes: What must be known to read the figures right.
    """

    parameters: float
    active_parameters: float
    weight_bytes: float
    kv_bytes_per_token: float
    kv_bytes: float
    memory_bytes: float
    largest_batch: int
    gpus: int
    ttft_s: float
    tpot_s: float
    throughput_tok_s: float
    usd_per_mtok: float
    fits: bool
    prefill: Mapping[str, float] = field(repr=False)
    decode: Mapping[str, float] = field(repr=False)
    notes: Sequence[str] = field(default=(), repr=False)
    ttft_log_sd: float = 0.0
    tpot_log_sd: float = 0.0
    latency_log_sd: float = 0.0
    steady: SteadyState | None = field(default=None, repr=False)


def figures(setup: Setup, conditions: Conditions) -> Figures:
    """Figures of a variant.

    RooflineError where it cannot be laid out, multiplied, or described by the convention.
    """
    priced = _textbook if conditions.convention == "textbook" else _engine
    return priced(setup, conditions)


def deployment(setup: Setup, conditions: Conditions) -> Deployment:
    """Variant as the cost model takes it."""
    network = setup.network
    return Deployment(
        architecture=network,
        node=default_node(setup.gpu, setup.tp),
        precision=precision.resolve(
            network.weight_format,
            setup.kv_format,
            setup.gpu,
            also=network.formats,
            integers=conditions.engine.integers,
        ),
        engine=conditions.engine,
        layout=Layout(tp=setup.tp),
        options=conditions.options,
        calibration=conditions.calibrate(setup.gpu),
    )


def _workload(setup: Setup, conditions: Conditions) -> Workload:
    asked = conditions.workload
    together = min(asked.prefill_batch, setup.batch)
    output = 1 if setup.network.is_encoder else asked.output
    return replace(asked, batch=setup.batch, prefill_batch=together, output=output)


def _replicas(setup: Setup, gpus: int | None) -> int:
    whole = gpus or setup.tp
    if whole % setup.tp:
        raise LayoutError(
            f"{whole} GPUs cannot be divided into groups of {setup.tp}",
            hint="make `gpus` a multiple of the tensor-parallel degree",
        )
    return whole // setup.tp


def _engine(setup: Setup, conditions: Conditions) -> Figures:
    replicas = _replicas(setup, conditions.gpus)
    placed, work = deployment(setup, conditions), _workload(setup, conditions)
    batch = static_batch(placed, work, utilization=conditions.utilization)
    network, held = setup.network, batch.memory
    steady = None
    if conditions.rank == "steady":
        with suppress(RooflineError):
            steady = steady_state(batch)
    return Figures(
        parameters=float(parameters.total(network)),
        active_parameters=float(parameters.active(network)["all"]),
        weight_bytes=held.weights,
        kv_bytes_per_token=_per_token(batch),
        kv_bytes=held.kv,
        memory_bytes=held.budget - held.free,
        largest_batch=room.largest_batch(placed, work, conditions.utilization),
        gpus=replicas * setup.tp,
        ttft_s=batch.ttft_s,
        tpot_s=batch.tpot_s,
        throughput_tok_s=batch.throughput_tok_s * replicas,
        usd_per_mtok=batch.usd_per_mtok,
        fits=held.fits,
        prefill=_by_bound(advice.shares(batch.prefill), batch.ttft_s),
        decode=_by_bound(advice.shares(batch.decode), batch.tpot_s),
        # The first note tells of two bounds; here there is one, and `compare` says so.
        notes=(*conventions(batch, replicas), *placed.precision.notes, *network.notes),
        ttft_log_sd=batch.ttft_log_sd,
        tpot_log_sd=batch.tpot_log_sd,
        latency_log_sd=batch.latency_log_sd,
        steady=steady,
    )


def _per_token(batch: StaticBatch) -> float:
    """Cache of a token over all layers, whatever the layout, index keys included. [B]"""
    network = batch.deployment.architecture
    if not batch.workload.kv_cache:
        return 0.0
    kept = parameters.kv_elements_per_token(network) * batch.deployment.precision.kv.width
    return kept + parameters.index_bytes_per_token(network)


def _by_bound(shares: Mapping[str, float], seconds: float) -> dict[str, float]:
    return {name: share * seconds for name, share in shares.items()}


def _textbook(setup: Setup, conditions: Conditions) -> Figures:
    network, gpu, work = setup.network, setup.gpu, _workload(setup, conditions)
    stored = precision.named(network.weight_format)
    cache = stored if setup.kv == "auto" else precision.named(setup.kv)
    told = lecture.analyze(network, gpu, work, stored, cache, setup.tp)
    by_name = {row["metric"]: row["value"] for row in told.tables["headline"].rows()}
    weights, kept = by_name["weight_bytes"], by_name["kv_bytes"]
    room_left = gpu.memory_bytes * setup.tp - weights
    most = floor(room_left / (kept / work.batch))
    rate = by_name["throughput_tok_s"]
    replicas = _replicas(setup, conditions.gpus)
    return Figures(
        parameters=by_name["parameters"],
        active_parameters=by_name["parameters"],
        weight_bytes=weights,
        kv_bytes_per_token=by_name["kv_bytes_per_token"],
        kv_bytes=kept,
        memory_bytes=by_name["memory_bytes"],
        largest_batch=min(max(most, 0), MOST_SEQUENCES),
        gpus=replicas * setup.tp,
        ttft_s=by_name["ttft_s"],
        tpot_s=by_name["tpot_s"],
        throughput_tok_s=rate * replicas,
        usd_per_mtok=usd_per_mtok(gpu.usd_per_hour * setup.tp, 1.0, rate),
        fits=told.metadata["fits"],
        prefill={"arithmetic": by_name["ttft_s"]},
        decode=_by_bound(
            {
                "weights": weights / by_name["memory_bytes"],
                "KV cache": kept / by_name["memory_bytes"],
            },
            by_name["tpot_s"],
        ),
        notes=told.notes,
    )


class Cause(Struct, frozen=True):
    """Part of a phase that gained or lost most."""

    part: str
    """``"KV cache"``, ``"arithmetic"``…"""
    share: float
    """Share of the phase in the base. [1]"""
    seconds: float
    """Now less before. [s]"""
    leading: bool
    """True if it binds the phase in the base."""


def cause(before: Mapping[str, float], after: Mapping[str, float]) -> Cause | None:
    """Part of a phase that changed most in the direction of the whole; None if it stayed.

    Args:
        before, after: Time of the phase by what binds it. [s]

    Examples:
        >>> found = cause({"weights": 1.0, "KV cache": 3.0}, {"weights": 1.1, "KV cache": 1.0})
        >>> found.part, found.share, found.seconds, found.leading
        ('KV cache', 0.75, -2.0, True)
    """
    whole, now = sum(before.values()), sum(after.values())
    if not whole or abs(now / whole - 1) < STILL:
        return None
    moved = {name: after.get(name, 0.0) - before.get(name, 0.0) for name in {**before, **after}}
    part = max(moved, key=lambda name: moved[name] * (1 if now > whole else -1))
    share = before.get(part, 0.0) / whole
    leading = before.get(part, 0.0) == max(before.values())
    return Cause(part, share, moved[part], leading)


def sentence(
    base: Figures, other: Figures, reasons: tuple[str, ...], *, static: bool = False
) -> str:
    """Sentence on what moved, why, and what came of it.

    Args:
        base, other: Figures without and with the changes.
        reasons: What each change did, a few words.
        static: Whether TTFT and TPOT of the static batch are shown beside it, whose steps these
            are.
    """
    step, prompts = ("TPOT", "TTFT") if static else ("decode step", "prefill of the batch")
    moved = [text for _, text in sorted(_memory(base, other), reverse=True)]
    why = ", ".join(reasons)
    lead = f"{', '.join(moved)}: {why}" if moved else why
    clauses = [
        lead,
        *_phase(step, "decode", "a step", base.tpot_s, other.tpot_s, base.decode, other.decode),
        *_reads(base, other),
        *_phase(prompts, "prefill", "it", base.ttft_s, other.ttft_s, base.prefill, other.prefill),
        *_room(base, other),
    ]
    text = "; ".join(clauses)
    return f"{text[0].upper()}{text[1:]}."


def _memory(base: Figures, other: Figures) -> Iterator[tuple[float, str]]:
    """Counts that moved, with how far."""

    def far(before: float, after: float) -> float:
        return abs(log(after / before)) if before and after else inf if before != after else 0.0

    before, after = base.parameters, other.parameters
    if before != after:
        yield far(before, after), f"parameters {show(before, '', 4)} → {show(after, '', 4)}"
    before, after = base.kv_bytes_per_token, other.kv_bytes_per_token
    if before != after:
        yield far(before, after), f"KV cache per token {count(before)} → {count(after)} B"
    if base.parameters == other.parameters and far(base.weight_bytes, other.weight_bytes) > STILL:
        before, after = base.weight_bytes, other.weight_bytes
        yield far(before, after), f"weights {show_binary(before)} → {show_binary(after)}"
    same = base.kv_bytes_per_token == other.kv_bytes_per_token
    if same and far(base.kv_bytes, other.kv_bytes) > STILL:
        before, after = base.kv_bytes, other.kv_bytes
        yield far(before, after), f"KV cache {show_binary(before)} → {show_binary(after)}"


def _phase(
    name: str,
    phase: str,
    step: str,
    before: float,
    after: float,
    parts: Mapping[str, float],
    others: Mapping[str, float],
) -> Iterator[str]:
    found = cause(parts, others)
    if found is None or not before:
        return
    far = f"{show(abs(found.seconds), 's')} {'more' if found.seconds > 0 else 'less'}"
    share = f"{found.share:.0%} of {step}"
    if found.leading:
        why = f"{phase} was bound by {_DOING[found.part]} ({share}), now {far}"
    else:
        why = f"{_DOING[found.part]} ({share}) takes {far}"
    yield f"{name} × {after / before:.2f} because {why}"


def _reads(base: Figures, other: Figures) -> Iterator[str]:
    """A smaller cache that is read as often as before is worth saying."""
    kept = other.kv_bytes / base.kv_bytes if base.kv_bytes else 1.0
    before, after = base.decode.get("KV cache", 0.0), other.decode.get("KV cache", 0.0)
    if abs(kept - 1) > STILL and before and abs(after / before - 1) < STILL:
        yield "the cache is read as much as before"


def _room(base: Figures, other: Figures) -> Iterator[str]:
    if base.largest_batch != other.largest_batch:
        yield f"largest batch {base.largest_batch:,} → {other.largest_batch:,}"
    if base.fits != other.fits:
        yield "now it fits" if other.fits else "it no longer fits"
