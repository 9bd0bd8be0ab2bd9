// How decoding finds keys and values of 16 bits or, where CACHE_FP8 is 1, of 8 (e4m3, with scales of
// one), which are widened in registers. Tiles lie in shared memory as they do in the cache.
//
// A lane that loads an 8x8 tile of 16-bit words gets four 8-bit keys of a row, not two. Which of
// the 16 of a matrix instruction they count as is free, if queries are taken in the same order. Of
// values it gets two of each of two rows, which belong to neighbouring columns of the output.
#pragma once
#include "attention.cuh"

#if CACHE_FP8
typedef u8 cached;
#define IN_CHUNK 16     // elements of 16 bytes
#define LANE_STEP 4     // from a lane's first element of a row to the next lane's
#define LANE_SECOND 2   // from a lane's first pair of elements of a row to its second
#else
typedef u16 cached;
#define IN_CHUNK 8
#define LANE_STEP 2
#define LANE_SECOND 8
#endif
#define CACHED_CHUNKS (HEAD_DIM / IN_CHUNK)
#define TILE_BYTES (KEYS * CACHED_CHUNKS * 16)

#if CACHE_FP8
#define ROWS_OF_BANKS (128 / HEAD_DIM)  // rows that lie in the 128 bytes of all banks

DEVICE int cached_place(int row, int chunk) {
  return row * HEAD_DIM + ((chunk ^ (row / ROWS_OF_BANKS % CACHED_CHUNKS)) << 4);
}

// Column of the output that entry i of a block of 8 columns belongs to.
DEVICE int output_column(int block, int i) {
  return block / 2 * 16 + (threadIdx.x & 3) * 4 + i * 2 + block % 2;
}

template <int Bands, int Keys, class LoadQuery>
DEVICE void score_cached(float (&score)[Bands][Keys / 8][4], const unsigned char* keys,
                         LoadQuery load_query) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int band = 0; band < Bands; band++)
#pragma unroll
    for (int block = 0; block < Keys / 8; block++)
#pragma unroll
      for (int i = 0; i < 4; i++) score[band][block][i] = 0.f;
#pragma unroll
  for (int chunk = 0; chunk < CACHED_CHUNKS; chunk += 2)
#pragma unroll
    for (int pair = 0; pair < Keys / 16; pair++) {
      const int row = pair * 16 + (lane & 7) + ((lane >> 4) << 3);
      u32 key[4];
      load_tiles(key, keys + cached_place(row, chunk + ((lane >> 3) & 1)));
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const u32 first[2] = {widen_e4m3(key[half]), widen_e4m3(key[half] >> 16)};
        const u32 second[2] = {widen_e4m3(key[half + 2]), widen_e4m3(key[half + 2] >> 16)};
#pragma unroll
        for (int band = 0; band < Bands; band++) {
          u32 query[4];
          load_query(band, chunk + half, query);
          multiply_add(score[band][2 * pair], query, first[0], first[1]);
          multiply_add(score[band][2 * pair + 1], query, second[0], second[1]);
        }
      }
    }
}

template <int Bands, int Keys>
DEVICE void add_cached(float (&output)[Bands][COLUMNS][4], const float (&weight)[Bands][Keys / 8][4],
                       const unsigned char* values) {
#pragma unroll
  for (int pair = 0; pair < Keys / 16; pair++) {
    u32 operand[Bands][4];
#pragma unroll
    for (int band = 0; band < Bands; band++)
      pack_weights(operand[band], weight[band][2 * pair], weight[band][2 * pair + 1]);
#pragma unroll
    for (int chunk = 0; chunk < CACHED_CHUNKS; chunk += 2) {
      u32 value[4];
      load_tiles_transposed(
          value, values + cached_place(pair * 16 + operand_row(), chunk + operand_chunk()));
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const u32 above = by_column(value[2 * half]), below = by_column(value[2 * half + 1]);
        const u32 even[2] = {widen_e4m3(above), widen_e4m3(below)};
        const u32 odd[2] = {widen_e4m3(above >> 16), widen_e4m3(below >> 16)};
#pragma unroll
        for (int band = 0; band < Bands; band++) {
          multiply_add(output[band][2 * (chunk + half)], operand[band], even[0], even[1]);
          multiply_add(output[band][2 * (chunk + half) + 1], operand[band], odd[0], odd[1]);
        }
      }
    }
  }
}
#else
DEVICE int cached_place(int row, int chunk) { return placed(row, chunk); }
DEVICE int output_column(int block, int i) { return block * 8 + (threadIdx.x & 3) * 2 + i; }

template <int Bands, int Keys, class LoadQuery>
DEVICE void score_cached(float (&score)[Bands][Keys / 8][4], const unsigned char* keys,
                         LoadQuery load_query) {
  score_keys<Bands, Keys>(score, keys, load_query);
}

template <int Bands, int Keys>
DEVICE void add_cached(float (&output)[Bands][COLUMNS][4], const float (&weight)[Bands][Keys / 8][4],
                       const unsigned char* values) {
  add_values<Bands, Keys>(output, weight, values);
}
#endif
