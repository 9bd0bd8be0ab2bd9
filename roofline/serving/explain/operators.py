"""Derivations of operators, of the rates of the interconnect, and of a step as their sum."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from roofline.cost.deployment import Deployment
from roofline.cost.measured import MeasuredTime
from roofline.part import Part
from roofline.serving.explain.parts import (
    ROUNDING,
    derived,
    differs,
    fact,
    given,
    mentions,
    parted,
    worst_of,
)
from roofline.serving.static import OpTime, StaticBatch
from roofline.table import BASES, Derivation, worst
from roofline.units import show

if TYPE_CHECKING:
    from roofline.cost.calibration.kernel import KernelFit
    from roofline.cost.kernels.form import FittedForm
from roofline.cost.step import outside_bytes_per_s
from roofline.hardware.links import host_link, kind, storage_link
from roofline.hardware.machine import Fact, Link
from roofline.records import replace
from roofline.serving.explain.parts import stated

COUNTS: Final = 0.01
"""Share of a step's time above which the basis of its operators is that of the step."""
LARGEST: Final = 5
"""Operators that a step's derivation spells out; the others are one entry."""
SHOWN: Final = {
    "flops": ("F", "FLOP"),
    "weight_bytes": ("weights moved", "B"),
    "activation_bytes": ("activations moved", "B"),
    "kv_bytes": ("KV cache moved", "B"),
    "wire_bytes": ("sent", "B"),
    "network_bytes": ("sent out", "B"),
    "messages": ("rounds", ""),
    "network_messages": ("rounds out", ""),
    "host_bytes": ("loaded", "B"),
}
"""Names and units of what an operator computes and moves, by field of its work."""
_MOVED: Final = ("weights moved", "activations moved", "KV cache moved")
_WIRED: Final = {"W": "wire_bytes", "W network": "network_bytes", "W host": "host_bytes"}


def rates(batch: StaticBatch) -> tuple[Derivation, ...]:
    """Arithmetic, memory and, as far as they are used, wire rates."""
    gpu, precision = batch.deployment.node.gpu, batch.deployment.precision
    names = dict.fromkeys((precision.linear_arithmetic, precision.attention_arithmetic))
    peaks = tuple(
        fact(gpu, f"P {name}", f"arithmetic.{name}", gpu.rate(name), "FLOP/s") for name in names
    )
    memory = fact(gpu, "BW", "hbm", gpu.hbm_bytes_per_s, "B/s")
    return (*peaks, memory, *wires(batch.deployment))


def operator(entry: OpTime, deployment: Deployment) -> Derivation:
    """Time of an operator, all its executions together."""
    op, gpu = entry.op, deployment.node.gpu
    counted = tuple(counts(entry))
    if entry.measured is not None:
        return fitted(entry, entry.measured, counted)
    known = [each.name for each in counted]
    terms, roofs = dict(entry.symbols()), []
    if op.arithmetic and "F" in known:
        roofs.append("F / P")
        terms["P"] = gpu.rate(op.arithmetic)
    if moved := [name for name in _MOVED if name in known]:
        roofs.append((f"({' + '.join(moved)})" if len(moved) > 1 else moved[0]) + " / BW")
        terms["BW"] = gpu.hbm_bytes_per_s
    if entry.wire or entry.host:
        roofs.append(op.work.says("seconds"))
    formula = f"max({', '.join(roofs)})" if len(roofs) > 1 else f"({''.join(roofs) or '0'})"
    note, hidden = f"bound by {entry.bound}", max(entry.roof - entry.seconds, 0.0)
    if differs(hidden, entry.seconds):
        note += f"; {show(hidden, 's')} of it is hidden behind other operators"
        terms["what is hidden"] = hidden
    used = [rate for rate in wires(deployment) if float(getattr(op.work, _WIRED[rate.name]))]
    return derived(
        op.name,
        entry.seconds,
        "s",
        f"{op.repeat} · {formula}[ − what is hidden]",
        counted,
        terms,
        basis=worst_of(used) or "datasheet",
        note=note + f"; by {op.algorithm}" * (op.kind == "collective"),
    )


def step(name: str, ops: Mapping[str, OpTime], batch: StaticBatch) -> Derivation:
    """Time of a step as the sum of its operators, the largest spelled out."""
    ordered = sorted(ops.values(), key=lambda entry: -entry.seconds)
    # What the engine adds is spelled out however small it is: no other row explains it.
    ordered.sort(key=lambda entry: entry.op.kind == "engine", reverse=True)
    rest = ordered[LARGEST:]
    inputs = [
        software(entry, batch, decodes=ops is batch.decode)
        if entry.op.kind == "engine"
        else operator(entry, batch.deployment)
        for entry in ordered[:LARGEST]
    ]
    if rest:
        others = f"{len(rest)} smaller operators"
        seconds = sum(entry.seconds for entry in rest)
        listed = ", ".join(entry.op.name for entry in rest)
        inputs.append(given(others, seconds, "s", "the same formula", note=listed))
    used = rates(batch)
    serial = sum(entry.serial for entry in ordered)
    if batch.calibrated:
        formula, basis, note = _priced(ordered)
        source, used = "", ()
    else:
        formula, basis = _headline(ops), worst_of(used)
        source = "roofline: Williams, Waterman, Patterson 2009"
        note = (
            f"each operator overlaps in itself; without any overlap {show(serial, 's')}; at these "
            "rates both are less than real kernels take"
        )
    return Derivation(
        name,
        sum(entry.seconds for entry in ordered),
        "s",
        formula="sum over operators of " + formula,
        substituted=" + ".join(show(entry.value, "s") for entry in inputs),
        inputs=(*inputs, *used),
        source=source,
        basis=basis,
        note=note,
    )


def _priced(ordered: Sequence[OpTime]) -> tuple[str, str, str]:
    """Formula, basis and note of a step whose operators are priced by measured kernels."""
    # What is hidden, or stays in the last-level cache, takes less than its own roof.
    least = sum(min(entry.roof, entry.seconds) for entry in ordered)
    total = sum(entry.seconds for entry in ordered)
    known: dict[str, float] = {}
    for entry in ordered:
        known[entry.basis] = known.get(entry.basis, 0.0) + entry.seconds
    shares = ", ".join(
        f"{known[basis] / total:.0%} {basis}" for basis in BASES if known.get(basis, 0.0) > 0
    )
    measured = any(entry.measured is not None and entry.measured.found for entry in ordered)
    return (
        f"repeats · time of the {'measured ' * measured}kernel"
        + ", and the engine" * any(entry.op.kind == "engine" for entry in ordered),
        worst([basis for basis, time in known.items() if time > COUNTS * total]),
        f"{shares}; the least at published rates is {show(least, 's')}",
    )


def software(entry: OpTime, batch: StaticBatch, *, decodes: bool) -> Derivation:
    """Time that the engine's software adds to a step."""
    costs, engine = batch.deployment.engine_costs, batch.deployment.engine
    source = batch.deployment.engine_file

    def constant(name: str, value: float, meaning: str) -> Derivation:
        return given(name, value, "s", source, "interpolated", meaning)

    inputs = [constant("c_step", costs.step_s, "added to every step")]
    if decodes:
        each, number = float(costs.sequence_s), batch.sequences
        inputs.append(constant("c_seq", each, "added for each sequence that decodes"))
        inputs.append(given("B", number, ""))
        formula, added, least = "c_step + c_seq · B", costs.step_s + each * number, "front end"
    else:
        inputs.append(constant("c_pre", costs.prefill_s, "added to a step that prefills"))
        formula, added, least = "c_step + c_pre", costs.prefill_step_s, "launches"
    waited = entry.seconds - added
    if waited > ROUNDING * added:
        told = {
            "front end": f"no step is shorter than c_fe · B, the front end's "
            f"{show(float(costs.front_end_s), 's')} for each token",
            "launches": f"no step is shorter than its launches, {show(costs.launch_s, 's')}",
        }
        inputs.append(constant(f"wait for the {least}", waited, told[least]))
        formula += f" + wait for the {least}"
    return derived(
        entry.op.name,
        entry.seconds,
        "s",
        formula,
        inputs,
        source=source,
        note=f"scheduling, sampling, launches and what else {engine.title} does between kernels, "
        "as fitted to serving that was measured end to end",
    )


def _headline(ops: Mapping[str, OpTime]) -> str:
    """Formula of the sum: operators on the device, wires, loads."""
    kinds = {entry.op.kind for entry in ops.values()}
    host = [entry.op.work.host_bytes for entry in ops.values() if entry.op.kind == "host"]
    hidden = any(
        differs(entry.wire + entry.host - entry.seconds, entry.seconds)
        for entry in ops.values()
        if entry.op.kind in ("collective", "host")
    )
    return (
        "repeats · max(F / P, B / BW)"
        + ", of links repeats · (rounds · α + sent / W)" * ("collective" in kinds)
        + ", of loads loaded / W host" * any(host)
        + ", of launches launches · launch" * (not all(host))
        + ", less what is hidden" * hidden
    )


def counts(entry: OpTime) -> Iterator[Derivation]:
    """FLOPs and bytes of one execution of an operator."""
    work, symbols = entry.op.work, entry.symbols()
    source = "" if entry.op.kind == "host" else entry.op.algorithm
    told: dict[str, Derivation] = {}
    for made in work.formulas:
        for name, source in made.formula.meanings:
            told[name] = given(name, symbols.get(name, 0.0), "", source)
        parts = (part for part in made.known().values() if isinstance(part, Part))
        told |= {part.name: parted(part, "B") for part in parts}
    for field, (name, unit) in SHOWN.items():
        if value := float(getattr(work, field)):
            text = work.says(field)
            inputs = [told[symbol] for symbol in told if mentions(text, symbol)]
            yield derived(name, value, unit, text, inputs, symbols, source=source)


def fitted(entry: OpTime, known: MeasuredTime, counted: tuple[Derivation, ...]) -> Derivation:
    """Time of an operator, all its executions together, as a fit has it."""
    op, found = entry.op, known.found
    if found is None and known.assumed:
        start = (entry.seconds - entry.roof) / op.repeat
        launch = given("start", start, "s", "launch, and all beside its limits", "assumed")
        bounds = f"max(F / P, bytes / BW), bound by {entry.bound}"
        least = given("least", entry.roof / op.repeat, "s", bounds, "datasheet")
        return derived(
            op.name,
            entry.seconds,
            "s",
            f"{op.repeat} · (start + least)",
            (*counted, launch, least),
            basis=entry.basis,
            note=f"log standard deviation {float(known.log_sd):.2g}; {known.assumed}",
        )
    if found is None:
        source = "measured with the product that it feeds"
        return Derivation(op.name, entry.seconds, "s", source=source, basis=entry.basis)
    told = "max(F / P, B / BW) or the links, all executions"
    floor = given("least at published rates", entry.roof, "s", told, "datasheet")
    model, label = found.fit.model, found.fit.label
    equation = model.form.equation or "t(shape, constants) · exp(residual)"
    whose = f"{label.provider} {label.kind} {label.variant} on {label.device}"
    return Derivation(
        op.name,
        entry.seconds,
        "s",
        formula=f"{op.repeat} · {equation}",
        substituted=f"{op.repeat} · {show(entry.seconds / op.repeat, 's')}",
        inputs=(*counted, *_constants(model), floor),
        source=f"fit of {whose}: {model.source}",
        basis=BASES[int(known.basis)],
        note=_note(known, found),
    )


def _note(known: MeasuredTime, found: "KernelFit") -> str:
    """Note on a fit: its spread, and the device or engine that it stands in from."""
    parts = [f"log standard deviation {float(known.log_sd):.2g}"]
    if found.foreign:
        parts.append("measured on another device and carried over by published rates")
    if found.borrowed:
        parts.append("kernels of another engine")
    if known.assumed:
        parts.append(known.assumed)
    return "; ".join(parts)


def _constants(model: "FittedForm") -> tuple[Derivation, ...]:
    return tuple(
        given(
            constant.name,
            model.constants[constant.name],
            "" if constant.unit == "1" else constant.unit,
            constant.meaning.rstrip("."),
            "measured",
        )
        for constant in model.form.constants
    )


def wires(deployment: Deployment) -> tuple[Derivation, ...]:
    """Wires of the node, out of it, and to the host, as far as they are used."""
    node, out = deployment.node, []
    if deployment.devices > 1 and node.link is not None:
        out.append(_link(node.facts, "link", "W", node.link, node.link.bytes_per_s))
    if deployment.devices > node.gpus and node.network is not None:
        rate = node.network.rate_between_nodes
        out.append(_link(node.facts, "network", "W network", node.network, rate))
    if deployment.offload.any:
        out.append(_outside(deployment))
    return tuple(out)


def _link(
    facts: Mapping[str, Fact], key: str, name: str, link: Link, bytes_per_s: float
) -> Derivation:
    """Rate of wires; below it the latency of a round on them, and of each further peer in it."""
    where = name.removeprefix("W")
    rate = stated(facts.get(f"{key}.bandwidth"), name, bytes_per_s, "B/s")
    rounds = (
        stated(facts.get(f"{key}.latency"), f"α{where}", link.latency_s, "s"),
        stated(facts.get(f"{key}.peer"), f"s{where}", link.per_peer_s, "s"),
    )
    if link.oversubscription != 1:
        over = stated(facts.get(f"{key}.oversubscription"), "over", link.oversubscription, "")
        own = replace(rate, name="rate of a device's links", value=link.bytes_per_s)
        inputs = (own, replace(over, name="oversubscription"), *rounds)
        return derived(name, bytes_per_s, "B/s", f"{own.name} / oversubscription", inputs, basis="")
    return replace(rate, inputs=rounds)


def outside_facts(deployment: Deployment) -> dict[str, Fact]:
    """Figures that loading from outside device memory rests on, by what they are of."""
    gpu, node = deployment.node.gpu, deployment.node
    link, out = host_link(gpu), {}
    if (memory := node.facts.get("host.memory")) is not None:
        out[f"{node.name} host.memory"] = memory
    if link is not None:
        known = node.facts.get("host.bandwidth")
        if known is not None and known.value == link.bytes_per_s:
            out[f"{node.name} host.bandwidth"] = known
        elif (own := gpu.facts.get(f"links.{link.kind}.bandwidth")) is not None:
            out[f"{gpu.name} links.{link.kind}.bandwidth"] = own
    if deployment.offload.to == "nvme":
        out["nvme bandwidth"] = kind("nvme")[1]["bandwidth"]
    return out


def _outside(deployment: Deployment) -> Derivation:
    """Rate of a device's wires to the host, or of the drive behind them."""
    link, rate = host_link(deployment.node.gpu), outside_bytes_per_s(deployment)
    assert link is not None, "a device without a link to the host is refused"
    facts = outside_facts(deployment)
    known = [fact for name, fact in facts.items() if not name.endswith("host.memory")]
    own = next((fact for fact in known if fact.value == link.bytes_per_s), None)
    wired = stated(own, "W host", link.bytes_per_s, "B/s")
    if deployment.offload.to == "cpu":
        return wired
    drive = stated(known[-1], "a drive", storage_link().bytes_per_s, "B/s")
    return derived(
        "W host",
        rate,
        "B/s",
        "min(links to the host, a drive)",
        (replace(wired, name="links to the host"), drive),
        basis="",
        source="the slower of the two is the rate of both",
    )
