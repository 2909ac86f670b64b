// What the routing of an engine's steps cost, layer by layer, and the way to a recorder if there is one.
//
// begin() and routed() belong to the engine's thread and, without a recorder, neither allocate nor wait. The
// statistics may be read from any thread.
#pragma once

#include <cstdint>
#include <span>

#include "models/batch.h"
#include "models/model.h"
#include "routing/recorder.h"
#include "routing/route_observer.h"
#include "routing/statistics.h"

namespace tagalong::engine {

class RoutingLog final : public routing::RouteObserver {
 public:
  // The recorder, if any, must outlive this.
  RoutingLog(const models::ModelInfo& info, routing::Recorder* recorder);

  // The batch whose layers are told of next, and the number of its step.
  void begin(const models::Batch& batch, std::uint64_t step);
  void routed(int layer, std::span<const routing::RowRole> roles, const routing::RoutePlan& plan) override;

  // Of the steps without a prefill row, and of the others.
  const routing::RoutingStatistics& decode() const { return decode_; }
  const routing::RoutingStatistics& mixed() const { return mixed_; }

 private:
  routing::RoutingStatistics decode_;
  routing::RoutingStatistics mixed_;
  routing::RoutingStatistics* current_ = &decode_;
  routing::Recorder* recorder_;
  std::uint64_t step_ = 0;
};

}  // namespace tagalong::engine
