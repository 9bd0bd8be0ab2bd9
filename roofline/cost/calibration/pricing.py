"""Time of operators by measured kernels: a calibration of one device under one engine."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.cost.calibration.by_kind import kernel_query, sorted_out
from roofline.cost.calibration.kernel import (
    IDEAL,
    FitLabel,
    FittedKernel,
    KernelFit,
    KernelQuery,
    Load,
    nearest,
)
from roofline.cost.calibration.usual import usual
from roofline.cost.calibration.wires import (
    alltoall_of,
    exchange_of,
    library,
    payload_of,
    wire_seconds,
)
from roofline.cost.engine_costs import NO_ENGINE, EngineProfile
from roofline.cost.kernels import (
    encoder,
    experts,
    latent,
    latent_module,
    latent_prefill,
    prefill,
    recurrent,
)
from roofline.cost.kernels.decode import scheduled
from roofline.cost.kernels.form import Dims, FittedForm, Machine, machine, predict, take
from roofline.cost.measured import DATASHEET, UNMEASURED, MeasuredTime
from roofline.cost.work import (
    CONVERSION,
    CONVERSION_OF_EXPERTS,
    Array,
    Number,
    Op,
    plus,
    root_sum_square,
)
from roofline.hardware.machine import Gpu
from roofline.records import replace
from roofline.table import BASES

Rows: TypeAlias = NDArray[np.bool_] | slice
ASSUMED: Final = BASES.index("assumed")
INTERPOLATED: Final = BASES.index("interpolated")
EXTRAPOLATED: Final = BASES.index("extrapolated")
TRANSFERRED: Final = BASES.index("transferred")
NARROW: Final = ("fp8", "fp8_block")
"""Products that were measured with the conversion of their inputs."""
EXPERTS: Final = frozenset({"moe", "moe-wideep"})
"""Fused mixtures of experts, of which operators are parts."""
COLD: Final = frozenset({"decode-attention", "latent-decode", *EXPERTS})
"""Kernels measured on one cache or the same weights again and again, which may have stayed in the
last-level cache; in a step the weights and caches of all other layers come between."""
ALL_TO_ALL: Final = {0.5625: "nvfp4", 1.0: "fp8", 2.0: "bfloat16"}
"""Formats of measured exchanges, by bytes per number."""
ONE_SIDED: Final = "-one-sided"
CHOICE: Final = 4.0
"""Bytes of the number of an expert that a token chose. [B]"""
SCHEDULES: Final[Mapping[str, Callable[[Dims, FittedKernel, str], Dims]]] = {
    "decode-attention": lambda dims, kernel, _: scheduled(
        dims, kernel.name or kernel.label.provider
    ),
    "latent-decode": lambda dims, kernel, generation: latent.in_graph(
        latent.scheduled(dims, kernel.name, generation)
    ),
    "latent-prefill": lambda dims, kernel, _: latent.in_graph(
        latent_prefill.scheduled(dims, kernel.name)
    ),
    "latent-heads": lambda dims, kernel, _: latent_module.heads_dims(dims, kernel.name),
    "prefill-attention": lambda dims, kernel, generation: prefill.scheduled(
        dims, kernel.name or kernel.label.provider, generation
    ),
    "encoder-attention": lambda dims, kernel, generation: encoder.scheduled(
        dims, kernel.label.provider, generation
    ),
    "linear-attention": lambda dims, kernel, generation: recurrent.scheduled(
        dims, kernel.label.provider, generation
    ),
}
"""Columns by the kernel that a provider has on a generation of devices, by kind."""
GUESS: Final = 0.25
"""Log standard deviation that is added where no kernel of these formats was measured; assumed."""


@dataclass(frozen=True, slots=True)
class GpuCalibration:
    """Measured kernels of a device, or of the one most like it."""

    basis: ClassVar[str] = "interpolated"
    name: str
    engine: str
    """Engine whose kernels are taken where there are several."""
    labels: tuple[FitLabel, ...]
    """Labels of all fits there are."""
    load: Load = field(repr=False)
    """Fit of a label."""
    profile: EngineProfile = NO_ENGINE
    """Constants of the engine; no operator has them."""
    fallback: bool = False
    """True where operators that nothing like was measured of take what such kernels usually do,
    beside those that were."""
    switched: bool = True
    """True where the devices of a node are joined by more than the host's PCIe."""
    _found: dict[tuple[str, ...], KernelFit | None] = field(
        init=False, default_factory=dict, repr=False, compare=False
    )
    _kinds: dict[str, list[FitLabel]] = field(
        init=False, default_factory=dict, repr=False, compare=False
    )

    def price(self, op: Op, gpu: Gpu) -> MeasuredTime | None:
        """Time of one execution of an operator; None where nothing like it was measured.

        Rows that ask for a kernel that was not measured, beside some that were, have the least time
        that published rates allow.
        """
        parts = [(rows, each, self._alike(each, gpu)) for rows, each in sorted_out(op)]
        if not parts:
            return self._alike(op, gpu) or self._usual(op, gpu)
        if all(priced is None for _, _, priced in parts):
            return self._usual(op, gpu)
        return _merged(
            [
                (rows, priced or self._usual(each, gpu) or _published(each, gpu))
                for rows, each, priced in parts
            ]
        )

    def _usual(self, op: Op, gpu: Gpu) -> MeasuredTime | None:
        """Time of such a kernel as it usually is; None where nobody asked for that."""
        return usual(op, gpu, switched=self.switched) if self.fallback else None

    def _alike(self, op: Op, gpu: Gpu) -> MeasuredTime | None:
        """`price` of an operator all of whose rows are of one sort."""
        if op.kind == "collective" and not self.switched:
            return None
        if op.kind == "collective":
            wired = self._wired(op, gpu)
            return wired and replace(wired, seconds=wired.seconds * op.dims["times"])
        if op.kernel in (CONVERSION, CONVERSION_OF_EXPERTS):
            # Measured products make their own inputs; the form of the product has the time.
            kind = "moe" if op.kernel == CONVERSION_OF_EXPERTS else "gemm"
            if self.find(gpu, kind, NARROW) is None:
                return None
            zero = np.zeros_like(np.asarray(op.work.activation_bytes))
            return MeasuredTime(_plain(zero), _plain(zero), float(INTERPOLATED))
        wanted, best = kernel_query(op, gpu), None
        while wanted is not None:
            found = self.find(gpu, wanted.kind, wanted.variants)
            if wanted.own and found is not None and (found.foreign or found.borrowed):
                found = None
            priced = None if found is None else self._priced(op, gpu, wanted, found)
            if priced is None and wanted.otherwise is not None:
                wanted = wanted.otherwise
                continue
            if priced is not None:
                held = priced if best is None else _held(priced, best, op, gpu)
                best = held if best is None else _faster(best, held, wanted.rows)
            wanted = wanted.instead
        return best

    def find(
        self, gpu: Gpu, kind: str, variants: Sequence[str], provider: str = ""
    ) -> KernelFit | None:
        """Fit that stands for a kernel: of any provider, the engine's first, or of one of them."""
        key = (provider, gpu.name, gpu.architecture, kind, *variants)
        if key not in self._found:
            if not self._kinds:  # a record that only brings constants never sorts its thousands
                by_kind: dict[str, list[FitLabel]] = {}
                for label in self.labels:
                    by_kind.setdefault(label.kind, []).append(label)
                self._kinds.update(by_kind)  # at once: other threads ask, too
            labels = self._kinds.get(kind, [])
            if provider:
                labels = [each for each in labels if each.provider == provider]
            wanted = provider or self.engine
            self._found[key] = nearest(
                labels, self.load, gpu, wanted, kind, variants, in_steps=True
            )
        return self._found[key]

    def _priced(
        self, op: Op, gpu: Gpu, wanted: KernelQuery, found: KernelFit
    ) -> MeasuredTime | None:
        """Time by a fit that was found; None where the device lacks the arithmetic."""
        kernel = found.fit
        rate = next(
            (
                name
                for name in (wanted.arithmetic, kernel.arithmetic, "bf16", "fp16")
                if name in gpu.flops_per_s
            ),
            None,
        )
        if rate is None:
            return None
        device = machine(gpu, rate)
        if wanted.kind in COLD or wanted.cold:
            device = replace(device, l2_bytes=0.0)
        length = len(next(iter(wanted.dims.values())))
        time, own, known = np.empty((3, length))
        for rows, each, dims in self._by_shape(gpu, wanted, found, length):
            # Told as the engine's usual kernel, wherever that takes any row.
            found, model = each, each.fit.model
            form = wanted.form or model.form.in_steps
            if form is not None:
                model = replace(model, form=form)
            some = take(timed(dims, each.fit, gpu), rows)
            time[rows], own[rows], known[rows] = predict(model, some, device)
            if wanted.part:
                constants = model.constants
                time[rows] = experts.of_part(wanted.part, time[rows], some, device, constants)
        if wanted.beside is not None:
            time = np.maximum(time, self._beside(wanted.beside, gpu, device))
        if wanted.then is not None:
            time = time + self._beside(wanted.then, gpu, device)
        time = np.maximum(time, _least(op, gpu))
        spread = root_sum_square(own, found.spread)
        known = np.maximum(known, _distance(found))
        if wanted.assumed:
            unlike = np.ones(len(time), dtype=np.bool_) if wanted.rows is None else wanted.rows
            spread = np.where(unlike, root_sum_square(spread, GUESS), spread)
            known = np.where(unlike, ASSUMED, known)
        priced = _shaped(op, time, spread, known)
        start = _start(wanted, found.fit.model, priced.seconds)
        kind = "moe" if wanted.kind in EXPERTS else ""
        return replace(priced, found=found, assumed=wanted.assumed, start_s=start, kind=kind)

    def _by_shape(
        self, gpu: Gpu, wanted: KernelQuery, found: KernelFit, length: int
    ) -> Iterator[tuple[Rows, KernelFit, Dims]]:
        """Rows that each kernel of a provider takes, its usual one last; the kernel and columns."""
        usual = found.fit.label
        left = np.ones(length, dtype=np.bool_)
        for end, those, columns in wanted.special:
            rows = those & left
            if not rows.any():
                continue
            other = self.find(gpu, wanted.kind, (f"{usual.variant}-{end}",), usual.provider)
            if other is not None and other.fit.label.device == usual.device:
                yield rows, other._replace(borrowed=found.borrowed), columns
                left &= ~rows
        if left.any():
            yield slice(None) if left.all() else left, found, wanted.dims

    def _beside(self, wanted: KernelQuery, gpu: Gpu, device: Machine) -> Array | float:
        """Time of the kernel that runs beside or after, 0 where none like it was measured. [s]"""
        found = self.find(gpu, wanted.kind, wanted.variants)
        return 0.0 if found is None else predict(found.fit.model, wanted.dims, device)[0]

    def _wired(self, op: Op, gpu: Gpu) -> MeasuredTime | None:
        """Collectives inside a node, by the library that takes less time."""
        if (alone := self._all_to_all(op, gpu)) is not None:
            return alone
        exchanged = exchange_of(op, gpu)
        if exchanged is not None:
            variant, dims = exchanged
            found = self.find(gpu, "expert-exchange", (variant,))
            if found is None:
                return None
            time, own, known = predict(found.fit.model, dims, machine(gpu, "bf16"))
            known = np.maximum(known, TRANSFERRED * found.foreign)
            priced = _shaped(op, time, root_sum_square(own, found.spread), known.astype(float))
            return replace(priced, found=found)
        wanted, best = payload_of(op), None
        if wanted is None:
            return None
        for provider, variant, most in library(wanted, self.engine):
            found = self.find(gpu, "collective", (variant,), provider)
            if found is None:
                continue
            borrowed = "custom" in provider and self.engine not in (*provider.split("-"), IDEAL)
            found = found._replace(borrowed=borrowed)
            each = wire_seconds(wanted, gpu, found, most)
            if each is not None:
                best = each if best is None else _faster(best, each)
                if provider == f"{self.engine}-custom" and most == np.inf and not found.foreign:
                    break  # what the engine was measured to take for each size
        if best is None or not np.all(np.isfinite(best.seconds)):
            return None
        columns = (np.atleast_1d(each) for each in (best.seconds, best.log_sd, best.basis))
        return replace(_shaped(op, *columns), found=best.found)

    def _all_to_all(self, op: Op, gpu: Gpu) -> MeasuredTime | None:
        """Exchange of tokens by the engine's own kernels; None where it has none on the device."""
        made = ALL_TO_ALL.get(float(np.max(op.dims.get("width", 0.0))))
        asked_for = alltoall_of(op, gpu, made) if made else None
        if asked_for is None:
            return None
        variants, before, dims = asked_for
        found = self.find(gpu, "moe-alltoall", variants)
        if found is None or found.foreign or found.borrowed:
            return None
        device = machine(gpu, "bf16")
        time, own, known = predict(found.fit.model, dims, device)
        if before and not found.fit.label.variant.endswith(ONE_SIDED):
            first = self.find(gpu, "moe-alltoall", (before,))
            if first is not None:
                width = CHOICE * np.asarray(op.dims["active"]) / dims["hidden"]
                chosen = {**dims, "width": width}
                time = time + predict(first.fit.model, chosen, device)[0]
        return replace(_shaped(op, time, own, known.astype(float)), found=found)


def timed(dims: Dims, kernel: FittedKernel, gpu: Gpu) -> Dims:
    """Columns as the kernel that was found schedules them."""
    schedule = SCHEDULES.get(kernel.label.kind)
    return dims if schedule is None else schedule(dims, kernel, gpu.architecture)


def _distance(found: KernelFit) -> int:
    """Basis that a kernel has at best, by how far it is from what was asked for."""
    if (found.foreign and not found.same_chip) or (found.borrowed and not found.one_library):
        return TRANSFERRED
    return EXTRAPOLATED if found.foreign or found.borrowed else 0


def _start(wanted: KernelQuery, model: FittedForm, seconds: Number) -> Number:
    """Part of a kernel's time that is before and after its work. [s]

    Each matrix of a fused mixture of experts has half of the launch; the part around the matrices
    is all start. A pass starts with one block that walks along its row alone.
    """
    constants = model.constants
    if wanted.kind in EXPERTS:
        if wanted.part == "around":
            return seconds
        return np.minimum(constants["launch"] / 2.0 * model.scale, seconds)
    start: Number = 0.0
    if wanted.kind == "gemm":
        start = constants.get("start", 0.0)
    elif wanted.kind == "pointwise":
        start = constants["start"] + constants["lane"] * wanted.dims["width"]
        start = start if np.ndim(seconds) else float(np.ravel(start)[0])
    return np.minimum(start * model.scale, seconds)


def _least(op: Op, gpu: Gpu) -> Number:
    """Least time of any fit: published arithmetic, weights and caches from memory, wires. [s]

    Activations may have stayed in the last-level cache. What is passed around a ring meanwhile was
    not passed when a kernel was measured.
    """
    if "tokens" in op.dims:
        return 0.0  # a part of a whole that was measured
    arithmetic = op.arithmetic
    if op.kind == "index" and "fp8" in gpu.flops_per_s:
        arithmetic = "fp8"  # keys of an index are kept, and scored, in 8 bits
    compute = op.work.flops / gpu.rate(arithmetic) if arithmetic else 0.0
    moved = plus(op.work.weight_bytes, op.work.kv_bytes) / gpu.hbm_bytes_per_s
    return np.maximum(np.maximum(compute, moved), op.wire_s)


def _published(op: Op, gpu: Gpu) -> MeasuredTime:
    """Time at the rates of the datasheet."""
    compute = op.work.flops / gpu.rate(op.arithmetic) if op.arithmetic else 0.0
    least = np.maximum(np.maximum(compute, op.work.hbm_bytes / gpu.hbm_bytes_per_s), op.wire_s)
    return MeasuredTime(least, UNMEASURED, DATASHEET)


def _merged(parts: list[tuple[NDArray[np.intp], MeasuredTime]]) -> MeasuredTime:
    """Prices of all sorts in the order of the rows, with the fit of the sort that has most."""
    columns = np.empty((4, sum(len(rows) for rows, _ in parts)))
    for rows, priced in parts:
        each = (priced.seconds, priced.log_sd, priced.basis, priced.start_s)
        columns[:, rows] = np.stack([np.broadcast_to(value, rows.shape) for value in each])
    _, most = max(parts, key=lambda part: (part[1].found is not None, len(part[0])))
    seconds, log_sd, basis, start = columns
    start_s = start if start.any() else 0.0
    return replace(most, seconds=seconds, log_sd=log_sd, basis=basis, start_s=start_s)


def _held(priced: MeasuredTime, to: MeasuredTime, op: Op, gpu: Gpu) -> MeasuredTime:
    """Time of a kernel that stands in for another, no shorter than the other's arithmetic takes.

    The stand-in was measured where memory bound it, which does not tell how fast it multiplies. The
    spread is the smaller of the two: both kernels bound the time, so the distance of the query from
    what was measured of one says little.
    """
    assert to.found is not None, "a kernel that stands in for none"
    share = to.found.fit.model.constants["compute"]
    least = op.work.flops / (share * gpu.rate(op.arithmetic))
    return replace(
        priced,
        seconds=np.maximum(priced.seconds, least)[()],
        log_sd=np.minimum(priced.log_sd, to.log_sd)[()],
    )


def _faster(
    one: MeasuredTime, other: MeasuredTime, may: NDArray[np.bool_] | None = None
) -> MeasuredTime:
    """The faster of two kernels, row by row; told as the one that is faster more often.

    ``may`` are the rows that the other would do for; all if not stated.
    """
    first = np.asarray(one.seconds) <= np.asarray(other.seconds)
    if may is not None:
        first = first | ~(may if np.ndim(first) else may[0])
    seconds, log_sd, basis, start = (
        np.where(first, getattr(one, name), getattr(other, name))[()]
        for name in ("seconds", "log_sd", "basis", "start_s")
    )
    told = one if first.mean() > 0.5 else other
    return replace(told, seconds=seconds, log_sd=log_sd, basis=basis, start_s=start)


def _shaped(op: Op, time: Array, spread: Array, known: Array) -> MeasuredTime:
    """Numbers where the operator has numbers; nothing where it has nothing to do."""
    work = op.work
    idle = (np.asarray(work.flops) == 0) & (np.asarray(work.hbm_bytes) == 0)
    idle = idle & (np.asarray(op.wire_s) == 0)
    # An operator may be used on a part of its axis only, while its shape is the same on all of it.
    time, known = np.where(idle, 0.0, time), np.where(idle, 0.0, known)
    spread = np.broadcast_to(spread, time.shape)
    if time.size == 1 and all(np.ndim(value) == 0 for value in op.dims.values()):
        return MeasuredTime(float(time[0]), float(np.ravel(spread)[0]), float(np.ravel(known)[0]))
    return MeasuredTime(time, spread, known)


def _plain(value: Array) -> Number:
    return float(value) if value.ndim == 0 else value
