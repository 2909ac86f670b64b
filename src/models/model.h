// What the engine knows of a model: its sizes, its workspace and one call, forward().
//
// A Model is immutable after load; several threads may run forward() on one model at a time, each with its
// own workspace, pool and cache. forward() allocates nothing, throws nothing and locks nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "base/thread_pool.h"
#include "cache/kv_store.h"
#include "kernels/kernels.h"
#include "kernels/tuning.h"
#include "models/batch.h"
#include "nn/attention_shape.h"
#include "routing/route_observer.h"
#include "routing/router_spec.h"
#include "routing/routing_policy.h"

namespace tagalong::checkpoint {
class Checkpoint;
}

namespace tagalong::nn {
class Moe;
}

namespace tagalong::models {

struct ModelInfo {
  std::string architecture{};  // config.json's model_type
  int vocab = 0;
  int max_context = 0;  // positions a sequence may have
  int layers = 0;
  int moe_layers = 0;
  routing::RouterSpec
      router{};  // of every MoE layer, but for the bias and the table that each has of its own
  std::size_t expert_bytes = 0;  // weights of one routed expert, as they are streamed
  std::size_t dense_bytes = 0;   // weights that every step streams, whatever the routing
  std::size_t packed_bytes = 0;  // all weights as they are kept in memory
  // Multiplications of a row in all linear layers, its top_k experts among them, and in the head.
  std::size_t row_products = 0;
  std::size_t head_products = 0;
  std::vector<int> kv_planes{};    // widths for the KvStore
  nn::AttentionShape attention{};  // of every layer
  int most_attended = 0;  // positions that a row attends to: max_context, or the choice of an indexer
};

// Scratch memory of one step, made once for the largest batch. Opaque to the engine.
class Workspace {
 public:
  virtual ~Workspace() = default;
};

// What a workspace must be large enough for.
struct WorkspaceLimits {
  int rows = 1;        // of a batch
  int logit_rows = 1;  // of a batch
  int workers = 1;     // threads of the pool
  routing::RoutingPolicy policy;
};

// Called with named intermediate values ("embedding", "layer.0", ...): [rows, width], valid during the call.
using Observer = std::function<void(std::string_view point, std::span<const float> values)>;

struct StepContext {
  base::ThreadPool& pool;
  cache::KvStore& kv;
  const routing::RoutingPolicy& policy;
  routing::RouteObserver* routing = nullptr;  // told of every MoE layer
  const Observer* observer = nullptr;         // for tests and tools
  kernels::Tuning tuning{};                   // changes speed only
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelInfo& info() const = 0;
  // Throws InputError if the policy does not fit the model's routers (k0 above k, and the like).
  virtual std::unique_ptr<Workspace> make_workspace(const WorkspaceLimits& limits) const = 0;

  // The MoE layers, all of one shape, for measuring them; empty if there are none. They live as long as the
  // model.
  virtual std::vector<const nn::Moe*> moe_layers() const { return {}; }

  // One step: writes the rows' cache entries and logits [batch.logit_rows.size(), vocab].
  // Batch, pool and policy keep to what the workspace was made for.
  virtual void forward(const Batch& batch, const StepContext& context, Workspace& workspace,
                       std::span<float> logits) const = 0;
};

struct LoadOptions {
  const kernels::Kernels& kernels;         // must outlive the model
  base::ThreadPool& pool;                  // packs weights during the call
  base::Pages pages = base::Pages::kHuge;  // of the experts
};

// Reads config.json's model_type and loads the model of that name. What is kept is packed; the checkpoint may
// go afterwards. Throws InputError for an unknown model_type or anything wrong with config or tensors.
std::unique_ptr<Model> load_model(const checkpoint::Checkpoint& checkpoint, const LoadOptions& options);

}  // namespace tagalong::models
