"""Programs that the loaders ask for: all of attention, the ends of the others."""

from itertools import product
from typing import Final, get_args

import numpy as np

from roofline.bench.gpu.attention import HEAD_DIMS, decode_attention, prefill_attention
from roofline.bench.gpu.kernels import (
    LARGEST,
    MOST_ROWS,
    nothing,
    quantise,
    quantise_blocks,
    rms_norm,
    rope,
    row_pass,
    silu_mul,
    w4a16_gemm,
)
from roofline.bench.gpu.launch import Element, Launch, Program

ELEMENTS: Final[tuple[Element, ...]] = get_args(Element)


def _of(launches: tuple[Launch, ...]) -> Program:
    return launches[0].program


def prefills(architecture: int) -> list[Program]:
    """Prefill on an architecture."""
    out = []
    for head_dim, element in product(HEAD_DIMS, ELEMENTS):
        cache = np.empty((1, 16, 1, head_dim), np.uint16)
        arrays = (cache, cache, cache, cache)
        out.append(_of(prefill_attention(*arrays, element=element, architecture=architecture)))
    return out


def attention() -> list[Program]:
    """Prefill everywhere; decoding of one band of query rows and of two, on either cache."""
    out = []
    for head_dim, element in product(HEAD_DIMS, ELEMENTS):
        cache = np.empty((1, 16, 1, head_dim), np.uint16)
        query = np.empty((1, 16, 1, head_dim), np.uint16)
        out.append(_of(prefill_attention(query, cache, cache, query, element=element)))
        for new_tokens in (1, 32):
            query = np.empty((1, new_tokens, 1, head_dim), np.uint16)
            table = np.empty((1, 1), np.int32)
            for kept in (cache, cache.astype(np.uint8)):
                launches = decode_attention(query, kept, kept, table, table, query, element=element)
                out.append(_of(launches))
    return out


def others() -> list[Program]:
    """All other kernels."""
    row = np.empty((1, 128), np.uint16)
    heads = {width: np.empty((1, 1, width), np.uint16) for width in HEAD_DIMS}
    out = [_of(nothing())]
    for element in ELEMENTS:
        out.append(_of(rms_norm(row, row, row, element=element)))
        out.append(_of(silu_mul(row, row, element=element)))
        out.append(_of(row_pass("add_rows", row, row, row, element=element)))
        out += [_of(quantise(row, row, row, of=of, element=element)) for of in LARGEST]
        out.append(_of(quantise_blocks(row, row, row, element=element)))
        out += [_of(rope(heads[width], row, row, element=element)) for width in HEAD_DIMS]
        for rows in (1, MOST_ROWS):
            values = np.empty((rows, 128), np.uint16)
            for outputs in (16, 64, 128):  # on one multiprocessor: narrow parts and wide ones
                arrays = row, row, row, values, np.empty((rows, outputs), np.uint16)
                out.append(_of(w4a16_gemm(*arrays, element=element, multiprocessors=1)))
    return out


def label(program: Program) -> str:
    """A program in one word."""
    return "-".join([program.source, *(f"{k}={v}" for k, v in program.constants)])
