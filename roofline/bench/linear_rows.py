"""Measured linear layers and passes over activations as columns of `roofline.cost.kernels`."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.bench.kernel_rows import Group, Name, group_of, parts
from roofline.bench.rows import families_of
from roofline.cost.kernels.form import Form
from roofline.cost.kernels.gemm import GEMM, PRODUCTS
from roofline.cost.kernels.pointwise import CONVERSION, POINTWISE, difference_dims
from roofline.cost.work import Array
from roofline.errors import RooflineError
from roofline.hardware.catalog import gpu
from roofline.model.catalog import architecture

if TYPE_CHECKING:
    import pandas

KEY: Final = ("gpu", "backend", "version", "kernel", "dtype")
OF_ANY_BLOCK: Final = ("attn_rope", "emb")
"""Passes that are the same in any block."""
MINUS: Final = "_minus_"
"""In the name of a kernel whose time is what it takes longer than another."""
FEW: Final = 8
"""Fewer widths than this are held out in octaves of tokens too."""


def linear_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Linear layers; a family is a weight shape."""
    key = [name for name in KEY if name in frame]
    for name, rows in parts(frame, key):
        form = GEMM.get(name["dtype"])
        if form is not None:
            yield _group(
                name, form, PRODUCTS[name["dtype"]].arithmetic, rows, ("m", "n", "k"), ("n", "k")
            )


def quantise_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Activations converted for a product; a family is a width."""
    key = ["gpu", "backend", "version", "op", "dtype"]
    for name, rows in parts(frame, key):
        minus = "kernel" in rows and rows.kernel.astype(str).str.contains(MINUS).all()
        form = CONVERSION.get("difference" if minus else name["op"])
        if form is not None:
            renamed = rows.rename(columns={"k": "width"})
            group = _group(name, form, "bf16", renamed, ("m", "width"), ("width",))
            generation = gpu(name["gpu"]).architecture
            dims = difference_dims(group.dims["m"], group.dims["width"], generation)
            yield replace(group, dims=dims) if minus else group


def pass_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Norms, activations, rotation, embedding; a family is a width, or an octave of tokens.

    Networks of one kind of block run one kernel: a norm with a mean and biases is another than one
    without, and a sum of three tensors another than one of two.
    """
    blocks = frame.model.map({name: block_of(name) for name in frame.model.unique()})
    alike = frame.assign(block=blocks.where(~frame.op.isin(OF_ANY_BLOCK), ""))
    key = ["gpu", "backend", "version", "op", "dtype", "block"]
    for name, rows in parts(alike, key):
        form = POINTWISE.get(name["op"])
        if form is not None:
            renamed = rows.rename(columns={"num_tokens": "m"})
            few = renamed.width.nunique() < FEW
            arithmetic = "bf16" if name["dtype"] == "bfloat16" else "fp16"
            yield _group(name, form, arithmetic, renamed, ("m", "width"), ("width",), octaves=few)


@cache
def block_of(network: str) -> str:
    """What decides the passes in a layer of a network: its norm, and how its parts are joined.

    >>> block_of("microsoft/phi-2"), block_of("meta-llama/Llama-2-7b-hf"), block_of("")
    ('layer norm, parallel', 'root mean square', '')
    """
    try:
        found = architecture(network)
    except RooflineError:
        return ""
    block = found.layers[0]
    biased = block.norm_parameters > block.norms * found.d_model
    norm = "layer norm" if biased else "root mean square"
    return f"{norm}, parallel" if block.parallel else norm


def _group(
    name: Name,
    form: Form,
    arithmetic: str,
    rows: "pandas.DataFrame",
    columns: tuple[str, ...],
    family: tuple[str, ...],
    *,
    octaves: bool = False,
) -> Group:
    dims: dict[str, Array] = {column: rows[column].to_numpy(np.float64) for column in columns}
    told = {**dims, "octave": np.floor(np.log2(dims["m"]))}
    families = families_of(told, (*family, "octave") if octaves else family)
    return group_of(name, form, dims, rows, families, arithmetic)
