#include "models/decoder_parts.h"

#include <cstring>
#include <exception>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace tagalong::models {

namespace {

std::size_t area(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

}  // namespace

Embedding::Embedding(const tensor::WeightView& weight) : view_(weight) {
  const bool grouped = weight.scales.block != nullptr;
  const auto elements = static_cast<std::size_t>(weight.shape.elements());
  const std::size_t scale_bytes = grouped ? elements / kernels::kGroup : 0;
  data_ = base::AlignedBuffer<std::byte>(tensor::format_bytes(weight.format, weight.shape.elements()) -
                                         scale_bytes);
  std::memcpy(data_.data(), weight.data, data_.size());
  view_.data = data_.data();
  if (grouped) {
    scales_ = base::AlignedBuffer<std::byte>(scale_bytes);
    std::memcpy(scales_.data(), weight.scales.block, scale_bytes);
    view_.scales.block = scales_.data();
  }
}

void Embedding::lookup(std::span<const std::int32_t> ids, float* out) const {
  const std::int64_t hidden = view_.shape[1];
  for (const std::int32_t id : ids) {
    for (std::int64_t i = 0; i < hidden; ++i) *out++ = tensor::weight_at(view_, id, i);
  }
}

DecoderBuffers::DecoderBuffers(const WorkspaceLimits& limits, int width, const routing::RouterSpec& router,
                               int intermediate)
    : hidden(width),
      residual(area(limits.rows, width)),
      normed(area(limits.rows, width)),
      block_out(area(limits.rows, width)),
      head_in(area(limits.logit_rows, width)),
      head_scratch(limits.logit_rows, width),
      moe(router, limits.rows, limits.policy),
      gated(limits.rows, width, limits.rows * routing::plan_slots(router, limits.policy), intermediate,
            router.plan_experts()) {
  for (std::int32_t r = 0; r < limits.rows; ++r) all_rows.push_back({r, 1.0F});
}

void FeedForward::apply(const nn::Context& context, const Batch& batch, const StepContext& step,
                        int moe_index, DecoderBuffers& b) const {
  if (moe) {
    moe->apply(context, b.normed.data(), batch.roles, b.hidden, moe_index, step.policy, b.moe, b.gated,
               b.block_out.data(), step.routing);
    return;
  }
  const int rows = batch.rows();
  const nn::ExpertGroup group{&*dense, std::span(b.all_rows).first(static_cast<std::size_t>(rows))};
  nn::apply_gated_experts(context, {&group, 1}, b.normed.data(), rows, b.hidden, b.gated, b.block_out.data());
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

void count_totals(const Embedding& embedding, const nn::Linear& head, ModelInfo& info) {
  info.head_products = head.products();
  info.packed_bytes = embedding.bytes() + info.dense_bytes +
                      info.expert_bytes * static_cast<std::size_t>(info.router.experts) *
                          static_cast<std::size_t>(info.moe_layers);
}

void apply_head(const nn::Context& context, const Batch& batch, std::span<const float> norm, float eps,
                const nn::Linear& head, DecoderBuffers& b, std::span<float> logits) {
  const int wanted = static_cast<int>(batch.logit_rows.size());
  for (int r = 0; r < wanted; ++r) {
    context.kernels.rms_norm(b.residual.data() + area(batch.logit_rows[r], b.hidden), norm.data(), eps,
                             b.hidden, b.head_in.data() + area(r, b.hidden));
  }
  head.apply(context, b.head_in.data(), wanted, logits.data(), b.head_scratch);
}

void norm_rows(const nn::Context& context, const float* x, std::span<const float> weight, float eps, int rows,
               float* out) {
  const int width = static_cast<int>(weight.size());
  context.pool.run(rows, [&](int r, int) {
    const std::size_t at = static_cast<std::size_t>(r) * weight.size();
    context.kernels.rms_norm(x + at, weight.data(), eps, width, out + at);
  });
}

void add_rows(const nn::Context& context, const float* x, int rows, int width, float* sum) {
  context.pool.run(rows, [&](int r, int) {
    const std::size_t at = static_cast<std::size_t>(r) * static_cast<std::size_t>(width);
    context.kernels.axpy(1.0F, x + at, width, sum + at);
  });
}

void observe(const StepContext& step, std::string_view point, std::span<const float> values) {
  if (step.observer != nullptr) (*step.observer)(point, values);
}

nn::GatedWeights load_gated(const checkpoint::Checkpoint& file, const std::string& name, int hidden,
                            int intermediate, const std::shared_ptr<base::Arena>& arena) {
  const tensor::WeightView gate = file.weight(name + ".gate_proj", {intermediate, hidden});
  const tensor::WeightView up = file.weight(name + ".up_proj", {intermediate, hidden});
  const tensor::WeightView down = file.weight(name + ".down_proj", {hidden, intermediate});
  nn::GatedWeights weights(gate, up, down, arena);
  for (const auto* view : {&gate, &up, &down}) file.release(*view);
  return weights;
}

nn::Linear load_router(const checkpoint::Checkpoint& file, const std::string& name, int experts, int hidden) {
  nn::Linear router(file.weight(name + ".gate", {experts, hidden}));
  if (router.needs_quantized_rows()) {
    throw base::input_error("{}.gate: a quantised router is not supported", name);
  }
  return router;
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
