#include "synthetic_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/split_mix.h"
#include "tensor/formats/bf16.h"
#include "tensor/formats/nvfp4.h"
#include "whole_file.h"

namespace tagalong::tools {

namespace {

// One stored tensor: an NVFP4 matrix is three of them.
struct StoredTensor {
  std::string name;
  const char* dtype;
  std::vector<std::int64_t> shape;
  std::size_t bytes;
  const SyntheticTensor* source;
};

// The scales of an NVFP4 matrix: e4m3 from 0x34 to 0x3B, which are 0.75 to 1.375.
constexpr unsigned kFirstScale = 0x34;
constexpr unsigned kScales = 8;

// Root mean square of a uniformly random code times a uniformly random scale.
float nvfp4_rms() {
  float codes = 0;
  for (unsigned code = 0; code < 16; ++code) codes += std::pow(tensor::e2m1_to_float(code), 2.0F) / 16;
  float scales = 0;
  for (unsigned i = 0; i < kScales; ++i) {
    scales += std::pow(tensor::e4m3_to_float(static_cast<std::uint8_t>(kFirstScale + i)), 2.0F) / kScales;
  }
  return std::sqrt(codes * scales);
}

std::vector<StoredTensor> stored_tensors(const std::vector<SyntheticTensor>& tensors) {
  std::vector<StoredTensor> stored;
  for (const SyntheticTensor& t : tensors) {
    const auto elements = static_cast<std::size_t>(t.rows * std::max<std::int64_t>(t.columns, 1));
    switch (t.fill) {
      case Fill::kNvfp4:
        stored.push_back({t.name, "U8", {t.rows, t.columns / 2}, elements / 2, &t});
        stored.push_back({t.name + "_scale", "F8_E4M3", {t.rows, t.columns / 16}, elements / 16, &t});
        stored.push_back({t.name + "_scale_2", "F32", {}, 4, &t});
        break;
      case Fill::kBf16:
        stored.push_back({t.name, "BF16", {t.rows, t.columns}, elements * 2, &t});
        break;
      case Fill::kOnes:
        stored.push_back({t.name, "BF16", {t.rows}, elements * 2, &t});
        break;
      case Fill::kZeros:
        stored.push_back({t.name, "F32", {t.rows}, elements * 4, &t});
        break;
    }
  }
  return stored;
}

std::string header_of(const std::vector<StoredTensor>& tensors) {
  nlohmann::ordered_json header;
  std::size_t offset = 0;
  for (const StoredTensor& t : tensors) {
    header[t.name] = {{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {offset, offset + t.bytes}}};
    offset += t.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begin aligned
  return text;
}

// Fills `out` with the tensor's bytes.
void fill(const StoredTensor& t, base::SplitMix64& random, std::vector<std::byte>& out) {
  out.resize(t.bytes);
  const std::string_view dtype = t.dtype;
  if (dtype == "U8" || dtype == "F8_E4M3") {
    for (std::size_t i = 0; i < out.size(); i += 8) {
      std::uint64_t word = random.next();
      if (dtype == "F8_E4M3") word = (word & 0x0707070707070707U) + 0x0101010101010101U * kFirstScale;
      std::memcpy(out.data() + i, &word, std::min<std::size_t>(8, out.size() - i));
    }
  } else if (t.source->fill == Fill::kNvfp4) {
    const float factor = t.source->rms / nvfp4_rms();
    std::memcpy(out.data(), &factor, sizeof(factor));
  } else if (t.source->fill == Fill::kZeros) {
    std::fill(out.begin(), out.end(), std::byte{0});
  } else {
    // Uniform around zero, of the wanted root mean square.
    const float width = t.source->rms * std::sqrt(12.0F);
    for (std::size_t i = 0; i < out.size(); i += 2) {
      const float unit = static_cast<float>(random.next() >> 40) * 0x1p-24F - 0.5F;
      const float value = t.source->fill == Fill::kOnes ? 1.0F : unit * width;
      const std::uint16_t bits = tensor::float_to_bf16(value);
      std::memcpy(out.data() + i, &bits, sizeof(bits));
    }
  }
}

}  // namespace

std::size_t write_checkpoint(const SyntheticModel& model, const std::filesystem::path& directory,
                             std::uint64_t seed, const std::function<void(int done, int total)>& progress) {
  const std::vector<StoredTensor> tensors = stored_tensors(model.tensors);
  const std::string header = header_of(tensors);
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw base::input_error("{}: cannot be made: {}", directory.string(), error.message());

  WholeFile config(directory / "config.json");
  config.stream() << model.config.dump(2) << '\n';
  config.finish();

  WholeFile file(directory / "model.safetensors");
  const auto header_bytes = static_cast<std::uint64_t>(header.size());
  file.stream().write(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes));
  file.stream() << header;
  base::SplitMix64 random(seed);
  std::vector<std::byte> data;
  std::size_t total = 0;
  // A full disk ends it early: finish() says so.
  for (std::size_t i = 0; i < tensors.size() && file.stream(); ++i) {
    fill(tensors[i], random, data);
    file.stream().write(reinterpret_cast<const char*>(data.data()),
                        static_cast<std::streamsize>(data.size()));
    total += data.size();
    progress(static_cast<int>(i) + 1, static_cast<int>(tensors.size()));
  }
  file.finish();
  return total;
}

}  // namespace tagalong::tools
