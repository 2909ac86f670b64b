// The table of compute kernels: one table per instruction set, chosen once (select.h) and passed around.
//
// Every kernel computes a small piece on the calling thread: it starts no threads, allocates nothing, keeps
// no state and validates nothing. Drivers in nn/ cut the work into pieces and deal them to the pool.
//
// Law 1 holds here by construction. Each output element is one fixed sequence of operations over the input
// dimension, and the other rows of the call only repeat that sequence. Vectors are always 16 lanes wide, in
// two halves where the machine has only eight, and lanes are summed by one fixed tree; so scalar, AVX2 and
// AVX-512 agree to the last bit in every kernel, float and integer alike.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace tagalong::kernels {

inline constexpr int kLanes = 16;    // width of the virtual vector
inline constexpr int kRowTile = 16;  // weight rows (output features) of one packed tile
inline constexpr int kMaxRows = 8;   // activation rows of one tile call; more would spill registers
inline constexpr int kGroup = 16;    // activations that share one scale

// A packed block of each quantised format: input features and bytes (block_layout.h tells the layout).
inline constexpr int kNvfp4Inputs = 64;
inline constexpr int kNvfp4HeadBytes = 41;                    // 64 scales (nvfp4_head.h)
inline constexpr int kNvfp4Bytes = kNvfp4HeadBytes + 8 * 64;  // and eight lines of nibbles
inline constexpr int kMxfp4Inputs = 128;
inline constexpr int kMxfp4Bytes = 1088;  // a line of 64 scales, sixteen lines of nibbles
inline constexpr int kQ8Inputs = 64;
inline constexpr int kQ8Bytes = 1088;  // a line of 32 scales, sixteen lines of bytes
inline constexpr int kFp8Inputs = 128;
inline constexpr int kFp8ScaleBytes = 64;        // a line of 16 factors, then 16 bytes for each input
inline constexpr int kQuantizedPadding = 128;    // quantised rows are whole blocks of every format
inline constexpr std::int32_t kCodeOffset = 16;  // added to e2m1 codes to make them unsigned

// How finely activations are rounded before a product of whole numbers: the operator's choice, and the only
// one that changes numbers. Never chosen by batch size or tuner.
enum class Compute : std::uint8_t {
  kFast,      // 8 bits: the group's largest magnitude is 64 to 127 steps
  kAccurate,  // 15 bits, as two planes of 8: 8,192 to 16,319 steps
};

// A group of activations whose largest magnitude is below it counts as zero. So the product of any other
// group's scale with the value of an e4m3 code other than zero, times 2^-8, is a normal number.
inline constexpr float kSmallestActivation = 0x1p-96F;

// Whether a group whose largest magnitude has these bits is rounded: it is finite and does not count as zero.
constexpr bool is_rounded(std::uint32_t magnitude_bits) {
  return magnitude_bits >= std::bit_cast<std::uint32_t>(kSmallestActivation) && magnitude_bits < 0x7F800000U;
}

// The scale of a group of activations whose largest magnitude has these bits: the least power of two of which
// it is no more than 127 (16,319) when rounded, 1 where the group counts as zero, NaN with its sign set where
// the magnitude is none or infinite. A power of two, because its product with a weight's scale is then no
// more than an addition of exponents, which multipliers that are busy with weights leave to other units.
constexpr float group_scale(std::uint32_t magnitude_bits, Compute compute) {
  constexpr std::uint32_t kExponent = 0x7F800000;
  constexpr std::uint32_t kRounding = 0x10200;  // from 1.9921265 on (16,319.5 / 8,192) the next power of two
  if (!is_rounded(magnitude_bits)) {
    return magnitude_bits < kExponent ? 1.0F : -std::numeric_limits<float>::quiet_NaN();
  }
  const std::uint32_t power = (magnitude_bits + kRounding) & kExponent;
  return std::bit_cast<float>(power - ((compute == Compute::kFast ? 6U : 13U) << 23));
}

// Sixteen activations as whole numbers with one scale: x ~ q * scale, where q is values, or
// 128 * values + low in the accurate class. A quantised row is a sequence of such groups, padded with groups
// of zeros to a multiple of kQuantizedPadding activations. One sequence, because a tile of eight rows has
// registers for eight addresses, not for one of each field.
template <Compute>
struct QuantizedGroup;
template <>
struct QuantizedGroup<Compute::kFast> {
  std::int8_t values[kGroup];
  std::int32_t correction;  // -kCodeOffset * sum of q
  float scale;              // group_scale()
};
template <>
struct QuantizedGroup<Compute::kAccurate> {
  std::int8_t values[kGroup];
  std::int8_t low[kGroup];
  std::int32_t correction;
  float scale;
};

constexpr std::size_t group_bytes(Compute compute) {
  return compute == Compute::kFast ? sizeof(QuantizedGroup<Compute::kFast>)
                                   : sizeof(QuantizedGroup<Compute::kAccurate>);
}

// Weights are asked for so many bytes before their turn, 0 for not at all, so that memory does not stand idle
// while products are computed. Beyond the end of a tile they are what the thread reads next, from `next` on;
// any address will do.
struct Ahead {
  int bytes = 0;
  const std::byte* next = nullptr;
};

// y[m][0..16) = sum over k of w[0..16)[k] * x[m][k], fp32 throughout, even and odd k summed apart.
struct FloatTile {
  const std::byte* weights;  // one packed tile (packed_matrix.h) of the kernel's format
  int inputs;                // K, even
  const float* const* x;     // [rows] of [K]
  float* const* y;           // [rows] of [16]
  int rows;                  // 1..kMaxRows
  Ahead ahead = {};
};

// Quantised weights times quantised activations. `streams` = 2 means superblocks of two matrices alternate
// (gate, up): both are computed in one pass over the weights.
struct QuantizedTile {
  const std::byte* weights;   // packed superblocks, and what their heads refer to
  int superblocks;            // of one matrix
  int streams;                // 1 or 2
  float scales[2];            // per stream: factor of the result
  const std::byte* const* x;  // [rows] of [superblocks * inputs / 16] groups of the table's class
  float* const* y[2];         // per stream: [rows] of [16]
  int rows;                   // 1..kMaxRows
  Ahead ahead = {};
};

// How cached values are stored; kF8 is e4m3 without a scale.
enum class CacheFormat : std::uint8_t { kF32, kBF16, kF8 };

inline constexpr int kAttentionBlock = 64;  // keys whose values are widened to float at once
inline constexpr int kAttentionRows = 4;    // query rows of one call that share a pass over the keys

// Floats of scratch memory that index_scores wants for calls of up to kAttentionRows rows.
constexpr std::size_t index_scratch(int heads) {
  return static_cast<std::size_t>(kAttentionBlock) * kAttentionBlock +
         static_cast<std::size_t>(kAttentionRows) * static_cast<std::size_t>(heads) * kAttentionBlock;
}

// Scores of the DSA lightning indexer: out_s = sum over h of w_h * relu(q_h . k_s * scale), heads ascending.
struct IndexScores {
  const float* queries;   // [rows, heads, dim]
  const float* weights;   // [rows, heads]
  const std::byte* keys;  // [slots, dim] cached
  CacheFormat format;
  const std::int32_t* slots;   // [largest count]
  const std::int32_t* counts;  // [rows] row r scores the first counts[r] of the slots
  int rows;                    // 1..kAttentionRows
  int heads;
  int dim;  // multiple of 16
  float scale;
  float* scratch;     // [index_scratch(heads)]
  float* const* out;  // [rows] of [counts[r] rounded up to 16]
};

struct AttentionPart;  // attention.h
struct AttentionFold;
struct AttentionSums;

struct Kernels {
  std::string_view name;  // "scalar", "avx2", "avx2_vnni", "avx512_vnni", "avx512"
  Compute compute;

  void (*f32_tile)(const FloatTile&);
  void (*bf16_tile)(const FloatTile&);
  // Sums of up to kFp8Inputs inputs as above, weights 2^-8 of their value, each sum times its packed factor
  // and added to those before, fused.
  void (*fp8_tile)(const FloatTile&);
  // For each group of 16 inputs the exact sum of whole products, as float, times the product of the weight's
  // scale and the activation's, and added to the groups before, fused.
  void (*nvfp4_tile)(const QuantizedTile&);
  void (*mxfp4_tile)(const QuantizedTile&);
  void (*q8_tile)(const QuantizedTile&);

  // Quantises x[0..n), n a multiple of 16, to n / 16 groups of the table's class. A group whose largest
  // magnitude is below kSmallestActivation becomes zero; a group with a NaN or an infinity gets the scale
  // NaN, so that the result shows it.
  void (*quantize)(const float* x, int n, std::byte* out);

  // out = x * (1 / sqrt(mean(x^2) + eps)) * weight. out may be x. n is a multiple of 16 in all row kernels.
  void (*rms_norm)(const float* x, const float* weight, float eps, int n, float* out);
  // out = (x - mean) / sqrt(variance + eps) * weight + bias.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, int n, float* out);
  // out = silu(gate) * up, silu(g) = g / (1 + exp(-g)).
  void (*silu_mul)(const float* gate, const float* up, int n, float* out);
  // The same of 16 values for each of `rows` rows, quantised to a group each.
  void (*silu_mul_quantize)(const float* const* gate, const float* const* up, int rows,
                            std::byte* const* out);
  // y += a * x, fused.
  void (*axpy)(float a, const float* x, int n, float* y);
  // The same of 16 values for each of `rows` rows: y[m] += a[m] * x[m].
  void (*axpy_rows)(const float* a, const float* const* x, int rows, float* const* y);

  void (*attention_part)(const AttentionPart&);
  void (*fold_attention)(const AttentionFold&);
  // Divides out [heads, dim] by sum. dim is a multiple of 16.
  void (*finish_attention)(const AttentionSums& sums, int heads, int dim);
  void (*index_scores)(const IndexScores&);

  // The machine's ceilings, for benchmarks that quote their share of them.
  // Reads `bytes` (a multiple of 256) as fast as loads allow; the result only keeps the loads alive.
  std::uint32_t (*read_stream)(const std::byte* data, std::size_t bytes);
  // Multiplies int8 pairs in registers, `rounds` times; returns how many products that were.
  std::int64_t (*multiply_peak)(int rounds);
};

}  // namespace tagalong::kernels
