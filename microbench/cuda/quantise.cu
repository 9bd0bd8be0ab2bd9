// Rows of 16-bit elements as 8-bit ones, and a scale for each row: e4m3, or whole numbers where
// WHOLE is 1. output = input / scale, of which the largest magnitude is LARGEST.
// width is a multiple of 8 and at most THREADS * 8 * CHUNKS: a row is read once and stays in
// registers. grid (rows), THREADS threads
//
// With a scale for each 128 of a row instead: scales [width / 128, stride], those of neighbouring
// rows side by side. grid (rows, parts of a row), THREADS threads, 16 for each block
#include "elements.cuh"

#define CHUNKS 8  // of 16 bytes per thread
#define SMALLEST 1e-12f

DEVICE u32 four(float a, float b, float c, float d) {
#if WHOLE
  return (nearest(a) & 255u) | (nearest(b) & 255u) << 8 | (nearest(c) & 255u) << 16 |
         (u32)nearest(d) << 24;
#else
  return pack_e4m3(a, b) | pack_e4m3(c, d) << 16;
#endif
}

KERNEL(THREADS)
quantise(const u16* __restrict__ input, u8* __restrict__ output, float* __restrict__ scales,
         int width) {
  SHARED_MEMORY(shared);
  float* parts = (float*)shared;  // [THREADS / 32]
  const i64 row = blockIdx.x;
  const uint4* from = (const uint4*)(input + row * width);
  uint2* to = (uint2*)(output + row * width);
  uint4 kept[CHUNKS];
  float largest = 0.f;
#pragma unroll
  for (int i = 0; i < CHUNKS; i++) {
    const int chunk = i * THREADS + threadIdx.x;
    if (chunk < width / 8) {
      kept[i] = from[chunk];
      const u32 pairs[4] = {kept[i].x, kept[i].y, kept[i].z, kept[i].w};
#pragma unroll
      for (int j = 0; j < 4; j++)
        largest = larger(largest, larger(magnitude(low(pairs[j])), magnitude(high(pairs[j]))));
    }
  }
  largest = warp_maximum(largest);
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = largest;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < THREADS / 32; i++) largest = larger(largest, parts[i]);
  const float scale = larger(largest, SMALLEST) / LARGEST, by = 1.f / scale;
  if (threadIdx.x == 0) scales[row] = scale;
#pragma unroll
  for (int i = 0; i < CHUNKS; i++) {
    const int chunk = i * THREADS + threadIdx.x;
    if (chunk < width / 8) {
      const uint4 v = kept[i];
      uint2 out;
      out.x = four(low(v.x) * by, high(v.x) * by, low(v.y) * by, high(v.y) * by);
      out.y = four(low(v.z) * by, high(v.z) * by, low(v.w) * by, high(v.w) * by);
      to[chunk] = out;
    }
  }
}

KERNEL(THREADS)
quantise_blocks(const u16* __restrict__ input, u8* __restrict__ output,
                float* __restrict__ scales, int width, int stride) {
  const int chunk = blockIdx.y * THREADS + threadIdx.x;
  const bool real = chunk < width / 8;
  const i64 row = blockIdx.x;
  uint4 v = {0, 0, 0, 0};
  if (real) v = ((const uint4*)(input + row * width))[chunk];
  const u32 pairs[4] = {v.x, v.y, v.z, v.w};
  float largest = 0.f;
#pragma unroll
  for (int i = 0; i < 4; i++)
    largest = larger(largest, larger(magnitude(low(pairs[i])), magnitude(high(pairs[i]))));
#pragma unroll
  for (int mask = 8; mask; mask >>= 1) largest = larger(largest, exchange(largest, mask));
  if (!real) return;
  const float scale = larger(largest, SMALLEST) / LARGEST, by = 1.f / scale;
  if (chunk % 16 == 0) scales[(i64)(chunk / 16) * stride + row] = scale;
  uint2 out;
  out.x = four(low(v.x) * by, high(v.x) * by, low(v.y) * by, high(v.y) * by);
  out.y = four(low(v.z) * by, high(v.z) * by, low(v.w) * by, high(v.w) * by);
  ((uint2*)(output + row * width))[chunk] = out;
}
