"""Measured attention of encoders, without a mask, as columns of its form."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.bench.kernel_rows import Group, Name
from roofline.cost.kernels import encoder
from roofline.cost.kernels.form import machine
from roofline.hardware.catalog import gpu

if TYPE_CHECKING:
    import pandas

KEY: Final = ("gpu", "backend", "version", "kernel", "dtype")
SHAPE: Final = ("n_heads", "head_dim")


def encoder_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Attention of encoders; a family is a number of heads and their width."""
    for values, rows in frame.groupby(list(KEY), observed=True):
        name: Name = dict(zip(KEY, map(str, values), strict=True))
        device = gpu(name["gpu"])
        kernel = encoder.kernel_of(name["kernel"])
        columns = ("batch", "seq", "n_heads", "head_dim")
        batch, seq, heads, width = (rows[column].to_numpy(np.float64) for column in columns)
        yield Group(
            name,
            encoder.FORM,
            machine(device, "bf16"),
            encoder.encoder_dims(batch, seq, heads, width, kernel, device.architecture),
            rows.time_s.to_numpy(np.float64),
            rows.groupby(list(SHAPE), observed=True).ngroup().to_numpy().astype(np.int64),
            rows.index.to_numpy().astype(np.int64),
            "bf16",
        )
