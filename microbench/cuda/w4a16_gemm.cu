// output[m, n] = sum over k of input[m, k] * (weight[n, k] - zero[g, n]) * scale[g, n] for up to
// 8 * COLUMNS rows m: 4-bit weights in groups g of 128 along k, each with a scale and a zero point.
//
// weight       [outputs, depth / 8] words. Of the sixteen words of a group, word 4 * q + w has the
//              weights k = 32 * w + 8 * q + 0 … 7: even ones in its low four nibbles, odd ones in its
//              high four, so that neighbours are 16 bits apart
// scale, zero  [depth / 128, outputs]; zero points are whole numbers from 0 to 15
// input [rows, depth], output [rows, outputs]; depth is a multiple of 128,
// outputs one of 16 * TILES
// grid (parts of the outputs), WARPS * 32 threads
//
// Bound by memory: a block takes 16 * TILES outputs, and each of its warps every WARPS-th group of
// them, so that a row of weights is read in one piece by all warps. Weights are copied STAGES - 1
// groups ahead. Each thread reads back what it copied itself: nobody waits for others before the sums.
// The weights, widened, are the left operand of the tensor cores, the input is the right one.
//
// Given by the loader: TILES, COLUMNS, STAGES, WARPS.
#include "elements.cuh"

#define LANE_BYTES (TILES * 2 * 16)  // of a lane in a stage: two rows of each tile
#define WARP_BYTES (STAGES * 32 * LANE_BYTES)
#define OUTPUTS (16 * TILES)
#define ROWS (8 * COLUMNS)

#if ELEMENT_FP16
#define EXPONENTS 0x64006400u  // of 1024, whose last bit counts one
#define OFFSET 1024.f
#else
#define EXPONENTS 0x43004300u  // of 128
#define OFFSET 128.f
#endif

// Two weights of a word, and the offset: their bits become the mantissas where they stand.
template <int Place>
DEVICE u32 raised(u32 word) {
  return (word >> (4 * Place) & 0x000f000fu) | EXPONENTS;
}

DEVICE u32 twice(float value) { return pack(value, value); }

KERNEL(WARPS * 32, 2)
w4a16_gemm(const uint4* __restrict__ weight, const u16* __restrict__ scale,
           const u16* __restrict__ zero, const u16* __restrict__ input, u16* __restrict__ output,
           int rows, int outputs, int depth) {
  SHARED_MEMORY(memory);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int row = lane >> 2, quarter = lane & 3;
  const int first = blockIdx.x * OUTPUTS;
  const int groups = depth / 128;
  const int turns = warp < groups ? (groups - warp + WARPS - 1) / WARPS : 0;
  const uint4* const weights = weight + ((i64)(first + row) * groups + warp) * 4 + quarter;
  unsigned char* const mine = memory + warp * WARP_BYTES + lane * 16;

  const auto place = [&](int turn, int tile, int half) {
    return mine + ((turn % STAGES * TILES + tile) * 2 + half) * 512;
  };
  const auto fetch = [&](int turn) {
    if (turn < turns) {
#pragma unroll
      for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int half = 0; half < 2; half++)
          copy_async(place(turn, tile, half),
                     weights + ((i64)(16 * tile + 8 * half) * groups + turn * WARPS) * 4, true);
    }
    close_copies();
  };

  float sum[TILES][COLUMNS][4];
#pragma unroll
  for (int tile = 0; tile < TILES; tile++)
#pragma unroll
    for (int column = 0; column < COLUMNS; column++)
#pragma unroll
      for (int i = 0; i < 4; i++) sum[tile][column][i] = 0.f;

#pragma unroll
  for (int turn = 0; turn < STAGES - 1; turn++) fetch(turn);
  for (int turn = 0; turn < turns; turn++) {
    const int group = warp + turn * WARPS;
    fetch(turn + STAGES - 1);
    uint4 values[COLUMNS][4];
#pragma unroll
    for (int column = 0; column < COLUMNS; column++) {
      const i64 token = smaller(8 * column + row, rows - 1);
      const uint4* from = (const uint4*)(input + token * depth + group * 128) + quarter;
#pragma unroll
      for (int word = 0; word < 4; word++) values[column][word] = from[4 * word];
    }
    float scales[TILES][2];
    u32 zeros[TILES][2];
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const i64 at = (i64)group * outputs + first + 16 * tile + 8 * half + row;
        scales[tile][half] = widen(scale[at]);
        zeros[tile][half] = twice(-OFFSET - widen(zero[at]));
      }
    wait_copies<STAGES - 1>();
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
      const uint4 upper = own_copy(place(turn, tile, 0)), lower = own_copy(place(turn, tile, 1));
      const u32 words[2][4] = {{upper.x, upper.y, upper.z, upper.w},
                               {lower.x, lower.y, lower.z, lower.w}};
      float part[COLUMNS][4];
#pragma unroll
      for (int column = 0; column < COLUMNS; column++)
#pragma unroll
        for (int i = 0; i < 4; i++) part[column][i] = 0.f;
#pragma unroll
      for (int word = 0; word < 4; word++) {
        u32 early[4], late[4];
#pragma unroll
        for (int half = 0; half < 2; half++) {
          const u32 packed = words[half][word], less = zeros[tile][half];
          early[half] = add_pairs(raised<0>(packed), less);
          early[2 + half] = add_pairs(raised<1>(packed), less);
          late[half] = add_pairs(raised<2>(packed), less);
          late[2 + half] = add_pairs(raised<3>(packed), less);
        }
#pragma unroll
        for (int column = 0; column < COLUMNS; column++) {
          const uint4 v = values[column][word];
          multiply_add(part[column], early, v.x, v.y);
          multiply_add(part[column], late, v.z, v.w);
        }
      }
#pragma unroll
      for (int column = 0; column < COLUMNS; column++)
#pragma unroll
        for (int i = 0; i < 4; i++) sum[tile][column][i] += part[column][i] * scales[tile][i >> 1];
    }
  }
  wait_copies<0>();

  // Sums of the warps: [warp][token][output], where the weights were.
  float* const sums = (float*)memory;
  __syncthreads();
#pragma unroll
  for (int tile = 0; tile < TILES; tile++)
#pragma unroll
    for (int column = 0; column < COLUMNS; column++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int token = 8 * column + 2 * quarter + (i & 1), at = 16 * tile + 8 * (i >> 1) + row;
        sums[(warp * ROWS + token) * OUTPUTS + at] = sum[tile][column][i];
      }
  __syncthreads();
  for (int i = threadIdx.x; i < rows * OUTPUTS; i += WARPS * 32) {
    float total = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) total += sums[w * ROWS * OUTPUTS + i];
    output[(i64)(i / OUTPUTS) * outputs + first + i % OUTPUTS] = narrow(total);
  }
}
