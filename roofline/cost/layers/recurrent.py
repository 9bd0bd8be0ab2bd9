"""Operators of layers with a constant state."""

from collections.abc import Iterator

import numpy as np

from roofline.cost.layers.common import ForwardPass, Sequences, called, elementwise, other, split
from roofline.cost.recurrent import chunked_scan, recurrent_steps
from roofline.cost.work import Op, Work, times
from roofline.model.architecture import Recurrent
from roofline.model.precision import named
from roofline.records import replace


def operators(p: ForwardPass, part: Recurrent, d: float, layers: int) -> Iterator[Op]:
    """Projections, short convolution, the state of each group, output projection."""
    tp = p.tp
    *into, out = part.linears(int(d))
    for matrix in into:
        yield from split(p, matrix, layers)
    for group in p.groups:
        if part.conv_width:
            yield _convolution(p, part, group, layers)
        if part.matrix_elements:
            yield from _state(p, part, group, layers)
    inner = part.heads * part.value_dim / tp
    yield elementwise(p, "state-gate", 2 * inner, inner, layers)
    yield from split(p, out, layers)


def _taps(part: Recurrent) -> float:
    """Weights read by the short convolution: all that are in no matrix without a state."""
    return float(
        part.conv_width * part.conv_kernel if part.matrix_elements else part.other_parameters
    )


def _convolution(p: ForwardPass, part: Recurrent, group: Sequences, layers: int) -> Op:
    """Short convolution over the channels, with the last inputs of each sequence in and out."""
    tp, (name, count, new, _) = p.tp, group
    wide, kept = part.conv_width / tp, (part.state_elements - part.matrix_elements) / tp
    op = elementwise(
        p,
        called("convolution", name),
        wide,
        wide,
        layers,
        parameters=_taps(part) / tp,
        tokens=times(count, new),
    )
    shape = {"channels": wide, "taps": float(part.conv_kernel), "count": count, "new": new}
    return replace(
        op,
        work=op.work + other("kv_bytes", "last inputs in and out", (2.0 * kept * p.width) * count),
        dims={**op.dims, **shape},
        formats={"layer": part.kind},
        by_group=True,
    )


def _state(p: ForwardPass, part: Recurrent, group: Sequences, layers: int) -> Iterator[Op]:
    """One token is a step of the recurrence; several are computed in chunks where there are any."""
    name, count, new, _ = group
    precision, tp = p.deployment.precision, p.tp
    state = named(part.state_format)
    shape = {
        "heads": part.heads / tp,
        "key_dim": float(part.key_dim),
        "value_dim": float(part.value_dim),
        "key_heads": np.maximum(part.key_heads / tp, 1.0),
    }
    widths = {"width": p.width, "state_width": state.width}
    # Decays and skips are read with the state; the taps, with the convolution.
    decays = max(part.other_parameters - _taps(part), 0.0) / tp
    small = other("weight_bytes", "decays and skips", decays * p.width)
    base = Op(
        called(part.kind, name),
        "scan",
        Work(),
        layers,
        dims=shape | {"count": count, "new": new, "chunk": float(part.chunk)},
        formats={
            "activations": precision.activations.name,
            "state": state.name,
            "layer": part.kind,
        },
        by_group=True,
    )
    # A step of the recurrence is no matrix product; a chunk is.
    vector = "fp32" if "fp32" in p.deployment.node.gpu.flops_per_s else ""
    steps = replace(
        base,
        work=recurrent_steps(count, new, rule=part.rule, **shape, **widths) + small,
        arithmetic=vector or precision.attention_arithmetic,
    )
    if part.chunk == 1:
        yield steps
        return
    chunk = float(part.chunk)
    chunks = replace(
        base,
        work=chunked_scan(count, new, rule=part.rule, chunk=chunk, **shape, **widths) + small,
        arithmetic=precision.attention_arithmetic,
    )
    single = np.where(np.asarray(new) == 1.0, 1.0, 0.0)
    if np.all(single):
        yield steps
    elif not np.any(single):
        yield chunks
    else:
        yield replace(chunks, work=chunks.work * (1.0 - single))
        yield replace(steps, name=f"{steps.name}-steps", work=steps.work * single)
