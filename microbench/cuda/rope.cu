// Rotary position embedding in place: element i of a head turns with element i + half.
//
// heads      [tokens, head_count, HEAD_DIM]: queries and keys, one after the other
// cos_sin    [positions, 2, HEAD_DIM / 2]: cosines, then sines
// positions  [tokens]
// grid (tokens, parts of a token), THREADS threads of 8 pairs each
#include "elements.cuh"

#define HALF (HEAD_DIM / 2)
#define HEAD_THREADS (HALF / 8)

KERNEL(THREADS)
rope(u16* __restrict__ heads, const u16* __restrict__ cos_sin, const int* __restrict__ positions,
     int head_count) {
  const int index = blockIdx.y * THREADS + threadIdx.x;
  const int head = index / HEAD_THREADS, chunk = index % HEAD_THREADS;
  const i64 token = blockIdx.x;
  if (head >= head_count) return;
  const uint4* turn = (const uint4*)(cos_sin + (i64)positions[token] * HEAD_DIM);
  uint4* first = (uint4*)(heads + (token * head_count + head) * HEAD_DIM) + chunk;
  uint4* second = first + HEAD_THREADS;
  const uint4 a = *first, b = *second, c = turn[chunk], s = turn[HEAD_THREADS + chunk];
  const auto turned = [](u32 x, u32 y, u32 by_x, u32 by_y, float sign) {
    return pack(low(x) * low(by_x) + sign * low(y) * low(by_y),
                high(x) * high(by_x) + sign * high(y) * high(by_y));
  };
  uint4 out;
  out.x = turned(a.x, b.x, c.x, s.x, -1.f);
  out.y = turned(a.y, b.y, c.y, s.y, -1.f);
  out.z = turned(a.z, b.z, c.z, s.z, -1.f);
  out.w = turned(a.w, b.w, c.w, s.w, -1.f);
  *first = out;
  out.x = turned(b.x, a.x, c.x, s.x, 1.f);
  out.y = turned(b.y, a.y, c.y, s.y, 1.f);
  out.z = turned(b.z, a.z, c.z, s.z, 1.f);
  out.w = turned(b.w, a.w, c.w, s.w, 1.f);
  *second = out;
}
