"""Wires in use: rates, latencies and what each further peer costs, with the source of each."""

from collections.abc import Mapping
from dataclasses import replace

from roofline.cost.deployment import Deployment
from roofline.cost.step import outside_bytes_per_s
from roofline.hardware.links import host_link, kind, storage_link
from roofline.hardware.machine import Fact, Link
from roofline.serving.explain.parts import derived, stated
from roofline.table import Derivation


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
        own = replace(rate, name="rate of a device's wires", value=link.bytes_per_s)
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
    assert link is not None, "a device without wires to the host is refused"
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
        "min(wires to the host, a drive)",
        (replace(wired, name="wires to the host"), drive),
        basis="",
        source="the slower of the two is the rate of both",
    )
