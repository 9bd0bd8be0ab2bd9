// The names of microbench/cuda/warpgroup.cuh on a CPU. Products are done as they are asked for, or
// when they are waited for, as the schedule says of copies (see device.cuh). Without the fences that
// a GPU needs the launch stops with a sentence.
#pragma once
#include <array>

#include "elements.cuh"

#define GROUP_THREADS 128
#define PANEL_BYTES 128

DEVICE int swizzled(int row, int chunk) { return row * PANEL_BYTES + ((chunk ^ (row & 7)) << 4); }

namespace emulator {
static constexpr u64 SHARED_BEGINS = 1024;

static Group& group() { return block->groups[block->current / GROUP_THREADS]; }

struct Operand {
  float (*sum)[4];
  const u32* a;  // null: in shared memory
  u64 at_a, at_b;
  int columns;
  bool more;
};
using Operands = std::array<Operand, GROUP_THREADS>;

// An element of an operand in shared memory, by the hardware's rules for 128-byte swizzles: summed
// along rows, or over them.
static float element_at(u64 at, int row, int along) {
  const u64 stride = ((at >> 32) & 0x3fff) << 4, leading = ((at >> 16) & 0x3fff) << 4;
  u64 address = ((at & 0x3fff) << 4) + row / 8 * stride + row % 8 * PANEL_BYTES + along % 64 * 2 +
                along / 64 * leading;
  if (at >> 62 != 1) stop("an operand that is not swizzled by 128 bytes");
  address ^= (address >> 7 & 7) << 4;
  const u64 offset = address - SHARED_BEGINS;
  if (offset + 2 > block->shared_bytes) stop("an operand outside shared memory");
  u16 found;
  memcpy(&found, block->shared + offset, 2);
  return widened(found);
}

static void multiply_group(const Operands& all) {
  const Operand& one = all[0];
  std::vector<float> b(16 * one.columns);
  for (int k = 0; k < 16; k++)
    for (int n = 0; n < one.columns; n++)
      b[k * one.columns + n] = one.a ? element_at(one.at_b, k, n) : element_at(one.at_b, n, k);
  for (int row = 0; row < 64; row++) {
    const int first = row / 16 * 32 + row % 8 * 4, below = row % 16 / 8;
    float a[16];
    for (int k = 0; k < 16; k++)
      a[k] = one.a ? widened_half(all[first + k % 8 / 2].a[below + k / 8 * 2], k % 2)
                   : element_at(one.at_a, row, k);
    for (int n = 0; n < one.columns; n++) {
      float sum = 0.f;
      for (int k = 0; k < 16; k++) sum += a[k] * b[k * one.columns + n];
      float& to = all[first + n % 8 / 2].sum[n / 8][below * 2 + n % 2];
      to = (one.more ? to : 0.f) + sum;
    }
  }
}

static void ask(Operand* const* threads) {
  Operands all;
  for (int i = 0; i < GROUP_THREADS; i++) all[i] = *threads[i];
  if (!group().begun) stop("products without a fence before them");
  if (block->unpublished) stop("products of what the tensor cores do not see yet");
  if (block->eager) multiply_group(all);
  group().open.push_back([all] { if (!block->eager) multiply_group(all); });
}
static void close(int* const*) {
  group().closed.push_back(std::move(group().open));
  group().open.clear();
}
static void begin_group(int* const*) { group().begun = true; }
static void vote(bool* const* threads) {
  bool any = false;
  for (int i = 0; i < GROUP_THREADS; i++) any = any || *threads[i];
  for (int i = 0; i < GROUP_THREADS; i++) *threads[i] = any;
}
static void wait_group(int* const* pending) {
  group().begun = false;
  while ((int)group().closed.size() > *pending[0]) {
    for (const auto& product : group().closed.front()) product();
    group().closed.erase(group().closed.begin());
  }
}
template <class Mine>
static void as_group(void (*operation)(Mine* const*), Mine mine) {
  together(group().team, GROUP_THREADS, operation, mine);
}
}  // namespace emulator

DEVICE bool any_of_group(bool what) {
  emulator::together(emulator::group().team, GROUP_THREADS, emulator::vote, what);
  return what;
}
DEVICE u64 operand_at(const unsigned char* tile, int leading) {
  const u64 address = tile - emulator::block->shared + emulator::SHARED_BEGINS;
  return address >> 4 | (u64)(leading >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
DEVICE void publish() { emulator::self().unpublished = false; }
DEVICE void begin_products() { emulator::as_group(emulator::begin_group, 0); }
DEVICE void close_products() { emulator::as_group(emulator::close, 0); }
template <class Registers>
DEVICE void pin(Registers&) {}
template <int Pending, int Blocks>
DEVICE void wait_products(float (&)[Blocks][4]) {
  emulator::as_group(emulator::wait_group, Pending);
}
DEVICE void multiply_rows(float (&sum)[16][4], u64 a, u64 b, int more) {
  emulator::as_group(emulator::ask, emulator::Operand{sum, nullptr, a, b, 128, more != 0});
}
template <int Blocks>
DEVICE void multiply_columns(float (&sum)[Blocks][4], const u32 (&a)[4], u64 b) {
  emulator::as_group(emulator::ask, emulator::Operand{sum, a, 0, b, Blocks * 8, true});
}
