# Compiler settings and pst_room().
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON) # pread, O_DIRECT, pthread_setname_np
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
add_compile_definitions(_GNU_SOURCE)
# Without contraction plain C and SIMD paths give the same bits.
add_compile_options(-Wall -Wextra -Wshadow -Wpointer-arith -Wwrite-strings -Wundef -Wvla
                    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
                    -ffp-contract=off -fno-math-errno)
if(PST_WERROR)
  add_compile_options(-Werror)
endif()
if(PST_FAULTS)
  add_compile_definitions(PST_FAULTS)
endif()
if(PST_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  # These three checks make clang take twice as long, and six times as long for a kernel. They are made only in the
  # fuzz targets, and by gcc (the preset gcc-asan, which `make check-long` runs).
  if(CMAKE_C_COMPILER_ID MATCHES "Clang" AND NOT PST_BUILD_FUZZ)
    add_compile_options(-fno-sanitize=null,object-size,pointer-overflow)
  endif()
elseif(PST_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(PST_SANITIZE)
  message(FATAL_ERROR "PST_SANITIZE is address or thread, not ${PST_SANITIZE}")
endif()
if(PST_BUILD_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# A project that includes Penstock (add_subdirectory), as the Python package does, installs the files that it needs itself.
if(DEFINED SKBUILD OR NOT PROJECT_IS_TOP_LEVEL)
  set(install_by_default OFF)
else()
  set(install_by_default ON)
endif()
option(PST_INSTALL "install the library, headers and package files" ${install_by_default})

set_property(GLOBAL PROPERTY PST_ROOMS "")
# pst_room(NAME SOURCES a.c b.c LIBS other targets): a static library pst_room_<NAME>, part of libpenstock.
function(pst_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LIBS" ${ARGN})
  add_library(pst_room_${name} STATIC ${ROOM_SOURCES})
  target_include_directories(pst_room_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(pst_room_${name} PUBLIC ${ROOM_LIBS})
  set_property(GLOBAL APPEND PROPERTY PST_ROOMS pst_room_${name})
  # Frames that AddressSanitizer of GCC before 12.4 and 13.3 puts on its heap are not aligned to 64 bytes (GCC bug 110027).
  if(PST_SANITIZE STREQUAL "address" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    list(FILTER ROOM_SOURCES INCLUDE REGEX "avx512")
    set_source_files_properties(${ROOM_SOURCES} PROPERTIES COMPILE_OPTIONS "--param=asan-use-after-return=0")
  endif()
endfunction()
