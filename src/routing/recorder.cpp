#include "routing/recorder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

#include "base/check.h"
#include "base/error.h"

namespace tagalong::routing {

namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

RecorderMode parse_recorder_mode(std::string_view text) {
  for (const RecorderMode mode : {RecorderMode::kStat, RecorderMode::kPerPass, RecorderMode::kPerToken}) {
    if (text == to_string(mode)) return mode;
  }
  throw base::input_error("recorder mode '{}', expected stat, per_pass or per_token", text);
}

std::string_view to_string(RecorderMode mode) {
  switch (mode) {
    case RecorderMode::kStat:
      return "stat";
    case RecorderMode::kPerPass:
      return "per_pass";
    case RecorderMode::kPerToken:
      break;
  }
  return "per_token";
}

Recorder::Recorder(RecorderMode mode, std::string_view model, const RoutingPolicy& policy,
                   const RouterSpec& spec, int layers, std::ostream& out)
    : mode_(mode), out_(out), statistics_(layers, spec.plan_experts()) {
  fmt::format_to(std::back_inserter(line_),
                 R"({{"model":{},"mode":"{}","policy":{},"scoring":"{}","n_experts":{},"top_k":{},)"
                 R"("fused_shared_experts":{},"scaling":{},"renormalise":{},"layers":{},"ranked":true}})",
                 quoted(model), to_string(mode), quoted(to_string(policy)), to_string(spec.scoring),
                 spec.experts, spec.top_k, spec.fused_shared_experts, spec.scaling, spec.renormalise, layers);
  write_line();
}

void Recorder::record(std::uint64_t step, int layer, const RoutePlan& plan, std::span<const RowRole> roles) {
  CHECK(roles.size() == static_cast<std::size_t>(plan.rows), "{} roles of {} rows", roles.size(), plan.rows);
  if (mode_ == RecorderMode::kStat) {
    statistics_.add(layer, plan);
    return;
  }
  const RouteStats& stats = plan.stats;
  auto out = std::back_inserter(line_);
  fmt::format_to(out,
                 R"({{"step":{},"layer":{},"B":{},"experts_exact":{},"experts":{},"kept_mass":{},)"
                 R"("replaced_slots":{},"short_rows":{})",
                 step, layer, stats.rows, stats.experts_exact, stats.experts, stats.kept_mass,
                 stats.replaced_slots, stats.short_rows);
  if (mode_ == RecorderMode::kPerPass) {
    fmt::format_to(out, R"(,"active":[{}],"tokens":[)", fmt::join(plan.active_experts(), ","));
    for (int i = 0; i < plan.active_count; ++i) {
      fmt::format_to(out, "{}{}", i == 0 ? "" : ",", plan.entries_of(i).size());
    }
  } else {
    // Rows with a token only, padding left out, as a reader of batches expects them.
    const auto each_row = [&](std::string_view name, auto&& write) {
      fmt::format_to(out, R"(,"{}":[)", name);
      const char* separator = "";
      for (int row = 0; row < plan.rows; ++row) {
        if (roles[static_cast<std::size_t>(row)] == RowRole::kPadding) continue;
        line_ += separator;
        write(row);
        separator = ",";
      }
      line_ += ']';
    };
    each_row("decode", [&](int row) {
      fmt::format_to(out, "{}", static_cast<int>(roles[static_cast<std::size_t>(row)] == RowRole::kDecode));
    });
    each_row("ids", [&](int row) { fmt::format_to(out, "[{}]", fmt::join(plan.ids_of(row), ",")); });
    each_row("w", [&](int row) { fmt::format_to(out, "[{}]", fmt::join(plan.weights_of(row), ",")); });
    line_ += '}';
    write_line();
    return;
  }
  line_ += "]}";
  write_line();
}

void Recorder::finish() {
  if (mode_ != RecorderMode::kStat) return;
  for (int layer = 0; layer < statistics_.layers(); ++layer) {
    const LayerTotals totals = statistics_.snapshot(layer);
    fmt::format_to(std::back_inserter(line_),
                   R"({{"layer":{},"steps":{},"mean_experts_exact":{},"mean_experts":{},"kept_mass":{},)"
                   R"("replaced_slots":{},"tokens":[{}]}})",
                   layer, totals.layer_steps, totals.mean_experts_exact(), totals.mean_experts(),
                   totals.mean_kept_mass(), totals.replaced_slots, fmt::join(totals.tokens, ","));
    write_line();
  }
}

void Recorder::write_line() {
  line_ += '\n';
  out_ << line_;
  line_.clear();
}

}  // namespace tagalong::routing
