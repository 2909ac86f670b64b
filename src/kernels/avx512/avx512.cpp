// The AVX-512 table: the generic kernels over zmm, and the NVFP4 tile by vpermb and vpdpbusd.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/tables.h"

#include "kernels/avx512/begin.h"

namespace tagalong::kernels {

namespace avx512 {

namespace {

#include "kernels/avx512/vec.inl"
#include "kernels/generic/kernels.inl"

#include "kernels/generic/attention.inl"

// 2 * e2m1 + 12 of each nibble: unsigned, as vpdpbusd wants it. The 12 is taken back by the row's
// corrections.
inline __m512i nibble_table() {
  return _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
}

// The four activations from `p` on, in every lane.
inline __m512i broadcast4(const std::int8_t* p) {
  std::int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm512_set1_epi32(four);
}

// A group of 16 weights of 16 rows as unsigned bytes: vector q holds inputs 4q..4q+3 of each row.
// vpermb looks at the low six bits of an index; the table repeats every 16, so the high nibble need not be
// masked off.
inline void decode_group(const std::byte* lines, __m512i table, __m512i (&w)[4]) {
  const __m512i first = _mm512_loadu_si512(lines);
  const __m512i second = _mm512_loadu_si512(lines + 64);
  w[0] = _mm512_permutexvar_epi8(first, table);
  w[1] = _mm512_permutexvar_epi8(_mm512_srli_epi16(first, 4), table);
  w[2] = _mm512_permutexvar_epi8(second, table);
  w[3] = _mm512_permutexvar_epi8(_mm512_srli_epi16(second, 4), table);
}

// Sixteen e4m3 scales, times 2^-8: shifted left by seven they are binary16 numbers, subnormals included.
inline __m512 load_scales(const std::byte* p) {
  const __m256i wide = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm512_cvtph_ps(_mm256_slli_epi16(wide, 7));
}

template <int kRows, int kStreams>
inline void nvfp4_rows(const Nvfp4Tile& t, int first) {
  const __m512i table = nibble_table();
  const QuantizedRow* x = t.x + first;
  __m512 sums[kStreams][kRows];
  for (int s = 0; s < kStreams; ++s) {
    for (int m = 0; m < kRows; ++m) sums[s][m] = _mm512_setzero_ps();
  }
  const std::byte* superblock = t.weights;
  for (int b = 0; b < t.superblocks; ++b, superblock += kStreams * kSuperblockBytes) {
    for (int g = 0; g < kSuperblock / kGroup; ++g) {
      const int group = b * (kSuperblock / kGroup) + g;
      for (int s = 0; s < kStreams; ++s) {
        const std::byte* block = superblock + s * kSuperblockBytes;
        __m512i w[4];
        decode_group(block + 64 + g * 128, table, w);
        const __m512 scale = load_scales(block + g * kRowTile);
        for (int m = 0; m < kRows; ++m) {
          const std::int8_t* values = x[m].values + group * kGroup;
          __m512i dot = _mm512_set1_epi32(x[m].corrections[group]);
          dot = _mm512_dpbusd_epi32(dot, w[0], broadcast4(values));
          dot = _mm512_dpbusd_epi32(dot, w[1], broadcast4(values + 4));
          dot = _mm512_dpbusd_epi32(dot, w[2], broadcast4(values + 8));
          dot = _mm512_dpbusd_epi32(dot, w[3], broadcast4(values + 12));
          const __m512 exact = _mm512_mul_ps(_mm512_cvtepi32_ps(dot), scale);
          sums[s][m] = _mm512_fmadd_ps(exact, _mm512_set1_ps(x[m].scales[group]), sums[s][m]);
        }
      }
    }
  }
  for (int s = 0; s < kStreams; ++s) {
    for (int m = 0; m < kRows; ++m) {
      _mm512_storeu_ps(t.y[s][first + m], _mm512_mul_ps(sums[s][m], _mm512_set1_ps(t.scales[s])));
    }
  }
}

template <int kStreams>
inline void nvfp4_streams(const Nvfp4Tile& t) {
  int m = 0;
  for (; m + 8 <= t.rows; m += 8) nvfp4_rows<8, kStreams>(t, m);
  for (; m + 6 <= t.rows; m += 6) nvfp4_rows<6, kStreams>(t, m);
  for (; m + 4 <= t.rows; m += 4) nvfp4_rows<4, kStreams>(t, m);
  for (; m + 2 <= t.rows; m += 2) nvfp4_rows<2, kStreams>(t, m);
  if (m < t.rows) nvfp4_rows<1, kStreams>(t, m);
}

void nvfp4_tile(const Nvfp4Tile& t) {
  if (t.streams == 2) {
    nvfp4_streams<2>(t);
  } else {
    nvfp4_streams<1>(t);
  }
}

std::uint32_t read_stream(const std::byte* data, std::size_t bytes) {
  __m512i bits[4] = {};
  for (std::size_t i = 0; i < bytes; i += 256) {
    for (int j = 0; j < 4; ++j) bits[j] = _mm512_or_si512(bits[j], _mm512_loadu_si512(data + i + j * 64));
  }
  const __m512i all = _mm512_or_si512(_mm512_or_si512(bits[0], bits[1]), _mm512_or_si512(bits[2], bits[3]));
  return static_cast<std::uint32_t>(_mm512_reduce_or_epi32(all));
}

// Twelve chains hide the latency of vpdpbusd; the empty statement keeps the compiler from simplifying them.
std::int64_t multiply_peak(int rounds) {
  constexpr int kChains = 12;
  __m512i sums[kChains] = {};
  __m512i a = _mm512_set1_epi8(3);
  for (int i = 0; i < rounds; ++i) {
    __asm__ volatile("" : "+v"(a));
    for (__m512i& sum : sums) sum = _mm512_dpbusd_epi32(sum, a, a);
  }
  for (__m512i& sum : sums) __asm__ volatile("" : "+v"(sum));
  return std::int64_t{rounds} * kChains * 64;
}

constexpr Kernels kTable{
    .name = "avx512",
    .f32_tile = f32_tile,
    .bf16_tile = bf16_tile,
    .nvfp4_tile = nvfp4_tile,
    .quantize = quantize,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .silu_mul = silu_mul,
    .axpy = axpy,
    .latent_attention = latent_attention,
    .index_scores = index_scores,
    .read_stream = read_stream,
    .multiply_peak = multiply_peak,
};

}  // namespace
}  // namespace avx512

const Kernels& avx512_kernels() { return avx512::kTable; }

}  // namespace tagalong::kernels

#include "kernels/generic/end.h"
