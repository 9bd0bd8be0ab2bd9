"""Operators of layers with a constant state."""

from collections.abc import Iterator

from roofline.cost.layers.common import Pass, elementwise, is_one, split
from roofline.cost.recurrent import chunked_scan, recurrent_steps
from roofline.cost.work import Op
from roofline.model.architecture import Recurrent
from roofline.model.precision import named


def operators(p: Pass, part: Recurrent, d: float, layers: int) -> Iterator[Op]:
    """Projections, short convolution, the state of each group, output projection."""
    tp = p.deployment.tp
    *into, out = part.linears(int(d))
    for matrix in into:
        yield from split(p, matrix, layers)
    if part.conv_width:
        wide = part.conv_width / tp
        taps = part.conv_width * part.conv_kernel / tp
        yield elementwise(p, "convolution", wide, wide, layers, parameters=taps)
    shape = {
        "heads": part.heads / tp,
        "key_dim": float(part.key_dim),
        "value_dim": float(part.value_dim),
        "key_heads": max(part.key_heads / tp, 1.0),
    }
    state = named(part.state_format)
    widths = {"width": p.width, "state_width": state.width}
    for name, count, new, _ in p.groups:
        stepped = is_one(new) or part.chunk == 1
        if stepped:
            work = recurrent_steps(count, new, rule=part.rule, **shape, **widths)
        else:
            chunk = float(part.chunk)
            work = chunked_scan(count, new, rule=part.rule, chunk=chunk, **shape, **widths)
        yield Op(
            f"{part.kind}-{name}" if name else part.kind,
            "scan",
            work,
            layers,
            # A scan is not a matrix product; chunks are.
            "fp32"
            if stepped and "fp32" in p.deployment.node.gpu.flops_per_s
            else p.deployment.precision.attention_arithmetic,
            dims=shape | {"count": count, "new": new, "chunk": float(part.chunk)},
            formats={"activations": p.deployment.precision.activations.name, "state": state.name},
        )
    inner = part.heads * part.value_dim / tp
    yield elementwise(p, "state-gate", 2 * inner, inner, layers)
    yield from split(p, out, layers)
