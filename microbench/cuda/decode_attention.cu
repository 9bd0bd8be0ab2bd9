// Attention of one or a few new tokens per sequence over a paged KV cache ("flash-decoding"): the
// context is split over blocks, and a second kernel combines the splits. The query heads that share
// a kv head, times the new tokens, fill the rows of the matrix instruction, so that each cached byte
// is read once for all of them. Several new tokens (verification of drafted ones) see the context
// causally.
//
// query, output [batch, new_tokens, query_heads, HEAD_DIM]
// keys, values  [pages, page_tokens, kv_heads, HEAD_DIM]; page_tokens is a multiple of KEYS; e4m3
//               where CACHE_FP8 is 1 (from sm_89 on)
// block_table   [batch, table_width]: page of each page_tokens of a sequence
// contexts      [batch]: keys that the last new token sees, the new ones among them
// partial_*     [batch, new_tokens, query_heads, splits (, HEAD_DIM)]; unused with one split
// grid (splits, kv_heads * tiles of query rows, batch), WARPS * 32 threads
//
// Given by the loader: HEAD_DIM; WARPS per block, BANDS of 16 query rows per block, KEYS per tile
// (a tile lies within one page), STAGES: tiles per warp that are under way or in use.
#include "cache.cuh"

#define THREADS (WARPS * 32)
#define ROWS (BANDS * 16)

KERNEL(THREADS, 2)
decode_attention(const u16* __restrict__ query, const cached* __restrict__ keys,
                 const cached* __restrict__ values, const int* __restrict__ block_table,
                 const int* __restrict__ contexts, float* __restrict__ partial_output,
                 float* __restrict__ partial_log_sum, u16* __restrict__ output, int new_tokens,
                 int query_heads, int kv_heads, int page_tokens, int table_width, int splits,
                 float scale_log2) {
  SHARED_MEMORY(shared);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int split = blockIdx.x, kv_head = blockIdx.y % kv_heads;
  const i64 sequence = blockIdx.z;
  const int group = query_heads / kv_heads;
  const int first_row = (int)(blockIdx.y / kv_heads) * ROWS;
  const int block_rows = smaller(ROWS, group * new_tokens - first_row);
  const int context = contexts[sequence];
  const int tiles = (context + KEYS - 1) / KEYS, share = (tiles + splits - 1) / splits;
  const int first_tile = split * share, end_tile = smaller(first_tile + share, tiles);
  const int page_tiles = page_tokens / KEYS;
  const int* pages = block_table + sequence * table_width;
  const i64 token_stride = (i64)kv_heads * HEAD_DIM;
  // Every warp has stages of its own and walks over every WARPS-th tile: no barrier of the block.
  unsigned char* stages = shared + warp * (STAGES * 2 * TILE_BYTES);

  // Row of the block -> new token and head it belongs to, as one index of [new_tokens, heads].
  const auto token_of = [&](int row) { return (first_row + row) / group; };
  const auto query_index = [&](int row) {
    return (sequence * new_tokens + token_of(row)) * query_heads + kv_head * group +
           (first_row + row) % group;
  };

  u32 queries[BANDS][STEPS][4];
  int seen[BANDS][2];  // keys that a row sees
#pragma unroll
  for (int band = 0; band < BANDS; band++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int row = band * 16 + half * 8 + (lane >> 2);
      const bool real = row < block_rows;
      seen[band][half] = real ? context - new_tokens + token_of(row) + 1 : context;
      const u16* from = query + (real ? query_index(row) : 0) * HEAD_DIM + (lane & 3) * LANE_STEP;
#pragma unroll
      for (int step = 0; step < STEPS; step++) {
        queries[band][step][half] = real ? *(const u32*)(from + step * 16) : 0u;
        queries[band][step][half + 2] = real ? *(const u32*)(from + step * 16 + LANE_SECOND) : 0u;
      }
    }
  const auto load_query = [&](int band, int step, u32(&operand)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) operand[i] = queries[band][step][i];
  };

  const auto fetch = [&](int tile, int stage) {
    if (tile < end_tile) {
      const i64 page = pages[tile / page_tiles];
      const i64 token = page * page_tokens + (tile % page_tiles) * KEYS;
      const i64 from = token * token_stride + kv_head * HEAD_DIM;
      unsigned char* key_tile = stages + stage * 2 * TILE_BYTES;
#pragma unroll
      for (int i = 0; i < KEYS * CACHED_CHUNKS / 32; i++) {
        const int index = i * 32 + lane, row = index / CACHED_CHUNKS, chunk = index % CACHED_CHUNKS;
        const bool wanted = tile * KEYS + row < context;  // 0 * weight stays finite past the end
        copy_async(key_tile + cached_place(row, chunk),
                   keys + from + row * token_stride + chunk * IN_CHUNK, wanted);
        copy_async(key_tile + TILE_BYTES + cached_place(row, chunk),
                   values + from + row * token_stride + chunk * IN_CHUNK, wanted);
      }
    }
    close_copies();
  };

  Rows<BANDS> rows;
  clear(rows);
#pragma unroll
  for (int i = 0; i < STAGES - 1; i++) fetch(first_tile + warp + i * WARPS, i);
  int stage = 0;
  for (int tile = first_tile + warp; tile < end_tile; tile += WARPS) {
    fetch(tile + (STAGES - 1) * WARPS, stage == 0 ? STAGES - 1 : stage - 1);
    wait_copies<STAGES - 1>();
    __syncwarp();
    const unsigned char* key_tile = stages + stage * 2 * TILE_BYTES;
    float score[BANDS][KEYS / 8][4];
    score_cached<BANDS, KEYS>(score, key_tile, load_query);
#pragma unroll
    for (int band = 0; band < BANDS; band++) {
#pragma unroll
      for (int block = 0; block < KEYS / 8; block++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          if (tile * KEYS + key_of(block, i) >= seen[band][i >> 1])
            score[band][block][i] = -INFINITE;
      float shrink[2];
      weigh(score[band], rows.largest[band], rows.total[band], shrink, scale_log2);
      rescale(rows.output[band], shrink);
    }
    add_cached<BANDS, KEYS>(rows.output, score, key_tile + TILE_BYTES);
    __syncwarp();
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
  wait_copies<0>();
  __syncthreads();  // the stages are no longer read: the warps' results may lie there

  float* outputs = (float*)shared;                    // [WARPS][ROWS][HEAD_DIM]
  float* largests = outputs + WARPS * ROWS * HEAD_DIM;  // [WARPS][ROWS]
  float* totals = largests + WARPS * ROWS;            // [WARPS][ROWS]
#pragma unroll
  for (int band = 0; band < BANDS; band++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int row = warp * ROWS + band * 16 + half * 8 + (lane >> 2);
      const float total = row_sum(rows.total[band][half]);
#pragma unroll
      for (int column = 0; column < COLUMNS; column++)
#pragma unroll
        for (int i = 0; i < 2; i++)
          outputs[row * HEAD_DIM + output_column(column, i)] =
              rows.output[band][column][2 * half + i];
      if ((lane & 3) == 0) {
        largests[row] = rows.largest[band][half];
        totals[row] = total;
      }
    }
  __syncthreads();

  for (int index = threadIdx.x; index < block_rows * HEAD_DIM; index += THREADS) {
    const int row = index / HEAD_DIM, column = index % HEAD_DIM;
    float largest = -INFINITE, total = 0.f, sum = 0.f;
#pragma unroll
    for (int i = 0; i < WARPS; i++) largest = larger(largest, largests[i * ROWS + row]);
    const float base = largest == -INFINITE ? 0.f : largest;
#pragma unroll
    for (int i = 0; i < WARPS; i++) {
      const float weight = exp2_fast(largests[i * ROWS + row] - base);
      total += weight * totals[i * ROWS + row];
      sum += weight * outputs[(i * ROWS + row) * HEAD_DIM + column];
    }
    const float value = total > 0.f ? sum / total : 0.f;
    const i64 to = query_index(row);
    if (splits == 1) {
      output[to * HEAD_DIM + column] = narrow(value);
    } else {
      partial_output[(to * splits + split) * HEAD_DIM + column] = value;
      if (column == 0)
        partial_log_sum[to * splits + split] = total > 0.f ? largest + log2_fast(total) : -INFINITE;
    }
  }
}

// grid (batch * new_tokens * query_heads), HEAD_DIM threads
KERNEL(HEAD_DIM)
combine_splits(const float* __restrict__ partial_output, const float* __restrict__ partial_log_sum,
               u16* __restrict__ output, int splits) {
  const i64 row = blockIdx.x;
  const int column = threadIdx.x;
  float largest = -INFINITE, total = 0.f, sum = 0.f;
  for (int split = 0; split < splits; split++)
    largest = larger(largest, partial_log_sum[row * splits + split]);
  for (int split = 0; split < splits; split++) {
    const float weight = exp2_fast(partial_log_sum[row * splits + split] - largest);
    total += weight;
    sum += weight * partial_output[(row * splits + split) * HEAD_DIM + column];
  }
  output[row * HEAD_DIM + column] = narrow(sum / total);
}
