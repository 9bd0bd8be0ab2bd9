"""Measured hyper-connections, gated feed-forward parts and encoders as columns of their forms."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.bench.kernel_rows import WEIGHTS, Group, Name, columns, group_of, parts
from roofline.bench.rows import families_of
from roofline.cost.kernels import encoder, hyper, mlp
from roofline.cost.kernels.form import Form
from roofline.cost.work import Array
from roofline.hardware.catalog import gpu

if TYPE_CHECKING:
    import pandas

HYPER: Final = ("gpu", "backend", "version", "op")
KEY: Final = ("gpu", "backend", "version", "kernel", "dtype")


def hyper_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Hyper-connections; a family is a model width and an octave of tokens.

    An engine chooses one of several kernels by the number of tokens: they are one group, as what is
    asked for is what the engine does.
    """
    for name, rows in parts(frame, HYPER):
        dims = hyper.hyper_dims(*columns(rows, ("num_tokens", "hidden", "hc_mult", "sites")))
        yield _group({**name, "dtype": "bfloat16"}, hyper.HYPER[name["op"]], dims, rows, "bf16")


def mlp_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Gated feed-forward parts; both phases run the same kernels."""
    for name, rows in parts(frame, KEY):
        tokens, hidden, inter = columns(rows, ("num_tokens", "hidden", "inter"))
        low = "fp8" if name["dtype"].startswith("fp8") else "bf16"
        dims = mlp.mlp_dims(tokens, hidden, inter, np.full_like(tokens, WEIGHTS[name["dtype"]]))
        yield _group(name, mlp.FORM, dims, rows, low)


def encoder_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Attention of encoders; a family is a number of heads and their width."""
    for name, rows in parts(frame, KEY):
        kernel, generation = encoder.kernel_of(name["kernel"]), gpu(name["gpu"]).architecture
        batch, seq, heads, width = columns(rows, ("batch", "seq", "n_heads", "head_dim"))
        dims = encoder.encoder_dims(batch, seq, heads, width, kernel, generation)
        labels = rows.groupby(["n_heads", "head_dim"], observed=True).ngroup()
        yield group_of(name, encoder.FORM, dims, rows, labels.to_numpy().astype(np.int64))


def _group(
    name: Name, form: Form, dims: dict[str, Array], rows: "pandas.DataFrame", arithmetic: str
) -> Group:
    told = {**dims, "octave": np.floor(np.log2(dims["tokens"]))}
    return group_of(name, form, dims, rows, families_of(told, ("hidden", "octave")), arithmetic)
