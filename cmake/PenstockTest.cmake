# Labels of the tests that `make check` runs with ThreadSanitizer: `ninja threaded_tests`, `ctest -L`. `make check-long` runs more.
set(PST_THREADED_LABELS "base|batch|cache|device|fleet|images|loader|serve|share|stall|storage|pack|writer|verify")
add_custom_target(threaded_tests)

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
  if(PST_SANITIZE) # a test of threads takes ten times as long with ThreadSanitizer
    math(EXPR TEST_TIMEOUT "3 * ${TEST_TIMEOUT}")
  endif()
  if(CMAKE_CROSSCOMPILING)
    math(EXPR TEST_TIMEOUT "4 * ${TEST_TIMEOUT}") # emulated
  endif()
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${TEST_TIMEOUT} LABELS "${TEST_LABEL}")
  if(TEST_LABEL MATCHES "^(${PST_THREADED_LABELS})$")
    add_dependencies(threaded_tests ${name})
  endif()
endfunction()

# pst_simde(NAME a_simde.c ...): files of the test that compile kernels against SIMDe (tests/simde). Left out where SIMDe
# is missing and on machines other than x86, for which it is written (PST_SIMDE); PST_HAVE_SIMDE says that they are there.
# Left out with sanitizers, too, unless they are to watch the emulation: builds without them run the same kernels.
find_path(PST_SIMDE_INCLUDE simde/x86/avx512.h)
set(PST_SIMDE OFF)
if(PST_SIMDE_INCLUDE AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND (NOT PST_SANITIZE OR PST_SANITIZE_EMULATED))
  set(PST_SIMDE ON)
endif()
function(pst_simde name)
  if(NOT PST_SIMDE)
    return()
  endif()
  target_sources(${name} PRIVATE ${ARGN})
  target_compile_definitions(${name} PRIVATE PST_HAVE_SIMDE)
  # Undefined behaviour is never looked for: the emulation itself shifts by the full width of a word (SIMDe 0.7.2,
  # multishift.h), which x86 makes harmless.
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "-w;-Wno-psabi;-fno-sanitize=undefined;-O1;-g0")
endfunction()
