// The program `tagalong`: one table of subcommands, and the only place where failures become exit codes.
//
// 0: done. 1: bad input or a failure at run time, one line on stderr. 2: wrong usage.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "commands.h"
#include "version.h"

namespace tagalong::tools {

namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;

struct Command {
  const char* group;  // heading in --help
  void (*add)(CLI::App&);
};

// One command a line.
// clang-format off
constexpr std::array kCommands{
    Command{"Generate", add_run_command},
    Command{"Generate", add_serve_command},
    Command{"Generate", add_demo_command},
    Command{"Look", add_inspect_command},
    Command{"Look", add_tokenize_command},
    Command{"Look", add_template_command},
    Command{"Look", add_logits_command},
    Command{"Look", add_version_command},
    Command{"Measure", add_bench_command},
    Command{"Measure", add_tune_command},
    Command{"Measure", add_synth_command},
    Command{"Measure", add_trace_command},
    Command{"Measure", add_route_command},
};
// clang-format on

void set_up(CLI::App& app) {
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text(), "Print version, commit, compiler and instruction sets");
  app.set_help_all_flag("--help-all", "Print the help of all commands");
  app.footer(
      "Every flag whose help names an environment variable can be given by it; the flag wins.\n"
      "Exit codes: 0 done, 1 bad input or failure, 2 wrong usage.");
  for (const Command& command : kCommands) {
    const auto known = app.get_subcommands({}).size();
    command.add(app);
    const auto now = app.get_subcommands({});
    for (std::size_t i = known; i < now.size(); ++i) now[i]->group(command.group);
  }
  app.failure_message([](const CLI::App* program, const CLI::Error& error) {
    std::string name = "tagalong";
    for (const CLI::App* chosen : program->get_subcommands()) name += " " + chosen->get_name();
    // CLI11 would only say that a subcommand is required.
    const std::vector<std::string> unknown = program->remaining();
    const bool misnamed = program->get_subcommands().empty() && !unknown.empty();
    const std::string message =
        misnamed ? fmt::format("unknown command or flag '{}'", unknown.front()) : error.what();
    return fmt::format("{}: {}\nTry '{} --help'.\n", name, message, name);
  });
}

int fail(const char* message) {
  std::fflush(stdout);
  fmt::print(stderr, "tagalong: {}\n", message);
  return kFailure;
}

int run(int argc, char** argv) {
  CLI::App app{"Serves mixture-of-experts language models; tokens tag along with experts already loaded.",
               "tagalong"};
  try {
    base::set_up_log(spdlog::level::info);
    set_up(app);
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;  // 0: help or version was asked for
  } catch (const base::InputError& error) {
    return fail(error.what());
  } catch (const std::bad_alloc&) {
    return fail("out of memory");
  } catch (const std::exception& error) {
    return fail(error.what());
  }
  // A full disk shows only now.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return fail("cannot write to standard output");
  return 0;
}

}  // namespace

}  // namespace tagalong::tools

int main(int argc, char** argv) { return tagalong::tools::run(argc, argv); }
