# pst_test(NAME SOURCES a.c LIBS targets [LABEL label] [ARGS ...]): a cmocka program run by ctest. Exit 77 = skipped.
function(pst_test name)
  cmake_parse_arguments(TEST "" "LABEL;TIMEOUT" "SOURCES;LIBS;ARGS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_LIBS} cmocka Threads::Threads m)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
    ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE PST_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  add_test(NAME ${name} COMMAND ${name} ${TEST_ARGS})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${TEST_TIMEOUT} LABELS "${TEST_LABEL}")
endfunction()
