"""Measured attention of encoders, without a mask, as columns of its form."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.bench.kernel_rows import Group, columns, group_of, parts
from roofline.cost.kernels import encoder
from roofline.hardware.catalog import gpu

if TYPE_CHECKING:
    import pandas

KEY: Final = ("gpu", "backend", "version", "kernel", "dtype")
SHAPE: Final = ("n_heads", "head_dim")


def encoder_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Attention of encoders; a family is a number of heads and their width."""
    for name, rows in parts(frame, KEY):
        kernel, generation = encoder.kernel_of(name["kernel"]), gpu(name["gpu"]).architecture
        batch, seq, heads, width = columns(rows, ("batch", "seq", "n_heads", "head_dim"))
        dims = encoder.encoder_dims(batch, seq, heads, width, kernel, generation)
        families = rows.groupby(list(SHAPE), observed=True).ngroup().to_numpy().astype(np.int64)
        yield group_of(name, encoder.FORM, dims, rows, families)
