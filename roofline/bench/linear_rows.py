"""Measured linear layers and passes over activations as columns of `roofline.cost.kernels`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.bench.kernel_rows import Group
from roofline.bench.rows import families_of
from roofline.cost.kernels.form import Form, machine
from roofline.cost.kernels.gemm import ARITHMETIC, GEMM
from roofline.cost.kernels.pointwise import POINTWISE, QUANTIZE
from roofline.cost.work import Array
from roofline.hardware.catalog import gpu

if TYPE_CHECKING:
    import pandas

KEY: Final = ("gpu", "backend", "version", "kernel", "dtype")
FEW: Final = 8
"""Fewer widths than this are held out in octaves of tokens too."""


def linear_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Linear layers; a family is a weight shape."""
    key = [name for name in KEY if name in frame]
    for values, rows in frame.groupby(key, observed=True):
        name = dict(zip(key, map(str, values), strict=True))
        form = GEMM.get(name["dtype"])
        if form is not None:
            yield _group(name, form, ARITHMETIC[name["dtype"]], rows, ("m", "n", "k"), ("n", "k"))


def quantise_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Activations converted for a product; a family is a width."""
    key = ["gpu", "backend", "version", "op", "dtype"]
    for values, rows in frame.groupby(key, observed=True):
        name = dict(zip(key, map(str, values), strict=True))
        form = QUANTIZE.get(name["op"])
        if form is not None:
            renamed = rows.rename(columns={"k": "width"})
            yield _group(name, form, "bf16", renamed, ("m", "width"), ("width",))


def pass_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Norms, activations, rotation, embedding; a family is a width, or an octave of tokens."""
    key = ["gpu", "op", "dtype"]
    for values, rows in frame.groupby(key, observed=True):
        name = dict(zip(key, map(str, values), strict=True))
        form = POINTWISE.get(name["op"])
        if form is not None:
            renamed = rows.rename(columns={"num_tokens": "m"})
            few = renamed.width.nunique() < FEW
            yield _group(name, form, "fp16", renamed, ("m", "width"), ("width",), octaves=few)


def _group(
    name: dict[str, str],
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
    device = gpu(name["gpu"])
    times = rows.time_s.to_numpy(np.float64)
    index = rows.index.to_numpy().astype(np.int64)
    return Group(name, form, machine(device, arithmetic), dims, times, families, index, arithmetic)
