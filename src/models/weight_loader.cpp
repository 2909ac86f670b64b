#include "models/weight_loader.h"

#include <fmt/format.h>

#include <exception>
#include <memory>

#include "base/error.h"

namespace tagalong::models {

WeightLoader::WeightLoader(const checkpoint::Checkpoint& file, const LoadOptions& options)
    : file_(file),
      pool_(options.pool),
      dense_{.arena = std::make_shared<base::Arena>(base::Pages::kHuge, options.pool.crews()),
             .pool = &options.pool},
      networks_{.arena = std::make_shared<base::Arena>(options.pages, options.pool.crews()),
                .pool = &options.pool},
      experts_{.arena = networks_.arena, .pool = nullptr} {}

std::vector<float> WeightLoader::vector(const std::string& name, int length) const {
  return file_.vector(name, length);
}

tensor::WeightView WeightLoader::weight(const std::string& name, int outputs, int inputs) const {
  return file_.weight(name, {outputs, inputs});
}

Embedding WeightLoader::embedding(const std::string& name, int vocab, int hidden) const {
  const tensor::WeightView view = file_.weight(name, {vocab, hidden});
  Embedding embedding(view, dense_);
  file_.release(view);
  return embedding;
}

nn::Linear WeightLoader::linear(const std::string& name, int outputs, int inputs) const {
  const tensor::WeightView view = file_.weight(name, {outputs, inputs});
  nn::Linear linear(view, dense_);
  file_.release(view);
  return linear;
}

nn::Linear WeightLoader::router(const std::string& name, int experts, int hidden) const {
  nn::Linear router = linear(name, experts, hidden);
  if (router.needs_quantized_rows()) {
    throw base::input_error("{}: a quantised router is not supported", name);
  }
  return router;
}

nn::GatedWeights WeightLoader::gated(const std::string& name, int hidden, int intermediate) const {
  return network(name, hidden, intermediate, networks_);
}

nn::GatedWeights WeightLoader::network(const std::string& name, int hidden, int intermediate,
                                       const kernels::Packing& packing) const {
  const tensor::WeightView gate = file_.weight(name + ".gate_proj", {intermediate, hidden});
  const tensor::WeightView up = file_.weight(name + ".up_proj", {intermediate, hidden});
  const tensor::WeightView down = file_.weight(name + ".down_proj", {hidden, intermediate});
  nn::GatedWeights weights(gate, up, down, packing);
  for (const auto* view : {&gate, &up, &down}) file_.release(*view);
  return weights;
}

std::vector<nn::GatedWeights> WeightLoader::experts(const std::string& name, int count, int hidden,
                                                    int intermediate) const {
  return load_experts(pool_, count, [&](int e) {
    return network(fmt::format("{}.{}", name, e), hidden, intermediate, experts_);
  });
}

std::vector<nn::GatedWeights> load_experts(base::ThreadPool& pool, int experts,
                                           const std::function<nn::GatedWeights(int)>& load) {
  std::vector<nn::GatedWeights> weights(static_cast<std::size_t>(experts));
  std::vector<std::exception_ptr> errors(weights.size());
  pool.run(experts, [&](int e, int) {
    try {
      weights[e] = load(e);
    } catch (...) {
      errors[e] = std::current_exception();  // a task must not throw
    }
  });
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return weights;
}

}  // namespace tagalong::models
