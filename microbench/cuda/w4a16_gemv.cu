// output[m, n] = sum over k of input[m, k] * (weight[n, k] - zero[n, g]) * scale[n, g] for a few rows
// m: 4-bit weights in groups of GROUP along k, each group with a scale and a zero point.
//
// weight       [outputs, depth / 8] words, eight weights each, the first in the lowest bits
// scale, zero  [outputs, depth / GROUP]; zero points are whole numbers
// input [ROWS, depth], output [ROWS, outputs]; depth is a multiple of GROUP
// grid (parts of the outputs), WARPS * 32 threads; a warp computes OUTPUTS outputs
//
// Given by the loader: ROWS, GROUP, WARPS, OUTPUTS. Several outputs per warp read the input once.
#include "elements.cuh"

#define EXPONENT 0x4B000000u  // of a float whose last bit counts one: 2^23
#define INTEGERS 8388608.f    // 2^23

// Weight I of a word times 16^(I % 5), exactly, without a conversion: its bits become the mantissa
// of a float where they stand. Five weights fit into a mantissa, the others are shifted down.
template <int I>
DEVICE float raised(u32 word) {
  constexpr int place = I % 5;
  const u32 mantissa = (I < 5 ? word : word >> 20) & (15u << (4 * place));
  return bits_as_float(mantissa | EXPONENT) - INTEGERS;
}

DEVICE void widen_pairs(float (&x)[8], const uint4& v) {
  const u32 pairs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    x[2 * i] = low(pairs[i]);
    x[2 * i + 1] = high(pairs[i]);
  }
}

KERNEL(WARPS * 32)
w4a16_gemv(const uint4* __restrict__ weight, const u16* __restrict__ scale,
           const u16* __restrict__ zero, const u16* __restrict__ input, u16* __restrict__ output,
           int outputs, int depth) {
  const int lane = threadIdx.x & 31;
  const int first = (blockIdx.x * WARPS + (threadIdx.x >> 5)) * OUTPUTS;
  const int groups = depth / GROUP, chunks = depth / 32;  // a chunk: 32 weights, 16 bytes
  if (first >= outputs) return;
  float sum[ROWS][OUTPUTS];
#pragma unroll
  for (int m = 0; m < ROWS; m++)
#pragma unroll
    for (int n = 0; n < OUTPUTS; n++) sum[m][n] = 0.f;

  for (int chunk = lane; chunk < chunks; chunk += 32) {
    u32 words[OUTPUTS][4];
    float scales[OUTPUTS], zeros[OUTPUTS];
#pragma unroll
    for (int n = 0; n < OUTPUTS; n++) {
      const i64 row = smaller(first + n, outputs - 1);
      const uint4 v = load_once(weight + row * chunks + chunk);
      words[n][0] = v.x;
      words[n][1] = v.y;
      words[n][2] = v.z;
      words[n][3] = v.w;
      scales[n] = widen(scale[row * groups + chunk * 32 / GROUP]);
      zeros[n] = widen(zero[row * groups + chunk * 32 / GROUP]);
    }
#pragma unroll
    for (int m = 0; m < ROWS; m++) {
      float dot[OUTPUTS], inputs = 0.f;
#pragma unroll
      for (int n = 0; n < OUTPUTS; n++) dot[n] = 0.f;
#pragma unroll
      for (int j = 0; j < 4; j++) {
        float x[8];
        widen_pairs(x, ((const uint4*)(input + (i64)m * depth))[chunk * 4 + j]);
#pragma unroll
        for (int i = 0; i < 8; i++) inputs += x[i];
        // What `raised` multiplied by is taken from the input, once for all outputs.
        const float p1 = 1.f / 16, p2 = p1 / 16, p3 = p2 / 16, p4 = p3 / 16;
        x[1] *= p1;
        x[2] *= p2;
        x[3] *= p3;
        x[4] *= p4;
        x[6] *= p1;
        x[7] *= p2;
#pragma unroll
        for (int n = 0; n < OUTPUTS; n++) {
          const u32 word = words[n][j];
          dot[n] += x[0] * raised<0>(word) + x[1] * raised<1>(word) + x[2] * raised<2>(word) +
                    x[3] * raised<3>(word) + x[4] * raised<4>(word) + x[5] * raised<5>(word) +
                    x[6] * raised<6>(word) + x[7] * raised<7>(word);
        }
      }
#pragma unroll
      for (int n = 0; n < OUTPUTS; n++) sum[m][n] += (dot[n] - zeros[n] * inputs) * scales[n];
    }
  }
#pragma unroll
  for (int m = 0; m < ROWS; m++)
#pragma unroll
    for (int n = 0; n < OUTPUTS; n++) {
      const float value = warp_sum(sum[m][n]);
      if (lane == 0 && first + n < outputs) output[(i64)m * outputs + first + n] = narrow(value);
    }
}
