"""Derivations of handing a prompt's cache from prefill to decode."""

from typing import Final

from roofline.cost.memory import kept_by_layer
from roofline.serving.disaggregated import Disaggregated
from roofline.serving.explain.parts import derived, fact, given, stated
from roofline.serving.static import StaticBatch
from roofline.table import Derivation
from roofline.units import count

DISTSERVE: Final = "DistServe, Zhong et al. 2024 (arXiv 2401.09670)"
SPLITWISE: Final = "Splitwise, Patel et al. 2024 (arXiv 2311.18677)"


def kv(pools: Disaggregated) -> Derivation:
    """Cache of a prompt, as it is handed over."""
    deployment, work = pools.prefill.deployment, pools.prefill.workload
    on_device = " + ".join(
        f"{number} · {count(float(kept_by_layer(deployment, block, float(work.prompt))))}"
        for block, number in deployment.architecture.kinds.items()
        if block.mixer
    )
    return Derivation(
        "KV cache of a prompt",
        pools.transfer.prompt_bytes,
        "B",
        formula="sum over layers of what each keeps of the prompt, each part once",
        inputs=(
            given("S", work.prompt, "token"),
            Derivation(
                "bytes per element",
                deployment.precision.kv.width,
                "B",
                source=f"{deployment.precision.kv.name} cache",
            ),
        ),
        source=f"{DISTSERVE}, communication overhead",
        note=f"a device of the prefill instance keeps, by layers, {on_device} B of it; what "
        "several devices hold alike counts once",
    )


def transfer(pools: Disaggregated) -> Derivation:
    """What decode waits for the cache."""
    handed = pools.transfer
    ends = (("send", handed.send, pools.prefill), ("receive", handed.receive, pools.decode))
    name, side, batch = max(ends, key=lambda end: end[1].seconds(handed.together))
    *_, late = max(ends, key=lambda end: end[1].latency_s)
    whole = derived(
        f"{name} the whole cache",
        handed.seconds,
        "s",
        "α + ceil(prompts handed over together / groups) · bytes of the busiest device / W",
        (
            kv(pools),
            Derivation(
                "devices that share it",
                side.sharing,
                "",
                formula="TP · CP · PP",
                source=str(batch.deployment.layout),
            ),
            given("prompts handed over together", handed.together, ""),
            _wire(pools, batch, "W", "bandwidth", side.bytes_per_s, "B/s"),
            _wire(pools, late, "α", "latency", handed.latency_s, "s"),
        ),
        {"groups": side.groups, "bytes of the busiest device": side.busiest_bytes},
        source=f"{DISTSERVE}; definition of latency and rate, at the slower end",
    )
    inputs = (whole,)
    if not pools.overlapped:
        return Derivation(
            "transfer",
            pools.overlap.transfer_s,
            "s",
            formula="the whole cache, after the prefill",
            inputs=inputs,
            basis=whole.basis,
            note="sending layer by layer would hide most of it (--overlapped)",
        )
    return Derivation(
        "transfer",
        pools.overlap.transfer_s,
        "s",
        formula="α + x + (L − 1) · max(x − c, 0), x to send a layer and c to compute it",
        inputs=(*inputs, given("layers that keep something, each stage", handed.layers, "")),
        source=SPLITWISE,
        basis=whole.basis,
        note="each layer is sent while the next is computed; without overlap the whole cache waits",
    )


def _wire(
    pools: Disaggregated, batch: StaticBatch, name: str, key: str, value: float, unit: str
) -> Derivation:
    """Rate or latency of a device's wires, with its source."""
    node, wires = batch.deployment.node, pools.transfer.wires
    if (known := node.facts.get(f"{wires}.{key}")) is not None:
        return stated(known, name, value, unit)
    link = node.network if wires == "network" else node.link
    assert link is not None, "a cache goes over wires"
    return fact(node.gpu, name, f"links.{link.kind}.{key}", value, unit)
