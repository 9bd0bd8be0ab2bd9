// output = silu(gate) * up of a gated feed-forward layer; input [rows, 2, width] holds gate and up,
// width is a multiple of 8. grid (rows, parts of a row), THREADS threads of 8 elements each
#include "elements.cuh"

#define MINUS_LOG2_E -1.44269504f

DEVICE float silu(float x) { return x / (1.f + exp2_fast(MINUS_LOG2_E * x)); }
DEVICE u32 gated(u32 gate, u32 up) {
  return pack(silu(low(gate)) * low(up), silu(high(gate)) * high(up));
}

KERNEL(THREADS)
silu_mul(const u16* __restrict__ input, u16* __restrict__ output, int width) {
  const int chunk = blockIdx.y * THREADS + threadIdx.x, chunks = width / 8;
  const i64 row = blockIdx.x;
  if (chunk >= chunks) return;
  const uint4* from = (const uint4*)input + row * 2 * chunks;
  const uint4 gate = from[chunk], up = from[chunks + chunk];
  uint4 out;
  out.x = gated(gate.x, up.x);
  out.y = gated(gate.y, up.y);
  out.z = gated(gate.z, up.z);
  out.w = gated(gate.w, up.w);
  ((uint4*)output)[row * chunks + chunk] = out;
}
