// KERNEL_UNROLL before a loop of few, constant rounds over an array of vectors: unrolled, the array lives in
// registers; left as a loop, it is indexed and lives in memory. KERNEL_NO_REUSE ends a stretch of code whose
// loads the compiler shall not keep: what it would hold for the next stretch it would spill.
#pragma once

#if defined(__clang__)
#define KERNEL_UNROLL _Pragma("unroll")
#else
#define KERNEL_UNROLL _Pragma("GCC unroll 16")
#endif
#define KERNEL_NO_REUSE __asm__ volatile("" ::: "memory")
