"""Operators of the LoRA adapters of a matrix."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from roofline.cost.adapters import expand, shrink
from roofline.cost.work import Number, Op

if TYPE_CHECKING:
    from roofline.cost.layers.common import Pass


def adapted(
    p: "Pass", name: str, m: Number, n: Number, k: Number, layers: int, joined: int
) -> Iterator[Op]:
    """Both products of the adapters of a matrix, of which a device has what its part needs.

    Of a matrix that is split by outputs each device has all of A and its part of B; of one that is
    split by inputs its part of A and all of B, whose sum the layer's all-reduce makes: no further
    collective. Source: vLLM 0.11, config/lora.py, ``fully_sharded_loras`` off, its default; S-LoRA
    (arXiv 2311.03285, section 6) splits the others as well, for collectives of R numbers a token.

    Args:
        p, name: The step; of the operator of the matrix.
        m: Rows. [token]
        n, k: Output and input width on this device. [1]
        layers: How often. [1]
        joined: Layers of the checkpoint that the matrix joins. [1]
    """
    lora, precision = p.deployment.options.lora, p.deployment.precision
    rank = float(lora.lora_rank)
    shape: dict[str, Any] = {
        "rank": rank,
        "modules": float(joined),
        "touched": p.adapters,
        "width": p.width,
    }
    format_ = precision.activations.name
    for called, work, wide in (
        ("shrink", shrink(m, k, **shape), {"k": k}),
        ("expand", expand(m, n, **shape), {"n": n}),
    ):
        yield Op(
            f"lora-{called}-{name}",
            "adapter",
            work,
            layers,
            precision.attention_arithmetic,
            dims={"m": m, **wide, "rank": rank, "modules": float(joined), "adapters": p.adapters},
            formats={"weights": format_, "activations": format_},
        )
