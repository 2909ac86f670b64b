// tagalong tune: measures which settings make a model's MoE layers fastest on this machine, and keeps them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "auto_tune.h"
#include "base/error.h"
#include "commands.h"
#include "model_options.h"

namespace tagalong::tools {

namespace {

struct TuneOptions {
  ModelOptions model;
  bool full = false;
  bool show = false;
  std::filesystem::path export_to;
  std::filesystem::path import_from;
};

std::string measured(double microseconds) {
  return microseconds == 0 ? "-" : fmt::format("{:.1f}", microseconds);
}

void print_entries(const std::string& shape, const std::map<int, TuneEntry>& entries) {
  fmt::print("{}\n{:>6} {:>12} {:>12} {:>8} {:>8} {:>9} {:>12} {:>12}  {}\n", shape, "batch", "us/experts",
             "default us", "spread", "GB/s", "of stream", "us/attention", "default us", "settings");
  for (const auto& [rows, entry] : entries) {
    fmt::print("{:>6} {:>12.1f} {:>12.1f} {:>7.0f}% {:>8.1f} {:>8.0f}% {:>12} {:>12}  {}\n", rows,
               entry.microseconds, entry.default_microseconds, 100 * entry.spread,
               entry.bytes_per_second / 1e9, 100 * entry.share_of_stream,
               measured(entry.attention_microseconds), measured(entry.attention_default_microseconds),
               to_string(entry.tuning));
  }
}

void tune(const TuneOptions& options) {
  LoadedModel loaded(options.model);
  if (loaded.model->moe_layers().empty())
    throw base::input_error("{}: the model has no MoE layers to tune", options.model.model.string());
  const std::string shape = tune_shape(*loaded.model, loaded.pool.size());
  const TuneMachine machine = tune_machine(loaded.kernels);
  const auto path = TuneStore::default_path(machine);
  if (!path) throw base::input_error("neither XDG_CACHE_HOME nor HOME names a folder for the tuner's file");
  const TuneStore store(*path, machine);

  if (!options.import_from.empty()) {
    const auto records = TuneStore(options.import_from, machine).read();
    if (!records) throw base::input_error("{}: no such file", options.import_from.string());
    store.merge(*records);
  }
  const bool look_only = options.show || !options.export_to.empty() || !options.import_from.empty();
  if (!look_only) {
    static_cast<void>(store.read());  // a file that must not be overwritten is told before minutes are spent
    // Kept as it comes: a full pass that is broken off has not been for nothing.
    tune_model(*loaded.model, loaded.kernels, loaded.pool,
               options.full ? TuneEffort::kFull : TuneEffort::kQuick,
               [&store](const TuneRecords& found) { store.merge(found); });
  }

  TuneRecords records = store.read().value_or(TuneRecords{});
  const auto found = records.shapes.find(shape);
  if (found == records.shapes.end()) {
    throw base::input_error("{}: nothing is stored for {}", store.path().string(), shape);
  }
  if (!options.export_to.empty()) {
    TuneRecords only{.huge_pages = records.huge_pages, .shapes = {{found->first, found->second}}};
    TuneStore(options.export_to, machine).merge(only);
  }
  print_entries(shape, found->second);
  fmt::print("huge pages: {}\n{}\n", records.huge_pages.value_or(true) ? "yes" : "no", store.path().string());
}

}  // namespace

void add_tune_command(CLI::App& app) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* command =
      app.add_subcommand("tune", "Measure which settings are fastest here; they change no result");
  add_model_options(*command, options->model);
  auto* modes = command->add_option_group("mode");
  modes->require_option(0, 1);
  modes->add_flag("--quick")->description("A few batches and settings, in at most ten seconds (the default)");
  modes->add_flag("--full", options->full,
                  "All batches and settings, in minutes; what is found is kept as it comes");
  modes->add_flag("--show", options->show, "Measure nothing, print what is stored");
  modes->add_option("--export", options->export_to,
                    "Measure nothing, write what is stored for this model to a file");
  modes->add_option("--import", options->import_from,
                    "Measure nothing, store what a file from such a machine says");
  command->callback([options] { tune(*options); });
}

}  // namespace tagalong::tools
