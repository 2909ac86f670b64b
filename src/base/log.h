// The log: lines to stderr, one logger for the process, safe from any thread.
// Prompts and generated text are never logged.
#pragma once

#include <spdlog/spdlog.h>

namespace tagalong::base {

// Sets the pattern and the level; called once by main.
void set_up_log(spdlog::level::level_enum level);

}  // namespace tagalong::base
