// tagalong demo: sixteen stories written at once, with exact and with batch-aware routing, and what each of
// the two cost. Every number in it is measured while it runs.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cpu_info.h"
#include "base/error.h"
#include "columns.h"
#include "commands.h"
#include "demo_layer.h"
#include "demo_openings.h"
#include "engine/engine.h"
#include "engine/logits_hash.h"
#include "evaluation.h"
#include "model_options.h"
#include "progress_bar.h"

namespace tagalong::tools {

namespace {

constexpr std::array kShown{std::size_t{0}, std::size_t{4}};  // stories that are printed
constexpr int kWarmUpTokens = 8;

struct DemoOptions {
  ModelOptions model;
  int k0 = 4;
  int min_rows = 4;
  int tokens = 160;
  std::uint64_t seed = 1;
  EvaluationShape evaluation;
  bool skip_large_layer = false;
};

// What one policy did.
struct Outcome {
  routing::RoutingPolicy policy{};
  std::vector<std::string> stories{};
  engine::EngineStats stats{};
  std::uint64_t logits_hash = 0;  // of the last story's last logits
  std::optional<EvaluationResult> evaluation{};

  double tokens_per_second() const {
    return static_cast<double>(stats.decode_tokens) / std::max(stats.decode_seconds, 1e-9);
  }
};

// All openings continued as one batch under one policy. Every story gets the same number of tokens, so that
// the batch keeps its size; what follows the end of a text is generated but not shown.
class StoryBatch {
 public:
  StoryBatch(TextModel& loaded, const DemoOptions& options, const routing::RoutingPolicy& policy, int tokens)
      : loaded_(loaded),
        policy_(policy),
        written_(kOpenings.size()),
        engine_(*loaded.model, loaded.pool,
                {.max_sequences = static_cast<int>(kOpenings.size()),
                 .kv_type = cache::parse_kv_type(options.model.kv_type),
                 .policy = policy}) {
    for (std::size_t i = 0; i < kOpenings.size(); ++i) {
      engine::Request request;
      request.prompt = loaded.tokenizer.encode(kOpenings[i]);
      request.max_tokens = tokens;
      request.sampling = loaded.generation.sampling;
      request.sampling.seed = options.seed + i;
      engine_.submit(std::move(request), [this, i](const engine::TokenEvent& event) {
        written_[i].push_back(event.id);
        logits_hash_ = engine::hash_logits(event.logits);
      });
    }
  }

  bool step() { return engine_.step(); }

  Outcome outcome() const {
    Outcome outcome{.policy = policy_, .stats = engine_.stats(), .logits_hash = logits_hash_};
    const auto& stops = loaded_.generation.stop_ids;
    for (std::vector<std::int32_t> ids : written_) {
      ids.erase(std::find_first_of(ids.begin(), ids.end(), stops.begin(), stops.end()), ids.end());
      std::erase_if(ids, [this](std::int32_t id) { return !loaded_.tokenizer.has_token(id); });
      outcome.stories.push_back(loaded_.tokenizer.decode(ids));
    }
    return outcome;
  }

 private:
  TextModel& loaded_;
  routing::RoutingPolicy policy_;
  std::vector<std::vector<std::int32_t>> written_;  // [stories]
  std::uint64_t logits_hash_ = 0;
  engine::Engine engine_;
};

// The two take turns step by step, so that whatever else the machine does slows both alike.
std::vector<Outcome> write_stories(TextModel& loaded, const DemoOptions& options,
                                   const std::array<routing::RoutingPolicy, 2>& policies, int tokens,
                                   ProgressBar& progress) {
  progress.begin("stories", tokens);
  StoryBatch first(loaded, options, policies[0], tokens);
  StoryBatch second(loaded, options, policies[1], tokens);
  for (bool busy = true; busy;) {
    busy = first.step();
    busy = second.step() || busy;
    progress.advance();
  }
  return {first.outcome(), second.outcome()};
}

void evaluate_policy(TextModel& loaded, const DemoOptions& options, const EvaluationText& text,
                     Outcome& outcome, ProgressBar& progress) {
  progress.begin("evaluation, " + routing::to_string(outcome.policy), options.evaluation.steps());
  outcome.evaluation = evaluate(text, options.evaluation,
                                {.model = *loaded.model,
                                 .pool = loaded.pool,
                                 .kv_type = cache::parse_kv_type(options.model.kv_type),
                                 .policy = outcome.policy,
                                 .on_step = [&progress] { progress.advance(); }});
}

double megabytes(double bytes) { return bytes / 1e6; }

double weight_bytes(const models::ModelInfo& info, double experts_per_layer) {
  return experts_per_layer * info.moe_layers * static_cast<double>(info.expert_bytes);
}

void print_model(const TextModel& loaded, const DemoOptions& options) {
  const models::ModelInfo& info = loaded.model->info();
  fmt::print("{}: {}, {} MoE layers of {} experts, {} of them for each token; {:.1f} MB of weights\n",
             options.model.model.string(), info.architecture, info.moe_layers, info.router.experts,
             info.router.top_k,
             megabytes(weight_bytes(info, info.router.experts) + static_cast<double>(info.dense_bytes)));
  fmt::print(
      "{} kernels, {} threads; {} stories in one batch, {} tokens each, temperature {}, top-p {}, seed {}\n",
      loaded.kernels.name, loaded.pool.size(), kOpenings.size(), options.tokens,
      loaded.generation.sampling.temperature, loaded.generation.sampling.top_p, options.seed);
}

int page_width() {
  winsize window{};
  const bool terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0;
  return std::clamp(terminal ? int{window.ws_col} : 110, 60, 140);
}

void print_paragraph(std::string_view text) {
  fmt::print("\n");
  for (const std::string& line : wrap(text, page_width())) fmt::print("{}\n", line);
}

void print_stories(const Outcome& exact, const Outcome& oea) {
  for (const std::size_t i : kShown) {
    print_paragraph(kOpenings[i]);
    fmt::print("\n{}", side_by_side(routing::to_string(exact.policy), exact.stories[i],
                                    routing::to_string(oea.policy), oea.stories[i], (page_width() - 3) / 2));
  }
}

void print_table(const models::ModelInfo& info, const std::vector<Outcome>& outcomes,
                 const EvaluationText& text) {
  fmt::print("\n{:<20} {:>9} {:>14} {:>10} {:>10} {:>10}  {:<16}\n", "routing", "tokens/s", "experts/layer",
             "expert MB", "kept mass", "bits/byte", "last logits");
  for (const Outcome& outcome : outcomes) {
    const routing::RoutingTotals& routing = outcome.stats.decode_routing;
    const std::string bits =
        outcome.evaluation ? fmt::format("{:.4f}", outcome.evaluation->bits / static_cast<double>(text.bytes))
                           : "-";
    fmt::print("{:<20} {:>9.0f} {:>14.2f} {:>10.3f} {:>9.2f}% {:>10}  {:016x}\n",
               routing::to_string(outcome.policy), outcome.tokens_per_second(), routing.mean_experts(),
               megabytes(weight_bytes(info, routing.mean_experts())), 100 * routing.mean_kept_mass(), bits,
               outcome.logits_hash);
  }
}

void print_meaning(const models::ModelInfo& info, const DemoOptions& options,
                   const std::vector<Outcome>& outcomes, const EvaluationText& text) {
  print_paragraph(
      fmt::format("experts/layer: distinct experts that a MoE layer loads in a step of {} rows, mean of {} "
                  "steps. expert MB: "
                  "their weights, all layers, one step. kept mass: how much of the gate mass of a token's "
                  "own top-{} it gets.",
                  kOpenings.size(), outcomes[0].stats.decode_steps, info.router.top_k));
  if (!outcomes[0].evaluation) {
    print_paragraph("bits/byte: not measured, the model has no folder eval with texts.");
    return;
  }
  const EvaluationShape& shape = options.evaluation;
  print_paragraph(fmt::format(
      "bits/byte: {} tokens ({} bytes) of held-out text, {} windows at a time, each fed its own text token "
      "by token "
      "after an exact prompt of {}; there a layer loads {:.2f} experts exactly and {:.2f} with {}.",
      outcomes[0].evaluation->tokens, text.bytes, shape.rows, shape.prompt_tokens,
      outcomes[0].evaluation->routing.mean_experts(), outcomes[1].evaluation->routing.mean_experts(),
      routing::to_string(outcomes[1].policy)));
}

void print_limits(const models::ModelInfo& info, const DemoOptions& options,
                  const std::vector<Outcome>& outcomes) {
  const double weights = weight_bytes(info, info.router.experts) + static_cast<double>(info.dense_bytes);
  const auto cache = static_cast<double>(base::detect_cpu().l3_bytes);
  const double exact = outcomes[0].stats.decode_routing.mean_experts();
  const double oea = outcomes[1].stats.decode_routing.mean_experts();
  const std::string saved = fmt::format("{} loads {:.0f}% fewer expert bytes in a step.",
                                        routing::to_string(outcomes[1].policy), 100 * (1 - oea / exact));
  if (cache == 0 || weights < cache) {
    print_paragraph(fmt::format(
        "{} So small a model ({:.1f} MB) sits in the processor's cache{}: here bytes saved are not yet time "
        "saved. "
        "They become time where expert weights stream from memory, as in models of many GB.",
        saved, megabytes(weights), cache > 0 ? fmt::format(" (L3: {:.0f} MB)", megabytes(cache)) : ""));
  } else {
    print_paragraph(
        fmt::format("{} The weights ({:.0f} MB) are more than the cache holds (L3: {:.0f} MB) and stream "
                    "from memory: bytes saved "
                    "should show as time saved.",
                    saved, megabytes(weights), megabytes(cache)));
  }
  print_paragraph(fmt::format(
      "Two limits. One sequence alone has no neighbours to tag along with: OEA would only prune its experts, "
      "so with "
      "fewer than {} decoding rows it routes exactly. And the larger the batch, the more of all experts it "
      "needs "
      "whatever the policy (here {:.0f} of {} with exact routing), until nothing is left to save.",
      options.min_rows, exact, info.router.experts));
}

void demo(const DemoOptions& options) {
  TextModel loaded(options.model);
  const models::ModelInfo& info = loaded.model->info();
  if (options.k0 >= info.router.top_k) {
    throw base::input_error("--oea-k0 is {}, but the model uses {} experts for a token: expected 1 to {}",
                            options.k0, info.router.top_k, info.router.top_k - 1);
  }
  const EvaluationText text =
      read_evaluation(options.model.model / "eval", loaded.tokenizer, options.evaluation);
  routing::RoutingPolicy oea;
  oea.kind = routing::PolicyKind::kOea;
  oea.k0 = options.k0;
  oea.min_rows = options.min_rows;

  print_model(loaded, options);
  std::fflush(stdout);
  std::vector<Outcome> outcomes;
  {
    ProgressBar progress;
    write_stories(loaded, options, {routing::RoutingPolicy{}, oea}, kWarmUpTokens, progress);
    outcomes = write_stories(loaded, options, {routing::RoutingPolicy{}, oea}, options.tokens, progress);
    if (!text.windows.empty()) {
      for (Outcome& outcome : outcomes) evaluate_policy(loaded, options, text, outcome, progress);
    }
  }
  print_stories(outcomes[0], outcomes[1]);
  print_table(info, outcomes, text);
  print_meaning(info, options, outcomes, text);
  print_limits(info, options, outcomes);
  std::fflush(stdout);
  if (!options.skip_large_layer) show_large_layer(loaded.kernels, loaded.pool);
}

}  // namespace

void add_demo_command(CLI::App& app) {
  auto options = std::make_shared<DemoOptions>();
  CLI::App* command =
      app.add_subcommand("demo", "Write sixteen stories at once, exactly and batch-aware, and compare");
  add_model_options(*command, options->model);
  command->add_option("--oea-k0", options->k0, "Experts that each token brings into the batch's set")
      ->check(CLI::Range(1, routing::kMaxTopK))
      ->capture_default_str();
  command
      ->add_option("--oea-min-rows", options->min_rows, "With fewer decoding tokens in a step, route exactly")
      ->check(CLI::Range(1, static_cast<int>(kOpenings.size())))
      ->capture_default_str();
  command->add_option("-n,--max-tokens", options->tokens, "Tokens of each story")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of the first story; the others count on from it")
      ->capture_default_str();
  command
      ->add_option("--eval-batches", options->evaluation.batches,
                   fmt::format("Batches of {} windows of the evaluation text", options->evaluation.rows))
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--skip-large-layer", options->skip_large_layer,
                    "Leave out the layer of a 30-billion-parameter model, which needs 1 GB of memory");
  command->callback([options] { demo(*options); });
}

}  // namespace tagalong::tools
