"""Deployments of catalog networks on catalog machines."""

from typing import Any

from roofline.cost.deployment import Deployment, Options
from roofline.cost.layout import Layout
from roofline.hardware.catalog import default_node, gpu
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
    **options: Any,
) -> Deployment:
    """The network on so many devices."""
    machine = gpu(device)
    return Deployment(
        architecture(model),
        default_node(machine, tp),
        resolve(weights, kv, machine),
        engine_named(engine),
        Layout(tp=tp),
        Options(**options),
    )
