# Run with cmake -P: writes OUTPUT, a header that tells version, commit and compiler.
execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse --short=12 HEAD
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "unknown")
else()
  execute_process(COMMAND git -C ${SOURCE_DIR} diff --quiet HEAD -- src tools cmake RESULT_VARIABLE changed ERROR_QUIET)
  if(changed)
    string(APPEND commit "+changes")
  endif()
endif()

set(text "// Written by the build.
#pragma once

namespace tagalong::tools {

inline constexpr char kVersion[] = \"${VERSION}\";
inline constexpr char kCommit[] = \"${commit}\";
inline constexpr char kCompiler[] = \"${COMPILER}\";
inline constexpr char kBuildType[] = \"${BUILD_TYPE}\";

}  // namespace tagalong::tools
")
set(previous "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} previous)
endif()
if(NOT previous STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
