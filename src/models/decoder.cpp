#include "models/decoder.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace tagalong::models {

namespace {

// out[r] = RMSNorm(x[r]) for `rows` rows of weight.size() values.
void norm_rows(const nn::Context& context, const float* x, std::span<const float> weight, float eps, int rows,
               float* out) {
  const int width = static_cast<int>(weight.size());
  context.pool.run(rows, [&](int r, int) {
    const std::size_t at = static_cast<std::size_t>(r) * weight.size();
    context.kernels.rms_norm(x + at, weight.data(), eps, width, out + at);
  });
}

// sum[r] += x[r].
void add_rows(const nn::Context& context, const float* x, int rows, int width, float* sum) {
  context.pool.run(rows, [&](int r, int) {
    const std::size_t at = static_cast<std::size_t>(r) * static_cast<std::size_t>(width);
    context.kernels.axpy(1.0F, x + at, width, sum + at);
  });
}

}  // namespace

int add_planes(int count, int width, ModelInfo& info) {
  info.kv_planes.insert(info.kv_planes.end(), static_cast<std::size_t>(count), width);
  return static_cast<int>(info.kv_planes.size()) - count;
}

Decoder::Decoder(DecoderConfig config, const checkpoint::Checkpoint& file, const LoadOptions& options,
                 const LoadAttention& load_attention)
    : kernels_(options.kernels), h_(std::move(config)) {
  const WeightLoader loader(file, options);
  embedding_ = loader.embedding("model.embed_tokens", h_.vocab, h_.hidden);
  final_norm_ = loader.vector("model.norm.weight", h_.hidden);
  head_ = loader.linear(h_.tied_head ? "model.embed_tokens" : "lm_head", h_.vocab, h_.hidden);
  info_ = {.architecture = file.config().model_type(),
           .vocab = h_.vocab,
           .max_context = h_.max_context,
           .layers = h_.layers,
           .router = h_.router,
           .dense_bytes = head_.bytes(),
           .head_products = head_.products()};
  info_.router.correction_bias.clear();
  loader.release();
  for (int i = 0; i < h_.layers; ++i) {
    const std::string name = fmt::format("model.layers.{}", i);
    Layer layer;
    layer.input_norm = loader.vector(name + ".input_layernorm.weight", h_.hidden);
    layer.attention_norm = loader.vector(name + ".post_attention_layernorm.weight", h_.hidden);
    load_attention(loader, i, name + ".self_attn", info_);
    layer.feed_forward = load_feed_forward(loader, name + ".mlp", h_, h_.sparse_mlp[i]);
    layer.feed_forward.count(info_);
    layers_.push_back(std::move(layer));
    loader.release();
  }
  info_.packed_bytes = embedding_.bytes() + info_.dense_bytes +
                       info_.expert_bytes * static_cast<std::size_t>(h_.router.experts) *
                           static_cast<std::size_t>(info_.moe_layers);
}

std::vector<const nn::Moe*> Decoder::moe_layers() const {
  std::vector<const nn::Moe*> found;
  for (const Layer& layer : layers_) {
    if (layer.feed_forward.moe) found.push_back(&*layer.feed_forward.moe);
  }
  return found;
}

DecoderBuffers Decoder::make_buffers(const WorkspaceLimits& limits) const {
  routing::validate(limits.policy, h_.router, "routing policy");
  return {h_, limits};
}

void Decoder::forward(const Batch& batch, const StepContext& step, DecoderBuffers& b, const Attend& attend,
                      std::span<float> logits) const {
  const nn::Context context{kernels_, step.pool, step.tuning};
  const int rows = batch.rows();
  float* x = b.residual.data();
  const auto observe = [&](std::string_view point) {
    (*step.observer)(point, {x, static_cast<std::size_t>(rows) * static_cast<std::size_t>(h_.hidden)});
  };
  embedding_.lookup(step.pool, batch.ids, x);
  if (step.observer != nullptr) observe("embedding");

  int moe_index = 0;
  for (int i = 0; i < h_.layers; ++i) {
    const Layer& layer = layers_[i];
    norm_rows(context, x, layer.input_norm, h_.norm_eps, rows, b.normed.data());
    attend(context, i, b.normed.data(), b.block_out.data());
    add_rows(context, b.block_out.data(), rows, h_.hidden, x);

    norm_rows(context, x, layer.attention_norm, h_.norm_eps, rows, b.normed.data());
    layer.feed_forward.apply(context, batch, step, moe_index, b);
    add_rows(context, b.block_out.data(), rows, h_.hidden, x);
    if (layer.feed_forward.moe) ++moe_index;
    if (step.observer != nullptr) observe(fmt::format("layer.{}", i));
  }
  apply_head(context, batch, b, logits);
}

// logits [batch.logit_rows, vocab] of the rows that want them.
void Decoder::apply_head(const nn::Context& context, const Batch& batch, DecoderBuffers& b,
                         std::span<float> logits) const {
  const int wanted = static_cast<int>(batch.logit_rows.size());
  const auto width = static_cast<std::size_t>(h_.hidden);
  context.pool.run(wanted, [&](int r, int) {
    context.kernels.rms_norm(b.residual.data() + static_cast<std::size_t>(batch.logit_rows[r]) * width,
                             final_norm_.data(), h_.norm_eps, h_.hidden,
                             b.head_in.data() + static_cast<std::size_t>(r) * width);
  });
  head_.apply(context, b.head_in.data(), wanted, logits.data(), b.head_scratch);
}

}  // namespace tagalong::models
