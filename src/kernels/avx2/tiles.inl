// The integer product tiles over ymm, for includers that define Products: how 32 weights times 32 activations
// are summed by fours, with vpdpbusd or with vpmaddubsw.

// 2 * e2m1 + kCodeOffset of each nibble: unsigned. The offset is taken back by the row's corrections.
inline __m256i nibble_table() {
  return _mm256_broadcastsi128_si256(
      _mm_setr_epi8(16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4));
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

// `half`: rows 8 * half to + 7 of the tile.
struct Nvfp4Block {
  static constexpr int kGroups = kNvfp4Inputs / kGroup;
  static constexpr int kBytes = kNvfp4Bytes;
  static void decode(const std::byte* block, int g, int half, __m256i table, __m256i (&w)[4]) {
    decode_half_group(block + sizeof(Nvfp4Head) + g * 128 + half * 32, table, w);
  }
  // The scales of a block as they were.
  struct Scales {
    alignas(32) std::byte codes[kNvfp4Scales];
  };
  static void read_scales(const std::byte* block, const std::byte* tile_end, Scales& scales) {
    const auto& head = *reinterpret_cast<const Nvfp4Head*>(block);
    if (head.least == 0) [[unlikely]] {
      __builtin_memcpy(scales.codes, head.plain(tile_end), sizeof(scales.codes));
      return;
    }
    const __m256i packed = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(head.low));
    const __m256i mask = _mm256_set1_epi8(0xF);
    const __m256i low = _mm256_and_si256(packed, mask);
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(packed, 4), mask);
    std::int64_t fifth;
    __builtin_memcpy(&fifth, head.fifth, sizeof(fifth));
    auto* out = reinterpret_cast<__m256i*>(scales.codes);
    _mm256_store_si256(out, whole_scales(low, _mm256_set1_epi64x(fifth), head.least));
    _mm256_store_si256(out + 1, whole_scales(high, _mm256_set1_epi64x(fifth >> 32), head.least));
  }
  // Thirty-two scales of their low four bits, their fifth ones and the least.
  static __m256i whole_scales(__m256i low, __m256i fifth, std::uint8_t least) {
    const __m256i byte_of = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2,
                                             2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x(static_cast<std::int64_t>(0x8040201008040201U));
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(fifth, byte_of), bit), bit);
    const __m256i above = _mm256_or_si256(low, _mm256_and_si256(set, _mm256_set1_epi8(16)));
    return _mm256_add_epi8(above, _mm256_set1_epi8(static_cast<char>(least)));
  }
  // Eight of them, times 2^-8: shifted left by seven they are binary16 numbers, subnormals included.
  static __m256 scales_of(const Scales& scales, int g, int half) {
    const __m128i codes =
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(scales.codes + g * kRowTile + half * 8));
    return _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(codes), 7));
  }
  static constexpr std::int32_t kOffset = kCodeOffset;
  static __m256i add_products(__m256i sum, const __m256i (&w)[4], const std::int8_t* x) {
    return Products::add_codes(sum, w, x);
  }
};

struct Mxfp4Block : ScalesInBlock {
  static constexpr int kGroups = kMxfp4Inputs / kGroup;
  static constexpr int kBytes = kMxfp4Bytes;
  static void decode(const std::byte* block, int g, int half, __m256i table, __m256i (&w)[4]) {
    decode_half_group(block + 64 + g * 128 + half * 32, table, w);
  }
  static __m256 scales_of(const Scales& block, int g, int half) {
    const __m128i codes =
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(block + g / 2 * kRowTile + half * 8));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu8_epi32(codes), 23));
  }
  static constexpr std::int32_t kOffset = kCodeOffset;
  static __m256i add_products(__m256i sum, const __m256i (&w)[4], const std::int8_t* x) {
    return Products::add_codes(sum, w, x);
  }
};

struct Q8Block : ScalesInBlock {
  static constexpr int kGroups = kQ8Inputs / kGroup;
  static constexpr int kBytes = kQ8Bytes;
  static void decode(const std::byte* block, int g, int half, __m256i, __m256i (&w)[4]) {
    for (int q = 0; q < 4; ++q) {
      w[q] = Products::prepare_bytes(
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 64 + g * 256 + q * 64 + half * 32)));
    }
  }
  static __m256 scales_of(const Scales& block, int g, int half) {
    return _mm256_cvtph_ps(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + (g / 2 * kRowTile + half * 8) * 2)));
  }
  static constexpr std::int32_t kOffset = Products::kBytesOffset;
  static __m256i add_products(__m256i sum, const __m256i (&w)[4], const std::int8_t* x) {
    return Products::add_bytes(sum, w, x);
  }
};

// A tile is read by stretches of a few blocks, whose scales are read first. It has parts: the halves of its
// rows in each stream. Part p is half p % 2 of stream p / 2. One or two activation rows have registers for all
// parts side by side. With more, each part takes its turn, and the first cache keeps a stretch until the last
// part has read it; between stretches running sums wait in memory. So weights come from farther away once, and
// evenly.
template <typename Block>
struct Stretch {
  const typename Block::Scales* scales;  // [superblocks][streams]
  const std::byte* begin;                // its first superblock
  const std::byte* end;                  // behind its last
  std::ptrdiff_t at;                     // of its first group in every row
  const std::byte* tile_end;
};
inline constexpr int kStretchBytes = 2304;  // about so many of a stretch, but a whole superblock

// Adds a stretch to the running sums of kSide parts from `part` on. The first parts also ask for weights
// ahead.
template <typename Block, Compute kCompute, int kStreams, int kSide, int kRows>
inline void add_stretch(const QuantizedTile& t, const Stretch<Block>& stretch, int part,
                        __m256 (*waiting)[kRows]) {
  using Group = QuantizedGroup<kCompute>;
  constexpr int kStep = kStreams * Block::kBytes;
  const bool ask = part == 0 && t.ahead.bytes > 0;
  const __m256i table = nibble_table();
  const std::byte* x[kRows];
  __m256 sums[kSide][kRows];
  KERNEL_UNROLL
  for (int m = 0; m < kRows; ++m) {
    x[m] = t.x[m] + stretch.at;
    KERNEL_UNROLL
    for (int s = 0; s < kSide; ++s) sums[s][m] = waiting[s][m];
  }
  const typename Block::Scales* scales = stretch.scales + part / 2;  // of the first part
  std::ptrdiff_t at = 0;  // of the group in every row
  for (const std::byte* superblock = stretch.begin; superblock < stretch.end;
       superblock += kStep, scales += kStreams) {
    const std::byte* ahead = place_ahead(t.ahead, superblock, stretch.tile_end);
    const std::byte* const first = superblock + part / 2 * Block::kBytes;  // block of the first part
    for (int g = 0; g < Block::kGroups; ++g, at += sizeof(Group)) {
      if (ask) prefetch_lines<kStep / Block::kGroups>(ahead);
      ahead += kStep / Block::kGroups;
      KERNEL_UNROLL
      for (int s = 0; s < kSide; ++s) {
        const int half = (part + s) % 2;
        __m256i w[4];
        Block::decode(first + s / 2 * Block::kBytes, g, half, table, w);
        const __m256 scale = Block::scales_of(scales[s / 2], g, half);
        KERNEL_UNROLL
        for (int m = 0; m < kRows; ++m) {
          const auto* group = reinterpret_cast<const Group*>(x[m] + at);
          __m256i dot = _mm256_set1_epi32(group->correction * (Block::kOffset / kCodeOffset));
          if constexpr (kCompute == Compute::kAccurate) {
            const __m256i high = Block::add_products(_mm256_setzero_si256(), w, group->values);
            dot = _mm256_add_epi32(dot, _mm256_slli_epi32(high, 7));
            dot = Block::add_products(dot, w, group->low);
          } else {
            dot = Block::add_products(dot, w, group->values);
          }
          const __m256 factor = _mm256_mul_ps(scale, _mm256_set1_ps(group->scale));
          sums[s][m] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), factor, sums[s][m]);
        }
      }
    }
  }
  KERNEL_UNROLL
  for (int s = 0; s < kSide; ++s) {
    KERNEL_UNROLL
    for (int m = 0; m < kRows; ++m) waiting[s][m] = sums[s][m];
  }
}

template <typename Block, Compute kCompute, int kStreams, int kRows>
void quantized_rows(const QuantizedTile& t) {
  constexpr int kParts = 2 * kStreams;
  constexpr int kSide = kRows <= 2 ? kParts : 1;
  constexpr int kStep = kStreams * Block::kBytes;
  constexpr int kBlocks = kStep < kStretchBytes ? kStretchBytes / kStep : 1;
  __m256 sums[kParts][kRows] = {};
  typename Block::Scales scales[kBlocks * kStreams];
  const std::byte* const end = t.weights + static_cast<std::ptrdiff_t>(t.superblocks) * kStep;
  Stretch<Block> stretch{.scales = scales, .begin = t.weights, .end = t.weights, .at = 0, .tile_end = end};
  for (; stretch.begin < end; stretch.begin = stretch.end) {
    typename Block::Scales* of_block = scales;
    for (int b = 0; b < kBlocks * kStreams && stretch.end < end; ++b, stretch.end += Block::kBytes) {
      Block::read_scales(stretch.end, end, *of_block++);
    }
    for (int part = 0; part < kParts; part += kSide) {
      add_stretch<Block, kCompute, kStreams, kSide, kRows>(t, stretch, part, sums + part);
    }
    stretch.at += kBlocks * Block::kGroups * std::ptrdiff_t{sizeof(QuantizedGroup<kCompute>)};
  }
  for (int part = 0; part < kParts; ++part) {
    const __m256 scale = _mm256_set1_ps(t.scales[part / 2]);
    for (int m = 0; m < kRows; ++m)
      _mm256_storeu_ps(t.y[part / 2][m] + part % 2 * 8, _mm256_mul_ps(sums[part][m], scale));
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

// What a product tile does for each 32 bytes, in registers, in chains that the compiler cannot know to be
// equal.
std::int64_t multiply_peak(int rounds) {
  constexpr int kChains = 8;
  volatile std::int32_t zero = 0;
  __m256i sums[kChains];
  KERNEL_UNROLL
  for (int c = 0; c < kChains; ++c) sums[c] = _mm256_set1_epi32(zero);
  __m256i a = _mm256_set1_epi8(3);
  for (int i = 0; i < rounds; ++i) {
    KERNEL_UNROLL
    for (int c = 0; c < kChains; ++c) {
      __asm__ volatile("" : "+x"(a));
      sums[c] = Products::accumulate(sums[c], a);
    }
  }
  KERNEL_UNROLL
  for (int c = 0; c < kChains; ++c) __asm__ volatile("" : "+x"(sums[c]));
  return std::int64_t{rounds} * kChains * 32;
}
