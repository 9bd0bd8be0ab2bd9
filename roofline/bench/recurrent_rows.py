"""Measured kernels of linear attention and state-space layers as columns of their forms."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.bench.held_out import Labels
from roofline.bench.kernel_rows import FEW, Group, Name
from roofline.cost.kernels import recurrent
from roofline.cost.kernels.form import Form, machine
from roofline.cost.work import Array
from roofline.hardware.catalog import gpu

if TYPE_CHECKING:
    import pandas

KEY: Final = ("gpu", "backend", "version", "op", "phase", "kernel")
SHAPE: Final = ("conv_channels", "n_k_heads", "n_v_heads", "k_head_dim", "v_head_dim", "chunk")
WHOLE: Final = ("flashinfer", "flashkda")
"""Kernels of a whole scan, with the state of a head on each multiprocessor."""
FEWEST: Final = 16
"""Rows of decode steps that determine all constants of a form; of fewer, two. [1]"""
STEPPED: Final = ("decode", "verify")
"""Phases of one token or a few."""


def linear_attention_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Convolutions, scans and steps of the recurrence; a family is a shape of the layer."""
    for values, rows in frame.groupby(list(KEY), observed=True):
        name = dict(zip(KEY, map(str, values), strict=True))
        step = "convolution" if (rows.conv_channels > 0).any() else "state"
        yield _group({**name, "step": step, "dtype": "bfloat16"}, rows)


def _group(name: Name, rows: "pandas.DataFrame") -> Group:
    stepped, few = name["phase"] in STEPPED, len(rows) < FEWEST
    batch, new = (rows[column].to_numpy(np.float64) for column in ("batch", "seq_len"))
    if name["step"] == "convolution":
        form = recurrent.CONVOLUTION_STEP if stepped else recurrent.CONVOLUTION
        form = recurrent.CONVOLUTION_TOKEN if stepped and few else form
        channels, taps = (rows[c].to_numpy(np.float64) for c in ("conv_channels", "d_conv"))
        dims = recurrent.convolution_dims(batch, new, channels, taps)
    else:
        form = recurrent.STEP if stepped else recurrent.SCAN
        form = recurrent.TOKEN if stepped and few else form
        dims = recurrent.state_dims(
            batch,
            new,
            *(
                rows[column].to_numpy(np.float64)
                for column in ("n_k_heads", "n_v_heads", "k_head_dim", "v_head_dim", "chunk")
            ),
            alone=any(word in name["kernel"] for word in WHOLE),
            solved=name["op"] != "mamba2",
        )
    return _made(name, form, dims, rows)


def _made(name: Name, form: Form, dims: dict[str, Array], rows: "pandas.DataFrame") -> Group:
    device = gpu(name["gpu"])
    return Group(
        name,
        form,
        machine(device, "bf16"),
        dims,
        rows.time_s.to_numpy(np.float64),
        _families(rows),
        rows.index.to_numpy().astype(np.int64),
        "bf16",
    )


def _families(rows: "pandas.DataFrame") -> Labels:
    """Label of each shape; where there are few, of each shape and batch."""
    families = rows.groupby(list(SHAPE), observed=True).ngroup()
    if families.nunique() < FEW:
        families = rows.groupby([*SHAPE, "batch"], observed=True).ngroup()
    return families.to_numpy().astype(np.int64)
