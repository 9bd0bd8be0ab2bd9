// output = input / sqrt(mean(input^2) + epsilon) * weight, for rows of `width` elements.
// width is a multiple of 8 and at most THREADS * 8 * CHUNKS: a row is read once and stays in
// registers. grid (rows), THREADS threads
#include "elements.cuh"

#define CHUNKS 8  // of 16 bytes per thread

KERNEL(THREADS)
rms_norm(const u16* __restrict__ input, const u16* __restrict__ weight, u16* __restrict__ output,
         int width, float epsilon) {
  SHARED_MEMORY(shared);
  float* sums = (float*)shared;  // [THREADS / 32]
  const i64 row = blockIdx.x;
  const uint4* from = (const uint4*)(input + row * width);
  const uint4* weights = (const uint4*)weight;
  uint4* to = (uint4*)(output + row * width);
  uint4 kept[CHUNKS];
  float squares = 0.f;
#pragma unroll
  for (int i = 0; i < CHUNKS; i++) {
    const int chunk = i * THREADS + threadIdx.x;
    if (chunk < width / 8) {
      kept[i] = from[chunk];
      const u32 pairs[4] = {kept[i].x, kept[i].y, kept[i].z, kept[i].w};
#pragma unroll
      for (int j = 0; j < 4; j++)
        squares += low(pairs[j]) * low(pairs[j]) + high(pairs[j]) * high(pairs[j]);
    }
  }
  squares = warp_sum(squares);
  if ((threadIdx.x & 31) == 0) sums[threadIdx.x >> 5] = squares;
  __syncthreads();
  squares = 0.f;
#pragma unroll
  for (int i = 0; i < THREADS / 32; i++) squares += sums[i];
  const float scale = reciprocal_root(squares / width + epsilon);
  const auto scaled = [&](u32 pair, u32 by) {
    return pack(low(pair) * scale * low(by), high(pair) * scale * high(by));
  };
#pragma unroll
  for (int i = 0; i < CHUNKS; i++) {
    const int chunk = i * THREADS + threadIdx.x;
    if (chunk < width / 8) {
      const uint4 by = weights[chunk];
      uint4 out;
      out.x = scaled(kept[i].x, by.x);
      out.y = scaled(kept[i].y, by.y);
      out.z = scaled(kept[i].z, by.z);
      out.w = scaled(kept[i].w, by.w);
      to[chunk] = out;
    }
  }
}
