// Opens a region whose functions are compiled for AVX-512 F, BW, VL, DQ, VNNI, but not VBMI. Included after
// every other header, so that no inline function of theirs is compiled with instructions that a CPU may lack.
#if defined(__clang__)
#pragma clang attribute push(                                                               \
    __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
#endif
