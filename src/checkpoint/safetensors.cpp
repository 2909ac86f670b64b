#include "checkpoint/safetensors.h"

#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "checkpoint/quote.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace tagalong::checkpoint {

namespace {

using base::input_error;

static_assert(std::endian::native == std::endian::little, "tensor data is used as it lies in the file");

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
// The largest checkpoints of the day hold about 300,000 tensors in all their files together.
constexpr std::size_t kMaxTensors = std::size_t{1} << 20;
constexpr std::size_t kMaxNameBytes = 1024;
// Entries are three levels deep; a deeper header is refused before the parser follows it.
constexpr std::size_t kMaxDepth = 16;

struct Entry {
  tensor::Tensor tensor;
  std::uint64_t begin = 0;  // within the data that follows the header
  std::uint64_t end = 0;
};

class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> file, std::string_view origin) : file_(file), origin_(origin) {}

  SafetensorsContents read() {
    const std::string_view header = header_text();
    data_ = file_.subspan(kLengthBytes + header.size());
    simdjson::dom::parser parser;
    read_entries(parse_json(parser, header));
    check_tiling();
    return collect();
  }

 private:
  template <typename... Args>
  [[nodiscard]] base::InputError error(fmt::format_string<Args...> format, Args&&... args) const {
    return input_error("{}: {}", origin_, fmt::format(format, std::forward<Args>(args)...));
  }

  template <typename... Args>
  [[nodiscard]] base::InputError tensor_error(std::string_view name, fmt::format_string<Args...> format,
                                              Args&&... args) const {
    return error("tensor {}: {}", quote(name), fmt::format(format, std::forward<Args>(args)...));
  }

  std::string_view header_text() const {
    if (file_.size() < kLengthBytes) {
      throw error("{} bytes, too short for a safetensors file; incomplete download?", file_.size());
    }
    std::uint64_t length = 0;
    std::memcpy(&length, file_.data(), kLengthBytes);
    if (length > kMaxHeaderBytes) {
      throw error("header of {} bytes, at most {} allowed; not a safetensors file?", length, kMaxHeaderBytes);
    }
    if (length > file_.size() - kLengthBytes) {
      throw error("header of {} bytes, but only {} follow its length; incomplete download?", length,
                  file_.size() - kLengthBytes);
    }
    return {reinterpret_cast<const char*>(file_.data()) + kLengthBytes, static_cast<std::size_t>(length)};
  }

  // `parser` owns what is returned.
  simdjson::dom::object parse_json(simdjson::dom::parser& parser, std::string_view header) const {
    if (header.empty() || header.front() != '{') {
      throw error("the header does not begin with '{{'; not a safetensors file?");
    }
    const std::size_t last = header.find_last_not_of(' ');
    if (header[last] != '}') throw error("the header does not end with '}}' and spaces");
    const std::string_view text = header.substr(0, last + 1);
    if (parser.allocate(text.size(), kMaxDepth) != simdjson::SUCCESS) {
      throw error("no memory to parse a header of {} bytes", text.size());
    }
    simdjson::dom::object object;
    if (const auto code = parser.parse(text.data(), text.size()).get(object); code != simdjson::SUCCESS) {
      throw error("the header is not valid JSON: {}", simdjson::error_message(code));
    }
    return object;
  }

  void read_entries(simdjson::dom::object object) {
    bool has_metadata = false;
    for (const auto field : object) {
      if (field.key == "__metadata__") {
        if (std::exchange(has_metadata, true)) throw error("'__metadata__' occurs twice");
        read_metadata(field.value);
        continue;
      }
      if (entries_.size() == kMaxTensors) throw error("more than {} tensors", kMaxTensors);
      entries_.push_back(read_entry(field.key, field.value));
    }
  }

  void read_metadata(simdjson::dom::element value) {
    simdjson::dom::object object;
    if (value.get(object) != simdjson::SUCCESS) throw error("'__metadata__' is not an object");
    for (const auto field : object) {
      std::string_view text;
      if (field.value.get(text) != simdjson::SUCCESS) {
        throw error("'__metadata__': the value of {} is not a string", quote(field.key));
      }
      if (!metadata_.emplace(field.key, text).second) {
        throw error("'__metadata__': key {} occurs twice", quote(field.key));
      }
    }
  }

  Entry read_entry(std::string_view name, simdjson::dom::element value) const {
    if (name.empty()) throw error("a tensor with an empty name");
    if (name.size() > kMaxNameBytes) {
      throw tensor_error(name, "name of {} bytes, at most {} allowed", name.size(), kMaxNameBytes);
    }
    // Names are printed; what a terminal would obey has no place in one.
    if (has_control_characters(name)) throw tensor_error(name, "control characters in the name");
    simdjson::dom::object fields;
    if (value.get(fields) != simdjson::SUCCESS) throw tensor_error(name, "the entry is not an object");

    std::optional<simdjson::dom::element> dtype;
    std::optional<simdjson::dom::element> shape;
    std::optional<simdjson::dom::element> offsets;
    for (const auto field : fields) {
      auto* slot = field.key == "dtype"          ? &dtype
                   : field.key == "shape"        ? &shape
                   : field.key == "data_offsets" ? &offsets
                                                 : nullptr;
      if (slot == nullptr) {
        throw tensor_error(name, "unexpected key {}, only dtype, shape and data_offsets are allowed",
                           quote(field.key));
      }
      if (slot->has_value()) throw tensor_error(name, "key '{}' occurs twice", field.key);
      *slot = field.value;
    }
    if (!dtype) throw tensor_error(name, "missing key 'dtype'");
    if (!shape) throw tensor_error(name, "missing key 'shape'");
    if (!offsets) throw tensor_error(name, "missing key 'data_offsets'");

    Entry entry;
    entry.tensor.name = name;
    entry.tensor.dtype = read_dtype(name, *dtype);
    const std::uint64_t bytes = read_shape(name, *shape, entry.tensor);
    read_offsets(name, *offsets, entry);
    if (entry.end - entry.begin != bytes) {
      throw tensor_error(name, "{} {} takes {} bytes, but data_offsets span {}",
                         tensor::dtype_name(entry.tensor.dtype), to_string(entry.tensor.shape), bytes,
                         entry.end - entry.begin);
    }
    if (entry.end > data_.size()) {
      throw tensor_error(name, "ends at byte {} of the data, but the file holds {}; incomplete download?",
                         entry.end, data_.size());
    }
    entry.tensor.data = data_.data() + entry.begin;
    return entry;
  }

  tensor::DType read_dtype(std::string_view name, simdjson::dom::element value) const {
    std::string_view text;
    if (value.get(text) != simdjson::SUCCESS) throw tensor_error(name, "'dtype' is not a string");
    const std::optional<tensor::DType> dtype = tensor::dtype_from_name(text);
    if (!dtype) {
      throw tensor_error(name, "dtype {} is unknown or not one that Tagalong computes with", quote(text));
    }
    return *dtype;
  }

  // Sets the shape and returns its size in bytes.
  std::uint64_t read_shape(std::string_view name, simdjson::dom::element value,
                           tensor::Tensor& tensor) const {
    simdjson::dom::array array;
    if (value.get(array) != simdjson::SUCCESS) throw tensor_error(name, "'shape' is not an array");
    std::vector<std::int64_t> extents;
    std::uint64_t bytes = tensor::dtype_bytes(tensor.dtype);
    for (const auto item : array) {
      std::uint64_t extent = 0;
      if (item.get(extent) != simdjson::SUCCESS || extent > std::numeric_limits<std::int64_t>::max()) {
        throw tensor_error(name, "extent {} of 'shape' is not an unsigned integer below 2^63",
                           extents.size());
      }
      if (extents.size() == tensor::kMaxRank) {
        throw tensor_error(name, "rank above {}, the highest supported", tensor::kMaxRank);
      }
      if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > std::numeric_limits<std::int64_t>::max()) {
        throw tensor_error(name, "the size that its shape gives overflows 63 bits");
      }
      extents.push_back(static_cast<std::int64_t>(extent));
    }
    tensor.shape = tensor::Shape(extents);
    return bytes;
  }

  void read_offsets(std::string_view name, simdjson::dom::element value, Entry& entry) const {
    simdjson::dom::array array;
    if (value.get(array) != simdjson::SUCCESS || array.size() != 2) {
      throw tensor_error(name, "'data_offsets' is not an array of two");
    }
    if (array.at(0).get(entry.begin) != simdjson::SUCCESS ||
        array.at(1).get(entry.end) != simdjson::SUCCESS) {
      throw tensor_error(name, "'data_offsets' holds something other than unsigned integers");
    }
    if (entry.begin > entry.end) {
      throw tensor_error(name, "'data_offsets' run backwards: [{}, {}]", entry.begin, entry.end);
    }
  }

  // The entries must cover the data from its first byte to its last, each byte once: a file in which other
  // content hides between tensors, or two names share bytes, is refused.
  void check_tiling() {
    std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::uint64_t covered = 0;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      if (entry.begin < covered) {
        throw tensor_error(entry.tensor.name,
                           "begins at byte {} of the data, inside tensor {} that ends at {}", entry.begin,
                           quote(entries_[i - 1].tensor.name), covered);
      }
      if (entry.begin > covered) {
        throw tensor_error(entry.tensor.name, "begins at byte {} of the data, leaving a gap after byte {}",
                           entry.begin, covered);
      }
      covered = entry.end;
    }
    if (covered != data_.size()) {
      throw error("{} bytes after the last tensor; damaged or not a plain safetensors file?",
                  data_.size() - covered);
    }
  }

  SafetensorsContents collect() {
    SafetensorsContents contents;
    contents.metadata = std::move(metadata_);
    contents.tensors.reserve(entries_.size());
    for (Entry& entry : entries_) contents.tensors.push_back(std::move(entry.tensor));
    std::sort(contents.tensors.begin(), contents.tensors.end(),
              [](const tensor::Tensor& a, const tensor::Tensor& b) { return a.name < b.name; });
    const auto twice =
        std::adjacent_find(contents.tensors.begin(), contents.tensors.end(),
                           [](const tensor::Tensor& a, const tensor::Tensor& b) { return a.name == b.name; });
    if (twice != contents.tensors.end()) throw tensor_error(twice->name, "the name occurs twice");
    return contents;
  }

  std::span<const std::byte> file_;
  std::span<const std::byte> data_;
  std::string_view origin_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace

SafetensorsContents parse_safetensors(std::span<const std::byte> file, std::string_view origin) {
  return HeaderReader(file, origin).read();
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(path), contents_(parse_safetensors(file_.bytes(), path.string())) {}

const tensor::Tensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::lower_bound(
      contents_.tensors.begin(), contents_.tensors.end(), name,
      [](const tensor::Tensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return found != contents_.tensors.end() && found->name == name ? &*found : nullptr;
}

}  // namespace tagalong::checkpoint
