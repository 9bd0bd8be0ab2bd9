// The names of microbench/cuda/device.cuh on a CPU, so that a host compiler builds and runs the
// same kernels. Every CUDA thread is a fiber; a fiber runs until it waits for others, so that one
// warp is as far ahead of the rest as barriers allow. What a GPU leaves open is taken to its ends by
// the schedule:
//
// bit 0: the last warp, and of a warp the last lane, runs first
// bit 1: asynchronous copies land as they are asked for; else at the first barrier after the wait
//
// Shared memory starts as NaN. Copies outside the arrays and operations that lanes of a warp do not
// reach together stop the launch with a sentence.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef long long i64;
typedef unsigned long long u64;
#define DEVICE static inline
#define KERNEL(...) static void
#define SHARED_MEMORY(name) unsigned char* name = emulator::block->shared
#define INFINITE std::numeric_limits<float>::infinity()

struct Index {
  unsigned x = 1, y = 1, z = 1;
};
struct alignas(16) uint4 {
  u32 x, y, z, w;
};
struct alignas(8) uint2 {
  u32 x, y;
};

namespace emulator {

struct Region {
  const unsigned char* first;
  size_t bytes;
};
struct Copy {
  void* to;
  const void* from;
  bool wanted;
};
struct Barrier {
  unsigned arrived = 0, generation = 0;
};
struct Fiber {
  ucontext_t entry;
  jmp_buf resume;
  std::unique_ptr<char[]> stack;
  bool started = false, done = false;
  const Barrier* waits_for = nullptr;
  unsigned waits_since = 0;
  std::vector<std::vector<Copy>> closed;
  std::vector<Copy> open, landed;
  bool unpublished = false;  // copies waited for since `publish`
  Index thread{0, 0, 0};
  bool runnable() const {
    return !done && (waits_for == nullptr || waits_for->generation != waits_since);
  }
};
// Threads that act together: a warp of 32, or a warpgroup of 128.
struct Team {
  Barrier barrier;
  const void* operation = nullptr;
  void* operand[128];
};
struct Group {
  Team team;
  std::vector<std::vector<std::function<void()>>> closed;  // products under way
  std::vector<std::function<void()>> open;
  bool begun = false;
};
struct Block {
  std::vector<Fiber> fibers;
  std::vector<Team> warps;
  std::vector<Group> groups;
  bool unpublished = false;  // at the last barrier
  Barrier barrier;
  std::vector<Region> regions;
  std::unique_ptr<unsigned char[]> storage;
  unsigned char* shared = nullptr;
  size_t shared_bytes = 0;
  Index index, grid, size;
  unsigned current = 0;
  bool eager = false;
  const char* error = nullptr;
  jmp_buf scheduler;
  void (*body)(void*) = nullptr;
  void* context = nullptr;
};
static Block* block;

static Fiber& self() { return block->fibers[block->current]; }

static __attribute__((noinline)) void leave() {
  if (_setjmp(self().resume) == 0) _longjmp(block->scheduler, 1);
}
[[noreturn]] static void stop(const char* error) {
  if (block->error == nullptr) block->error = error;
  _longjmp(block->scheduler, 1);
}

static void perform(const Copy& copy) {
  if (copy.wanted)
    memcpy(copy.to, copy.from, 16);
  else
    memset(copy.to, 0, 16);
}
static void land() {
  for (const Copy& copy : self().landed)
    if (!block->eager) perform(copy);
  self().landed.clear();
}

// True for the last of `count` fibers to arrive; the others return when it has called `release`.
static bool arrive(Barrier& barrier, unsigned count) {
  if (++barrier.arrived == count) return true;
  self().waits_since = barrier.generation;
  self().waits_for = &barrier;
  leave();
  self().waits_for = nullptr;
  return false;
}
static void release(Barrier& barrier) {
  barrier.arrived = 0;
  barrier.generation++;
}

// The last thread to arrive does the work of the whole team, on the operands that each brought.
template <class Operand>
static void together(Team& all, unsigned threads, void (*operation)(Operand* const*),
                     Operand& mine) {
  if (all.barrier.arrived == 0) all.operation = (const void*)operation;
  if (all.operation != (const void*)operation) stop("threads of a team are at different operations");
  all.operand[block->current % threads] = &mine;
  if (arrive(all.barrier, threads)) {
    operation((Operand* const*)all.operand);
    release(all.barrier);
  }
}
template <class Operand>
static void together(void (*operation)(Operand* const*), Operand& mine) {
  together(block->warps[block->current / 32], 32, operation, mine);
}

static void check_shared(const void* address) {
  const auto* at = (const unsigned char*)address;
  if (at < block->shared || at + 16 > block->shared + block->shared_bytes)
    stop("an access outside shared memory");
  if ((uintptr_t)at % 16) stop("a misaligned access to shared memory");
}
static void check_global(const void* address) {
  const auto* at = (const unsigned char*)address;
  if ((uintptr_t)at % 16) stop("a misaligned access to global memory");
  for (const Region& region : block->regions)
    if (at >= region.first && at + 16 <= region.first + region.bytes) return;
  stop("an access outside every array");
}

static float widened(u16 element) {
#if ELEMENT_FP16
  _Float16 value;
  memcpy(&value, &element, 2);
  return (float)value;
#else
  const u32 bits = (u32)element << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
#endif
}
static u16 narrowed(float value) {
  u16 element;
#if ELEMENT_FP16
  const _Float16 rounded = (_Float16)value;
  memcpy(&element, &rounded, 2);
#else
  u32 bits;
  memcpy(&bits, &value, 4);
  element = std::isnan(value) ? 0x7fff : (u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
#endif
  return element;
}
static float widened_half(u32 word, int half) { return widened((u16)(word >> (16 * half))); }

static void begin() {
  block->body(block->context);
  Fiber& fiber = self();
  for (const auto& group : fiber.closed)
    if (!group.empty()) stop("copies under way when the kernel ends");
  if (!fiber.open.empty()) stop("copies under way when the kernel ends");
  fiber.done = true;
  _longjmp(block->scheduler, 1);
}

static void resume(unsigned fiber) {
  block->current = fiber;
  if (_setjmp(block->scheduler) == 0) {
    if (self().started) _longjmp(self().resume, 1);
    self().started = true;
    setcontext(&self().entry);
  }
}

static void prepare(Fiber& fiber, unsigned thread) {
  constexpr size_t bytes = 256 << 10;
  if (!fiber.stack) fiber.stack.reset(new char[bytes]);
  fiber.started = fiber.done = false;
  fiber.waits_for = nullptr;
  fiber.closed.clear();
  fiber.open.clear();
  fiber.landed.clear();
  fiber.unpublished = false;
  fiber.thread = {thread, 0, 0};
  getcontext(&fiber.entry);
  fiber.entry.uc_stack.ss_sp = fiber.stack.get();
  fiber.entry.uc_stack.ss_size = bytes;
  fiber.entry.uc_link = nullptr;
  makecontext(&fiber.entry, begin, 0);
}

static void run_block(bool backwards) {
  const unsigned threads = block->size.x, warps = (threads + 31) / 32;
  memset(block->shared, 0xff, block->shared_bytes);
  block->barrier = Barrier();
  block->warps.assign(warps, Team());
  block->groups.assign((warps + 3) / 4, Group());
  block->unpublished = false;
  for (unsigned i = 0; i < threads; i++) prepare(block->fibers[i], i);
  for (bool progress = true; progress;) {
    progress = false;
    for (unsigned w = 0; w < warps; w++)
      for (bool ran = true; ran;) {
        ran = false;
        for (unsigned l = 0; l < 32; l++) {
          const unsigned i = backwards ? threads - 1 - w * 32 - l : w * 32 + l;
          if (i >= threads || !block->fibers[i].runnable()) continue;
          resume(i);
          if (block->error) return;
          progress = ran = true;
        }
      }
  }
  for (const Fiber& fiber : block->fibers)
    if (!fiber.done) block->error = "threads wait for others that never come";
  for (const Group& group : block->groups)
    if (!group.open.empty() || !group.closed.empty())
      block->error = "products under way when the kernel ends";
}

// Runs a grid; a sentence where it went wrong, else null.
static const char* launch(const unsigned* grid, unsigned threads, size_t shared_bytes, int schedule,
                          const Region* regions, unsigned region_count, void (*body)(void*),
                          void* context) {
  Block state;
  block = &state;
  state.grid = {grid[0], grid[1], grid[2]};
  state.size = {threads, 1, 1};
  state.fibers.resize(threads);
  state.regions.assign(regions, regions + region_count);
  state.storage.reset(new unsigned char[shared_bytes + 1024]);
  state.shared = (unsigned char*)(((uintptr_t)state.storage.get() + 1023) & ~(uintptr_t)1023);
  state.shared_bytes = shared_bytes;
  state.eager = schedule & 2;
  state.body = body;
  state.context = context;
  for (unsigned z = 0; z < grid[2]; z++)
    for (unsigned y = 0; y < grid[1]; y++)
      for (unsigned x = 0; x < grid[0]; x++) {
        state.index = {x, y, z};
        run_block(schedule & 1);
        if (state.error) return state.error;
      }
  return nullptr;
}

// A kernel with its arguments as the CUDA driver takes them: an array of pointers to each.
template <class Kernel>
struct Call;
template <class... Arguments>
struct Call<void (*)(Arguments...)> {
  void (*kernel)(Arguments...);
  void** arguments;
  template <size_t... I>
  void apply(std::index_sequence<I...>) {
    kernel(*(std::remove_reference_t<Arguments>*)arguments[I]...);
  }
  static void body(void* self) {
    ((Call*)self)->apply(std::index_sequence_for<Arguments...>{});
  }
};

}  // namespace emulator

#define EXPORT(name)                                                                             \
  extern "C" const char* launch_##name(const unsigned* grid, unsigned threads, size_t shared,    \
                                       int schedule, const emulator::Region* regions,            \
                                       unsigned count, void** arguments) {                       \
    emulator::Call<decltype(&name)> call{&name, arguments};                                      \
    return emulator::launch(grid, threads, shared, schedule, regions, count, call.body, &call);  \
  }

#define threadIdx (emulator::self().thread)
#define blockIdx (emulator::block->index)
#define blockDim (emulator::block->size)
#define gridDim (emulator::block->grid)

DEVICE void __syncthreads() {
  emulator::land();
  if (emulator::block->barrier.arrived == 0) emulator::block->unpublished = false;
  if (emulator::self().unpublished) emulator::block->unpublished = true;
  if (emulator::arrive(emulator::block->barrier, emulator::block->size.x))
    emulator::release(emulator::block->barrier);
}
DEVICE void __syncwarp() {
  emulator::land();
  int nothing = 0;
  emulator::together<int>([](int* const*) {}, nothing);
}

DEVICE void copy_async(void* shared, const void* global, bool wanted) {
  emulator::check_shared(shared);
  if (wanted) emulator::check_global(global);
  const emulator::Copy copy{shared, global, wanted};
  if (emulator::block->eager) emulator::perform(copy);
  emulator::self().open.push_back(copy);
}
DEVICE void close_copies() {
  emulator::self().closed.push_back(std::move(emulator::self().open));
  emulator::self().open.clear();
}
template <int Pending>
DEVICE void wait_copies() {
  auto& closed = emulator::self().closed;
  auto& landed = emulator::self().landed;
  while ((int)closed.size() > Pending) {
    if (!closed.front().empty()) emulator::self().unpublished = true;
    landed.insert(landed.end(), closed.front().begin(), closed.front().end());
    closed.erase(closed.begin());
  }
}

DEVICE uint4 own_copy(const void* shared) {
  emulator::check_shared(shared);
  emulator::land();
  return *(const uint4*)shared;
}

namespace emulator {
struct Tiles {
  const void* row;
  u32 tile[4];
};
static u16 element(Tiles* const* lanes, int tile, int row, int column) {
  return ((const u16*)lanes[tile * 8 + row]->row)[column];
}
static void load(Tiles* const* lanes) {
  for (int l = 0; l < 32; l++)
    for (int t = 0; t < 4; t++)
      lanes[l]->tile[t] = element(lanes, t, l / 4, l % 4 * 2) |
                          (u32)element(lanes, t, l / 4, l % 4 * 2 + 1) << 16;
}
static void load_transposed(Tiles* const* lanes) {
  for (int l = 0; l < 32; l++)
    for (int t = 0; t < 4; t++)
      lanes[l]->tile[t] = element(lanes, t, l % 4 * 2, l / 4) |
                          (u32)element(lanes, t, l % 4 * 2 + 1, l / 4) << 16;
}
struct Product {
  float* sum;
  const u32* a;
  u32 b[2];
};
static void multiply(Product* const* lanes) {
  float a[16][16], b[16][8];
  for (int l = 0; l < 32; l++)
    for (int half = 0; half < 2; half++) {
      const int pair = l % 4 * 2 + half;
      for (int i = 0; i < 4; i++)
        a[l / 4 + i % 2 * 8][pair + i / 2 * 8] = widened_half(lanes[l]->a[i], half);
      for (int i = 0; i < 2; i++) b[pair + i * 8][l / 4] = widened_half(lanes[l]->b[i], half);
    }
  for (int row = 0; row < 16; row++) {
    float sum[8] = {};
    for (int k = 0; k < 16; k++)
      for (int column = 0; column < 8; column++) sum[column] += a[row][k] * b[k][column];
    for (int column = 0; column < 8; column++)
      lanes[row % 8 * 4 + column / 2]->sum[row / 8 * 2 + column % 2] += sum[column];
  }
}
struct Exchange {
  float value, received;
  int mask;
};
static void swap(Exchange* const* lanes) {
  for (int l = 0; l < 32; l++) lanes[l]->received = lanes[l ^ lanes[l]->mask]->value;
}
}  // namespace emulator

DEVICE void load_tiles(u32 (&tile)[4], const void* row) {
  emulator::check_shared(row);
  emulator::Tiles mine{row, {}};
  emulator::together(emulator::load, mine);
  memcpy(tile, mine.tile, sizeof tile);
}
DEVICE void load_tiles_transposed(u32 (&tile)[4], const void* row) {
  emulator::check_shared(row);
  emulator::Tiles mine{row, {}};
  emulator::together(emulator::load_transposed, mine);
  memcpy(tile, mine.tile, sizeof tile);
}
DEVICE void multiply_add(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  emulator::Product mine{sum, a, {b0, b1}};
  emulator::together(emulator::multiply, mine);
}
DEVICE float exchange(float value, int mask) {
  emulator::Exchange mine{value, 0.f, mask};
  emulator::together(emulator::swap, mine);
  return mine.received;
}
DEVICE u32 pack(float low, float high) {
  return emulator::narrowed(low) | (u32)emulator::narrowed(high) << 16;
}
DEVICE float widen(u16 element) { return emulator::widened(element); }
DEVICE u32 add_pairs(u32 a, u32 b) {
  return pack(emulator::widened_half(a, 0) + emulator::widened_half(b, 0),
              emulator::widened_half(a, 1) + emulator::widened_half(b, 1));
}
// The nearest of all e4m3 numbers, ties to the even one: their order is that of their bits.
DEVICE u32 to_e4m3(float value) {
  const float size = std::min(std::fabs(value), 448.f);
  const auto number = [](u32 bits) {
    return bits < 8 ? std::ldexp(float(bits), -9)
                    : std::ldexp(8.f + float(bits & 7), int(bits >> 3) - 10);
  };
  u32 bits = 0;
  while (bits < 0x7e && number(bits + 1) <= size) bits++;
  if (bits < 0x7e) {
    const float below = size - number(bits), above = number(bits + 1) - size;
    if (above < below || (above == below && (bits & 1))) bits++;
  }
  return bits | (std::signbit(value) ? 0x80u : 0u);
}
DEVICE u32 pack_e4m3(float low, float high) { return to_e4m3(low) | to_e4m3(high) << 8; }
DEVICE float from_e4m3(u32 bits) {
  const int power = bits >> 3 & 15, mantissa = bits & 7;
  const float size = (bits & 127) == 127 ? std::numeric_limits<float>::quiet_NaN()
                     : power            ? std::ldexp(8.f + mantissa, power - 10)
                                        : std::ldexp(float(mantissa), -9);
  return bits & 128 ? -size : size;
}
DEVICE u32 widen_e4m3(u32 pair) { return pack(from_e4m3(pair & 255), from_e4m3(pair >> 8 & 255)); }
DEVICE u32 by_column(u32 word) {
  return (word & 0xff0000ffu) | (word >> 8 & 0xff00u) | (word & 0xff00u) << 8;
}
DEVICE int nearest(float x) { return (int)std::lrintf(x); }
DEVICE float magnitude(float x) { return std::fabs(x); }
DEVICE float larger(float a, float b) { return std::fmax(a, b); }

DEVICE float exp2_fast(float x) { return std::exp2(x); }
DEVICE float log2_fast(float x) { return std::log2(x); }
DEVICE float reciprocal_root(float x) { return 1.f / std::sqrt(x); }
DEVICE float bits_as_float(u32 bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
DEVICE u32 float_as_bits(float value) {
  u32 bits;
  memcpy(&bits, &value, 4);
  return bits;
}
DEVICE uint4 load_once(const uint4* from) {
  emulator::check_global(from);
  return *from;
}
