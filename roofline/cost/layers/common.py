"""The pass of a step, and operators that every kind of layer has."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec import Struct

from roofline.cost.adapters import expand, shrink
from roofline.cost.collectives import Ranks, Transfer
from roofline.cost.deployment import Deployment, Fusing
from roofline.cost.engine_costs import LAUNCH_S
from roofline.cost.four_bit import fused_rows
from roofline.cost.work import (
    ACTIVATED,
    CONVERSION,
    NORM,
    NOTHING,
    RESIDUAL_NORM,
    ROTARY,
    SHARED,
    STORE,
    EvaluatedFormula,
    Formula,
    Kind,
    Number,
    Op,
    Work,
    anywhere,
    by,
    gemm,
    pointwise,
)
from roofline.model.architecture import Block, Linear
from roofline.model.precision import Product, dequantisation, quantisation
from roofline.model.precision.formats import BLOCKS, INPUTS
from roofline.part import Part
from roofline.records import replace
from roofline.units import BITS_PER_BYTE

FP32_WIDTH: Final = 4.0
"""Bytes of an fp32 number. [B]"""
Sequences: TypeAlias = tuple[str, Number, Number, Number]
"""Name, count [1], new tokens and context [token] of a group of sequences."""


class ForwardPass(Struct, frozen=True):
    """One forward step, as one device sees it."""

    deployment: Deployment
    """Network, formats, layout and options."""
    groups: tuple[Sequences, ...]
    """Groups of sequences of this device and those it shares them with."""
    tokens: Number
    """New tokens that the device's products see. [token]"""
    rows: Number
    """Sequences of all groups. [1]"""
    tp: Number
    """Devices that share the matrices. [1]"""
    copies: Number
    """Devices that hold the same tokens beside those: of context parallelism in decode. [1]"""
    everyone: Number
    """New tokens of all devices of the stage. [token]"""
    adapters: Number = 0.0
    """Expected different LoRA adapters of the device's sequences. [1]"""
    block: Block | None = None
    """The layer whose operators are being made; None outside the layers."""

    @property
    def fusion(self) -> Fusing:
        """Passes over activations that are kernels of their own, as of `Options`."""
        return self.deployment.fusion

    @property
    def width(self) -> float:
        """Bytes per activation. [B]"""
        return self.deployment.precision.activations.width

    @property
    def stream_width(self) -> float:
        """Bytes per activation as operators hand it on. [B]"""
        return FP32_WIDTH if self.deployment.engine.wide else self.width

    def made(self, role: str) -> Product:
        """Product of the matrix of a role: its format in memory and its arithmetic."""
        return self.deployment.precision.product(self.deployment.stored(self.block, role))


INPUTS_OF: Final = {
    "down": ACTIVATED,
    "shared-down": ACTIVATED,
    "shared-up": SHARED,
    "shared-gate-up": SHARED,
}
"""Inputs of products that other kernels write than norms and attention do."""


def product(
    p: ForwardPass,
    name: str,
    n: Number,
    k: Number,
    layers: int,
    *,
    biased: Number = 0.0,
    tokens: Number | None = None,
    role: str = "",
    kernel: str = "",
) -> Iterator[Op]:
    """Matrix product with its bias, after the conversion of activations that its format wants.

    Args:
        p: The step.
        name, role: Of the operator; of the matrix, where that is not the same.
        n, k: Output and input width on this device. [1]
        layers: How often. [1]
        biased: Outputs with a bias. [1]
        tokens: Rows, if not all new tokens. [token]
        kernel: Kernel of the product, as in `Op`.
    """
    made = p.made(role or name)
    m = p.tokens if tokens is None else tokens
    work = gemm(m, n, k, weight_width=made.stored.width, width=p.width)
    beside = biased * p.width + n * made.stored.row_bits / BITS_PER_BYTE
    if anywhere(beside):
        work = work + other("weight_bytes", "biases and scales", beside)
    inside = fused_rows(p.deployment.node.gpu, n, k) if made.stored.unfused else 1.0
    copied = dequantisation(made, m, n, k, inside)
    if anywhere(copied):
        work = work + other("weight_bytes", "converted copy", copied + copied)
    if made.quantised is not None and p.fusion != "all":
        yield quantised(made, name, m, k, layers, CONVERSION)
    shape = {"m": m, "n": n, "k": k}
    formats = {"weights": made.stored.name, "activations": made.multiplied.name}
    if name in INPUTS_OF:
        formats["inputs"] = INPUTS_OF[name]
    op = Op(name, "gemm", work, layers, made.arithmetic, dims=shape, formats=formats)
    yield replace(op, kernel=kernel) if kernel else op
    if made.outliers:
        yield from decomposed(p, made, name, m, n, k, layers)
    if made.quantised is not None and made.quantised.name == INPUTS:
        yield scaled(name, m, n, k, layers)
    engine = p.deployment.engine
    copies = bool(engine.copies_above) and made.dequantises and not made.stored.unfused
    if copies:
        yield dequantised(made, name, m, n, k, layers, engine.copies_above)
    if engine.wide and made.quantised is None:
        yield converted(made, name, m, n, k, layers, engine.copies_above if copies else 1)
    lora = p.deployment.options.lora
    if lora.adapters and (joined := lora.modules(p.block, name)):
        yield from adapted(p, name, m, n, k, layers, joined)


def quantised(made: Product, name: str, m: Number, k: Number, layers: int, kernel: str) -> Op:
    """Activations are read and written in the format of the product: a kernel of its own.

    Args:
        made, name: Formats of the product; its name.
        m, k: Rows and width of its inputs. [1]
        layers: How often. [1]
        kernel: `CONVERSION` or `CONVERSION_OF_EXPERTS`.
    """
    read, written = quantisation(made, 1.0, k)
    work = Work(
        activation_bytes=(read + written) * m,
        made=by(_QUANTISED, {"m": m, "read": read, "written": written}),
    )
    dims = {"m": m, "reads": k, "writes": k}
    return Op(f"quantise-{name}", "pointwise", work, layers, dims=dims, kernel=kernel)


def decomposed(
    p: ForwardPass, made: Product, name: str, m: Number, n: Number, k: Number, layers: int
) -> Iterator[Op]:
    """Outlier columns of LLM.int8(): what finds and gathers them, and their product in 16 bits.

    Inputs are narrowed to fp16, their magnitudes taken, compared and reduced twice, the columns
    listed, and zeroed for the product in int8; those columns of inputs and weights are gathered and
    the weights scaled. The product in int8 writes 32 bits, which are scaled to 16, converted, and
    added to. The host reads how many columns there are before it can go on, so that none of this is
    in a CUDA graph. Source: Dettmers et al. 2022 (arXiv 2208.07339), section 3;
    ``int8_vectorwise_quant``, ``int8_mixed_scaled_mm`` and ``int8_mm_dequant`` of bitsandbytes
    0.45; sectors of 32 B: CUDA C++ Best Practices Guide, coalesced access.

    Args:
        p: The step.
        made, name, layers: The product in int8, its name, and how often.
        m, n, k: Its rows, and output and input width of the matrix. [1]
    """
    columns = made.outliers * k
    told = {"m": m, "n": n, "k": k, "columns": columns, "launches": LAUNCHES, "launch": LAUNCH_S}
    around = Work(
        activation_bytes=m * (IN_BYTES * k + ZEROED_BYTES * columns + OUT_BYTES * n),
        weight_bytes=GATHERED_BYTES * n * columns,
        made=by(_DECOMPOSED, told),
    )
    waited = np.where(np.asarray(m) > 0, LAUNCHES * LAUNCH_S, 0.0)[()]
    yield Op(f"decompose-{name}", "host", around, layers, wire_s=waited, algorithm="when chosen")
    wide = made.activations
    added = gemm(m, n, columns, weight_width=wide.width, width=wide.width)
    added = added + other("activation_bytes", "outputs added to", m * n * wide.width)
    formats = {"weights": wide.name, "activations": wide.name}
    dims = {"m": m, "n": n, "k": columns}
    yield Op(f"{name}-outliers", "gemm", added, layers, wide.name, dims=dims, formats=formats)


LAUNCHES: Final = 17
"""Kernels and copies to the host around a product of LLM.int8(), with inputs in bf16: narrowing,
magnitudes, comparison, whether there is any, its copy, which columns, their list (two kernels and a
copy), zeros, both gathers, two scalings and a narrowing of weights, scales of the result, its
conversion. [1]"""
IN_BYTES: Final = 13.0
"""Bytes of an input beside its quantisation: 2 + 2 to narrow it, 2 + 2 for its magnitude, 2 + 1 to
compare, 1 + 1 to reduce. [B]"""
ZEROED_BYTES: Final = 5.0
"""Bytes of an outlier: zeroed in the int8 inputs, read and written in 16 bits. [B]"""
GATHERED_BYTES: Final = 52.0
"""Bytes of a weight of an outlier column: a sector of 32 is read for it and 1 written, which
becomes fp32 (1 + 4), is scaled (4 + 4) and narrowed (4 + 2). [B]"""
OUT_BYTES: Final = 12.0
"""Bytes of an output: 2 more where the product writes it in 32 bits, 4 + 2 to scale it, 2 + 2 to
convert it. [B]"""


def scaled(name: str, m: Number, n: Number, k: Number, layers: int) -> Op:
    """Scales of blocks in a product of integers, on the vector units beside the matrix units.

    The sum of a block of 32 is an integer that is converted, multiplied by the scales of both
    blocks and added: three instructions for each output, issued as often as two FLOP of fp32.
    Source: vec_dot_q8_0_q8_1_mma, ``ggml/src/ggml-cuda/mmq.cuh`` of llama.cpp; rates of
    instructions: CUDA C++ Programming Guide, arithmetic instructions.

    Args:
        name, layers: Of the product, and how often.
        m, n, k: Its rows, and output and input width of the matrix. [1]
    """
    dims = {"m": m, "n": n, "k": k, "block": float(BLOCKS[INPUTS][1])}
    work = Work(flops=6.0 * m * n * (k / dims["block"]), made=by(_SCALED, dims))
    return Op(f"scale-{name}", "pointwise", work, layers, "fp32")


def dequantised(
    made: Product, name: str, m: Number, n: Number, k: Number, layers: int, above: int
) -> Op:
    """Weights are read and a copy in the format of the activations is written, before a product.

    The product reads the copy where it is priced to read the weights: hidden by its arithmetic
    from some hundred tokens on, and left out. Source: ggml_cuda_op_mul_mat_cublas of llama.cpp.

    Args:
        made, name, layers: The product, its name, and how often.
        m, n, k: Its rows, and output and input width of the matrix. [1]
        above: Rows up to which weights are converted inside the product instead. [1]
    """
    whole = n * k * (made.stored.width + made.activations.width)
    moved = np.where(np.asarray(m) > above, whole, 0.0)[()]
    work = other("weight_bytes", "weights read and copy written", moved)
    return Op(f"dequantise-{name}", "pointwise", work, layers)


def converted(
    made: Product, name: str, m: Number, n: Number, k: Number, layers: int, above: int
) -> Op:
    """Inputs of a product are narrowed from fp32, and its outputs widened to it.

    Source: ggml_cuda_op_mul_mat_cublas of llama.cpp, whose operators read and write fp32; its
    products with vectors read and write fp32 themselves.

    Args:
        made, name, layers, m, n, k: As of `dequantised`.
        above: Rows up to which the product does that itself. [1]
    """
    moved = (n + k) * (FP32_WIDTH + made.activations.width) * m
    moved = np.where(np.asarray(m) > above, moved, 0.0)[()]
    work = other("activation_bytes", "inputs narrowed and outputs widened", moved)
    return Op(f"convert-{name}", "pointwise", work, layers)


def split(p: ForwardPass, matrix: Linear, layers: int, kernel: str = "") -> Iterator[Op]:
    """Product with a matrix that is split as it says, over the tensor-parallel group."""
    tp = p.tp
    n = matrix.n / tp if matrix.split == "column" else float(matrix.n)
    k = matrix.k / tp if matrix.split == "row" else float(matrix.k)
    biased = matrix.biased / tp if matrix.split == "column" else float(matrix.biased)
    yield from product(p, matrix.name, n, k, layers, biased=biased, kernel=kernel)


def elementwise(
    p: ForwardPass,
    name: str,
    reads: Number,
    writes: Number,
    layers: int,
    *,
    parameters: Number = 0.0,
    tokens: Number | None = None,
    kernel: str = "",
) -> Op:
    """One pass over activations."""
    m = p.tokens if tokens is None else tokens
    if p.deployment.engine.wide:
        wider = p.stream_width / p.width
        reads, writes = wider * reads, wider * writes
    work = pointwise(m, reads=reads, writes=writes, width=p.width, parameters=parameters)
    dims = {"m": m, "reads": reads, "writes": writes}
    return Op(name, "pointwise", work, layers, dims=dims, kernel=kernel)


def rotary(p: ForwardPass, turned: Number, layers: int) -> Iterator[Op]:
    """Rotation of queries and keys by position, of so many elements of a token.

    As published code has it x·cos + halves(x)·sin, of which halves(x) is (−x₂, x₁): two products, a
    negation of one half, the halves joined, a sum. Source: ``apply_rotary_pos_emb`` and
    ``rotate_half`` of Hugging Face transformers.
    """
    if p.deployment.options.fusion != "none":
        yield elementwise(p, "rotary", turned, turned, layers, kernel=ROTARY)
        return
    half = turned / 2.0
    yield elementwise(p, "rotary-products", turned, turned, 2 * layers)
    yield elementwise(p, "rotary-negation", half, half, layers)
    yield elementwise(p, "rotary-halves", turned, turned, layers)
    yield elementwise(p, "rotary-sum", 2.0 * turned, turned, layers)


def attending(
    p: ForwardPass,
    name: str,
    group: Sequences,
    work: Work,
    layers: int,
    dims: Mapping[str, Number],
    *,
    kind: Kind | None = None,
    kv: str = "",
) -> Op:
    """Operator that reads the cache of a group of sequences.

    Args:
        p, group, work, layers: The step; whose cache is read, what that takes, and how often.
        name: Of the operator, to which that of the group is added.
        dims: Shape beside that of the sequences: of softmax attention ``heads``, ``kv_heads``,
            ``head_dim`` and ``window``, 0 for none.
        kind: Kind of kernel; that of softmax attention in the group's phase if not given.
        kv: Number format of what is read; that of the cache if not given.
    """
    told, count, new, context = group
    precision = p.deployment.precision
    return Op(
        called(name, told),
        kind or ("decode-attention" if is_one(new) else "prefill-attention"),
        work,
        layers,
        precision.attention_arithmetic,
        dims={"count": count, "new": new, "context": context, **dims},
        formats={"activations": precision.activations.name, "kv": kv or precision.kv.name},
        by_group=True,
    )


def kv_store(p: ForwardPass, cached: Number, layers: int, read: Number | None = None) -> Op:
    """Store of each new token's keys and values, as they are computed and as they are kept.

    Args:
        p, layers: The step; how often.
        cached: Elements that are stored, of a token. [1]
        read: Those of them that are read; all if not given. [1]
    """
    kv_width = p.deployment.precision.kv.width
    read = cached if read is None else read
    told = {"m": p.tokens, "read": read, "cached": cached, "width": p.width, "kv_width": kv_width}
    store = Work(
        activation_bytes=(read * p.width) * p.tokens,
        kv_bytes=(cached * kv_width) * p.tokens,
        made=by(_STORE, told),
    )
    dims = {"m": p.tokens, "reads": read, "writes": cached}
    return Op("kv-store", "pointwise", store, layers, dims=dims, kernel=STORE)


def index_store(p: ForwardPass, entry_bytes: float, layers: int) -> Op:
    """Store of each new token's index key."""
    dims = {"m": p.tokens, "reads": 0.0, "writes": entry_bytes}
    made = by(_INDEX_STORE, {"m": p.tokens, "entry_bytes": entry_bytes})
    work = Work(kv_bytes=entry_bytes * p.tokens, made=made)
    return Op("index-store", "pointwise", work, layers, dims=dims)


def norm(
    p: ForwardPass, name: str, parameters: float, layers: int, streams: int = 1
) -> Iterator[Op]:
    """Norm fused with the residual add: reads the stream and the update, writes both.

    Unfused, the add reads both and writes the stream, which the norm reads and writes normed.
    """
    d = float(p.deployment.architecture.d_model)
    moved = (1 + streams) * d
    mine = p.tokens / p.tp if p.deployment.layout.sequence_parallel else p.tokens
    if p.fusion == "none" and streams == 1:
        yield elementwise(p, f"add-before-{name}", 2 * d, d, layers, tokens=mine, kernel=NORM)
        lone = elementwise(p, f"lone-{name}", d, d, layers, parameters=parameters, tokens=mine)
        yield replace(lone, kernel=NORM)
        return
    op = elementwise(p, name, moved, moved, layers, parameters=parameters, tokens=mine)
    op = replace(op, kernel=RESIDUAL_NORM)
    if p.block is not None and p.block.hyper_connected:
        op = replace(op, dims={**op.dims, "streams": float(streams)})
    yield op


_QUANTISED: Final = Formula(activation_bytes="m · (read + written)")
_DECOMPOSED: Final = Formula(
    activation_bytes=f"m · ({IN_BYTES:g} · k + {ZEROED_BYTES:g} · columns + {OUT_BYTES:g} · n)",
    weight_bytes=f"{GATHERED_BYTES:g} · n · columns",
    seconds="launches · launch",
    meanings=(
        ("columns", "input features that are multiplied in 16 bits"),
        ("launches", "counted in the source of bitsandbytes"),
        ("launch", "assumed"),
    ),
)
_SCALED: Final = Formula(flops="6 · m · n · (k / block)")
_STORE: Final = Formula(activation_bytes="m · read · width", kv_bytes="m · cached · kv_width")
_INDEX_STORE: Final = Formula(kv_bytes="m · entry_bytes")


def other(count: str, name: str, value: Number) -> Work:
    """Work of one count that has a name, and no formula of its own.

    Source: whoever adds it.

    Args:
        count, name: Field of `Work`; what it is.
        value: The count. [B]
    """
    return Work(**{count: value}, made=by(_named(count, name), {name: value}))


@cache
def _named(count: str, name: str) -> Formula:
    text: dict[str, Any] = {count: name}
    return Formula(**text)


def collective(
    name: str, moved: Transfer, whole: Part, ranks: Ranks, layers: int, *, operation: str = ""
) -> Op:
    """Movement of a tensor between devices; ``operation`` is that of measured libraries."""
    link = ranks.link
    switched = link is not None and (link.kind, link.topology) == ("nvlink", "switch")
    dims = {
        "bytes": whole.value,
        "ranks": ranks.size,
        "nodes": ranks.nodes,
        "nvswitch": float(switched),
        "times": 1.0,
    }
    return Op(
        name,
        "collective",
        replace(moved.work, made=(*moved.work.made, EvaluatedFormula(NOTHING, {"M": whole}))),
        layers,
        dims=dims,
        wire_s=moved.seconds,
        algorithm=moved.algorithm,
        kernel=operation,
    )


def often(op: Op, times: Number) -> Op:
    """A collective as many times as differs along the scenario axis. [1]"""
    dims = {**op.dims, "times": times}
    return replace(op, work=op.work * times, wire_s=op.wire_s * times, dims=dims)


def is_one(new: Number) -> bool:
    """Whether every sequence decodes one token: a question about scalars only."""
    return isinstance(new, (int, float)) and new == 1


def called(name: str, group: str) -> str:
    """Name of an operator of a group."""
    return f"{name}-{group}" if group else name


def adapted(
    p: ForwardPass, name: str, m: Number, n: Number, k: Number, layers: int, joined: int
) -> Iterator[Op]:
    """Both products of the adapters of a matrix, of which a device has what its part needs.

    Of a matrix that is split by outputs each device has all of A and its part of B; of one that is
    split by inputs its part of A and all of B, whose sum the layer's all-reduce makes: no further
    collective. Source: vLLM 0.11, config/lora.py, ``fully_sharded_loras`` off, its default; S-LoRA
    (arXiv 2311.03285, section 6) splits the others as well, for collectives of R numbers a token.

    Args:
        p, name: The step; of the operator of the matrix.
        m: Rows. [token]
        n, k: Output and input width on this device. [1]
        layers: How often. [1]
        joined: Layers of the checkpoint that the matrix joins. [1]
    """
    lora, precision = p.deployment.options.lora, p.deployment.precision
    rank = float(lora.lora_rank)
    shape: dict[str, Any] = {
        "rank": rank,
        "modules": float(joined),
        "touched": p.adapters,
        "width": p.width,
    }
    format_ = precision.activations.name
    for called, work, wide in (
        ("shrink", shrink(m, k, **shape), {"k": k}),
        ("expand", expand(m, n, **shape), {"n": n}),
    ):
        yield Op(
            f"lora-{called}-{name}",
            "adapter",
            work,
            layers,
            precision.attention_arithmetic,
            dims={"m": m, **wide, "rank": rank, "modules": float(joined), "adapters": p.adapters},
            formats={"weights": format_, "activations": format_},
        )
