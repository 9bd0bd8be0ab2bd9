// What memory gives and what a launch costs: read, copy, and nothing at all.
// Blocks walk over the array together, UNROLL loads of 16 bytes per thread under way.
#include "elements.cuh"

#define UNROLL 4

KERNEL(32)
nothing() {}

KERNEL(THREADS)
read_stream(const uint4* __restrict__ input, u32* __restrict__ sink, i64 chunks) {
  const i64 stride = (i64)gridDim.x * THREADS;
  i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
  u32 parity = 0;
  for (; i + (UNROLL - 1) * stride < chunks; i += UNROLL * stride) {
    uint4 v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) v[u] = load_once(input + i + u * stride);
#pragma unroll
    for (int u = 0; u < UNROLL; u++) parity ^= v[u].x ^ v[u].y ^ v[u].z ^ v[u].w;
  }
  for (; i < chunks; i += stride) {
    const uint4 v = load_once(input + i);
    parity ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  // Depends on all that was read and is hardly ever true: nothing can be left out.
  if (parity == 0x12345678u) sink[0] = parity;
}

KERNEL(THREADS)
copy_stream(const uint4* __restrict__ input, uint4* __restrict__ output, i64 chunks) {
  const i64 stride = (i64)gridDim.x * THREADS;
  i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
  for (; i + (UNROLL - 1) * stride < chunks; i += UNROLL * stride) {
    uint4 v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) v[u] = load_once(input + i + u * stride);
#pragma unroll
    for (int u = 0; u < UNROLL; u++) output[i + u * stride] = v[u];
  }
  for (; i < chunks; i += stride) output[i] = load_once(input + i);
}
