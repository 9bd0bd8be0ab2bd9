// Products of a warpgroup, four warps together, on the tensor cores of Hopper (sm_90a): operands in
// shared memory, sums in registers, in flight until they are waited for. The tests replace this file
// by an emulation of the same names.
//
// A tile in shared memory is panels of 64 elements (128 bytes) by rows, and of eight rows the 16-byte
// chunks are exchanged as the hardware's 128-byte swizzle does: chunk c of row r lies at c ^ (r % 8).
// Tiles begin at multiples of 1,024 bytes.
//
// Sums of 64 rows: warp w of the group has rows 16 w, and of each 8 columns a lane holds what it
// holds of one m16n8 product.
#pragma once
#include "elements.cuh"

#define GROUP_THREADS 128
#define PANEL_BYTES 128  // of a row

DEVICE int swizzled(int row, int chunk) { return row * PANEL_BYTES + ((chunk ^ (row & 7)) << 4); }

// Where an operand lies, as the hardware reads it: address and strides in units of 16 bytes.
// `leading` is what the next panel is away where rows are summed over, else nothing.
DEVICE u64 operand_at(const unsigned char* tile, int leading) {
  const u64 eight_rows = 1024 >> 4, swizzle_128 = 1;
  return (u64)((shared_address(tile) & 0x3ffff) >> 4) | (u64)(leading >> 4) << 16 |
         eight_rows << 32 | swizzle_128 << 62;
}

// What this thread wrote to shared memory is seen by the tensor cores of all, after the next barrier.
DEVICE void publish() { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }
// Before the first product on registers that were written since the last one.
DEVICE void begin_products() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
DEVICE void close_products() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }

// True for all of a group where it is for any of its threads: its warps go the same way, as what they
// do together must stand at one place of the code.
DEVICE bool any_of_group(bool what) {
  u32 found;
  asm volatile(
      "{\n.reg .pred own, any;\nsetp.ne.u32 own, %1, 0;\n"
      "barrier.cta.red.or.aligned.pred any, %2, %3, own;\nselp.u32 %0, 1, 0, any;\n}\n"
      : "=r"(found)
      : "r"((u32)what), "r"(1 + threadIdx.x / GROUP_THREADS), "n"(GROUP_THREADS)
      : "memory");
  return found;
}

// Keeps the compiler from moving what reads or writes these registers past this place.
template <int Blocks>
DEVICE void pin(float (&sum)[Blocks][4]) {
#pragma unroll
  for (int block = 0; block < Blocks; block++)
#pragma unroll
    for (int i = 0; i < 4; i++) asm volatile("" : "+f"(sum[block][i])::"memory");
}
template <int Steps>
DEVICE void pin(u32 (&operand)[Steps][4]) {
#pragma unroll
  for (int step = 0; step < Steps; step++)
#pragma unroll
    for (int i = 0; i < 4; i++) asm volatile("" : "+r"(operand[step][i])::"memory");
}
// Waits until at most Pending closed groups of products are under way; these sums are in the others.
template <int Pending, int Blocks>
DEVICE void wait_products(float (&sum)[Blocks][4]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(Pending) : "memory");
  pin(sum);
}

#if ELEMENT_FP16
#define OPERANDS "f32.f16.f16"
#else
#define OPERANDS "f32.bf16.bf16"
#endif
#define SUM(b) "+f"(sum[b][0]), "+f"(sum[b][1]), "+f"(sum[b][2]), "+f"(sum[b][3])
#define SUM4(b) SUM(b), SUM(b + 1), SUM(b + 2), SUM(b + 3)
#define SUM8(b) SUM4(b), SUM4(b + 4)

// sum[64 x 128] (+)= a[64 x 16] b[128 x 16]^T, both as rows that are summed along; from zero where
// `more` is 0.
DEVICE void multiply_rows(float (&sum)[16][4], u64 a, u64 b, int more) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16." OPERANDS " "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"
      "%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,"
      "%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
      "%64, %65, p, 1, 1, 0, 0;\n}\n"
      : SUM8(0), SUM8(8)
      : "l"(a), "l"(b), "r"(more));
}

// sum[64 x 64 or 128] += a[64 x 16] b[16 x 64 or 128], a in registers, b as rows that are summed over.
DEVICE void multiply_columns(float (&sum)[16][4], const u32 (&a)[4], u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16." OPERANDS " "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"
      "%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,"
      "%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
      "{%64,%65,%66,%67}, %68, 1, 1, 1, 1;\n"
      : SUM8(0), SUM8(8)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
DEVICE void multiply_columns(float (&sum)[8][4], const u32 (&a)[4], u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16." OPERANDS " "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"
      "%24,%25,%26,%27,%28,%29,%30,%31}, "
      "{%32,%33,%34,%35}, %36, 1, 1, 1, 1;\n"
      : SUM8(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
