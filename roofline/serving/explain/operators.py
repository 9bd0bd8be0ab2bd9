"""Derivations of operators, and of a step as their sum."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from roofline.cost.algorithms import FORMULAS
from roofline.cost.deployment import Deployment
from roofline.cost.layers.loading import outside_bytes_per_s
from roofline.cost.work import Op
from roofline.hardware.machine import Link
from roofline.serving.explain.counts import counts
from roofline.serving.explain.fitted import fitted
from roofline.serving.explain.parts import ROUNDING, fact, given, same, worst, worst_of
from roofline.serving.explain.wires import wires
from roofline.serving.static import OpTime, StaticBatch
from roofline.table import BASES, Derivation
from roofline.units import show

COUNTS: Final = 0.01
"""Share of a step's time above which the basis of its operators is that of the step."""
LARGEST: Final = 5
"""Operators that a step's derivation spells out; the others are one entry."""
_ALL_AT_ONCE: Final = ("direct", "one-shot", "two-shot")
"""Algorithms in which a device addresses every other in a round."""


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
    op = entry.op
    if entry.measured is not None:
        return fitted(entry, entry.measured, tuple(counts(op, deployment)))
    times = (entry.compute, entry.memory, entry.wire)
    compute, memory, wire = (show(time / op.repeat, "s") for time in times)
    formula = f"{op.repeat} · max(F / P, B / BW)"
    substituted = f"{op.repeat} · max({compute}, {memory})"
    if op.kind == "collective":
        way, numbers = _passed(op, deployment)
        formula, substituted = f"{op.repeat} · ({way})", f"{op.repeat} · ({numbers or wire})"
    elif op.kind == "host":
        loaded, rate = float(op.work.host_bytes), outside_bytes_per_s(deployment)
        formula = f"{op.repeat} · loaded / W host"
        substituted = f"{op.repeat} · {show(loaded, 'B', 4)} / {show(rate, 'B/s', 4)}"
    elif entry.wire:
        formula = f"{op.repeat} · max(F / P, B / BW, rounds · α + sent / W)"
        substituted = f"{op.repeat} · max({compute}, {memory}, {wire})"
    note = f"bound by {entry.bound}"
    hidden = entry.wire + entry.host - entry.seconds
    if op.kind in ("collective", "host") and not same(hidden + entry.seconds, entry.seconds):
        formula, substituted = f"{formula} − what is hidden", ""
        note += f"; {show(hidden, 's')} of it is hidden behind other operators"
    inputs = tuple(counts(op, deployment))
    used = [rate for rate in wires(deployment) if _uses(op, rate.name)]
    return Derivation(
        op.name,
        entry.seconds,
        "s",
        formula=formula,
        substituted=substituted,
        inputs=inputs,
        basis=worst_of(used) or "datasheet",
        note=note,
    )


def _uses(op: Op, wire: str) -> bool:
    """Whether an operator uses wires of that name."""
    moved = {
        "W": op.work.wire_bytes,
        "W network": op.work.network_bytes,
        "W host": op.work.host_bytes,
    }
    return bool(float(moved[wire]))


@dataclass(frozen=True, slots=True)
class _Level:
    """Time on wires: in symbols, with numbers, in seconds."""

    formula: str
    numbers: str
    seconds: float


def _passed(op: Op, deployment: Deployment) -> tuple[str, str]:
    """What a collective takes, in symbols; with numbers, where these give its time."""
    name = op.algorithm
    around = name in ("flat ring", "ring") and bool(float(op.work.network_bytes))
    levels = list(_levels(op, deployment, around))
    if around:
        network = levels.pop(0)
        together = _joined(levels, at_once=True)
        whole = _joined([network, together], at_once=False)
    else:
        whole = _joined(levels, at_once=name == "direct")
    if not same(whole.seconds, float(op.wire_s)):
        return FORMULAS.get(name, name), ""
    if not float(op.work.network_bytes):
        how = FORMULAS.get(name, name).rpartition(", ")[2]
        return f"{whole.formula}, {how}", whole.numbers
    return f"{name}: {whole.formula}", whole.numbers


def _levels(op: Op, deployment: Deployment, around: bool) -> Iterator[_Level]:
    """What a collective takes in the node and out of it; around a ring, its rounds first."""
    work, node, name = op.work, deployment.node, op.algorithm
    ranks, nodes = float(op.dims["ranks"]), float(op.dims["nodes"])
    near, far, inside = name, name, ranks / nodes
    if name.startswith("hierarchical"):
        far = name.removeprefix("hierarchical, ").removesuffix(" between nodes")
        # Where all are addressed at once there is one round, and one on the way back.
        near = "direct" if float(work.messages) <= 1 + op.name.startswith("all-reduce") else "ring"
    if around and node.network is not None:
        yield _rounds(node.network, float(work.network_messages), 0.0, " network")
    if node.link is not None and float(work.wire_bytes):
        peers = 2.0 if op.name == "send" else inside
        mesh = _mesh(node.link, peers, node.gpus)
        sent = _sent(float(work.wire_bytes), node.link.bytes_per_s, "", mesh)
        further = inside - 2.0 if near in _ALL_AT_ONCE else 0.0
        rounds = _rounds(node.link, float(work.messages), further, "")
        yield sent if around else _joined([rounds, sent], at_once=False)
    if node.network is not None and float(work.network_bytes):
        sent = _sent(float(work.network_bytes), node.network.rate_between_nodes, " network")
        further = nodes - 2.0 if far in _ALL_AT_ONCE else 0.0
        rounds = _rounds(node.network, float(work.network_messages), further, " network")
        yield sent if around else _joined([rounds, sent], at_once=False)


def _joined(levels: Sequence[_Level], *, at_once: bool) -> _Level:
    """Several times together: the longest where they are at once, else their sum."""
    texts = [(level.formula, level.numbers) for level in levels]
    formula, numbers = (" + ".join(parts) for parts in zip(*texts, strict=True))
    if not at_once or len(levels) == 1:
        return _Level(formula, numbers, sum(level.seconds for level in levels))
    formula, numbers = (f"max({', '.join(parts)})" for parts in zip(*texts, strict=True))
    return _Level(formula, numbers, max(level.seconds for level in levels))


def _rounds(link: Link, rounds: float, further: float, where: str) -> _Level:
    """Rounds of messages, each to one peer and to so many further ones."""
    alpha, delay, seconds = f"α{where}", show(link.latency_s, "s", 4), link.latency_s
    if further > 0 and link.per_peer_s:
        alpha = f"(α{where} + ({'N' if where else 'n'} − 2)·s{where})"
        delay = f"({delay} + {further:g} · {show(link.per_peer_s, 's', 4)})"
        seconds += further * link.per_peer_s
    return _Level(f"rounds · {alpha}", f"{rounds:,.10g} · {delay}", rounds * seconds)


def _sent(sent: float, rate: float, where: str, mesh: tuple[float, float] = (1, 1)) -> _Level:
    """Bytes over the rate that they are sent at, of a mesh those of its wires that lead there."""
    some, every = mesh
    formula, numbers = f"sent{' out' * bool(where)} / W{where}", show(rate, "B/s", 4)
    if some != every:
        formula = formula.replace("W", "(W · wires to the group / all wires)")
        numbers = f"({numbers} · {some:g} / {every:g})"
    return _Level(formula, f"{show(sent, 'B', 4)} / {numbers}", sent / (rate * some / every))


def _mesh(link: Link, group: float, joined: int) -> tuple[float, float]:
    """Wires of a device that lead to the others of a group, and all of them. [1]"""
    if link.topology != "mesh" or joined <= 2:
        return 1.0, 1.0
    return group - 1.0, joined - 1.0


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
        inputs.append(
            Derivation(
                f"{len(rest)} smaller operators",
                sum(entry.seconds for entry in rest),
                "s",
                source="the same formula",
                note=", ".join(entry.op.name for entry in rest),
            )
        )
    used = rates(batch)
    serial = sum(entry.serial for entry in ordered)
    if batch.calibrated:
        return _priced(name, ordered, tuple(inputs))
    return Derivation(
        name,
        sum(entry.seconds for entry in ordered),
        "s",
        formula="sum over operators of " + _headline(ops),
        substituted=" + ".join(show(entry.value, "s") for entry in inputs),
        inputs=(*inputs, *used),
        source="roofline: Williams, Waterman, Patterson 2009",
        basis=worst_of(used),
        note=f"each operator overlaps in itself; without any overlap {show(serial, 's')}; at "
        "these rates both are less than real kernels take",
    )


def _priced(name: str, ordered: Sequence[OpTime], inputs: tuple[Derivation, ...]) -> Derivation:
    """A step whose operators are priced by measured kernels."""
    # What is hidden, or stays in the last-level cache, takes less than its own roof.
    least = sum(min(entry.roof, entry.seconds) for entry in ordered)
    total = sum(entry.seconds for entry in ordered)
    known: dict[str, float] = {}
    for entry in ordered:
        known[entry.basis] = known.get(entry.basis, 0.0) + entry.seconds
    shares = ", ".join(
        f"{known[basis] / total:.0%} {basis}" for basis in BASES if known.get(basis, 0.0) > 0
    )
    return Derivation(
        name,
        total,
        "s",
        formula="sum over operators of repeats · time of the measured kernel"
        + ", and the engine" * any(entry.op.kind == "engine" for entry in ordered),
        substituted=" + ".join(show(entry.value, "s") for entry in inputs),
        inputs=inputs,
        basis=worst([basis for basis, time in known.items() if time > COUNTS * total]),
        note=f"{shares}; the least at published rates is {show(least, 's')}",
    )


def software(entry: OpTime, batch: StaticBatch, *, decodes: bool) -> Derivation:
    """Time that the engine's software adds to a step."""
    costs, engine = batch.deployment.engine_costs, batch.deployment.engine
    source = f"hwspecs/calibrations/engines/{engine.profile}.yaml"

    def constant(name: str, value: float, meaning: str) -> Derivation:
        return Derivation(name, value, "s", source=source, basis="interpolated", note=meaning)

    sequences = batch.workload.batch
    each = constant("c_step", costs.step_s, "added to every step")
    inputs: tuple[Derivation, ...]
    if not decodes:
        prompts = constant("c_pre", costs.prefill_s, "added to a step that prefills")
        formula, inputs = "c_step + c_pre", (each, prompts)
        substituted = f"{show(costs.step_s, 's')} + {show(costs.prefill_s, 's')}"
        if entry.seconds > costs.prefill_step_s * (1.0 + ROUNDING):
            launched = constant("c_launch", costs.launch_s, "least time of all kernels together")
            formula, inputs = f"{formula} + c_launch − kernels", (*inputs, launched)
            substituted += f" + {show(costs.launch_s, 's')} − kernels"
    else:
        sequence_s = float(costs.sequence_s)
        one = constant("c_seq", sequence_s, "added for each sequence that decodes")
        number = given("B", sequences, "")
        formula, inputs = "c_step + c_seq · B", (each, one, number)
        substituted = f"{show(costs.step_s, 's')} + {show(sequence_s, 's')} · {sequences}"
        if entry.seconds > (costs.step_s + sequence_s * sequences) * (1.0 + ROUNDING):
            least = float(costs.front_end_s)
            front = constant("c_fe", least, "time of the front end for each token")
            formula, inputs = "c_fe · B − kernels", (front, number)
            substituted = f"{show(least, 's')} · {sequences} − kernels"
    return Derivation(
        entry.op.name,
        entry.seconds,
        "s",
        formula=formula,
        substituted=substituted,
        inputs=inputs,
        source=source,
        basis="interpolated",
        note=f"scheduling, sampling, launches and what else {engine.title} does between kernels, "
        "as fitted to serving that was measured end to end",
    )


def _headline(ops: Mapping[str, OpTime]) -> str:
    """What is summed: of operators on the device, of wires, of loads."""
    kinds = {entry.op.kind for entry in ops.values()}
    hidden = any(
        not same(entry.wire + entry.host, entry.seconds)
        for entry in ops.values()
        if entry.op.kind in ("collective", "host")
    )
    return (
        "repeats · max(F / P, B / BW)"
        + ", of wires repeats · (rounds · α + sent / W)" * ("collective" in kinds)
        + ", of loads loaded / W host" * ("host" in kinds)
        + ", less what is hidden" * hidden
    )
