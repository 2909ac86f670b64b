// `tagalong route --trace FILE --policy P ...`: what a policy would have cost and saved on recorded routing,
// or with --shape on rows drawn from a model's mean routing.
//
// Prints, per policy and batch size, the distinct experts T, the kept gate mass and the replaced slots, as a
// table or as JSON. Reads no model.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "commands.h"
#include "route_replay.h"
#include "route_shape.h"
#include "routing/policy_list.h"

namespace tagalong::tools {

namespace {

using nlohmann::ordered_json;

struct RouteOptions {
  std::filesystem::path trace;  // either of these
  std::filesystem::path shape;
  ShapeDraw draw;
  std::vector<std::string> policies;
  std::vector<int> batches;
  int ranks = 1;
  bool by_batch = false;
  bool json = false;
};

// Without --policy: exact, then pruned and oea with each k0 below k.
std::vector<std::string> default_policies(int top_k) {
  std::vector<std::string> policies = {"exact"};
  for (const char* name : {"pruned", "oea"}) {
    for (int k0 = top_k - 1; k0 >= 1; --k0) policies.push_back(fmt::format("{}:k0={}", name, k0));
  }
  return policies;
}

void print_row(std::string_view policy, std::string_view rows, const ReplayTotals& totals, int ranks) {
  fmt::print("{:<34} {:>9} {:>6} {:>8.1f} {:>7.1f} {:>7.3f} {:>9.2f} {:>9.3f}", policy, rows, totals.steps,
             totals.per_step(totals.experts_exact), totals.per_step(totals.experts),
             totals.per_row(totals.kept_mass), totals.per_row(static_cast<double>(totals.replaced_slots)),
             totals.per_row(static_cast<double>(totals.short_rows)));
  if (ranks > 1) {
    fmt::print(" {:>8.1f} {:>8.1f}", totals.per_step(totals.fullest_rank_exact),
               totals.per_step(totals.fullest_rank));
  }
  fmt::print("\n");
}

void print_head(int ranks) {
  fmt::print("{:<34} {:>9} {:>6} {:>8} {:>7} {:>7} {:>9} {:>9}", "policy", "rows/step", "steps", "T exact",
             "T", "mass", "replaced", "short");
  if (ranks > 1) fmt::print(" {:>8} {:>8}", "rank ex.", "rank");
  fmt::print("\n");
}

ordered_json to_json(const ReplayTotals& totals, int ranks) {
  ordered_json out = {{"steps", totals.steps},
                      {"decode_rows", totals.decode_rows},
                      {"experts_exact", totals.per_step(totals.experts_exact)},
                      {"experts", totals.per_step(totals.experts)},
                      {"kept_mass", totals.per_row(totals.kept_mass)},
                      {"replaced_slots_per_row", totals.per_row(static_cast<double>(totals.replaced_slots))},
                      {"short_rows_share", totals.per_row(static_cast<double>(totals.short_rows))}};
  if (ranks > 1) {
    out["fullest_rank_exact"] = totals.per_step(totals.fullest_rank_exact);
    out["fullest_rank"] = totals.per_step(totals.fullest_rank);
  }
  return out;
}

std::string range_of_rows(const ReplayResult& result) {
  const int least = result.by_rows.begin()->first;
  const int most = result.by_rows.rbegin()->first;
  return least == most ? fmt::format("{}", least) : fmt::format("{}-{}", least, most);
}

// One for each batch size that is asked for.
std::vector<RouteTrace> recorded_traces(const RouteOptions& options) {
  RouteTrace recorded = read_route_trace(options.trace);
  if (!recorded.steps_recorded && options.batches.empty()) {
    throw base::input_error("{}: which rows shared a step was not recorded, expected --batch",
                            options.trace.string());
  }
  std::vector<RouteTrace> traces;
  for (const int rows : options.batches) traces.push_back(recorded.in_steps_of(rows));
  if (traces.empty()) traces.push_back(std::move(recorded));
  return traces;
}

std::vector<RouteTrace> drawn_traces(const RouteOptions& options) {
  std::vector<RouteTrace> traces;
  ShapeDraw draw = options.draw;
  for (const int rows : options.batches.empty() ? std::vector<int>{draw.rows} : options.batches) {
    draw.rows = rows;
    traces.push_back(draw_from_shape(options.shape, draw));
  }
  return traces;
}

void run_route(const RouteOptions& options) {
  const bool drawn = !options.shape.empty();
  const std::vector<RouteTrace> traces = drawn ? drawn_traces(options) : recorded_traces(options);
  const RouteTrace& recorded = traces.front();
  const std::vector<std::string> texts =
      options.policies.empty() ? default_policies(recorded.top_k) : options.policies;
  std::vector<routing::RoutingPolicy> policies;
  for (const std::string& text : texts) policies.push_back(routing::parse_policy(text));

  ordered_json document = {
      {drawn ? "shape" : "trace", (drawn ? options.shape : options.trace).filename().string()},
      {"model", recorded.model},
      {"experts", recorded.experts},
      {"top_k", recorded.top_k},
      {"full_scores", recorded.full_scores},
      {"results", ordered_json::array()}};
  if (!options.json) {
    fmt::print("{}: {} experts, top-{}\n", recorded.model, recorded.experts, recorded.top_k);
    if (drawn)
      fmt::print("Rows are drawn independently: real neighbours are more alike and need fewer experts.\n");
    if (!recorded.full_scores) {
      fmt::print(
          "Scores beyond each row's own top-{} are unknown and count as 0: the mass of tagging along is a "
          "lower bound.\n",
          recorded.top_k);
    }
    print_head(options.ranks);
  }
  for (const RouteTrace& trace : traces) {
    if (trace.steps.empty()) throw base::input_error("--batch: the trace has fewer rows than one step");
    for (const routing::RoutingPolicy& policy : policies) {
      const ReplayResult result = replay(trace, policy, options.ranks);
      if (!options.json) {
        print_row(result.policy, range_of_rows(result), result.all, options.ranks);
        if (!options.by_batch || result.by_rows.size() < 2) continue;
        for (const auto& [rows, totals] : result.by_rows)
          print_row("", fmt::format("{}", rows), totals, options.ranks);
        continue;
      }
      ordered_json entry = {{"policy", result.policy}, {"rows_per_step", range_of_rows(result)}};
      entry.update(to_json(result.all, options.ranks));
      for (const auto& [rows, totals] : result.by_rows) {
        entry["by_rows"][fmt::format("{}", rows)] = to_json(totals, options.ranks);
      }
      document["results"].push_back(std::move(entry));
    }
  }
  if (options.json) fmt::print("{}\n", document.dump(1));
}

std::string policy_help() {
  std::string text = "a policy, may be repeated; default: exact, pruned and oea at each k0";
  for (const routing::PolicyMethod* method : routing::policy_list()) {
    text += fmt::format("\n  {}: {}", method->example, method->summary);
  }
  return text;
}

}  // namespace

void add_route_command(CLI::App& app) {
  auto options = std::make_shared<RouteOptions>();
  CLI::App* command = app.add_subcommand("route", "replay routing policies on a recorded trace");
  CLI::Option_group* source = command->add_option_group("Rows", "Exactly one of these");
  source->add_option("--trace", options->trace, "JSON lines: ids and weights, or logits, per step")
      ->check(CLI::ExistingFile);
  CLI::Option* shape =
      source
          ->add_option(
              "--shape", options->shape,
              "JSON: per layer the distribution of router logits, or the tokens of each expert; rows are "
              "drawn from it")
          ->check(CLI::ExistingFile);
  source->require_option(1);
  command->add_option("--top-k", options->draw.top_k, "Experts of a drawn row")
      ->check(CLI::Range(1, routing::kMaxTopK))
      ->needs(shape)
      ->capture_default_str();
  command->add_option("--experts", options->draw.experts, "Experts of a layer, where a shape does not tell")
      ->check(CLI::Range(1, routing::kMaxExperts))
      ->needs(shape);
  command->add_option("--steps", options->draw.steps, "Steps that are drawn of each layer")
      ->check(CLI::Range(1, 1 << 16))
      ->needs(shape)
      ->capture_default_str();
  command->add_option("--seed", options->draw.seed, "Of the drawn rows")->needs(shape)->capture_default_str();
  command->add_option("--policy", options->policies, policy_help());
  command
      ->add_option("--batch", options->batches,
                   "steps of this many rows, dealt anew or drawn; may be repeated")
      ->check(CLI::Range(1, 1 << 16));
  command->add_option("--ranks", options->ranks, "spread the experts over ranks and count the fullest one")
      ->check(CLI::Range(1, routing::kMaxRanks));
  command->add_flag("--by-batch", options->by_batch, "a row of the table per batch size");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { run_route(*options); });
}

}  // namespace tagalong::tools
