"""Measured layers beside attention and experts as columns of `roofline.cost.kernels`.

Linear layers, passes over activations, linear attention and state-space layers, hyper-connections,
gated feed-forward parts and encoders.
"""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.bench.kernel_rows import (
    FEW,
    KEY,
    WEIGHTS,
    Name,
    RowGroup,
    columns,
    families,
    group_of,
    parts,
)
from roofline.bench.rows import families_of
from roofline.cost.kernels import encoder, hyper, mlp, recurrent
from roofline.cost.kernels.form import Form, cache_bytes_per_s, machine
from roofline.cost.kernels.gemm import CYCLED, EAGER, GEMM, PRODUCTS
from roofline.cost.kernels.pointwise import CONVERSION, POINTWISE, difference_dims
from roofline.cost.work import Array
from roofline.errors import RooflineError
from roofline.hardware.catalog import gpu
from roofline.model.catalog import architecture

if TYPE_CHECKING:
    import pandas

OF_ANY_BLOCK: Final = ("attn_rope", "emb")
"""Passes that are the same in any block."""
MINUS: Final = "_minus_"
"""Part of the name of a kernel whose time is the difference to another one's."""
FEW_WIDTHS: Final = 8
"""Fewer widths than this are held out in octaves of tokens too."""
RECURRENT: Final = ("gpu", "backend", "version", "op", "phase", "kernel")
SHAPE: Final = ("conv_channels", "n_k_heads", "n_v_heads", "k_head_dim", "v_head_dim", "chunk")
WHOLE: Final = ("flashinfer", "flashkda")
"""Kernels of a whole scan, with the state of a head on each multiprocessor."""
LAUNCHED: Final = frozenset({("vllm", "fp8_block")})
"""Products whose kernels were launched one by one, by engine and number format."""
SHOWING: Final = 6.0
"""Rate of the last-level cache over that of memory from which weights left in it show: 11 on an
L40S, 3.5 and less where memory is stacked. [1]"""
TURNS: Final = {"trtllm": "filling", "vllm": "cycled", "sglang": "cycled"}
"""Copies of weights that collectors of an engine's products take in turn, a key of `CYCLED`."""
BUILT: Final = "trt_flow"
"""Part of the name of products that TensorRT built: those read their weights from memory."""
FEWEST: Final = 16
"""Rows of decode steps that determine all constants of a form; of fewer, two. [1]"""
STEPPED: Final = ("decode", "verify")
"""Phases of one token or a few."""


def linear_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Linear layers; a family is a weight shape."""
    for name, rows in parts(frame, [name for name in KEY if name in frame]):
        if name["dtype"] in GEMM:
            dims = dict(zip("mnk", columns(rows, ("m", "n", "k")), strict=True))
            arithmetic = PRODUCTS[name["dtype"]].arithmetic
            yield _group(name, _product(name), dims, rows, ("n", "k"), arithmetic)


def _product(name: Name) -> Form:
    """Form of a product as the collector of its engine measured it."""
    dtype, engine, device = name["dtype"], name["backend"], gpu(name["gpu"])
    if (engine, dtype) in LAUNCHED:
        return EAGER[dtype]
    chip = machine(device, "bf16")
    shows = cache_bytes_per_s(chip) >= SHOWING * chip.hbm_bytes_per_s
    if shows and engine in TURNS and BUILT not in name["kernel"]:
        return CYCLED[TURNS[engine]][dtype]
    return GEMM[dtype]


def quantise_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Activations converted for a product; a family is a width."""
    for name, rows in parts(frame, ("gpu", "backend", "version", "op", "dtype")):
        minus = "kernel" in rows and rows.kernel.astype(str).str.contains(MINUS).all()
        form = CONVERSION.get("difference" if minus else name["op"])
        if form is not None:
            m, width = columns(rows, ("m", "k"))
            dims = {"m": m, "width": width}
            if minus:
                dims = difference_dims(m, width, gpu(name["gpu"]).architecture)
            yield _group(name, form, dims, rows, ("width",))


def pass_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Norms, activations, rotation, embedding; a family is a width, or an octave of tokens.

    Networks of one kind of block run one kernel: a norm with a mean and biases is another than one
    without, and a sum of three tensors another than one of two.
    """
    blocks = frame.model.map({name: block_of(name) for name in frame.model.unique()})
    alike = frame.assign(block=blocks.where(~frame.op.isin(OF_ANY_BLOCK), ""))
    for name, rows in parts(alike, ("gpu", "backend", "version", "op", "dtype", "block")):
        form = POINTWISE.get(name["op"])
        if form is not None:
            family = ("width", "octave") if rows.width.nunique() < FEW_WIDTHS else ("width",)
            dims = dict(zip(("m", "width"), columns(rows, ("num_tokens", "width")), strict=True))
            arithmetic = "bf16" if name["dtype"] == "bfloat16" else "fp16"
            yield _group(name, form, dims, rows, family, arithmetic)


@cache
def block_of(network: str) -> str:
    """Norm of a network's layers, and how their parts are joined: both decide its passes.

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


def hyper_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Hyper-connections; a family is a model width and an octave of tokens.

    An engine chooses one of several kernels by the number of tokens: they are one group, as what is
    asked for is what the engine does.
    """
    for name, rows in parts(frame, ("gpu", "backend", "version", "op")):
        dims = hyper.hyper_dims(*columns(rows, ("num_tokens", "hidden", "hc_mult", "sites")))
        form = hyper.HYPER[name["op"]]
        yield _group({**name, "dtype": "bfloat16"}, form, dims, rows, ("hidden", "octave"))


def mlp_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Gated feed-forward parts; both phases run the same kernels."""
    for name, rows in parts(frame, KEY):
        tokens, hidden, inter = columns(rows, ("num_tokens", "hidden", "inter"))
        low = "fp8" if name["dtype"].startswith("fp8") else "bf16"
        dims = mlp.mlp_dims(tokens, hidden, inter, np.full_like(tokens, WEIGHTS[name["dtype"]]))
        yield _group(name, mlp.FORM, dims, rows, ("hidden", "octave"), low)


def encoder_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Attention of encoders; a family is a number of heads and their width."""
    for name, rows in parts(frame, KEY):
        kernel, generation = encoder.kernel_of(name["kernel"]), gpu(name["gpu"]).architecture
        batch, seq, heads, width = columns(rows, ("batch", "seq", "n_heads", "head_dim"))
        dims = encoder.encoder_dims(batch, seq, heads, width, kernel, generation)
        yield group_of(name, encoder.FORM, dims, rows, families(rows, ("n_heads", "head_dim")))


def linear_attention_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Convolutions, scans and steps of the recurrence; a family is a shape of the layer."""
    for name, every in parts(frame, RECURRENT):
        # Without the name of a kernel both are rows of one phase.
        for convolved, rows in every.groupby(every.conv_channels > 0):
            yield _recurrent_group(name, rows, convolved=bool(convolved))


def _recurrent_group(name: Name, rows: "pandas.DataFrame", *, convolved: bool) -> RowGroup:
    """Convolution, or scan or step of the recurrence, in a phase."""
    stepped, few = name["phase"] in STEPPED, len(rows) < FEWEST
    batch, new = columns(rows, ("batch", "seq_len"))
    if convolved:
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
    alike = families(rows, SHAPE, ("batch",), FEW)
    step = "convolution" if convolved else "state"
    return group_of({**name, "step": step, "dtype": "bfloat16"}, form, dims, rows, alike)


def _group(
    name: Name,
    form: Form,
    dims: dict[str, Array],
    rows: "pandas.DataFrame",
    family: tuple[str, ...],
    arithmetic: str = "bf16",
) -> RowGroup:
    """Group whose families agree in some columns of the form, or in the octave of tokens."""
    tokens = dims["m"] if "m" in dims else dims["tokens"]
    told = {**dims, "octave": np.floor(np.log2(tokens))}
    return group_of(name, form, dims, rows, families_of(told, family), arithmetic)
