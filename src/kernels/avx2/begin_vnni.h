// Opens a region whose functions are compiled for AVX2, FMA, F16C and AVX-VNNI. Included after every other
// header, so that no inline function of theirs is compiled with instructions that a CPU may lack.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avxvnni"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avxvnni")
#endif
