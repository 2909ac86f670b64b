// The tensors and config.json of a model of a known shape with random weights: for measuring speed where no
// checkpoint of that size is at hand. Only the description; synth.cpp writes it.
//
// Weights have mean zero: a mean would turn all hidden states the same way, and the routers would then choose
// the same few experts for every token. Matrices keep the scale of their input, so that activations stay of
// order one through any number of layers, and routers see states that differ from token to token.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tagalong::tools {

enum class Fill : std::uint8_t {
  kNvfp4,  // a random matrix as ModelOpt stores it: codes, scales, factor
  kBf16,   // a random matrix
  kOnes,   // a vector of ones, BF16: the weight of a norm
  kZeros,  // a vector of zeros, F32: a bias
};

struct SyntheticTensor {
  std::string name;  // with ".weight" or ".bias"
  std::int64_t rows;
  std::int64_t columns;  // 0: a vector of `rows` values
  Fill fill;
  float rms;  // of a matrix's values
};

struct SyntheticModel {
  nlohmann::ordered_json config;
  std::vector<SyntheticTensor> tensors;  // in the order of the file
};

struct SyntheticShape {
  std::string like = "qwen3-30b-a3b";
  int layers = 0;     // 0: as many as the model has; all are MoE layers
  int vocab = 0;      // 0: the model's
  bool nvfp4 = true;  // all linear layers but routers, the embedding and the head; otherwise BF16
};

// Throws InputError listing the names if no shape is named so.
SyntheticModel synthetic_model(const SyntheticShape& shape);

}  // namespace tagalong::tools
