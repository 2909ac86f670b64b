// KERNEL_UNROLL before a loop of few, constant rounds over an array of vectors: unrolled, the array lives in
// registers; left as a loop, it is indexed and lives in memory. KERNEL_FORGET(p) lets the compiler take p for
// another address: what it has read or computed from it, and would spill, is not kept.
#pragma once

#if defined(__clang__)
#define KERNEL_UNROLL _Pragma("unroll")
#else
#define KERNEL_UNROLL _Pragma("GCC unroll 16")
#endif
#define KERNEL_FORGET(p) __asm__("" : "+r"(p))
