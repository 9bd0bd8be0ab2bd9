"""FLOPs and bytes of an operator, with the formulas that the field uses for them."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Final

from roofline.cost.deployment import Deployment
from roofline.cost.layers.loading import CACHE, EXPERTS
from roofline.cost.work import Op
from roofline.model.precision import named
from roofline.serving.explain.parts import outside_share, same
from roofline.table import Derivation
from roofline.units import show

_MANY: Final = 10
"""Digits of a number that is put into a formula."""


@dataclass(frozen=True, slots=True)
class Formula:
    """A count in symbols, with its numbers, and what these are where it is not plain."""

    text: str
    numbers: str
    inputs: tuple[Derivation, ...] = ()


def counts(op: Op, deployment: Deployment) -> Iterator[Derivation]:
    """What one execution of an operator computes and moves."""
    formulas = _formulas(op, deployment)
    for name, unit, value in (
        ("F", "FLOP", op.work.flops),
        ("weights moved", "B", op.work.weight_bytes),
        ("activations moved", "B", op.work.activation_bytes),
        ("KV cache moved", "B", op.work.kv_bytes),
        ("sent", "B", op.work.wire_bytes),
        ("sent out of the node", "B", op.work.network_bytes),
        ("rounds of messages", "", op.work.messages),
        ("rounds out of the node", "", op.work.network_messages),
        ("loaded", "B", op.work.host_bytes),
    ):
        if float(value):
            known = formulas.get(name, Formula("", ""))
            yield Derivation(
                name,
                float(value),
                unit,
                formula=known.text,
                substituted=known.numbers,
                inputs=known.inputs,
                source="" if known.text else _origin(op, name),
            )


def _numbers(*factors: float) -> str:
    return " · ".join(f"{factor:,.{_MANY}g}" for factor in factors)


def _formulas(op: Op, deployment: Deployment) -> dict[str, Formula]:
    """Formulas of those counts that have one."""
    if op.kind in ("gemm", "moe"):
        return _product(op)
    if op.kind in ("prefill-attention", "decode-attention"):
        return _attention(op)
    if op.kind == "collective":
        return _moved(op, deployment)
    if op.kind == "host":
        return _loaded(op, deployment)
    return {}


def _product(op: Op) -> dict[str, Formula]:
    """A matrix product, or that of all experts touched."""
    m, n, k = (float(op.dims[key]) for key in ("m", "n", "k"))
    weight = named(op.formats["weights"]).width
    factors, symbols = [n, k, weight], "n·k·bytes"
    inputs: tuple[Derivation, ...] = ()
    if op.kind == "moe":
        touched = float(op.dims["touched"])
        factors, symbols, inputs = [touched, *factors], f"touched·{symbols}", _touched(touched, m)
    beside = float(op.work.weight_bytes) - prod(factors)
    bias = not same(float(op.work.weight_bytes), prod(factors))
    out = {
        "weights moved": Formula(
            symbols + " + bias" * bias,
            _numbers(*factors) + f" + {beside:,.{_MANY}g}" * bias,
            inputs,
        )
    }
    if same(float(op.work.flops), 2 * m * n * k):
        out["F"] = Formula("2·m·n·k", _numbers(2, m, n, k))
    if moved := float(op.work.activation_bytes):
        width = moved / (m * (n + k))
        text = f"{m:,.{_MANY}g} · ({k:,.{_MANY}g} + {n:,.{_MANY}g}) · {width:g}"
        out["activations moved"] = Formula("m·(k + n)·bytes", text)
    return out


def _touched(touched: float, rows: float) -> tuple[Derivation, ...]:
    """Experts and rows of the group of devices that has most of them."""
    group = "of the group of devices with most of them, on average over what tokens choose"
    return (
        Derivation("touched", touched, "", source=f"experts {group}"),
        Derivation("m", rows, "", source=f"rows {group}"),
    )


def _attention(op: Op) -> dict[str, Formula]:
    count, n, kv, h = (float(op.dims[key]) for key in ("count", "heads", "kv_heads", "head_dim"))
    width = named(op.formats["kv"]).width
    # Over a growing context these are means: of pairs and keys, not of what they are made of.
    pairs = float(op.work.flops) / (4 * n * h * count)
    keys = float(op.work.kv_bytes) / (2 * kv * h * count * width)
    return {
        "F": Formula("4·N·H·B·pairs of query and key", _numbers(4, n, h, count, pairs)),
        "KV cache moved": Formula(
            "2·K·H·B·keys seen·bytes", _numbers(2, kv, h, count, keys, width)
        ),
    }


def _loaded(op: Op, deployment: Deployment) -> dict[str, Formula]:
    """Share of what the layers of a step read."""
    offload = deployment.offload
    of_weights = op.name != CACHE
    share = offload.weights if of_weights else offload.kv
    read = float(op.work.host_bytes) / share
    source = {
        CACHE: "KV cache moved of the operators of the layers, reads and writes",
        EXPERTS: "weights moved of the experts that tokens of the step touch",
    }.get(op.name, "weights moved of the operators of the layers, experts apart")
    name = "what the layers move"
    return {
        "loaded": Formula(
            f"share kept outside · {name}",
            f"{share:.{_MANY}g} · {show(read, 'B', 4)}",
            (
                outside_share("share kept outside", share, offload),
                Derivation(name, read, "B", source=source),
            ),
        )
    }


def _moved(op: Op, deployment: Deployment) -> dict[str, Formula]:
    """What a device sends in a collective, where that has one formula."""
    if "groups_met" in op.dims:
        return _routed(op)
    n, nodes = float(op.dims["ranks"]), float(op.dims["nodes"])
    g, payload = n / nodes, float(op.dims["bytes"])
    whole = (_tensor(op, deployment),)
    near, far = _of_way(op, n, g, nodes)
    sent = {
        "sent": (near, float(op.work.wire_bytes)),
        "sent out of the node": (far, float(op.work.network_bytes)),
    }
    out = {}
    for name, ((text, numbers, share), value) in sent.items():
        if value and same(share * payload, value):
            out[name] = Formula(text, f"{numbers} · {payload:,.{_MANY}g}", whole)
    return out


_Share = tuple[str, str, float]
_NONE: Final[_Share] = ("", "", 0.0)


def _of_way(op: Op, n: float, g: float, nodes: float) -> tuple[_Share, _Share]:
    """What is sent of M inside the node and out of it: in symbols, with numbers, as a share."""
    name = op.algorithm
    if op.name == "send":
        return (("M", "1", 1.0), ("M", "1", 1.0))
    twice = 2 if op.name.startswith("all-reduce") else 1
    if name.startswith("hierarchical"):
        across = name.removeprefix("hierarchical, ").removesuffix(" between nodes")
        text, numbers, share = _inside(across, twice, nodes, "N")
        near = _inside("direct" if twice == 1 else "ring", twice, g, "g")
        return near, (text.replace("M", "M/g"), f"{numbers} / {g:g}", share / g)
    if name in ("flat ring", "ring") and nodes > 1:
        text, numbers, share = _inside("ring", twice, n, "n")
        out = (f"{text} / g", f"{numbers} / {g:g}", share / g)
        return (f"{text} · (1 − 1/g)", f"{numbers} · (1 − 1 / {g:g})", share - share / g), out
    return _inside(name, twice, n, "n"), _NONE


def _inside(algorithm: str, twice: int, n: float, symbol: str) -> _Share:
    """What each of n devices sends of M on one link."""
    start, first = ("2·", "2 · ") if twice == 2 else ("", "")
    around = (
        f"{start}({symbol} − 1)/{symbol}·M",
        f"{first}{n - 1:g} / {n:g}",
        twice * (n - 1) / n,
    )
    known: dict[str, _Share] = {"ring": around, "two-shot": around, "direct": around}
    if twice == 2:
        known |= {
            "tree": ("2·M", "2", 2.0),
            "one-shot": (f"({symbol} − 1)·M", f"{n - 1:g}", n - 1),
            "in-switch": (f"(1 + 1/{symbol})·M", f"(1 + 1 / {n:g})", 1 + 1 / n),
        }
    return known.get(algorithm, _NONE)


def _tensor(op: Op, deployment: Deployment) -> Derivation:
    """The tensor M that a collective moves."""
    network, payload = deployment.architecture, float(op.dims["bytes"])
    width = deployment.precision.activations.width
    if op.name in ("all-reduce", "reduce-scatter", "all-gather"):
        tokens = payload / (network.d_model * width)
        return Derivation(
            "M",
            payload,
            "B",
            formula="tokens · D · bytes",
            substituted=_numbers(tokens, network.d_model, width),
        )
    known = {
        "send": "a device's share of the stream: tokens · D · bytes / TP",
        "all-gather-logits": "logits of all rows",
        "gather-context": "keys and values of the whole context that one device attends to",
        "dispatch-all-gather": "tokens that arrive at a group of experts",
        "combine-reduce-scatter": "what a group of experts made of its tokens",
    }
    return Derivation("M", payload, "B", source=known.get(op.name, "the whole tensor"))


def _routed(op: Op) -> dict[str, Formula]:
    """Tokens to the groups of their experts, or back from them."""
    keys = ("tokens", "d", "width", "groups_met", "nodes_met", "inside", "nodes")
    tokens, d, width, met, there, g, nodes = (float(op.dims[key]) for key in keys)
    sent = Derivation(
        "tokens", tokens, "", source="of the device that sends or gets most, on average"
    )
    mean = "expected, of a token's experts: draws without replacement, hypergeometric"
    values = {
        "sent": ("groups met", met, "g", g, float(op.work.wire_bytes)),
        "sent out of the node": ("nodes met", there, "N", nodes, float(op.work.network_bytes)),
    }
    return {
        name: Formula(
            f"tokens · D · bytes · {what} · (1 − 1/{symbol})",
            f"{_numbers(tokens, d, width, number)} · (1 − 1 / {among:g})",
            (sent, Derivation(what, number, "", source=mean)),
        )
        for name, (what, number, symbol, among, value) in values.items()
        if value and same(tokens * d * width * number * (1 - 1 / among), value)
    }


def _origin(op: Op, name: str) -> str:
    """Where a count comes from that has no formula of its own."""
    if op.kind == "collective":
        ranks, nodes = float(op.dims["ranks"]), float(op.dims["nodes"])
        return f"{op.algorithm}, {ranks:g} devices on {nodes:g} node{'s' if nodes != 1 else ''}"
    if name.startswith(("sent", "rounds")):
        return "keys and values of the context, once around the ring of devices that share it"
    if name == "F":
        return "multiplies and adds of its matrix products, each counted once"
    return "operands and results, each moved once"
