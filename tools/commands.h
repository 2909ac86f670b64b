// The subcommands of `tagalong`. Each lives in the file of its name, adds itself to the program and runs from
// its CLI11 callback, on main's thread.
//
// A command throws base::InputError for what the user can mend, CLI::ValidationError for a wrong use of
// flags, and CLI::RuntimeError(code) to end with an exit code of its own after it has said why.
#pragma once

#include <CLI/CLI.hpp>

namespace tagalong::tools {

void add_run_command(CLI::App& app);
void add_serve_command(CLI::App& app);
void add_demo_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_tokenize_command(CLI::App& app);
void add_template_command(CLI::App& app);
void add_route_command(CLI::App& app);
void add_trace_command(CLI::App& app);
void add_logits_command(CLI::App& app);
void add_bench_command(CLI::App& app);
void add_synth_command(CLI::App& app);
void add_tune_command(CLI::App& app);
void add_version_command(CLI::App& app);

}  // namespace tagalong::tools
