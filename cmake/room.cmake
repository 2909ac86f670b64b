# A room is a folder of src/ and one static library. Its headers are included as "room/header.h" through a
# folder of links that holds this room only, so that including a room that is not in USES fails to build.

include(GoogleTest)
find_package(GTest REQUIRED)
find_package(Threads REQUIRED)

# tagalong_room(NAME USES room... LIBS library...)
#   sources: *.cpp below the folder; *_test.cpp become the test program NAME_test, *_bench.cpp NAME_bench.
function(tagalong_room name)
  cmake_parse_arguments(ARG "" "" "USES;LIBS;TEST_USES;TEST_LIBS" ${ARGN})
  set(source_dir ${CMAKE_CURRENT_SOURCE_DIR}/${name})
  set(view ${CMAKE_BINARY_DIR}/rooms/${name})
  file(MAKE_DIRECTORY ${view})
  file(CREATE_LINK ${source_dir} ${view}/${name} SYMBOLIC)

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${source_dir}/*.cpp)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  set(benches ${sources})
  list(FILTER benches INCLUDE REGEX "_bench\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_(test|bench|testing)\\.cpp$")

  list(TRANSFORM ARG_USES PREPEND tagalong_)
  if(sources)
    add_library(tagalong_${name} STATIC ${sources})
    target_include_directories(tagalong_${name} PUBLIC ${view})
    target_link_libraries(tagalong_${name} PUBLIC ${ARG_USES} PRIVATE tagalong_options PUBLIC ${ARG_LIBS})
  else()
    add_library(tagalong_${name} INTERFACE)
    target_include_directories(tagalong_${name} INTERFACE ${view})
    target_link_libraries(tagalong_${name} INTERFACE ${ARG_USES} ${ARG_LIBS})
  endif()

  if(tests)
    list(TRANSFORM ARG_TEST_USES PREPEND tagalong_)
    tagalong_test(${name} SOURCES ${tests} LIBS tagalong_${name} ${ARG_TEST_USES} ${ARG_TEST_LIBS})
  endif()
  if(benches)
    find_package(benchmark REQUIRED)
    add_executable(${name}_bench ${benches})
    target_link_libraries(${name}_bench PRIVATE tagalong_${name} tagalong_options benchmark::benchmark_main)
  endif()
endfunction()

# tagalong_test(NAME SOURCES file... LIBS library...): a gtest program NAME_test whose tests ctest knows as
# NAME.Suite.Case.
function(tagalong_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name}_test ${ARG_SOURCES})
  target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${name}_test PRIVATE ${ARG_LIBS} tagalong_options GTest::gtest_main GTest::gmock)
  target_compile_definitions(${name}_test PRIVATE TAGALONG_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  gtest_discover_tests(${name}_test TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT 600)
endfunction()
