"""Measured kernels of linear attention and state-space layers as columns of their forms."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from roofline.bench.expert_rows import families
from roofline.bench.kernel_rows import FEW, Group, Name, columns, group_of, parts
from roofline.cost.kernels import recurrent

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
    for name, rows in parts(frame, KEY):
        step = "convolution" if (rows.conv_channels > 0).any() else "state"
        yield _group({**name, "step": step, "dtype": "bfloat16"}, rows)


def _group(name: Name, rows: "pandas.DataFrame") -> Group:
    stepped, few = name["phase"] in STEPPED, len(rows) < FEWEST
    batch, new = columns(rows, ("batch", "seq_len"))
    if name["step"] == "convolution":
        form = recurrent.CONVOLUTION_STEP if stepped else recurrent.CONVOLUTION
        form = recurrent.CONVOLUTION_TOKEN if stepped and few else form
        shape = columns(rows, ("conv_channels", "d_conv"))
        dims = recurrent.convolution_dims(batch, new, *shape)
    else:
        form = recurrent.STEP if stepped else recurrent.SCAN
        form = recurrent.TOKEN if stepped and few else form
        dims = recurrent.state_dims(
            batch,
            new,
            *columns(rows, ("n_k_heads", "n_v_heads", "k_head_dim", "v_head_dim", "chunk")),
            alone=any(word in name["kernel"] for word in WHOLE),
            solved=name["op"] != "mamba2",
        )
    # Where there are few shapes, a family is a shape and a batch.
    return group_of(name, form, dims, rows, families(rows, SHAPE, ("batch",), FEW))
