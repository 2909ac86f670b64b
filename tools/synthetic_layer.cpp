#include "synthetic_layer.h"

#include <array>
#include <cmath>
#include <string>

#include "base/error.h"
#include "base/split_mix.h"
#include "models/weight_loader.h"
#include "tensor/weight_view.h"

namespace tagalong::tools {

namespace {

// An NVFP4 matrix [outputs, inputs] whose products with unit activations have about unit size.
struct RandomMatrix {
  std::vector<std::uint64_t> codes;
  std::vector<std::byte> scales;
  tensor::WeightView view;

  RandomMatrix(int outputs, int inputs, base::SplitMix64& random)
      : codes(static_cast<std::size_t>(outputs) * static_cast<std::size_t>(inputs) / 16),
        scales(static_cast<std::size_t>(outputs) * static_cast<std::size_t>(inputs) / 16) {
    for (auto& word : codes) word = random.next();
    for (auto& scale : scales) scale = static_cast<std::byte>(0x34 + random.next() % 8);  // 0.75 .. 1.9
    // A uniform code has the mean square 9.4, and the scales average 1.2.
    const float factor = 1.0F / (3.7F * std::sqrt(static_cast<float>(inputs)));
    view = {.name = "synthetic",
            .format = tensor::Format::kNVFP4,
            .shape = {outputs, inputs},
            .data = reinterpret_cast<const std::byte*>(codes.data()),
            .scales = {.block = scales.data(), .tensor = factor}};
  }
};

nn::GatedWeights random_network(int hidden, int intermediate, std::uint64_t seed,
                                const std::shared_ptr<base::Arena>& arena) {
  base::SplitMix64 random(seed);
  const RandomMatrix gate(intermediate, hidden, random);
  const RandomMatrix up(intermediate, hidden, random);
  const RandomMatrix down(hidden, intermediate, random);
  return {gate.view, up.view, down.view, {.arena = arena}};
}

struct NamedShape {
  std::string_view name;
  LayerShape shape;
};

constexpr std::array<NamedShape, 6> kShapes{{
    {"qwen3-30b-a3b", {.experts = 128, .top_k = 8, .hidden = 2048, .intermediate = 768}},
    {"qwen3-235b-a22b", {.experts = 128, .top_k = 8, .hidden = 4096, .intermediate = 1536}},
    {"glm-4.7-flash", {.experts = 64, .top_k = 4, .hidden = 2048, .intermediate = 1536, .shared = 1}},
    {"glm-5", {.experts = 256, .top_k = 8, .hidden = 6144, .intermediate = 2048, .shared = 1}},
    {"deepseek-v3", {.experts = 256, .top_k = 8, .hidden = 7168, .intermediate = 2048, .shared = 1}},
    {"olmoe", {.experts = 64, .top_k = 8, .hidden = 2048, .intermediate = 1024}},
}};

}  // namespace

LayerShape shape_like(std::string_view name) {
  std::string names;
  for (const NamedShape& known : kShapes) {
    if (known.name == name) return known.shape;
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  throw base::input_error("no layer shape is named '{}'; known: {}", name, names);
}

nn::Moe make_synthetic_layer(const LayerShape& shape, base::ThreadPool& pool, std::uint64_t seed,
                             base::Pages pages) {
  nn::Moe layer;
  layer.spec.scoring = routing::Scoring::kSoftmax;
  layer.spec.experts = shape.experts;
  layer.spec.top_k = shape.top_k;
  layer.spec.fused_shared_experts = shape.shared > 0 ? 1 : 0;
  routing::validate(layer.spec, "layer");
  for (const int extent : {shape.hidden, shape.intermediate}) {
    if (extent < 16 || extent % 16 != 0) {
      throw base::input_error("layer: extent {} is not a positive multiple of 16", extent);
    }
  }
  base::SplitMix64 random(seed);
  std::vector<std::byte> router(static_cast<std::size_t>(shape.experts) *
                                static_cast<std::size_t>(shape.hidden) * 2);
  for (std::size_t i = 0; i < router.size(); i += 2) {
    // Uniform in +-1/8: a random sign and fraction under one exponent, as bf16.
    const std::uint64_t bits = random.next();
    router[i] = static_cast<std::byte>(bits);
    router[i + 1] = static_cast<std::byte>(0x3D | ((bits >> 8) & 0x80));
  }
  layer.router = nn::Linear({.name = "router",
                             .format = tensor::Format::kBF16,
                             .shape = {shape.experts, shape.hidden},
                             .data = router.data()});
  const auto arena = std::make_shared<base::Arena>(pages, pool.crews());
  layer.experts = models::load_experts(pool, shape.experts, [&](int e) {
    return random_network(shape.hidden, shape.intermediate, seed + 1000 + static_cast<std::uint64_t>(e),
                          arena);
  });
  if (shape.shared > 0)
    layer.experts.push_back(random_network(shape.hidden, shape.intermediate * shape.shared, seed, arena));
  return layer;
}

std::size_t expert_bytes(const nn::Moe& layer) { return layer.experts.front().bytes(); }

}  // namespace tagalong::tools
