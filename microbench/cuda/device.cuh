// What the kernels ask of the machine and C++ has no word for, as inline PTX (sm_80 and newer).
// Nothing is included, so that a runtime compiler needs no headers. The tests replace this one file
// by an emulation of the same names, and run the kernels on a CPU.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#define DEVICE __device__ __forceinline__
#define KERNEL(...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__)
#define SHARED_MEMORY(name) extern __shared__ __align__(1024) unsigned char name[]
#define INFINITE __int_as_float(0x7f800000)

// An element of an activation or of the KV cache is float16 where the loader sets ELEMENT_FP16 to 1,
// bfloat16 where it sets 0.

DEVICE u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

// Copies 16 bytes to shared memory behind the thread's back; zeros where `wanted` is false.
DEVICE void copy_async(void* shared, const void* global, bool wanted) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(
                   shared_address(shared)),
               "l"(global), "r"(wanted ? 16 : 0)
               : "memory");
}
DEVICE void close_copies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
// Waits until at most Pending closed groups of this thread's copies are under way.
template <int Pending>
DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(Pending) : "memory");
}

// 16 bytes of shared memory that this thread itself copied there, and waited for.
DEVICE uint4 own_copy(const void* shared) { return *(const uint4*)shared; }

// Four 8x8 tiles for a warp: lane i names row i % 8 of tile i / 8, and receives of each tile the
// two elements at row i / 4, columns 2 (i % 4) and the next.
DEVICE void load_tiles(u32 (&tile)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(tile[0]), "=r"(tile[1]), "=r"(tile[2]), "=r"(tile[3])
               : "r"(shared_address(row))
               : "memory");
}
DEVICE void load_tiles_transposed(u32 (&tile)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(tile[0]), "=r"(tile[1]), "=r"(tile[2]), "=r"(tile[3])
               : "r"(shared_address(row))
               : "memory");
}

#if ELEMENT_FP16
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#define PACK "cvt.rn.f16x2.f32"
#define FMA_PAIRS "fma.rn.f16x2"
#define ONES 0x3c003c00u
#else
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define PACK "cvt.rn.bf16x2.f32"
#define FMA_PAIRS "fma.rn.bf16x2"
#define ONES 0x3f803f80u
#endif

// sum[16x8] += a[16x16] b[16x8] on the tensor cores; a lane holds rows lane / 4 and 8 below it.
DEVICE void multiply_add(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(MMA " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two elements in a word, the first in the low half; rounded to nearest even.
DEVICE u32 pack(float low, float high) {
  u32 word;
  asm(PACK " %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
// Sums of two words' elements.
DEVICE u32 add_pairs(u32 a, u32 b) {
  u32 sum;
  asm(FMA_PAIRS " %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(ONES), "r"(b));
  return sum;
}
#if ELEMENT_FP16
DEVICE float widen(u16 element) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(element));
  return value;
}
#else
DEVICE float widen(u16 element) { return __uint_as_float((u32)element << 16); }
#endif

// Two 8-bit floats (e4m3) in the low half of a word, the first in its low byte; rounded to nearest
// even, at most 448. From sm_89 on.
DEVICE u32 pack_e4m3(float low, float high) {
  u16 pair = 0;
#if __CUDA_ARCH__ >= 890
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
#endif
  return pair;
}
// The two e4m3 numbers in the low half of a word as two elements. From sm_89 on.
DEVICE u32 widen_e4m3(u32 pair) {
  u32 halves = 0;
#if __CUDA_ARCH__ >= 890
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"((u16)pair));
#endif
#if ELEMENT_FP16
  return halves;
#else
  float low, high;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
      : "=f"(low), "=f"(high)
      : "r"(halves));
  return pack(low, high);
#endif
}
// Bytes 0, 2, 1, 3 of a word: of two rows of two columns, columns of two rows.
DEVICE u32 by_column(u32 word) { return __byte_perm(word, 0, 0x3120); }
DEVICE int nearest(float x) { return __float2int_rn(x); }
DEVICE float magnitude(float x) { return fabsf(x); }
DEVICE float larger(float a, float b) { return fmaxf(a, b); }

DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEVICE float log2_fast(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEVICE float reciprocal_root(float x) { return rsqrtf(x); }
DEVICE float bits_as_float(u32 bits) { return __uint_as_float(bits); }
DEVICE u32 float_as_bits(float value) { return __float_as_uint(value); }
// The value that lane `lane ^ mask` of the warp holds.
DEVICE float exchange(float value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }

// 16 bytes that are read once: past the first-level cache.
DEVICE uint4 load_once(const uint4* from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}
