// What --version and the version command print.
#pragma once

#include <string>

namespace tagalong::tools {

// Four lines: version and commit; compiler; the kernels that this CPU can run, best first; its cores by node.
std::string version_text();

}  // namespace tagalong::tools
