// What the integer product tiles of all instruction sets share: how weights are asked for ahead, and the
// choice of the code for a call's streams and rows. Included inside a begin.h region, before the including
// file's tiles.

// What is read ahead.bytes after `block`, in a tile that ends at `end` or beyond it.
inline const std::byte* place_ahead(const Ahead& ahead, const std::byte* block, const std::byte* end) {
  const std::ptrdiff_t beyond = block + ahead.bytes - end;
  return beyond < 0 ? block + ahead.bytes : ahead.next + beyond;
}

// Into the second cache: it has room for more misses at once than the first, which the hardware's own streams
// then feed from it.
template <int kBytes>
inline void prefetch_lines(const std::byte* start) {
  KERNEL_UNROLL
  for (int i = 0; i < kBytes; i += 64) _mm_prefetch(start + i, _MM_HINT_T1);
}

// One of `parts` of the lines of kBytes.
template <int kBytes>
inline void prefetch_part(const std::byte* start, int part, int parts) {
  constexpr int kLines = (kBytes + 63) / 64;
  KERNEL_UNROLL
  for (int i = part * kLines / parts; i < (part + 1) * kLines / parts; ++i) {
    _mm_prefetch(start + 64 * i, _MM_HINT_T1);
  }
}

// What formats share whose scales lie in the block as a tile wants them.
struct ScalesInBlock {
  using Scales = const std::byte*;  // the block
  static void read_scales(const std::byte* block, const std::byte*, Scales& scales) { scales = block; }
};

// A tile of kStreams streams times kRows activation rows; the including file defines it.
template <typename Block, Compute kCompute, int kStreams, int kRows>
void quantized_rows(const QuantizedTile& t);

template <typename Block, Compute kCompute, int kStreams>
void quantized_streams(const QuantizedTile& t) {
  using Rows = void (*)(const QuantizedTile&);
  static constexpr Rows kByRows[kMaxRows] = {
      quantized_rows<Block, kCompute, kStreams, 1>, quantized_rows<Block, kCompute, kStreams, 2>,
      quantized_rows<Block, kCompute, kStreams, 3>, quantized_rows<Block, kCompute, kStreams, 4>,
      quantized_rows<Block, kCompute, kStreams, 5>, quantized_rows<Block, kCompute, kStreams, 6>,
      quantized_rows<Block, kCompute, kStreams, 7>, quantized_rows<Block, kCompute, kStreams, 8>};
  kByRows[t.rows - 1](t);
}

template <typename Block, Compute kCompute>
void quantized_tile(const QuantizedTile& t) {
  if (t.streams == 2) {
    quantized_streams<Block, kCompute, 2>(t);
  } else {
    quantized_streams<Block, kCompute, 1>(t);
  }
}
