# Finds or builds the libraries that Penstock links: from the system, or from their pinned sources.
#
# PENSTOCK_SYSTEM_LIBS=ON takes the system's, as distributions want. OFF builds those of third_party/sources.json in as static
# libraries, whose symbols stay hidden: PENSTOCK_DEPENDENCIES names the folder where `scripts/dependencies.py build` has put them;
# without it they are built here, while CMake configures. OFF is the default in a source archive that carries the sources.
if(EXISTS ${PROJECT_SOURCE_DIR}/third_party/sources)
  set(system_libs_by_default OFF)
else()
  set(system_libs_by_default ON)
endif()
option(PENSTOCK_SYSTEM_LIBS "link the system's libraries, not those of third_party/sources.json" ${system_libs_by_default})
set(PENSTOCK_DEPENDENCIES "" CACHE PATH "static libraries made by scripts/dependencies.py; empty: they are built")

if(NOT PENSTOCK_SYSTEM_LIBS)
  include(${CMAKE_CURRENT_LIST_DIR}/PenstockStatic.cmake)
  return()
endif()
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(DEFLATE REQUIRED IMPORTED_TARGET libdeflate)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
if(PST_WEBP)
  pkg_check_modules(WEBP IMPORTED_TARGET libwebp libwebpdemux)
endif()
if(PST_URING)
  pkg_check_modules(URING IMPORTED_TARGET liburing)
endif()
