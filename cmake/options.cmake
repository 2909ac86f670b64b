# Compile options of every target.

add_library(tagalong_options INTERFACE)
target_compile_options(tagalong_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
  -Werror
  # A product and a sum are fused only where the code says fma: the scalar reference, AVX2 and AVX-512
  # must round alike (law 1).
  -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Register-passing notes of the ABI, and gcc 12's false alarms: inside its own headers, and about the pairs of
  # operator new and delete that tests replace to count allocations.
  target_compile_options(tagalong_options INTERFACE -Wno-psabi -Wno-maybe-uninitialized -Wno-uninitialized
                         -Wno-mismatched-new-delete)
endif()
if(TAGALONG_SANITIZE)
  target_compile_options(tagalong_options INTERFACE
    -fsanitize=${TAGALONG_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tagalong_options INTERFACE -fsanitize=${TAGALONG_SANITIZE})
endif()
if(TAGALONG_FUZZ)
  # Coverage of the rooms guides the fuzzer; libFuzzer itself is linked by tests/fuzz only.
  target_compile_options(tagalong_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
