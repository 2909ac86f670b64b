// The integer product tiles by vpdpbusd, for includers that define decode_nibbles(): two 64-byte lines of
// nibbles looked up in a table, with VBMI's vpermb or with vpshufb.
//
// vpdpbusd wants one unsigned factor: weights have an offset added, which the row's corrections take back as
// the initial sum. Of two streams each has its turn for a superblock, so that memory is read in order: hardware
// that reads ahead then follows.

// 2 * e2m1 + kCodeOffset of each nibble.
inline __m512i nibble_table() {
  return _mm512_broadcast_i32x4(_mm_setr_epi8(16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4));
}

// Up to so many rows wait for memory rather than for products.
inline constexpr int kFewRows = 3;

// `sum` plus the products of four weights of each output with the four activations from `x` on, in a tile of
// kRows rows. Compilers load the activations by an instruction of its own. Within the product they take no
// place in the core's queues, of which a thread has only half while another one runs on its core; but with few
// rows, loads then run further ahead of what memory brings, and the tile is slower by a hundredth or two.
template <int kRows>
inline __m512i add_four(__m512i sum, __m512i w, const std::int8_t* x) {
  if constexpr (kRows <= kFewRows) {
    std::int32_t four;
    __builtin_memcpy(&four, x, sizeof(four));
    return _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(four));
  }
  __asm__("vpdpbusd %2%{1to16%}, %1, %0"
          : "+v"(sum)
          : "v"(w), "m"(*reinterpret_cast<const std::int8_t(*)[4]>(x)));
  return sum;
}

// A group of 16 weights of 16 rows as unsigned bytes: vector q holds inputs 4q..4q+3 of each row.
inline void decode_group(const std::byte* lines, __m512i table, __m512i (&w)[4]) {
  decode_nibbles(_mm512_loadu_si512(lines), table, w[0], w[1]);
  decode_nibbles(_mm512_loadu_si512(lines + 64), table, w[2], w[3]);
}

struct Nvfp4Block {
  static constexpr int kGroups = kNvfp4Inputs / kGroup;
  static constexpr int kBytes = kNvfp4Bytes;
  static constexpr int kOffset = kCodeOffset;
  static void decode(const std::byte* block, int g, __m512i table, __m512i (&w)[4]) {
    decode_group(block + sizeof(Nvfp4Head) + g * 128, table, w);
  }
  static constexpr bool kNormalScales = true;
  // The scales of a block as they were.
  struct Scales {
    alignas(64) std::byte codes[kNvfp4Scales];
  };
  static void read_scales(const std::byte* block, const std::byte* tile_end, Scales& scales) {
    const auto& head = *reinterpret_cast<const Nvfp4Head*>(block);
    __m512i codes;
    if (head.least == 0) [[unlikely]] {
      codes = _mm512_loadu_si512(head.plain(tile_end));
    } else {
      const __m512i twice =
          _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(head.low)));
      const __m512i shifted = _mm512_srlv_epi64(twice, _mm512_setr_epi64(0, 0, 0, 0, 4, 4, 4, 4));
      const __m512i four = _mm512_and_si512(shifted, _mm512_set1_epi8(0xF));
      std::uint64_t fifth;
      __builtin_memcpy(&fifth, head.fifth, sizeof(fifth));
      const __m512i five = _mm512_mask_add_epi8(four, fifth, four, _mm512_set1_epi8(16));
      codes = _mm512_add_epi8(five, _mm512_set1_epi8(static_cast<char>(head.least)));
    }
    _mm512_store_si512(scales.codes, codes);
  }
  // Those of a group, times 2^-8: shifted left by seven they are binary16 numbers, subnormals included.
  static __m512 scales_of(const Scales& scales, int g) {
    const __m128i codes = _mm_load_si128(reinterpret_cast<const __m128i*>(scales.codes + g * kRowTile));
    return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(codes), 7));
  }
};

struct Mxfp4Block : ScalesInBlock {
  static constexpr int kGroups = kMxfp4Inputs / kGroup;
  static constexpr int kBytes = kMxfp4Bytes;
  static constexpr int kOffset = kCodeOffset;
  static void decode(const std::byte* block, int g, __m512i table, __m512i (&w)[4]) {
    decode_group(block + 64 + g * 128, table, w);
  }
  static constexpr bool kNormalScales = false;
  static __m512 scales_of(const Scales& block, int g) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + g / 2 * kRowTile));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu8_epi32(codes), 23));
  }
};

struct Q8Block : ScalesInBlock {
  static constexpr int kGroups = kQ8Inputs / kGroup;
  static constexpr int kBytes = kQ8Bytes;
  static constexpr int kOffset = 128;
  static void decode(const std::byte* block, int g, __m512i, __m512i (&w)[4]) {
    const __m512i flip = _mm512_set1_epi8(-128);
    KERNEL_UNROLL
    for (int q = 0; q < 4; ++q)
      w[q] = _mm512_xor_si512(_mm512_loadu_si512(block + 64 + g * 256 + q * 64), flip);
  }
  static constexpr bool kNormalScales = false;
  static __m512 scales_of(const Scales& block, int g) {
    return _mm512_cvtph_ps(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + g / 2 * 2 * kRowTile)));
  }
};

// Adds to each row's sum the products of a decoded group with the sixteen activations at x_of(row). The rows
// take turns: a row's four products wait for each other, and a core that has to look past them for something
// to begin may not look far enough.
template <int kRows, typename XOf>
inline void add_products(const __m512i (&w)[4], const XOf& x_of, __m512i (&sums)[kRows]) {
  KERNEL_UNROLL
  for (int q = 0; q < 4; ++q) {
    KERNEL_UNROLL
    for (int m = 0; m < kRows; ++m) sums[m] = add_four<kRows>(sums[m], w[q], x_of(m) + 4 * q);
  }
}

// The bits of a float, which a power of two's bits less those of one multiply if that is all normal numbers.
inline constexpr std::int32_t kOneBits = 0x3F800000;
inline std::int32_t bits_of(float x) { return __builtin_bit_cast(std::int32_t, x); }

// A tile row by row: of more than kFewRows rows, one of which has a group that is not finite.
template <typename Block, Compute kCompute, int kStreams>
__attribute__((noinline)) void quantized_row_by_row(const QuantizedTile& t) {
  for (int m = 0; m < t.rows; ++m) {
    QuantizedTile row = t;
    row.x = t.x + m;
    for (int s = 0; s < kStreams; ++s) row.y[s] = t.y[s] + m;
    row.rows = 1;
    row.ahead = {};
    quantized_rows<Block, kCompute, kStreams, 1>(row);
  }
}

template <typename Block, Compute kCompute, int kStreams, int kRows>
void quantized_rows(const QuantizedTile& t) {
  // With many rows the multipliers are busy with weights, and exponents are added by other units.
  constexpr bool kAddsExponents = Block::kNormalScales && kRows > kFewRows;
  std::int32_t signs = 0;  // negative if a scale of an activation is NaN, which addition does not pass on
  using Group = QuantizedGroup<kCompute>;
  constexpr int kStep = kStreams * Block::kBytes;
  const __m512i table = nibble_table();
  const Group* x[kRows];  // of the superblock
  __m512 sums[kStreams][kRows];
  KERNEL_UNROLL
  for (int m = 0; m < kRows; ++m) {
    x[m] = reinterpret_cast<const Group*>(t.x[m]);
    KERNEL_UNROLL
    for (int s = 0; s < kStreams; ++s) sums[s][m] = _mm512_setzero_ps();
  }
  const std::byte* const end = t.weights + static_cast<std::ptrdiff_t>(t.superblocks) * kStep;
  for (const std::byte* superblock = t.weights; superblock < end; superblock += kStep) {
    const std::byte* ahead = place_ahead(t.ahead, superblock, end);
    KERNEL_UNROLL
    for (int s = 0; s < kStreams; ++s) {
      const std::byte* block = superblock + s * Block::kBytes;
      typename Block::Scales scales;
      Block::read_scales(block, end, scales);
      KERNEL_UNROLL
      for (int g = 0; g < Block::kGroups; ++g) {
        if (t.ahead.bytes > 0) prefetch_part<Block::kBytes>(ahead, g, Block::kGroups);
        __m512i w[4];
        Block::decode(block, g, table, w);
        const __m512 scale = Block::scales_of(scales, g);
        const __m512i exponents = _mm512_sub_epi32(_mm512_castps_si512(scale), _mm512_set1_epi32(kOneBits));
        const auto correction = [&x, g](int m) {
          return _mm512_set1_epi32(x[m][g].correction * (Block::kOffset / kCodeOffset));
        };
        __m512i dots[kRows];
        if constexpr (kCompute == Compute::kAccurate) {
          KERNEL_UNROLL
          for (int m = 0; m < kRows; ++m) dots[m] = _mm512_setzero_si512();
          add_products(w, [&x, g](int m) { return x[m][g].values; }, dots);
          KERNEL_UNROLL
          for (int m = 0; m < kRows; ++m) {
            dots[m] = _mm512_add_epi32(correction(m), _mm512_slli_epi32(dots[m], 7));
          }
          add_products(w, [&x, g](int m) { return x[m][g].low; }, dots);
        } else {
          KERNEL_UNROLL
          for (int m = 0; m < kRows; ++m) dots[m] = correction(m);
          add_products(w, [&x, g](int m) { return x[m][g].values; }, dots);
        }
        KERNEL_UNROLL
        for (int m = 0; m < kRows; ++m) {
          __m512 factor;
          if constexpr (kAddsExponents) {
            factor = _mm512_castsi512_ps(
                _mm512_add_epi32(exponents, _mm512_set1_epi32(bits_of(x[m][g].scale))));
            if (s == 0) signs |= bits_of(x[m][g].scale);
          } else {
            factor = _mm512_mul_ps(scale, _mm512_set1_ps(x[m][g].scale));
          }
          sums[s][m] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[m]), factor, sums[s][m]);
        }
      }
      ahead += Block::kBytes;
      // The next stream reads the activations anew: there is no room for what this one has broadcast.
      KERNEL_UNROLL
      for (int m = 0; m < kRows; ++m) KERNEL_FORGET(x[m]);
    }
    KERNEL_UNROLL
    for (int m = 0; m < kRows; ++m) x[m] += Block::kGroups;
  }
  if (signs < 0) return quantized_row_by_row<Block, kCompute, kStreams>(t);
  KERNEL_UNROLL
  for (int s = 0; s < kStreams; ++s) {
    KERNEL_UNROLL
    for (int m = 0; m < kRows; ++m) {
      _mm512_storeu_ps(t.y[s][m], _mm512_mul_ps(sums[s][m], _mm512_set1_ps(t.scales[s])));
    }
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

// Twelve chains hide the latency of vpdpbusd. As far as the compiler knows each starts from a number of its
// own and multiplies another one; otherwise it would see that all are equal and compute only one.
std::int64_t multiply_peak(int rounds) {
  constexpr int kChains = 12;
  volatile std::int32_t zero = 0;
  __m512i sums[kChains];
  KERNEL_UNROLL
  for (int c = 0; c < kChains; ++c) sums[c] = _mm512_set1_epi32(zero);
  __m512i a = _mm512_set1_epi8(3);
  for (int i = 0; i < rounds; ++i) {
    KERNEL_UNROLL
    for (int c = 0; c < kChains; ++c) {
      __asm__ volatile("" : "+v"(a));
      sums[c] = _mm512_dpbusd_epi32(sums[c], a, a);
    }
  }
  KERNEL_UNROLL
  for (int c = 0; c < kChains; ++c) __asm__ volatile("" : "+v"(sums[c]));
  return std::int64_t{rounds} * kChains * 64;
}
