#include "models/feed_forward.h"

#include <cstddef>
#include <span>

#include "routing/router_spec.h"

namespace tagalong::models {

namespace {

nn::Moe load_moe(const WeightLoader& loader, const std::string& name, const DecoderConfig& h) {
  nn::Moe moe;
  moe.spec = h.router;
  if (!moe.spec.correction_bias.empty()) {
    moe.spec.correction_bias = loader.vector(name + ".gate.e_score_correction_bias", h.router.experts);
    routing::validate(moe.spec, name);
  }
  moe.router = loader.router(name + ".gate", h.router.experts, h.hidden);
  moe.experts = loader.experts(name + ".experts", h.router.experts, h.hidden, h.moe_intermediate);
  if (h.router.fused_shared_experts > 0) {
    // Several shared experts are stored as one network, so many times as wide.
    moe.experts.push_back(loader.gated(name + ".shared_experts", h.hidden, h.shared_intermediate));
  }
  return moe;
}

}  // namespace

void FeedForward::apply(const nn::Context& context, const Batch& batch, const StepContext& step,
                        int moe_index, DecoderBuffers& b) const {
  if (moe) {
    moe->apply(context, b.normed.data(), batch.roles, moe->router.inputs(), moe_index, step.policy, b.moe,
               b.gated, b.block_out.data(), step.routing);
    return;
  }
  const int rows = batch.rows();
  const nn::ExpertGroup group{&*dense, std::span(b.all_rows).first(static_cast<std::size_t>(rows))};
  nn::apply_gated_experts(context, {&group, 1}, b.normed.data(), rows, dense->gate_up.inputs(), b.gated,
                          b.block_out.data());
}

void FeedForward::count(ModelInfo& info) const {
  const auto products = [](const nn::GatedWeights& w) {
    return 3 * static_cast<std::size_t>(w.gate_up.inputs()) * static_cast<std::size_t>(w.gate_up.outputs());
  };
  if (!moe) {
    info.dense_bytes += dense->bytes();
    info.row_products += products(*dense);
    return;
  }
  const nn::GatedWeights& expert = moe->experts.front();
  ++info.moe_layers;
  info.expert_bytes = expert.bytes();
  info.dense_bytes += moe->router.bytes();
  info.row_products += moe->router.products() + products(expert) * static_cast<std::size_t>(moe->spec.top_k);
  if (moe->spec.fused_shared_experts > 0) {
    info.dense_bytes += moe->experts.back().bytes();
    info.row_products += products(moe->experts.back());
  }
}

FeedForward load_feed_forward(const WeightLoader& loader, const std::string& name, const DecoderConfig& h,
                              bool sparse) {
  FeedForward layer;
  if (sparse) {
    layer.moe = load_moe(loader, name, h);
  } else {
    layer.dense = loader.gated(name, h.hidden, h.intermediate);
  }
  return layer;
}

}  // namespace tagalong::models
