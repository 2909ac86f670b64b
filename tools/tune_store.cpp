#include "tune_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/cpu_info.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/numa.h"
#include "kernels/packed_matrix.h"

namespace tagalong::tools {

namespace {

using nlohmann::ordered_json;

constexpr int kFormat = 2;  // of the file
constexpr std::size_t kMostBytes = std::size_t{1} << 22;

// Letters and digits of a name, all else as single dashes: "AMD EPYC 9554" becomes "amd-epyc-9554".
std::string file_stem(std::string_view name) {
  std::string stem;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      stem += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!stem.empty() && stem.back() != '-') {
      stem += '-';
    }
  }
  while (!stem.empty() && stem.back() == '-') stem.pop_back();
  return stem;
}

ordered_json header(const TuneMachine& machine) {
  return {{"format", kFormat},
          {"pack", kernels::kPackVersion},
          {"cpu", machine.cpu},
          {"topology", machine.topology},
          {"isa", machine.isa}};
}

ordered_json to_json(const TuneEntry& entry) {
  return {{"tuning", to_string(entry.tuning)},
          {"microseconds", entry.microseconds},
          {"default_microseconds", entry.default_microseconds},
          {"spread", entry.spread},
          {"bytes_per_second", entry.bytes_per_second},
          {"share_of_stream", entry.share_of_stream},
          {"attention_microseconds", entry.attention_microseconds},
          {"attention_default_microseconds", entry.attention_default_microseconds}};
}

TuneEntry entry_from(const ordered_json& json) {
  return {.tuning = kernels::parse_tuning(json.at("tuning").get<std::string>()),
          .microseconds = json.at("microseconds").get<double>(),
          .default_microseconds = json.at("default_microseconds").get<double>(),
          .spread = json.at("spread").get<double>(),
          .bytes_per_second = json.at("bytes_per_second").get<double>(),
          .share_of_stream = json.at("share_of_stream").get<double>(),
          .attention_microseconds = json.value("attention_microseconds", 0.0),
          .attention_default_microseconds = json.value("attention_default_microseconds", 0.0)};
}

// A path that a variable names, if it is absolute; others are to be ignored, says the XDG specification.
std::optional<std::filesystem::path> absolute_path_in(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr || !std::filesystem::path(value).is_absolute()) return std::nullopt;
  return value;
}

}  // namespace

TuneMachine tune_machine(const kernels::Kernels& kernels) {
  const base::CpuInfo cpu = base::detect_cpu();
  std::string cores;  // of one node after another
  for (const base::NumaNode& node : base::numa_nodes(base::physical_cores())) {
    cores += fmt::format("{}{}", cores.empty() ? "" : " and ", fmt::join(node.cpus, ","));
  }
  return {.cpu = fmt::format("{} {}-{}-{}", cpu.name, cpu.family, cpu.model, cpu.stepping),
          .topology =
              fmt::format("cores {}, quota {}, l3 {} KiB", cores, base::usable_cores(), cpu.l3_bytes >> 10),
          .isa = fmt::format("{}{}", kernels.name,
                             kernels.compute == kernels::Compute::kAccurate ? " accurate" : "")};
}

std::optional<std::filesystem::path> TuneStore::default_path(const TuneMachine& machine) {
  std::optional<std::filesystem::path> cache = absolute_path_in("XDG_CACHE_HOME");
  if (!cache) {
    cache = absolute_path_in("HOME");
    if (cache) *cache /= ".cache";
  }
  if (cache) *cache /= std::filesystem::path("tagalong") / "tune" / (file_stem(machine.cpu) + ".json");
  return cache;
}

TuneStore::TuneStore(std::filesystem::path path, TuneMachine machine)
    : path_(std::move(path)), machine_(std::move(machine)) {}

std::optional<TuneRecords> TuneStore::read() const {
  if (!std::filesystem::exists(path_)) return std::nullopt;
  const std::string text = base::read_text_file(path_, kMostBytes);
  try {
    const ordered_json file = ordered_json::parse(text);
    const ordered_json expected = header(machine_);
    for (const auto& [key, value] : expected.items()) {
      if (!file.contains(key) || file.at(key) != value) {
        throw base::input_error("{}: {} is {}, expected {}: it was not made on this machine by this version",
                                path_.string(), key, file.contains(key) ? file.at(key).dump() : "missing",
                                value.dump());
      }
    }
    TuneRecords records;
    records.huge_pages = file.at("huge_pages").get<bool>();
    for (const auto& [shape, batches] : file.at("shapes").items()) {
      for (const auto& [rows, entry] : batches.items()) {
        records.shapes[shape][std::stoi(rows)] = entry_from(entry);
      }
    }
    return records;
  } catch (const ordered_json::exception& error) {
    throw base::input_error("{}: not a file of the tuner: {}", path_.string(), error.what());
  } catch (const std::logic_error&) {  // std::stoi
    throw base::input_error("{}: not a file of the tuner: a batch is not a number of rows", path_.string());
  }
}

void TuneStore::merge(const TuneRecords& records) const {
  TuneRecords all = read().value_or(TuneRecords{});
  if (records.huge_pages) all.huge_pages = records.huge_pages;
  for (const auto& [shape, entries] : records.shapes) {
    for (const auto& [rows, entry] : entries) all.shapes[shape][rows] = entry;
  }
  ordered_json file = header(machine_);
  file["huge_pages"] = all.huge_pages.value_or(true);
  file["shapes"] = ordered_json::object();
  for (const auto& [shape, entries] : all.shapes) {
    for (const auto& [rows, entry] : entries) file["shapes"][shape][std::to_string(rows)] = to_json(entry);
  }
  replace(file.dump(2) + "\n");
}

// A reader sees the old file or the new one, and nothing half-written stays behind.
void TuneStore::replace(const std::string& text) const {
  std::error_code error;
  std::filesystem::create_directories(path_.parent_path(), error);
  if (error) throw base::input_error("{}: cannot be made: {}", path_.parent_path().string(), error.message());
  std::string name = path_.string() + ".XXXXXX";
  const int file = ::mkstemp(name.data());
  if (file < 0) throw base::input_error("{}: cannot be written: {}", path_.string(), std::strerror(errno));
  bool written = true;
  for (std::size_t at = 0; written && at < text.size();) {
    const ssize_t count = ::write(file, text.data() + at, text.size() - at);
    written = count > 0;
    if (written) at += static_cast<std::size_t>(count);
  }
  written = written && ::fsync(file) == 0;
  int reason = errno;
  ::close(file);
  if (written && ::rename(name.c_str(), path_.c_str()) != 0) {
    written = false;
    reason = errno;
  }
  if (!written) {
    ::unlink(name.c_str());
    throw base::input_error("{}: cannot be written: {}", path_.string(), std::strerror(reason));
  }
}

kernels::TuningTable tuning_table(const std::map<int, TuneEntry>& entries) {
  kernels::TuningTable table;
  if (entries.empty()) return table;
  for (int bucket = 0; bucket < kernels::TuningTable::kBuckets; ++bucket) {
    auto next = entries.upper_bound(kernels::TuningTable::rows_of(bucket));
    if (next != entries.begin()) --next;
    table[bucket] = next->second.tuning;
  }
  return table;
}

}  // namespace tagalong::tools
