// Pairs of elements and sums over lanes, in terms of device.cuh.
#pragma once
#include "device.cuh"

DEVICE float low(u32 pair) { return widen((u16)(pair & 0xffffu)); }
DEVICE float high(u32 pair) { return widen((u16)(pair >> 16)); }
DEVICE u16 narrow(float value) { return (u16)(pack(value, 0.f) & 0xffffu); }
DEVICE int smaller(int a, int b) { return a < b ? a : b; }

DEVICE float warp_sum(float value) {
#pragma unroll
  for (int mask = 16; mask; mask >>= 1) value += exchange(value, mask);
  return value;
}
DEVICE float warp_maximum(float value) {
#pragma unroll
  for (int mask = 16; mask; mask >>= 1) value = larger(value, exchange(value, mask));
  return value;
}
