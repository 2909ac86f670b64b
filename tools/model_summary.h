// What a checkpoint's config and tensors tell without loading the model: sizes by part, and how many bytes of
// weights a decode step streams. Works for architectures that Tagalong cannot run, too.
//
// The figures are counted from the files; those for a batch rest on the stated assumption, nothing is timed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace tagalong::tools {

struct TensorGroup {
  std::string name;
  std::int64_t tensors = 0;
  std::int64_t parameters = 0;                  // scales are no parameters
  std::int64_t bytes = 0;                       // scales included
  std::map<std::string, std::int64_t> formats;  // bytes by format
};

// The routed experts of one layer.
struct ExpertLayer {
  std::int64_t experts = 0;
  std::int64_t bytes = 0;  // of all of them
};

struct ModelSummary {
  std::string model_type;
  std::string architecture;  // the class that config.json names; may be empty
  std::string declared_quantization;
  std::vector<std::pair<std::string, std::int64_t>> dimensions;
  std::vector<TensorGroup> groups;
  TensorGroup total;
  std::vector<ExpertLayer> expert_layers;
  std::int64_t experts_per_token = 0;
  std::int64_t fixed_bytes = 0;                     // of weights that every step reads
  std::optional<std::int64_t> kv_values_per_token;  // nullopt: the config does not tell

  // Distinct experts that `rows` tokens touch in a layer of `experts`, if each token chose at random.
  double expected_distinct(std::int64_t experts, std::int64_t rows) const;
  double expert_bytes_per_step(std::int64_t rows) const;  // all layers
  double mean_distinct(std::int64_t rows) const;          // experts of a layer
};

ModelSummary summarize(const checkpoint::Checkpoint& checkpoint);

// How the numbers of a tensor are stored: its dtype, or "NVFP4" for the parts of such a weight.
struct StoredAs {
  std::string format;
  std::int64_t parameters = 0;
};
StoredAs stored_as(const checkpoint::Checkpoint& checkpoint, const tensor::Tensor& tensor);
std::int64_t byte_size(const tensor::Tensor& tensor);

}  // namespace tagalong::tools
