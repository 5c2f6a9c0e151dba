# Whether and for which GPUs kernels are compiled, and the name of the interface between them and the library.
set(PST_CUDA AUTO CACHE STRING "compile the kernels for GPUs: ON, OFF, or AUTO: where nvcc is and no tests are built")
set_property(CACHE PST_CUDA PROPERTY STRINGS AUTO ON OFF)

set(PST_CUDA_ARCHS 80 90 100 CACHE STRING "capabilities (without the dot) that get machine code; others get PTX")

# These headers have the structs that kernels and host code share. Kernels and a library built from different ones do not fit.
file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/gpu/work/gpu_*.h)
list(SORT headers)
set(text "${PROJECT_VERSION}")
foreach(header ${headers})
  file(READ ${header} content)
  string(APPEND text "${content}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
endforeach()
string(SHA256 hash "${text}")
string(SUBSTRING ${hash} 0 12 hash)
set(PST_CUDA_ABI "${PROJECT_VERSION}-${hash}")

set(PST_NVCC "")
if(NOT PST_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "PST_CUDA is AUTO, ON or OFF, not ${PST_CUDA}")
elseif(NOT PST_CUDA STREQUAL "OFF")
  find_program(PST_NVCC_PROGRAM nvcc HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(PST_NVCC_PROGRAM)
    set(PST_NVCC ${PST_NVCC_PROGRAM})
  elseif(PST_CUDA STREQUAL "ON")
    message(FATAL_ERROR "PST_CUDA is ON and there is no nvcc")
  endif()
endif()
# The library for GPUs.
set(PST_CUDA_LIBRARY OFF)
if(PST_NVCC AND (PST_CUDA STREQUAL "ON" OR NOT (PST_BUILD_TESTS OR PST_BUILD_FUZZ)))
  set(PST_CUDA_LIBRARY ON)
endif()
# No contraction: kernels give the bits of the plain C code.
set(PST_NVCC_FLAGS -std=c++17 -O3 -fmad=false -I ${PROJECT_SOURCE_DIR}/src -I ${PROJECT_SOURCE_DIR}/include)

# pst_cuda_library(NAME FILES ...): lib<name>.so of the kernel files (in the calling folder), one fatbin each. It has
# machine code for PST_CUDA_ARCHS, as far as this nvcc knows them, and PTX for the oldest GPUs (7.5) and those to come.
# scripts/check_cuda.py reads what nvcc wrote, <kernel file>.fatbin.log: the registers and the stack of each kernel.
function(pst_cuda_library library)
  execute_process(COMMAND ${PST_NVCC} --version OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${PST_NVCC} --list-gpu-code OUTPUT_VARIABLE known COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "release ([0-9]+)\\.([0-9]+)" version "${version}")
  math(EXPR cuda_version "${CMAKE_MATCH_1} * 1000 + ${CMAKE_MATCH_2} * 10")
  set(generate -gencode arch=compute_75,code=compute_75)
  set(targets "compute_75")
  set(newest "")
  foreach(arch ${PST_CUDA_ARCHS})
    if("${known}" MATCHES "sm_${arch}[^0-9]")
      list(APPEND generate -gencode arch=compute_${arch},code=sm_${arch})
      string(APPEND targets " sm_${arch}")
      set(newest ${arch})
    endif()
  endforeach()
  if(newest)
    list(APPEND generate -gencode arch=compute_${newest},code=compute_${newest})
    string(APPEND targets " compute_${newest}")
  endif()

  set(fatbins "")
  set(images "")
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME_WE)
    set(fatbin ${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin)
    add_custom_command(OUTPUT ${fatbin}
      COMMAND sh -c [[log=$1; shift; "$@" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }]] sh ${fatbin}.log
        ${PST_NVCC} ${PST_NVCC_FLAGS} -Xptxas -v -fatbin ${generate} -MD -MF ${fatbin}.d -MT ${fatbin}
        ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${fatbin}
      BYPRODUCTS ${fatbin}.log
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} DEPFILE ${fatbin}.d
      COMMENT "nvcc ${source}" VERBATIM)
    list(APPEND fatbins ${fatbin})
    string(APPEND images "IMAGE(${name}, \"${fatbin}\")\n")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/kernels/device/cuda_images.inc CONTENT "${images}" @ONLY)

  set(source ${PROJECT_SOURCE_DIR}/src/device/device_library_image.c)
  add_library(${library} MODULE ${source})
  set_property(SOURCE ${source} DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} PROPERTY OBJECT_DEPENDS ${fatbins})
  target_include_directories(${library} PRIVATE ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_BINARY_DIR}/kernels)
  target_compile_definitions(${library} PRIVATE PST_CUDA_ABI="${PST_CUDA_ABI}" PST_CUDA_VERSION=${cuda_version}
    PST_CUDA_TARGETS="${targets}")
  # The build puts it beside libpenstock, which looks for it there.
  set_target_properties(${library} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endfunction()
