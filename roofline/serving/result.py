"""A priced static batch as a result: what the command line prints, JSON carries, reports draw.

Metrics, operators, room, and the assumptions behind them are tables of it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import exp
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, structs

from roofline.cost.engine_costs import EngineCosts
from roofline.cost.roof import traffic
from roofline.cost.sampling import LIKELIEST
from roofline.cost.work import COUNTS
from roofline.errors import RooflineError
from roofline.hardware.machine import Fact, Gpu
from roofline.records import OnDemand, PlainOnDemand, Sentences, replace
from roofline.serving import advice, room
from roofline.serving.adapters import adapter_derivations, adapter_table, load_notes
from roofline.serving.advice import AdvisedChange
from roofline.serving.explain.figures import explain_all
from roofline.serving.explain.operators import outside_facts
from roofline.serving.notes import latent_forms, notes, steady_notes
from roofline.serving.price import usd_per_mtok
from roofline.serving.static import (
    CENTRAL,
    BatchSteps,
    OpTime,
    StaticBatch,
    lone_prompt,
    static_batch,
)
from roofline.serving.static_batches import StaticBatches, batches_of, curve
from roofline.serving.steady import SteadyState, steady_state
from roofline.table import Derivation, Result, Table, table, units_of, worst
from roofline.units import MILLION

if TYPE_CHECKING:
    from roofline.serving.facility import Facility

SOFTWARE: Final = "scheduling, sampling, launches: fitted to serving measured end to end"
UNMEASURED: Final = "nothing like it was measured: the least that published rates allow"
SHARED: Final = "its time is in the kernel of another operator"
COLUMNS: Final = (
    *("kernel", "of", "measured on", "note", "source"),
    *("basis", "operators", "prefill", "decode"),
)


def kernels(batch: StaticBatch) -> Table:
    """Fits by what they price, those that take most time first; no rows at datasheet rates.

    Columns ``prefill`` and ``decode`` are shares of the time of a step.
    """
    units = dict.fromkeys(COLUMNS, "")
    if not batch.calibrated:
        return table([], units)
    phases = {"prefill": batch.prefill, "decode": batch.decode}
    totals = {name: sum(e.seconds for e in ops.values()) for name, ops in phases.items()}
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for phase, ops in phases.items():
        for name, entry in ops.items():
            told = _told(entry)
            row = rows.setdefault(
                tuple(told.values()),
                {**told, "basis": "", "operators": [], "prefill": 0.0, "decode": 0.0},
            )
            row["basis"] = worst([row["basis"], entry.basis])
            row["operators"] = list(dict.fromkeys([*row["operators"], name]))
            row[phase] += entry.seconds / totals[phase] if totals[phase] else 0.0
    ordered = sorted(rows.values(), key=lambda row: -max(row["prefill"], row["decode"]))
    return table([{**row, "operators": ", ".join(row["operators"])} for row in ordered], units)


def _told(entry: OpTime) -> Mapping[str, str]:
    """Kernel, device and source of a fit, and how far it is from the operator."""
    if entry.op.kind == "engine":
        told = dict.fromkeys(("kernel", "of", "measured on", "source"), "")
        return {**told, "kernel": "engine", "note": SOFTWARE}
    known = entry.measured
    found = known.found if known else None
    if known is None or found is None:
        note = UNMEASURED if known is None else known.assumed or SHARED
        return {"kernel": "", "of": "", "measured on": "", "note": note, "source": ""}
    distance = []
    if found.foreign:
        alike = "another generation" if found.far else "a device of the same generation"
        distance.append(f"carried over from {alike} by published rates")
    elif found.fit.model.transferred:
        distance.append("form of a like device, scaled to a sample of this one")
    if found.borrowed:
        distance.append("another engine's, in place of one that was not measured")
    label = found.fit.label
    return {
        "kernel": f"{label.kind} {label.variant}",
        "of": label.provider,
        "measured on": label.device,
        "note": "; ".join([*distance, known.assumed] if known.assumed else distance),
        "source": found.fit.model.source,
    }


def result_of(
    batch: StaticBatch,
    replicas: int,
    reason: str = "",
    facility: "Facility | None" = None,
    remarks: Iterable[str] = (),
) -> Result:
    """Tables, derivations, notes and inputs of a static batch in so many replicas. [1]

    Each is made when it is asked for: whoever wants the time of an operator need not wait for the
    steady state, for what other deployments would do, or for derivations.

    Args:
        batch, replicas: What was priced, and how many there are. [1]
        reason: Why the layout was taken, where it was chosen.
        facility: Hall that the replicas are in; with one there is a table ``facility`` of what
            they draw.
        remarks: Notes that follow all others.
    """
    answer = _ResultParts(batch, replicas, reason, facility, remarks)
    return Result(
        kind="analyze",
        tables=OnDemand(answer.tables),
        derivations=OnDemand(lambda: answer.derivations),
        notes=Sentences(answer.notes),
        metadata=PlainOnDemand(answer.metadata),
    )


@dataclass(eq=False)
class _ResultParts:
    """Parts of a result, as `result_of` takes them; what several need is computed once."""

    batch: StaticBatch
    replicas: int
    reason: str
    facility: "Facility | None"
    remarks: Iterable[str]

    def tables(self) -> dict[str, Callable[[], Table]]:
        """Functions that make the tables, in the order in which they are read."""
        batch = self.batch
        made: dict[str, Callable[[], Table]] = {
            "headline": lambda: self.headline,
            "static_batch": lambda: static_table(
                batch, self.replicas, self.derivations, "static_" * bool(self.steady), self.least
            ),
            "memory": lambda: room.memory_table(batch.memory),
            "capacity": lambda: capacity(batch, self.most),
            "ops": lambda: operators(batch),
            "adapters": lambda: adapter_table(batch, self.headline["value"][0]),
            "what_if": lambda: what_if(self.changes),
            "batch_curve": lambda: curve(batch, self.most, self.batches),
            "roofs": lambda: roofs(batch),
            "assumptions": lambda: assumptions(batch, self._given()),
            "kernels": lambda: kernels(batch),
            "facility": self._drawn,
        }
        if not batch.deployment.options.lora.adapters:
            del made["adapters"]
        if self.facility is None:
            del made["facility"]
        return made

    def notes(self) -> Iterator[str]:
        """Notes on the figures, in the order in which they are read."""
        batch, deployment = self.batch, self.batch.deployment
        yield from steady_notes(batch, *self._steady)
        yield from notes(batch, self.replicas, self.forms)
        yield from load_notes(deployment, float(batch.sequences))
        if self.facility is not None:
            from roofline.serving.facility import notes as facility_notes

            yield from facility_notes(self.facility, deployment)
        yield from deployment.precision.notes
        yield from deployment.architecture.notes
        yield from self.remarks

    def metadata(self) -> dict[str, Any]:
        """Inputs as resolved; what takes memory or other deployments is made when it is read."""
        batch, deployment, work = self.batch, self.batch.deployment, self.batch.workload
        sampling, lora = deployment.options.sampling, deployment.options.lora
        return {
            **deployment.metadata,
            "node": deployment.node.name,
            "gpus": self.replicas * deployment.devices,
            "tp": int(deployment.tp),
            "layout_title": str(deployment.layout),
            "replicas": self.replicas,
            "arithmetic": deployment.precision.linear_arithmetic,
            "batch": work.batch,
            "prefill_batch": work.together,
            "prompt": work.prompt,
            "output": work.output,
            "prefix_hit": work.prefix_hit,
            "kv_cache": work.kv_cache,
            **({"samples": work.samples} if work.samples > 1 else {}),
            **(structs.asdict(sampling) if sampling != LIKELIEST else {}),
            **(structs.asdict(lora) if lora.adapters else {}),
            "convention": "engine",
            "basis": "calibrated" if batch.calibrated else "datasheet",
            "calibration": deployment.calibration.name if deployment.calibration else "none",
            "fits": lambda: room.fits(deployment, batch.memory, self.replicas),
            "offload_weights": deployment.offload.weights,
            "offload_kv": deployment.offload.kv,
            "host_bytes": lambda: batch.memory.host,
            "summary": lambda: advice.sentences(batch, self.changes, self.most, self.reason),
        }

    @cached_property
    def _steady(self) -> tuple[SteadyState | None, str]:
        """Steady state, or why there is none."""
        try:
            return steady_state(self.batch), ""
        except RooflineError as error:
            return None, error.message

    @property
    def steady(self) -> SteadyState | None:
        """Steady state of a replica, if there is one."""
        return self._steady[0]

    @cached_property
    def least(self) -> StaticBatch | None:
        """The batch at published rates, where it is calibrated."""
        return at_published_rates(self.batch) if self.batch.calibrated else None

    @cached_property
    def headline(self) -> Table:
        """Metrics of the deployment."""
        return headline(self.batch, self.steady, self.replicas, self.derivations, self.least)

    @cached_property
    def derivations(self) -> dict[str, Derivation]:
        """Derivations of every metric."""
        told = explain_all(self.batch, self.replicas, self.steady)
        return told | adapter_derivations(self.batch)

    @cached_property
    def most(self) -> int:
        """Largest batch that fits. [1]"""
        return room.largest_batch(
            self.batch.deployment, self.batch.workload, self.batch.utilization
        )

    @cached_property
    def batches(self) -> StaticBatches:
        """Batches of the curve."""
        return batches_of(self.batch, self.most)

    @cached_property
    def forms(self) -> Mapping[str, BatchSteps]:
        """Forms of latent attention that are compared."""
        return latent_forms(self.batch)

    @cached_property
    def changes(self) -> tuple[AdvisedChange, ...]:
        """Changes that may help; kernels are looked up with those of the curve and the forms."""
        beside = [step for form in self.forms.values() for step in form.steps]
        return advice.changes(self.batch, [*self.batches.steps, *beside])

    def _given(self) -> dict[str, str]:
        """Inputs as they are written among the assumptions."""
        deployment, work, replicas = self.batch.deployment, self.batch.workload, self.replicas
        return {
            "GPU": f"{replicas * deployment.devices} × {deployment.node.gpu.title}",
            "layout": str(deployment.layout) + (f" × {replicas} replicas" if replicas > 1 else ""),
            "weights, KV cache": f"{deployment.weights_name}, {deployment.precision.kv.name}",
            "batch": f"{work.batch} (prefill {work.together})",
            "prompt → output": f"{work.prompt} → {work.output} tokens",
            "prefix hit": f"{work.prefix_hit:.0%}",
            "engine": deployment.engine.title,
            "node": deployment.node.title,
            "overlap of the interconnect": f"{deployment.options.overlap:.0%}",
        }

    def _drawn(self) -> Table:
        """Power and energy of replicas that are kept full; of the batch without a steady state."""
        from roofline.serving.facility import Consumption, consumption
        from roofline.serving.running_cost import request_energy

        assert self.facility is not None, "the table is there with a facility"
        batch, steady, work = self.batch, self.steady, self.batch.workload
        energy = request_energy(batch)
        each = batch.throughput_tok_s if steady is None else steady.output_tok_s
        rate = each / (work.output * work.samples)
        drawn = Consumption(
            self.facility,
            batch.deployment.node,
            energy.power(rate),
            self.replicas * batch.devices,
            self.replicas * rate,
            self.replicas * each,
            batch.latency_log_sd if steady is None else steady.rate_log_sd,
        )
        return consumption([drawn], energy.phases)


def headline(
    batch: StaticBatch,
    steady: SteadyState | None,
    replicas: int,
    derivations: Mapping[str, Derivation],
    least: StaticBatch | None = None,
) -> Table:
    """Metrics of the deployment, one row each: of an idle server, and of one that is kept full.

    At datasheet rates with the two bounds of the roofline: ``value`` is with perfect overlap,
    ``serial`` without any. Calibrated, ``low`` and ``high`` bound the central 80 %, and ``roof`` is
    the same metric at datasheet rates: least time, most throughput. Without a steady state rates
    are those of the static batch. ``least`` is the batch `at_published_rates`, if it is there.
    """
    other = steady
    if batch.calibrated:
        compared = least or at_published_rates(batch)
        other = steady and steady_state(compared)
    else:
        compared = batch
        if steady is not None:
            gain = batch.tpot_serial_s / batch.tpot_s if batch.tpot_s else 1.0
            prompts = batch.ttft_serial_s / batch.ttft_s
            other = steady_state(batch, EngineCosts(decode_gain=gain, prefill_gain=prompts))
    rows = _lasting(batch, steady, replicas)
    values = [row.value for row in _lasting(compared, other, replicas)]
    if not batch.calibrated:
        values = [row.serial or value for row, value in zip(rows, values, strict=True)]
    return _shown(batch, rows, values, derivations)


def static_table(
    batch: StaticBatch,
    replicas: int,
    derivations: Mapping[str, Derivation],
    prefix: str,
    least: StaticBatch | None = None,
) -> Table:
    """Metrics of the static batch, all of whose prompts arrive at once; columns as `headline`.

    Args:
        batch, replicas, derivations: What was priced, and how each figure came about.
        prefix: Before the names of derivations of rates, which may be those of the steady state.
        least: The batch `at_published_rates`, if it is there.
    """
    rows = [
        replace(row, explained=prefix + row.explained) if row.explained in RATES else row
        for row in _metrics(batch, replicas)
    ]
    if not batch.calibrated:
        return _shown(batch, rows, [row.serial for row in rows], derivations)
    roofs = [row.value for row in _metrics(least or at_published_rates(batch), replicas)]
    return _shown(batch, rows, roofs, derivations)


RATES: Final = frozenset({"throughput", "cost", "energy"})
"""Derivations of which there are two: of the steady state and of the static batch."""


def at_published_rates(batch: StaticBatch) -> StaticBatch:
    """The same at datasheet rates, without what each operator takes."""
    bare = replace(batch.deployment, calibration=None)
    return static_batch(bare, batch.workload, utilization=batch.utilization, operators=False)


def _shown(
    batch: StaticBatch,
    rows: list["_Metric"],
    others: list[float],
    derivations: Mapping[str, Derivation],
) -> Table:
    """Rows as they are printed, with the same at datasheet rates or without overlap."""
    pairs = zip(rows, others, strict=True)
    return table([row.shown(derivations, other, batch.calibrated) for row, other in pairs], {})


def _lasting(batch: StaticBatch, steady: SteadyState | None, replicas: int) -> list["_Metric"]:
    """Rows of the headline; without a steady state, those of an idle server and of the batch."""
    devices = replicas * batch.devices
    tpot = _Metric("tpot_s", batch.tpot_s, batch.tpot_serial_s, "s", "tpot", batch.tpot_log_sd)
    if steady is None:
        alone = lone_prompt(batch.deployment, batch.workload)
        idle = _Metric(
            "ttft_idle_s", alone.ttft_s, alone.ttft_serial_s, "s", "ttft_idle", alone.ttft_log_sd
        )
        rest = [row for row in _metrics(batch, replicas) if row.unit != "s"]
        return [idle, tpot, *rest]
    rate, sd = steady.output_tok_s * replicas, steady.rate_log_sd
    gpu = batch.deployment.node.gpu
    user = 1.0 / steady.tpot_s if steady.tpot_s else 0.0
    energy = gpu.tdp_w * devices / rate * MILLION
    cost = usd_per_mtok(gpu.usd_per_hour * devices, 1.0, rate)
    first, each = steady.ttft_log_sd, steady.tpot_log_sd
    rows = [
        _Metric("ttft_idle_s", steady.ttft_idle_s, 0.0, "s", "ttft_idle", batch.ttft_log_sd),
        tpot,
        _Metric("ttft_steady_s", steady.ttft_s, 0.0, "s", "ttft_steady", first),
        _Metric("tpot_steady_s", steady.tpot_s, 0.0, "s", "tpot_steady", each),
        _Metric("throughput_tok_s", rate, 0.0, "token/s", "throughput", sd),
        _Metric("throughput_tok_s_per_gpu", rate / devices, 0.0, "token/s", "throughput", sd),
        _Metric("user_tok_s", user, 0.0, "token/s", "tpot_steady", each),
        _Metric("joule_per_mtok", energy, 0.0, "J", "energy", sd),
    ]
    return [*rows, _Metric("usd_per_mtok", cost, 0.0, "$", "cost", sd)] if cost else rows


def _metrics(batch: StaticBatch, replicas: int) -> list["_Metric"]:
    slower = batch.latency_serial_s / batch.latency_s
    devices = replicas * batch.devices
    first, each, whole = batch.ttft_log_sd, batch.tpot_log_sd, batch.latency_log_sd
    thr, serial_tpot = batch.throughput_tok_s * replicas, batch.tpot_serial_s
    mean, gpu, joule, cost = (
        *(batch.ttft_mean_s, thr / devices),
        *(batch.joule_per_mtok, batch.usd_per_mtok),
    )
    mean_serial = mean * batch.ttft_serial_s / batch.ttft_s
    user_serial = 1 / serial_tpot if serial_tpot else 0.0
    rows = [
        _Metric("ttft_s", batch.ttft_s, batch.ttft_serial_s, "s", "ttft", first),
        _Metric("ttft_mean_s", mean, mean_serial, "s", "ttft", first),
        _Metric("tpot_s", batch.tpot_s, serial_tpot, "s", "tpot", each),
        _Metric("latency_s", batch.latency_s, batch.latency_serial_s, "s", "latency", whole),
        _Metric("throughput_tok_s", thr, thr / slower, "token/s", "throughput", whole),
        _Metric("throughput_tok_s_per_gpu", gpu, gpu / slower, "token/s", "throughput", whole),
        _Metric("user_tok_s", batch.user_tok_s, user_serial, "token/s", "tpot", each),
        _Metric("joule_per_mtok", joule, joule * slower, "J", "energy", whole),
    ]
    return (
        [*rows, _Metric("usd_per_mtok", cost, cost * slower, "$", "cost", whole)] if cost else rows
    )


MEANINGS: Final[Mapping[str, str]] = {
    "ttft_idle_s": "one prompt alone",
    "ttft_steady_s": "batch kept full, mean",
    "tpot_steady_s": "batch kept full, mean",
    "ttft_s": "first token, last prompt",
    "ttft_mean_s": "first token, mean",
    "tpot_s": "decode steps alone",
    "latency_s": "arrival to last token",
    "throughput_tok_s": "output, all GPUs",
    "throughput_tok_s_per_gpu": "output, each GPU",
    "user_tok_s": "output, one user",
    "joule_per_mtok": "per million tokens",
    "usd_per_mtok": "per million tokens",
}
"""Meaning of each metric, in a few words."""


class _Metric(Struct, frozen=True):
    """One row: with perfect overlap and without any, and its log spread."""

    name: str
    value: float
    serial: float
    unit: str
    explained: str
    log_sd: float

    def shown(
        self, derivations: Mapping[str, Derivation], other: float, calibrated: bool
    ) -> dict[str, Any]:
        """The row as it is printed, beside the same at datasheet rates or without overlap."""
        wide = exp(CENTRAL * self.log_sd)
        bounds = {"low": self.value / wide, "high": self.value * wide, "roof": other}
        return {
            "metric": self.name,
            "value": self.value,
            **(bounds if calibrated else {"serial": other}),
            "unit": self.unit,
            "basis": derivations[self.explained].basis,
            "meaning": MEANINGS[self.name],
        }


def ends(entry: OpTime) -> tuple[float, float]:
    """Ends of the central 80 % of an operator's time where it was measured, else its bounds. [s]"""
    if entry.measured is None:
        return entry.seconds, max(entry.serial, entry.seconds)
    wide = exp(CENTRAL * float(entry.measured.log_sd))
    return entry.seconds / wide, entry.seconds * wide


LIMITS: Final = ("serial", "compute", "memory", "wire", "host")
"""Times of an operator beside its own: without overlap, and by each limit alone."""
MOVED: Final = tuple(name for name in COUNTS if name.endswith("_bytes"))


def operators(batch: StaticBatch) -> Table:
    """Operators of both phases; counts and times are of all executions on one device.

    The row of kind ``"engine"`` is what its software adds to a step: it has a time and no counts.
    """
    precision, gpu = batch.deployment.precision, batch.deployment.node.gpu
    rows = []
    for phase, ops in (("prefill", batch.prefill), ("decode", batch.decode)):
        total = sum(entry.seconds for entry in ops.values())
        for name, entry in ops.items():
            op, work, times = entry.op, entry.op.work, float(entry.op.repeat)
            moved = traffic(op, gpu, precision.activations.width, precision.kv.width)
            hbm = float(work.hbm_bytes)
            low, high = ends(entry)
            rows.append(
                {
                    "phase": phase,
                    "op": name,
                    "kind": op.kind,
                    "repeat": op.repeat,
                    "seconds": entry.seconds,
                    "share": entry.seconds / total,
                    "bound": entry.bound,
                    "arithmetic": op.arithmetic,
                    "algorithm": op.algorithm,
                    "flops": float(work.flops) * times,
                    "hbm_bytes": hbm * times,
                    "intensity": float(work.flops) / hbm if hbm else 0.0,
                    "low_s": low,
                    "high_s": high,
                    "roof_s": entry.roof,
                    "basis": entry.basis,
                    **{f"{limit}_s": getattr(entry, limit) for limit in LIMITS},
                    **{name: float(getattr(work, name)) * times for name in MOVED},
                    "l2_bytes": moved.l2 * times,
                    "score_bytes": moved.scores * times,
                }
            )
    return table(rows, units_of(rows[0]), basis=worst([str(row["basis"]) for row in rows]))


def capacity(batch: StaticBatch, most: int) -> Table:
    """Largest batch at this context, which is known, and largest context at this batch."""
    deployment, work = batch.deployment, batch.workload
    limit = deployment.architecture.max_context
    longest = room.largest_context(deployment, work, batch.utilization)
    bound = "the network" if limit and longest >= limit - 1 else "memory"
    columns = ("limit", "value", "unit", "at", "set by")
    rows = [
        ("largest batch", most, "sequence", f"context {work.longest}", "memory"),
        ("longest context", longest, "token", f"batch {work.batch}", bound),
    ]
    if batch.memory.adapters:
        fitting = room.most_adapters(deployment, batch.memory)
        at = f"batch {work.batch}, context {work.longest}"
        rows.append(("most adapters on the device", fitting, "adapter", at, "memory"))
    return table([dict(zip(columns, row, strict=True)) for row in rows], {})


def what_if(priced: tuple[AdvisedChange, ...]) -> Table:
    """Changes, each priced by itself; factors on the figures of this deployment."""
    rows = [structs.asdict(change) for change in priced]
    return table([{"change": row.pop("name"), **row} for row in rows], {})


def roofs(batch: StaticBatch) -> Table:
    """Ceilings of the roofline: arithmetic rates, and bandwidth of each level."""
    gpu, precision = batch.deployment.node.gpu, batch.deployment.precision
    rows = [
        _roof(gpu, "arithmetic", name, f"arithmetic.{name}", gpu.rate(name))
        for name in dict.fromkeys((precision.linear_arithmetic, precision.attention_arithmetic))
    ]
    for level, key, rate in (
        ("HBM", "hbm", gpu.hbm_bytes_per_s),
        ("L2", "cache.l2_bandwidth", gpu.l2_bytes_per_s),
        ("on-chip", "compute.shared_bandwidth", gpu.shared_bytes_per_s),
    ):
        if rate:
            rows.append(_roof(gpu, "bandwidth", level, key, rate))
    return table(rows, {})


def _roof(gpu: Gpu, kind: str, name: str, key: str, rate: float) -> dict[str, Any]:
    fact = gpu.facts.get(key)
    return {
        "kind": kind,
        "name": name,
        "rate": rate,
        "unit": "FLOP/s" if kind == "arithmetic" else "B/s",
        "basis": fact.basis if fact else "datasheet",
        "source": fact.source if fact else gpu.name,
    }


def assumptions(batch: StaticBatch, given: Mapping[str, str]) -> Table:
    """Inputs and assumptions behind the figures, with the source of each."""
    gpu, network = batch.deployment.node.gpu, batch.deployment.architecture
    rows = [known(what, value, "given", "command or default") for what, value in given.items()]
    node = batch.deployment.node
    precision, figures = batch.deployment.precision, ("hbm", "memory.visible", "memory.nominal")
    used = {
        *(f"arithmetic.{precision.linear_arithmetic}", *figures),
        *(f"arithmetic.{precision.attention_arithmetic}", "cache.l2_bandwidth"),
        *("price.per_hour", "power.tdp"),
    }
    rows += [stated(f"{gpu.name} {key}", fact) for key, fact in gpu.facts.items() if key in used]
    wired = {"link": batch.devices > 1, "network": batch.devices > node.gpus}
    rows += [
        stated(f"{node.name} {key}", fact)
        for key, fact in node.facts.items()
        if wired.get(key.partition(".")[0], False)
    ]
    if batch.deployment.offload.any:
        rows += _outside(batch)
    for field, text in network.provenance.items():
        value, _, where = text.partition(", ")
        rows.append(known(f"{network.name} {field}", value, "config", where))
    engine = batch.deployment.engine
    for text in engine.notes:
        value, _, note = text.partition(": ")
        rows.append(known(f"engine {engine.name}", value, "assumed", "engine profile", note))
    return table(rows, {})


def known(what: str, value: str, basis: str, source: str, note: str = "") -> dict[str, Any]:
    """Row of an assumption, with its source."""
    return {"what": what, "value": value, "basis": basis, "source": source, "note": note}


def stated(what: str, fact: Fact) -> dict[str, Any]:
    """Row of a figure that a file states."""
    source = ", ".join(text for text in (fact.source, fact.where) if text)
    return known(what, fact.text, fact.basis, source, fact.note)


def _outside(batch: StaticBatch) -> list[dict[str, Any]]:
    """Shares kept outside device memory, and the link they are loaded over."""
    deployment, offload = batch.deployment, batch.deployment.offload
    where = "the host's memory" if offload.to == "cpu" else "storage of the host"
    how = (
        "the next layer is loaded while one computes" if offload.prefetch else "loaded when needed"
    )
    given = "command or default"
    least = "the least with which it fits" if offload.least else given
    kept = [
        known(f"{what} kept in {where}", f"{share:.0%}", "given", source, how)
        for what, share, source in (
            ("weights of the layers", offload.weights, least),
            ("KV cache", offload.kv, given),
        )
        if share
    ]
    return kept + [stated(what, fact) for what, fact in outside_facts(deployment).items()]
