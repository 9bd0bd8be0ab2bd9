// Attention of many new tokens, by FlashAttention-2's schedule (Dao, 2023): a block owns a tile of
// queries and walks over the keys; values are fetched while scores are computed, the next keys
// while values are added. Grouped queries, causal or full; with a context longer than the new
// tokens (a chunk of a prompt) the first new token stands at context - new_tokens.
//
// query, output [batch, new_tokens, query_heads, HEAD_DIM]
// keys, values  [batch, context, kv_heads, HEAD_DIM]
// grid (tiles of queries, query_heads, batch), WARPS * 32 threads
//
// Given by the loader: HEAD_DIM; WARPS per block, BANDS of 16 queries per warp, KEYS per tile.
#include "attention.cuh"

#define THREADS (WARPS * 32)
#define QUERIES (WARPS * BANDS * 16)

// Rows of a tensor of heads, 16 bytes per thread and step; zeros past the last row, whose addresses
// are formed and not read.
template <int Count>
DEVICE void fetch(unsigned char* tile, const u16* tensor, i64 stride, int first, int rows) {
  constexpr int step = THREADS / CHUNKS;
  const int row = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
  const u16* from = tensor + (first + row) * stride + chunk * 8;
#pragma unroll
  for (int i = 0; i < Count / step; i++)
    copy_async(tile + placed(row + i * step, chunk), from + i * step * stride,
               first + row + i * step < rows);
}

KERNEL(THREADS, 8 / WARPS)
prefill_attention(const u16* __restrict__ query, const u16* __restrict__ keys,
                  const u16* __restrict__ values, u16* __restrict__ output, int new_tokens,
                  int context, int query_heads, int kv_heads, int causal, float scale_log2) {
  SHARED_MEMORY(shared);
  unsigned char* query_tile = shared;
  unsigned char* key_tile = query_tile + QUERIES * ROW_BYTES;
  unsigned char* value_tile = key_tile + KEYS * ROW_BYTES;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int head = blockIdx.y, kv_head = head / (query_heads / kv_heads);
  const i64 sequence = blockIdx.z;
  // Causal tiles grow longer towards the end of the prompt: the longest are started first.
  const int first_query = (int)(gridDim.x - 1 - blockIdx.x) * QUERIES;
  const int cached = context - new_tokens;
  const i64 query_stride = (i64)query_heads * HEAD_DIM, kv_stride = (i64)kv_heads * HEAD_DIM;
  query += sequence * new_tokens * query_stride + head * HEAD_DIM;
  keys += sequence * context * kv_stride + kv_head * HEAD_DIM;
  values += sequence * context * kv_stride + kv_head * HEAD_DIM;
  output += sequence * new_tokens * query_stride + head * HEAD_DIM;
  const int seen = causal ? smaller(context, first_query + QUERIES + cached) : context;
  const int tiles = (seen + KEYS - 1) / KEYS;

  fetch<QUERIES>(query_tile, query, query_stride, first_query, new_tokens);
  fetch<KEYS>(key_tile, keys, kv_stride, 0, context);
  close_copies();

  Rows<BANDS> rows;
  clear(rows);
  const int warp_row = warp * BANDS * 16;
  const auto load_query = [&](int band, int step, u32(&operand)[4]) {
    const int row = warp_row + band * 16 + operand_row();
    load_tiles(operand, query_tile + placed(row, step * 2 + operand_chunk()));
  };

  for (int tile = 0; tile < tiles; tile++) {
    wait_copies<0>();
    __syncthreads();  // keys are there, and nobody reads the values of the last tile any more
    fetch<KEYS>(value_tile, values, kv_stride, tile * KEYS, context);
    close_copies();
    float score[BANDS][KEYS / 8][4];
    score_keys<BANDS, KEYS>(score, key_tile, load_query);
    wait_copies<0>();
    __syncthreads();  // values are there, and nobody reads these keys any more
    if (tile + 1 < tiles) fetch<KEYS>(key_tile, keys, kv_stride, (tile + 1) * KEYS, context);
    close_copies();

    const int past = (tile + 1) * KEYS;
    const bool masked = past > context || (causal && past > first_query + warp_row + cached + 1);
#pragma unroll
    for (int band = 0; band < BANDS; band++) {
      const int row = first_query + warp_row + band * 16 + (lane >> 2);
      if (masked) mask(score[band], tile * KEYS, context, row, cached, causal);
      float shrink[2];
      weigh(score[band], rows.largest[band], rows.total[band], shrink, scale_log2);
      rescale(rows.output[band], shrink);
    }
    add_values<BANDS, KEYS>(rows.output, score, value_tile);
  }

#pragma unroll
  for (int band = 0; band < BANDS; band++)
    store_rows(output, query_stride, first_query + warp_row + band * 16 + (lane >> 2), new_tokens,
               rows.output[band], rows.total[band]);
}
