# Toolchain file: builds for 64-bit ARM on another machine, and runs what was built under qemu. scripts/check_arm64.sh uses
# it; alone:
#
#   cmake -G Ninja -S . -B build/arm64 -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake -DPST_SYSROOT=/path
#
# PST_SYSROOT: a folder with the libraries and headers of an arm64 system (usr/include, usr/lib/aarch64-linux-gnu).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# Projects that CMake builds to try the compiler read this file too.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PST_SYSROOT)
if(NOT PST_SYSROOT)
  message(FATAL_ERROR "PST_SYSROOT is to name the folder with the libraries of an arm64 system")
endif()

find_program(CMAKE_C_COMPILER NAMES aarch64-linux-gnu-gcc REQUIRED)
find_program(CMAKE_CXX_COMPILER NAMES aarch64-linux-gnu-g++ REQUIRED) # of tests
set(CMAKE_SYSROOT ${PST_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# pkg-config knows only the libraries of the system it is told of.
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${PST_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR}
  ${PST_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${PST_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_PATH} "")

find_program(PST_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
if(PST_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${PST_QEMU} -L ${PST_SYSROOT})
endif()
