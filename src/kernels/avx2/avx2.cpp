// The AVX2 table: the generic kernels over pairs of ymm, and the NVFP4 tile by vpshufb and vpmaddubsw.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/tables.h"

#include "kernels/avx2/begin.h"

namespace tagalong::kernels {

namespace avx2 {

namespace {

#include "kernels/avx2/vec.inl"
#include "kernels/generic/kernels.inl"

#include "kernels/generic/attention.inl"

// 2 * e2m1 + 12 of each nibble: unsigned, as vpmaddubsw wants it. The 12 is taken back by the row's
// corrections.
inline __m256i nibble_table() {
  return _mm256_broadcastsi128_si256(
      _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
}

inline __m256i broadcast4(const std::int8_t* p) {
  std::int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm256_set1_epi32(four);
}

// A group of 16 weights of 8 rows as unsigned bytes: vector q holds inputs 4q..4q+3 of each row.
inline void decode_half_group(const std::byte* lines, __m256i table, __m256i (&w)[4]) {
  const __m256i mask = _mm256_set1_epi8(0xF);
  const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lines));
  const __m256i second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lines + 64));
  w[0] = _mm256_shuffle_epi8(table, _mm256_and_si256(first, mask));
  w[1] = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(first, 4), mask));
  w[2] = _mm256_shuffle_epi8(table, _mm256_and_si256(second, mask));
  w[3] = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(second, 4), mask));
}

// Eight e4m3 scales, times 2^-8: shifted left by seven they are binary16 numbers, subnormals included.
inline __m256 load_half_scales(const std::byte* p) {
  const __m128i wide = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm256_cvtph_ps(_mm_slli_epi16(wide, 7));
}

// Rows `half * 8` to + 7 of the tile for kRows activation rows. Four products of at most 24 * 127 twice add
// up to 24,384: sixteen-bit sums cannot saturate.
template <int kRows>
inline void nvfp4_half(const Nvfp4Tile& t, int first, int stream, int half) {
  const __m256i table = nibble_table();
  const __m256i ones = _mm256_set1_epi16(1);
  const QuantizedRow* x = t.x + first;
  __m256 sums[kRows];
  for (int m = 0; m < kRows; ++m) sums[m] = _mm256_setzero_ps();
  const std::byte* superblock = t.weights + stream * kSuperblockBytes;
  for (int b = 0; b < t.superblocks; ++b, superblock += t.streams * kSuperblockBytes) {
    for (int g = 0; g < kSuperblock / kGroup; ++g) {
      const int group = b * (kSuperblock / kGroup) + g;
      __m256i w[4];
      decode_half_group(superblock + 64 + g * 128 + half * 32, table, w);
      const __m256 scale = load_half_scales(superblock + g * kRowTile + half * 8);
      for (int m = 0; m < kRows; ++m) {
        const std::int8_t* values = x[m].values + group * kGroup;
        const __m256i a = _mm256_maddubs_epi16(w[0], broadcast4(values));
        const __m256i b4 = _mm256_maddubs_epi16(w[1], broadcast4(values + 4));
        const __m256i c = _mm256_maddubs_epi16(w[2], broadcast4(values + 8));
        const __m256i d = _mm256_maddubs_epi16(w[3], broadcast4(values + 12));
        const __m256i pairs = _mm256_add_epi16(_mm256_add_epi16(a, b4), _mm256_add_epi16(c, d));
        const __m256i dot =
            _mm256_add_epi32(_mm256_madd_epi16(pairs, ones), _mm256_set1_epi32(x[m].corrections[group]));
        const __m256 exact = _mm256_mul_ps(_mm256_cvtepi32_ps(dot), scale);
        sums[m] = _mm256_fmadd_ps(exact, _mm256_set1_ps(x[m].scales[group]), sums[m]);
      }
    }
  }
  for (int m = 0; m < kRows; ++m) {
    _mm256_storeu_ps(t.y[stream][first + m] + half * 8,
                     _mm256_mul_ps(sums[m], _mm256_set1_ps(t.scales[stream])));
  }
}

void nvfp4_tile(const Nvfp4Tile& t) {
  for (int stream = 0; stream < t.streams; ++stream) {
    for (int half = 0; half < 2; ++half) {
      int m = 0;
      for (; m + 4 <= t.rows; m += 4) nvfp4_half<4>(t, m, stream, half);
      for (; m + 2 <= t.rows; m += 2) nvfp4_half<2>(t, m, stream, half);
      if (m < t.rows) nvfp4_half<1>(t, m, stream, half);
    }
  }
}

std::uint32_t read_stream(const std::byte* data, std::size_t bytes) {
  __m256i bits[8] = {};
  for (std::size_t i = 0; i < bytes; i += 256) {
    for (int j = 0; j < 8; ++j) {
      bits[j] =
          _mm256_or_si256(bits[j], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + i + j * 32)));
    }
  }
  for (int j = 1; j < 8; ++j) bits[0] = _mm256_or_si256(bits[0], bits[j]);
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(bits[0]));
}

// Pairs of products and their sum, twice: what the NVFP4 tile does for each 32 bytes. The empty statement
// keeps the compiler from simplifying it.
std::int64_t multiply_peak(int rounds) {
  constexpr int kChains = 8;
  __m256i sums[kChains] = {};
  __m256i a = _mm256_set1_epi8(3);
  for (int i = 0; i < rounds; ++i) {
    __asm__ volatile("" : "+x"(a));
    for (__m256i& sum : sums) sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, a));
  }
  for (__m256i& sum : sums) __asm__ volatile("" : "+x"(sum));
  return std::int64_t{rounds} * kChains * 32;
}

constexpr Kernels kTable{
    .name = "avx2",
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
}  // namespace avx2

const Kernels& avx2_kernels() { return avx2::kTable; }

}  // namespace tagalong::kernels

#include "kernels/generic/end.h"
