// Softmax of rows of fp32 logits, as a sampler takes it over a vocabulary. A row is too long for a
// multiprocessor: it is read twice, the second time from L2 where the rows under way fit there.
// width is a multiple of 4. grid (rows), THREADS threads
#include "elements.cuh"

#define LOG2_E 1.44269504f

struct Sum {
  float largest;  // in units of log2
  float total;    // of exp2(x - largest)
};

DEVICE Sum joined(Sum a, Sum b) {
  const float largest = larger(a.largest, b.largest);
  const float base = largest == -INFINITE ? 0.f : largest;
  return {largest, a.total * exp2_fast(a.largest - base) + b.total * exp2_fast(b.largest - base)};
}

KERNEL(THREADS)
softmax(const float* __restrict__ input, float* __restrict__ output, int width) {
  SHARED_MEMORY(shared);
  Sum* sums = (Sum*)shared;  // [THREADS / 32]
  const i64 row = blockIdx.x;
  const uint4* from = (const uint4*)(input + row * width);
  uint4* to = (uint4*)(output + row * width);
  Sum sum = {-INFINITE, 0.f};
  for (int chunk = threadIdx.x; chunk < width / 4; chunk += THREADS) {
    const uint4 v = from[chunk];
    const float x[4] = {bits_as_float(v.x) * LOG2_E, bits_as_float(v.y) * LOG2_E,
                        bits_as_float(v.z) * LOG2_E, bits_as_float(v.w) * LOG2_E};
    const float largest = larger(larger(x[0], x[1]), larger(x[2], x[3]));
    const float base = largest == -INFINITE ? 0.f : largest;
    float total = 0.f;
#pragma unroll
    for (int i = 0; i < 4; i++) total += exp2_fast(x[i] - base);
    sum = joined(sum, {largest, total});
  }
#pragma unroll
  for (int mask = 16; mask; mask >>= 1)
    sum = joined(sum, {exchange(sum.largest, mask), exchange(sum.total, mask)});
  if ((threadIdx.x & 31) == 0) sums[threadIdx.x >> 5] = sum;
  __syncthreads();
  sum = sums[0];
#pragma unroll
  for (int i = 1; i < THREADS / 32; i++) sum = joined(sum, sums[i]);
  const float share = 1.f / sum.total;
  const auto weight = [&](u32 bits) {
    return float_as_bits(exp2_fast(bits_as_float(bits) * LOG2_E - sum.largest) * share);
  };
  for (int chunk = threadIdx.x; chunk < width / 4; chunk += THREADS) {
    const uint4 v = from[chunk];
    uint4 out;
    out.x = weight(v.x);
    out.y = weight(v.y);
    out.z = weight(v.z);
    out.w = weight(v.w);
    to[chunk] = out;
  }
}
