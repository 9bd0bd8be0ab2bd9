// Passes over rows of `width` elements, a multiple of 8. grid (rows, parts of a row), THREADS threads
// of 8 elements each
#include "elements.cuh"

DEVICE u32 sum(u32 a, u32 b) { return pack(low(a) + low(b), high(a) + high(b)); }

// output = residual + update
KERNEL(THREADS)
add_rows(const u16* __restrict__ residual, const u16* __restrict__ update,
         u16* __restrict__ output, int width) {
  const int chunk = blockIdx.y * THREADS + threadIdx.x, chunks = width / 8;
  const i64 at = (i64)blockIdx.x * chunks + chunk;
  if (chunk >= chunks) return;
  const uint4 a = ((const uint4*)residual)[at], b = ((const uint4*)update)[at];
  uint4 out;
  out.x = sum(a.x, b.x);
  out.y = sum(a.y, b.y);
  out.z = sum(a.z, b.z);
  out.w = sum(a.w, b.w);
  ((uint4*)output)[at] = out;
}

// output = table[tokens], the rows of an embedding
KERNEL(THREADS)
take_rows(const u16* __restrict__ table, const int* __restrict__ tokens, u16* __restrict__ output,
          int width) {
  const int chunk = blockIdx.y * THREADS + threadIdx.x, chunks = width / 8;
  const i64 row = blockIdx.x;
  if (chunk >= chunks) return;
  ((uint4*)output)[row * chunks + chunk] =
      ((const uint4*)table)[(i64)tokens[row] * chunks + chunk];
}
