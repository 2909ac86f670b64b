// What --version and the version command print.
#pragma once

#include <string>

namespace tagalong::tools {

// Three lines: version and commit; compiler; the kernels that this CPU can run, best first.
std::string version_text();

}  // namespace tagalong::tools
