// What a warp does with one tile of keys, whoever schedules the tiles: FlashAttention's step for
// 16 * Bands query rows. Scores stay in registers, softmax is online, sums are in fp32.
//
// A lane holds of each band the rows lane / 4 and lane / 4 + 8 ("halves" 0 and 1), and of each
// 8 columns the pair 2 (lane % 4).
#pragma once
#include "elements.cuh"

#define ROW_BYTES (HEAD_DIM * 2)
#define CHUNKS (HEAD_DIM / 8)   // 16-byte chunks of a row
#define STEPS (HEAD_DIM / 16)   // matrix instructions along a row
#define COLUMNS (HEAD_DIM / 8)  // 8-wide blocks of the output

// Where a chunk of a row lies. The low bits are mixed with the row, so that the eight rows of an
// 8x8 tile fall into different banks.
DEVICE int placed(int row, int chunk) { return row * ROW_BYTES + ((chunk ^ (row & 7)) << 4); }

// Row and chunk that a lane names when a warp loads a 16x16 operand (queries, values).
DEVICE int operand_row() { return threadIdx.x & 15; }
DEVICE int operand_chunk() { return (threadIdx.x & 31) >> 4; }

template <int Bands>
struct Rows {
  float output[Bands][COLUMNS][4];  // not yet divided by `total`
  float largest[Bands][2];          // largest score so far, in units of log2
  float total[Bands][2];            // this lane's share of the sum of exponentials
};

template <int Bands>
DEVICE void clear(Rows<Bands>& rows) {
#pragma unroll
  for (int band = 0; band < Bands; band++) {
#pragma unroll
    for (int column = 0; column < COLUMNS; column++)
#pragma unroll
      for (int i = 0; i < 4; i++) rows.output[band][column][i] = 0.f;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      rows.largest[band][half] = -INFINITE;
      rows.total[band][half] = 0.f;
    }
  }
}

// score = Q K^T for Keys keys in shared memory. `load_query(band, step, operand)` gives the queries.
template <int Bands, int Keys, class LoadQuery>
DEVICE void score_keys(float (&score)[Bands][Keys / 8][4], const unsigned char* keys,
                       LoadQuery load_query) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int band = 0; band < Bands; band++)
#pragma unroll
    for (int block = 0; block < Keys / 8; block++)
#pragma unroll
      for (int i = 0; i < 4; i++) score[band][block][i] = 0.f;
#pragma unroll
  for (int step = 0; step < STEPS; step++) {
    u32 query[Bands][4];
#pragma unroll
    for (int band = 0; band < Bands; band++) load_query(band, step, query[band]);
#pragma unroll
    for (int pair = 0; pair < Keys / 16; pair++) {
      const int row = pair * 16 + (lane & 7) + ((lane >> 4) << 3);
      const int chunk = step * 2 + ((lane >> 3) & 1);
      u32 key[4];
      load_tiles(key, keys + placed(row, chunk));
#pragma unroll
      for (int band = 0; band < Bands; band++) {
        multiply_add(score[band][2 * pair], query[band], key[0], key[1]);
        multiply_add(score[band][2 * pair + 1], query[band], key[2], key[3]);
      }
    }
  }
}

// Key that entry i of a block of scores belongs to, counted from the tile's first.
DEVICE int key_of(int block, int i) { return block * 8 + (threadIdx.x & 3) * 2 + (i & 1); }

// Scores become weights exp2(score * scale - largest); `shrink` is what was summed under a smaller
// maximum to be multiplied by. A row that has seen no key keeps weights of zero.
template <int Blocks>
DEVICE void weigh(float (&score)[Blocks][4], float (&largest)[2], float (&total)[2],
                  float (&shrink)[2], float scale_log2) {
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float most = -INFINITE;
#pragma unroll
    for (int block = 0; block < Blocks; block++)
      most = larger(most, larger(score[block][2 * half], score[block][2 * half + 1]));
    most = larger(most, exchange(most, 1));
    most = larger(most, exchange(most, 2));
    most = larger(largest[half], most * scale_log2);
    const float base = most == -INFINITE ? 0.f : most;
    shrink[half] = exp2_fast(largest[half] - base);
    largest[half] = most;
    float sum = 0.f;
#pragma unroll
    for (int block = 0; block < Blocks; block++)
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; i++) {
        score[block][i] = exp2_fast(score[block][i] * scale_log2 - base);
        sum += score[block][i];
      }
    total[half] = total[half] * shrink[half] + sum;
  }
}

DEVICE void rescale(float (&output)[COLUMNS][4], const float (&shrink)[2]) {
#pragma unroll
  for (int column = 0; column < COLUMNS; column++)
#pragma unroll
    for (int i = 0; i < 4; i++) output[column][i] *= shrink[i >> 1];
}

// Weights of 16 keys as the operand of a product with their values: pairs of elements.
DEVICE void pack_weights(u32 (&operand)[4], const float (&first)[4], const float (&second)[4]) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float(&block)[4] = i >> 1 ? second : first;
    operand[i] = pack(block[2 * (i & 1)], block[2 * (i & 1) + 1]);
  }
}

// Entries of a block of scores of keys past the context, or past the row's own, are never chosen.
template <int Blocks>
DEVICE void mask(float (&score)[Blocks][4], int first_key, int context, int row, int cached,
                 int causal) {
#pragma unroll
  for (int block = 0; block < Blocks; block++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int key = first_key + key_of(block, i);
      if (key >= context || (causal && key > row + (i >> 1) * 8 + cached))
        score[block][i] = -INFINITE;
    }
}

// Sum over the four lanes that share a row.
DEVICE float row_sum(float value) {
  value += exchange(value, 1);
  return value + exchange(value, 2);
}

// Rows of the output of a warp, divided by their sums; `row` is this lane's first.
DEVICE void store_rows(u16* output, i64 stride, int row, int rows, const float (&sums)[COLUMNS][4],
                       const float (&totals)[2]) {
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const float total = row_sum(totals[half]);
    const float share = total > 0.f ? 1.f / total : 0.f;
    if (row + half * 8 < rows) {
      u16* to = output + (row + half * 8) * stride + (threadIdx.x & 3) * 2;
#pragma unroll
      for (int column = 0; column < COLUMNS; column++)
        *(u32*)(to + column * 8) =
            pack(sums[column][2 * half] * share, sums[column][2 * half + 1] * share);
    }
  }
}

// output += weights V for Keys values in shared memory.
template <int Bands, int Keys>
DEVICE void add_values(float (&output)[Bands][COLUMNS][4], const float (&weight)[Bands][Keys / 8][4],
                       const unsigned char* values) {
#pragma unroll
  for (int pair = 0; pair < Keys / 16; pair++) {
    u32 operand[Bands][4];
#pragma unroll
    for (int band = 0; band < Bands; band++)
      pack_weights(operand[band], weight[band][2 * pair], weight[band][2 * pair + 1]);
#pragma unroll
    for (int column = 0; column < COLUMNS; column += 2) {
      u32 value[4];
      load_tiles_transposed(value,
                            values + placed(pair * 16 + operand_row(), column + operand_chunk()));
#pragma unroll
      for (int band = 0; band < Bands; band++) {
        multiply_add(output[band][column], operand[band], value[0], value[1]);
        multiply_add(output[band][column + 1], operand[band], value[2], value[3]);
      }
    }
  }
}
