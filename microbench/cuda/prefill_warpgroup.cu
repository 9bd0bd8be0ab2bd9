// Attention of many new tokens on Hopper: arrays, grid and masks of prefill_attention.cu, products of
// whole warpgroups, and FlashAttention-3's pipeline within each (Shah et al., 2024): while a tile's
// scores become weights, the values of the tile before are added, and copies of the next are under
// way.
//
// Given by the loader: HEAD_DIM; GROUPS of 64 queries per block, KEYS per tile.
#include "attention.cuh"
#include "warpgroup.cuh"

#define THREADS (GROUPS * GROUP_THREADS)
#define QUERIES (GROUPS * 64)
#define PANELS (HEAD_DIM / 64)
#define TILE_BYTES (KEYS * ROW_BYTES)

// Rows of a tensor of heads into the panels of a tile, 16 bytes per thread and step; zeros past the
// last row, whose addresses are formed and not read.
template <int Rows>
DEVICE void fetch_panels(unsigned char* tile, const u16* tensor, i64 stride, int first, int rows) {
  constexpr int step = THREADS / CHUNKS;
  const int row = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
  const u16* from = tensor + (first + row) * stride + chunk * 8;
  unsigned char* to = tile + chunk / 8 * Rows * PANEL_BYTES + swizzled(row, chunk % 8);
#pragma unroll
  for (int i = 0; i < Rows / step; i++)
    copy_async(to + i * step * PANEL_BYTES, from + i * step * stride,
               first + row + i * step < rows);
}

// score = Q K^T of a group's 64 queries and a tile of keys, under way.
DEVICE void start_scores(float (&score)[KEYS / 8][4], const unsigned char* query,
                         const unsigned char* keys) {
#pragma unroll
  for (int step = 0; step < STEPS; step++) {
    const int panel = step / 4, inside = step % 4 * 32;
    multiply_rows(score, operand_at(query + panel * QUERIES * PANEL_BYTES + inside, 0),
                  operand_at(keys + panel * KEYS * PANEL_BYTES + inside, 0), step > 0);
  }
  close_products();
}

// output += weights V, under way.
DEVICE void start_output(float (&output)[COLUMNS][4], const u32 (&weight)[KEYS / 16][4],
                         const unsigned char* values) {
#pragma unroll
  for (int step = 0; step < KEYS / 16; step++)
    multiply_columns(output, weight[step],
                     operand_at(values + step * 16 * PANEL_BYTES, KEYS * PANEL_BYTES));
  close_products();
}

KERNEL(THREADS, 1)
prefill_warpgroup(const u16* __restrict__ query, const u16* __restrict__ keys,
                  const u16* __restrict__ values, u16* __restrict__ output, int new_tokens,
                  int context, int query_heads, int kv_heads, int causal, float scale_log2) {
  SHARED_MEMORY(shared);
  unsigned char* query_tile = shared;
  unsigned char* key_tiles = query_tile + QUERIES * ROW_BYTES;  // two of each
  unsigned char* value_tiles = key_tiles + 2 * TILE_BYTES;
  const int group = threadIdx.x / GROUP_THREADS, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
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
  const auto fetch_keys = [&](int tile) {
    if (tile < tiles)
      fetch_panels<KEYS>(key_tiles + (tile & 1) * TILE_BYTES, keys, kv_stride, tile * KEYS, context);
  };
  const auto fetch_values = [&](int tile) {
    fetch_panels<KEYS>(value_tiles + (tile & 1) * TILE_BYTES, values, kv_stride, tile * KEYS,
                       context);
  };

  fetch_panels<QUERIES>(query_tile, query, query_stride, first_query, new_tokens);
  fetch_keys(0);
  close_copies();
  fetch_values(0);
  fetch_keys(1);
  close_copies();

  const unsigned char* own_queries = query_tile + group * 64 * PANEL_BYTES;
  const int row = first_query + warp * 16 + (lane >> 2);  // of this lane, and the one 8 below
  float score[KEYS / 8][4], sums[COLUMNS][4], largest[2], total[2], shrink[2];
  u32 weight[KEYS / 16][4];
#pragma unroll
  for (int column = 0; column < COLUMNS; column++)
#pragma unroll
    for (int i = 0; i < 4; i++) sums[column][i] = 0.f;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    largest[half] = -INFINITE;
    total[half] = 0.f;
  }
  const auto weigh_tile = [&](int tile) {
    const int past = (tile + 1) * KEYS, first_row = first_query + group * 64;
    if (past > context || (causal && past > first_row + cached + 1))
      mask(score, tile * KEYS, context, row, cached, causal);
    weigh(score, largest, total, shrink, scale_log2);
  };
  const auto pack_tile = [&]() {
#pragma unroll
    for (int step = 0; step < KEYS / 16; step++)
      pack_weights(weight[step], score[2 * step], score[2 * step + 1]);
  };

  wait_copies<1>();
  publish();
  __syncthreads();  // queries and the first keys are there
  begin_products();
  start_scores(score, own_queries, key_tiles);
  wait_products<0>(score);
  weigh_tile(0);
  pack_tile();
  for (int tile = 1; tile < tiles; tile++) {
    wait_copies<0>();
    publish();
    __syncthreads();  // the last tile's values and this one's keys are there, those before are free
    pin(score);
    pin(sums);
    pin(weight);
    begin_products();
    start_scores(score, own_queries, key_tiles + (tile & 1) * TILE_BYTES);
    start_output(sums, weight, value_tiles + (tile - 1 & 1) * TILE_BYTES);
    fetch_values(tile);
    fetch_keys(tile + 1);
    close_copies();
    wait_products<1>(score);
    weigh_tile(tile);
    pin(score);
    if (any_of_group(shrink[0] != 1.f || shrink[1] != 1.f)) {
      wait_products<0>(sums);
      rescale(sums, shrink);
    }
    wait_products<0>(sums);  // behind a branch: the assembler would wait before the weights
    pack_tile();
  }
  wait_copies<0>();
  publish();
  __syncthreads();  // the last values are there
  pin(sums);
  pin(weight);
  begin_products();
  start_output(sums, weight, value_tiles + (tiles - 1 & 1) * TILE_BYTES);
  wait_products<0>(sums);
  store_rows(output, query_stride, row, new_tokens, sums, total);
}
