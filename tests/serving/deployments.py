"""Deployments of catalog networks on catalog machines."""

from typing import Any

from roofline.cost.deployment import KEPT, Deployment, Offload, Options
from roofline.cost.layout import Layout
from roofline.hardware.catalog import default_node, gpu
from roofline.hardware.catalog import node as node_named
from roofline.hardware.engine import engine as engine_named
from roofline.model.catalog import architecture
from roofline.model.precision import resolve


def on(
    model: str = "llama-3.1-8b",
    device: str = "h100-sxm",
    *,
    tp: int = 1,
    weights: str = "bf16",
    kv: str = "auto",
    engine: str = "vllm",
    layout: Layout | None = None,
    node: str = "",
    offload: Offload = KEPT,
    **options: Any,
) -> Deployment:
    """The network on so many devices."""
    degrees = layout or Layout(tp=tp)
    whole = node_named(node) if node else default_node(gpu(device), int(degrees.devices))
    machine = whole.gpu
    return Deployment(
        architecture(model),
        whole,
        resolve(weights, kv, machine),
        engine_named(engine),
        degrees,
        Options(**options),
        offload,
    )
