"""Figures of one variant of a deployment, the same in both conventions."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import floor
from typing import Literal

from roofline.cost.deployment import Deployment, Options
from roofline.cost.layout import Layout
from roofline.cost.measured import Calibration
from roofline.errors import LayoutError, RooflineError
from roofline.hardware.catalog import default_node
from roofline.hardware.engine import Engine
from roofline.hardware.machine import Gpu
from roofline.model import parameters, precision
from roofline.model.changes.settings import Setup
from roofline.serving import advice, lecture, room
from roofline.serving.notes import conventions
from roofline.serving.static import StaticBatch, static_batch
from roofline.serving.steady import SteadyState, steady_state
from roofline.serving.workload import MOST_SEQUENCES, Workload
from roofline.units import MILLION, SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True)
class Conditions:
    """What all variants have in common."""

    workload: Workload
    """Lengths; the batch is the variant's own."""
    engine: Engine
    options: Options
    """Whose memory policy; how the network is run and counted."""
    gpus: int | None = None
    """Devices in all, replicas beyond tensor parallelism; None for one replica. [1]"""
    utilization: float | None = None
    """Share of device memory the engine takes; None for its default. [1]"""
    convention: Literal["engine", "textbook"] = "engine"
    """What an engine does, or published closed forms."""
    calibrate: Callable[[Gpu], Calibration | None] = lambda _: None
    """Measured kernels of a device; none for the datasheet's rates."""
    rank: Literal["steady", "static"] = "steady"
    """Whether variants are compared in the steady state, where they have one, or by the static
    batch."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One variant. Memory is that of each device, throughput that of all.

    Attributes:
        parameters, active: Of the network; those a token meets. [parameter]
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
    active: float
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
    notes: tuple[str, ...] = field(default=(), repr=False)
    ttft_log_sd: float = 0.0
    tpot_log_sd: float = 0.0
    latency_log_sd: float = 0.0
    steady: SteadyState | None = field(default=None, repr=False)


def figures(setup: Setup, conditions: Conditions) -> Figures:
    """Price a variant.

    Raises:
        RooflineError: The variant cannot be laid out, multiplied, or described by the convention.
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
            network.weight_format, setup.kv_format, setup.gpu, also=parameters.formats(network)
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
            hint="make --gpus a multiple of the tensor-parallel degree",
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
        active=float(parameters.active(network)["all"]),
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
    per_second = gpu.usd_per_hour * setup.tp / SECONDS_PER_HOUR
    replicas = _replicas(setup, conditions.gpus)
    return Figures(
        parameters=by_name["parameters"],
        active=by_name["parameters"],
        weight_bytes=weights,
        kv_bytes_per_token=by_name["kv_bytes_per_token"],
        kv_bytes=kept,
        memory_bytes=by_name["memory_bytes"],
        largest_batch=min(max(most, 0), MOST_SEQUENCES),
        gpus=replicas * setup.tp,
        ttft_s=by_name["ttft_s"],
        tpot_s=by_name["tpot_s"],
        throughput_tok_s=rate * replicas,
        usd_per_mtok=per_second / rate * MILLION,
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
