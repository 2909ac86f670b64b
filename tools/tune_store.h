// What the tuner found, kept in a file between runs: by machine, then by shape of layer, then by batch.
//
// The file of a machine is $XDG_CACHE_HOME/tagalong/tune/<cpu>.json, or below ~/.cache. A file that was
// written for another machine, for another packing of weights or by other software is left alone: it is not
// read, and never overwritten. Writing replaces the file in one step and keeps the shapes that others have
// added meanwhile.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "kernels/tuning.h"

namespace tagalong::tools {

// What tuning depends on besides shape and batch. Read from the system.
struct TuneMachine {
  std::string cpu;       // name, family, model and stepping
  std::string topology;  // physical cores, as the pool numbers them, and the last cache
  std::string isa;       // of the kernels, and their class
};

TuneMachine tune_machine(const kernels::Kernels& kernels);

// What was found for one size of batch.
struct TuneEntry {
  kernels::Tuning tuning;
  double microseconds = 0;          // of one layer's experts under it, median
  double default_microseconds = 0;  // under the defaults, in the same rounds
  double spread = 0;                // of microseconds: (third quartile - first) / median
  double bytes_per_second = 0;      // of weights
  double share_of_stream = 0;       // of what the machine reads at most, measured beside it
  // Of a layer's attention to long contexts; 0: not measured.
  double attention_microseconds = 0;
  double attention_default_microseconds = 0;
};

struct TuneRecords {
  std::optional<bool> huge_pages{};                        // empty: not measured, as if true
  std::map<std::string, std::map<int, TuneEntry>> shapes;  // by shape, then by rows of the batch
};

class TuneStore {
 public:
  // The file of this machine in the user's cache; nullopt where there is no place for a cache.
  static std::optional<std::filesystem::path> default_path(const TuneMachine& machine);

  TuneStore(std::filesystem::path path, TuneMachine machine);

  const std::filesystem::path& path() const { return path_; }

  // nullopt if there is no file. Throws base::InputError if the file is another machine's, or no such file
  // at all: what it says must not be used.
  std::optional<TuneRecords> read() const;

  // Adds to what is there now. Throws base::InputError, with the file as it was, if the file is not this
  // machine's or the system refuses.
  void merge(const TuneRecords& records) const;

 private:
  void replace(const std::string& text) const;

  std::filesystem::path path_;
  TuneMachine machine_;
};

// What a shape's entries say for every batch: each size takes the entry of the largest size that is not
// larger, or else of the smallest.
kernels::TuningTable tuning_table(const std::map<int, TuneEntry>& entries);

}  // namespace tagalong::tools
