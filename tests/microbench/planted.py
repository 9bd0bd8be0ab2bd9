"""Mistakes that a kernel could have, each with the cases that must notice it."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Bug:
    """Text of a source and what a mistake makes of it."""

    source: str
    written: str
    planted: str
    cases: tuple[str, ...]


DECODE: Final = ("decode, grouped, one split empty",)
EIGHT_BITS: Final = ("decode, 8-bit cache",)
VERIFY: Final = ("verify 4 tokens",)
WIDE: Final = ("decode, pages of 32, scores of a wide range",)
FOUR: Final = ("4-bit weights, wide parts", "4-bit weights, sixteen rows")
PREFILL: Final = ("prefill, a chunk after 130 tokens",)
GROUPS: Final = ("warpgroups, a chunk after 230 tokens",)

BUGS: Final[dict[str, Bug]] = {
    "largest of the first warp": Bug(
        "quantise.cu", "i < THREADS / 32; i++) largest", "i < 1; i++) largest", ("8-bit integers",)
    ),
    "scale of a block by half of its lanes": Bug(
        "quantise.cu", "mask = 8; mask; mask", "mask = 4; mask; mask", ("8-bit floats by block",)
    ),
    "scales of blocks by row": Bug(
        "quantise.cu", "(i64)(chunk / 16) * stride + row", "row + chunk / 16", ("scales of blocks",)
    ),
    "halves of a word exchanged": Bug(
        "quantise.cu", "pack_e4m3(c, d) << 16", "pack_e4m3(d, c) << 16", ("8-bit floats",)
    ),
    "token of the first row": Bug("rows.cu", "tokens[row]", "tokens[0]", ("embedding",)),
    "causal mask off by one": Bug(
        "attention.cuh", "(i >> 1) * 8 + cached)", "(i >> 1) * 8 + cached + 1)", PREFILL
    ),
    "chunk offset forgotten": Bug(
        "attention.cuh", "(i >> 1) * 8 + cached)", "(i >> 1) * 8)", PREFILL
    ),
    "mask skipped one tile too far": Bug(
        "prefill_attention.cu",
        "past > first_query + warp_row + cached + 1)",
        "past > first_query + warp_row + cached + KEYS)",
        PREFILL,
    ),
    "last tile of keys left out": Bug(
        "prefill_attention.cu", "(seen + KEYS - 1) / KEYS", "seen / KEYS", PREFILL
    ),
    "wrong kv head": Bug(
        "prefill_attention.cu",
        "head / (query_heads / kv_heads)",
        "head % kv_heads",
        ("prefill, two groups",),
    ),
    "values not waited for": Bug(
        "prefill_attention.cu",
        "wait_copies<0>();\n    __syncthreads();  // values",
        "__syncthreads();  // values",
        PREFILL,
    ),
    "no barrier before the values are replaced": Bug(
        "prefill_attention.cu", "__syncthreads();  // keys are there", "__syncwarp();  //", PREFILL
    ),
    "no barrier before the keys are replaced": Bug(
        "prefill_attention.cu", "__syncthreads();  // values are", "__syncwarp();  //", PREFILL
    ),
    "no division by the sum": Bug(
        "attention.cuh", "total > 0.f ? 1.f / total : 0.f", "1.f", PREFILL
    ),
    "values of a group not waited for": Bug(
        "prefill_warpgroup.cu",
        "wait_copies<0>();\n    publish();",
        "wait_copies<1>();\n    publish();",
        GROUPS,
    ),
    "copies not published": Bug(
        "prefill_warpgroup.cu",
        "publish();\n  __syncthreads();  // queries",
        "__syncthreads();  // queries",
        GROUPS,
    ),
    "no fence before the products": Bug(
        "prefill_warpgroup.cu", "pin(weight);\n    begin_products();", "", GROUPS
    ),
    "scores not waited for": Bug(
        "prefill_warpgroup.cu", "wait_products<1>(score)", "wait_products<2>(score)", GROUPS
    ),
    "output not waited for": Bug(
        "prefill_warpgroup.cu",
        "wait_products<0>(sums);\n      rescale",
        "wait_products<1>(sums);\n      rescale",
        GROUPS,
    ),
    "keys replaced while they are read": Bug(
        "prefill_warpgroup.cu", "fetch_keys(tile + 1);", "fetch_keys(tile + 2);", GROUPS
    ),
    "values of the tile before": Bug(
        "prefill_warpgroup.cu",
        "weight, value_tiles + (tile - 1 & 1) * TILE_BYTES);\n    fetch",
        "weight, value_tiles + (tile & 1) * TILE_BYTES);\n    fetch",
        GROUPS,
    ),
    "queries of the first group for all": Bug(
        "prefill_warpgroup.cu", "query_tile + group * 64 * PANEL_BYTES", "query_tile", GROUPS
    ),
    "mask of a group by another's rows": Bug(
        "prefill_warpgroup.cu", "first_query + group * 64;", "first_query + 64;", GROUPS
    ),
    "chunks placed by another swizzle": Bug(
        "prefill_warpgroup.cu",
        "swizzled(row, chunk % 8)",
        "swizzled(row, chunk % 8 ^ 1)",
        GROUPS,
    ),
    "panels of values beside each other": Bug(
        "prefill_warpgroup.cu", "KEYS * PANEL_BYTES));\n  close", "PANEL_BYTES));\n  close", GROUPS
    ),
    "no scale": Bug(
        "attention.cuh",
        "exp2_fast(score[block][i] * scale_log2 - base)",
        "exp2_fast(score[block][i] - base)",
        DECODE,
    ),
    "no rescaling of the output": Bug(
        "attention.cuh", "output[column][i] *= shrink[i >> 1];", ";", WIDE
    ),
    "no rescaling of the sum": Bug(
        "attention.cuh", "total[half] * shrink[half] + sum", "total[half] + sum", WIDE
    ),
    "values not transposed": Bug(
        "attention.cuh", "load_tiles_transposed(value,", "load_tiles(value,", DECODE
    ),
    "reader and writer place chunks differently": Bug(
        "attention.cuh",
        "load_tiles(key, keys + placed(row, chunk));",
        "load_tiles(key, keys + placed(row, chunk ^ 1));",
        DECODE,
    ),
    "sum of a row over too few lanes": Bug(
        "attention.cuh", "return value + exchange(value, 2);", "return value;", DECODE
    ),
    "maximum of a row over too few lanes": Bug(
        "attention.cuh", "most = larger(most, exchange(most, 2));", "", WIDE
    ),
    "pages in order": Bug(
        "decode_attention.cu", "pages[tile / page_tiles]", "tile / page_tiles", DECODE
    ),
    "first tile of a page for all": Bug(
        "decode_attention.cu",
        "page * page_tokens + (tile % page_tiles) * KEYS",
        "page * page_tokens",
        ("decode, pages of 64",),
    ),
    "last split dropped": Bug(
        "decode_attention.cu",
        "split < splits; split++) {",
        "split < splits - 1; split++) {",
        ("decode, splits differ",),
    ),
    "a split's tile dropped": Bug(
        "decode_attention.cu",
        "smaller(first_tile + share, tiles)",
        "smaller(first_tile + share - 1, tiles)",
        DECODE,
    ),
    "splits combined without their sums": Bug(
        "decode_attention.cu", "largest + log2_fast(total)", "largest", DECODE
    ),
    "tail of a page not masked": Bug(
        "decode_attention.cu", ">= seen[band][i >> 1]", "> context + KEYS", DECODE
    ),
    "tail of a page not zeroed": Bug(
        "decode_attention.cu", "tile * KEYS + row < context;", "true;", DECODE
    ),
    "drafted tokens see one another": Bug(
        "decode_attention.cu",
        "real ? context - new_tokens + token_of(row) + 1 : context",
        "context",
        VERIFY,
    ),
    "drafted tokens do not see themselves": Bug(
        "decode_attention.cu", "token_of(row) + 1 : context", "token_of(row) : context", VERIFY
    ),
    "tile not waited for": Bug(
        "decode_attention.cu", "wait_copies<STAGES - 1>();", "wait_copies<STAGES>();", DECODE
    ),
    "no barrier of the warp after the wait": Bug(
        "decode_attention.cu",
        "wait_copies<STAGES - 1>();\n    __syncwarp();",
        "wait_copies<STAGES - 1>();",
        DECODE,
    ),
    "no barrier before the warps are merged": Bug(
        "decode_attention.cu",
        "  __syncthreads();\n\n  for (int index",
        "\n  for (int index",
        DECODE,
    ),
    "no barrier before the stages are reused": Bug(
        "decode_attention.cu",
        "__syncthreads();  // the stages are",
        "__syncwarp();  //",
        ("decode, one warp behind",),
    ),
    "columns of an 8-bit cache in no order": Bug(
        "cache.cuh", "block / 2 * 16 + (threadIdx.x & 3) * 4", "block * 8", EIGHT_BITS
    ),
    "queries in another order than 8-bit keys": Bug(
        "cache.cuh", "#define LANE_STEP 4", "#define LANE_STEP 2", EIGHT_BITS
    ),
    "8-bit keys of the first eight rows twice": Bug(
        "cache.cuh", "widen_e4m3(key[half + 2])", "widen_e4m3(key[half])", EIGHT_BITS
    ),
    "rows of an 8-bit tile exchanged": Bug(
        "cache.cuh", "by_column(value[2 * half])", "by_column(value[2 * half + 1])", EIGHT_BITS
    ),
    "new tokens and heads swapped": Bug(
        "decode_attention.cu",
        "(first_row + row) % group;\n",
        "(first_row + row) / new_tokens % group;\n",
        VERIFY,
    ),
    "norm without a barrier": Bug(
        "rms_norm.cu", "__syncthreads();", "", ("rms norm, not all threads at work",)
    ),
    "norm by the sum": Bug(
        "rms_norm.cu",
        "squares / width + epsilon",
        "squares + epsilon",
        ("rms norm, not all threads at work",),
    ),
    "rotation the other way": Bug("rope.cu", "c.y, s.y, -1.f", "c.y, s.y, 1.f", ("rope",)),
    "early weights for late ones": Bug(
        "w4a16_gemm.cu",
        "late[half] = add_pairs(raised<2>",
        "late[half] = add_pairs(raised<0>",
        FOUR,
    ),
    "zero point of the first group for all": Bug(
        "w4a16_gemm.cu", "less = zeros[tile][half]", "less = zeros[tile][0]", FOUR
    ),
    "scale of the upper row for both": Bug(
        "w4a16_gemm.cu", "scales[tile][i >> 1]", "scales[tile][0]", FOUR
    ),
    "weights not waited for": Bug(
        "w4a16_gemm.cu", "wait_copies<STAGES - 1>();", "wait_copies<STAGES>();", FOUR
    ),
    "weights replaced while they are read": Bug(
        "w4a16_gemm.cu", "fetch(turn + STAGES - 1);", "fetch(turn + STAGES);", FOUR
    ),
    "sums of the first warp": Bug(
        "w4a16_gemm.cu", "w < WARPS; w++) total", "w < 1; w++) total", FOUR
    ),
    "sums over weights that others read": Bug(
        "w4a16_gemm.cu", "(float*)memory;\n  __syncthreads();", "(float*)memory;", FOUR
    ),
    "rows past the last written": Bug(
        "w4a16_gemm.cu", "i < rows * OUTPUTS", "i < rows * OUTPUTS - 1", FOUR
    ),
    "copy without its tail": Bug(
        "bandwidth.cu",
        "for (; i < chunks; i += stride) output[i] = load_once(input + i);",
        "",
        ("copy",),
    ),
}
